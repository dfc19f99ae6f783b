"""The Makefile: its targets are listed, and a Python that will not do is refused with a word of advice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.packaging.commands import run
from tests.packaging.files import ROOT

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    # make tells the makes it starts what it was called with: none of that is meant for this one.
    return run("make", "--no-print-directory", *arguments, MAKEFLAGS="", MAKELEVEL="0", MFLAGS="")


def test_help_is_the_default_and_lists_every_target() -> None:
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    done = make()
    assert done.returncode == 0
    assert re.findall(r"^  ([a-z-]+)  +\S", done.stdout, re.MULTILINE) == phony.split()


@pytest.mark.parametrize("python", ["old", "missing"])
def test_a_python_that_will_not_do_is_named(python: str, tmp_path: Path) -> None:
    old = tmp_path / "old"
    # `sys.exit(True)` is what the Makefile's question comes to on a Python before 3.11.
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = make("run", f"PYTHON={tmp_path / python}", f"VENV={tmp_path / 'venv'}")
    assert done.returncode != 0
    assert f"3.11 or newer and {tmp_path / python} is older or missing" in done.stderr
    assert not (tmp_path / "venv").exists()
