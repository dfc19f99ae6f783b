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
    unset = ("env", "-u", "PYTHON", "-u", "VENV", "-u", "ARGS")
    return run(*unset, "make", "--no-print-directory", *arguments, MAKEFLAGS="", MAKELEVEL="0", MFLAGS="")


def write_python(path: Path, version: str) -> None:
    """Write what passes for a Python: it tells a version, and makes a folder for an environment."""
    told, made = f'-V) echo "Python {version}";;', '-m) for it; do :; done; mkdir -p "$it";;'
    path.write_text(f'#!/bin/sh\ncase "$1" in {told} {made} esac\n')
    path.chmod(0o755)


def test_another_python_that_is_named_replaces_the_environment(tmp_path: Path) -> None:
    python, venv = tmp_path / "python", tmp_path / "venv"
    seen = []
    for version, named in (("3.11.1", True), ("3.11.1", True), ("3.12.1", True), ("3.13.1", False)):
        write_python(python, version)
        given = [f"PYTHON={python}"] if named else []
        done = make(f"{venv}/.stamp-venv", f"VENV={venv}", *given)
        assert done.returncode == 0, done.stderr
        seen.append(("Creating" in done.stdout, (venv / ".stamp-venv").read_text()))
    one, other = "Python 3.11.1\n", "Python 3.12.1\n"
    assert seen == [(True, one), (False, one), (True, other), (False, other)]


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
