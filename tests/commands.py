"""The proxy's commands, as processes and in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from proxy.cli import main

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parent.parent

START_S = 60.0
"""Far beyond any start or end, on whatever machine."""


class Run(NamedTuple):
    code: str | int | None
    out: str
    err: str


def environment() -> dict[str, str]:
    """This process's environment for a command of ours: nothing in it configures the proxy."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("THINK_PROXY_")}
    return kept | {"PYTHONPATH": str(ROOT)}


def run_process(*arguments: str, cwd: Path) -> Run:
    """Run Python with these arguments to its end."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=START_S,
        check=False,
    )
    return Run(done.returncode, done.stdout, done.stderr)


def isolate(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands run in this process find a folder of their own, and nothing that configures the proxy."""
    monkeypatch.chdir(folder)
    for name in os.environ:
        if name.startswith("THINK_PROXY_"):
            monkeypatch.delenv(name)


def run(*arguments: str) -> str | int | None:
    """Run a command in this process; what it exits with."""
    try:
        main(arguments)
    except SystemExit as end:
        return end.code
    return 0
