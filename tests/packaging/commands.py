"""Runs a command to its end, for the tests beside it."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from tests.packaging.files import ROOT

if TYPE_CHECKING:
    from pathlib import Path


def run(*command: str | Path, cwd: Path = ROOT, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a command, its standard input empty, with `environ` on top of this process's environment.

    Raises `subprocess.TimeoutExpired` after two minutes.
    """
    return subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def output_of(*command: str | Path, cwd: Path = ROOT, **environ: str) -> str:
    """The standard output of a command, which has to succeed."""
    done = run(*command, cwd=cwd, **environ)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
