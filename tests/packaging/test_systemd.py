"""The systemd unit: what it starts exists, its limits fit the proxy's, and systemd finds no fault."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from proxy import cli
from proxy.config import load
from tests.packaging.commands import run
from tests.packaging.files import ROOT

if TYPE_CHECKING:
    from pathlib import Path

UNIT = ROOT / "deploy" / "systemd" / "think-proxy.service"
CUT_S = 2
"""For how long streams that were cut are waited for (docs/operations.md, Stopping)."""

has_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")


def read_unit() -> dict[str, list[str]]:
    """The keys of the unit, each with its values in order: a key may stand there more than once."""
    values: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            values.setdefault(key, []).append(value)
    return values


def test_it_starts_a_command_that_there_is() -> None:
    (start,) = read_unit()["ExecStart"]
    program, *arguments = shlex.split(start)
    assert program.endswith("/think-proxy")
    options = cli._build_parser().parse_args(arguments, argparse.Namespace())  # noqa: SLF001
    assert options.run is cli._serve  # noqa: SLF001


def test_it_waits_for_the_drain_that_it_asks_for() -> None:
    unit = read_unit()
    environ = dict(value.split("=", 1) for value in unit["Environment"])
    environ.pop("THINK_PROXY_CONFIG")
    settings = load(environ=environ, overrides={"upstream": "http://127.0.0.1:1"})
    assert int(unit["TimeoutStopSec"][0]) > settings.drain_delay_s + settings.drain_s + CUT_S


def test_a_stop_reaches_the_parent_alone_and_a_reload_is_a_hangup() -> None:
    unit = read_unit()
    # By default every process of the group gets the signal, and the workers a second one from their parent.
    assert unit["KillMode"] == ["mixed"]
    assert unit["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert "KillSignal" not in unit, "the default, SIGTERM, is the graceful one"


def test_it_runs_as_nobody_in_particular_and_writes_nowhere() -> None:
    unit = read_unit()
    assert "User" not in unit
    for key, value in {
        "DynamicUser": "yes",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "ProtectHome": "yes",
        "CapabilityBoundingSet": "",
        "RuntimeDirectory": "think-proxy",
    }.items():
        assert unit[key] == [value]


@has_systemd
def test_systemd_finds_no_fault(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    # It looks for the program, too.
    copy.write_text(UNIT.read_text().replace("/opt/think-proxy/bin/think-proxy", sys.executable))
    done = run("systemd-analyze", "verify", "--recursive-errors=no", "--man=no", copy)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@has_systemd
def test_systemd_calls_it_well_protected() -> None:
    # Tenths of its scale, on which 0 is safe and 100 is not; 14 with version 252.
    done = run("systemd-analyze", "security", "--offline=true", "--threshold=25", UNIT)
    assert done.returncode == 0, done.stdout[-200:] + done.stderr
