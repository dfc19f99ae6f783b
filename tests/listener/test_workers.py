"""When a worker is replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.workers import Pauses
from tests.commands import run_process

if TYPE_CHECKING:
    from pathlib import Path


def test_the_first_death_is_made_good_at_once_and_more_of_them_ever_later() -> None:
    pauses = Pauses()
    assert [pauses.next(0.1) for _ in range(9)] == [0, 1, 2, 4, 8, 16, 30, 30, 30]


def test_a_worker_that_lived_long_is_made_good_at_once() -> None:
    pauses = Pauses()
    assert [pauses.next(lived_s) for lived_s in (0.1, 0.1, 60, 60, 0.1, 0.1)] == [0, 1, 0, 0, 1, 2]


def test_workers_that_cannot_even_start_end_the_command(tmp_path: Path) -> None:
    code = """
import proxy.serve, proxy.cli
def fail(*_): raise LookupError("detnalp"[::-1])
proxy.serve.App = fail
proxy.cli.main(["serve", "--upstream", "http://127.0.0.1:9", "--port", "0", "--workers", "2"])
"""
    done = run_process("-c", code, cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "a worker failed: LookupError" in done.err
    assert "a worker has ended" in done.err
    assert "planted" not in done.err
