"""Work, counted and not timed: the lines of `proxy` that run, and the calls that are made."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import proxy

if TYPE_CHECKING:
    from types import FrameType

TraceFunction = Callable[["FrameType", str, object], Any]

PROXY = str(Path(proxy.__file__).parent)


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of `proxy` run meanwhile."""
    lines = 0

    def count(frame: FrameType, event: str, _: object) -> TraceFunction | None:
        nonlocal lines
        if event == "line":
            lines += 1
        return count if frame.f_code.co_filename.startswith(PROXY) else None

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def calls_made(work: Callable[[], object]) -> tuple[int, int]:
    """How many calls are made meanwhile: of Python functions, and of those in C."""
    counted = {"call": 0, "c_call": 0}

    def count(_frame: FrameType, kind: str, _argument: object) -> None:
        if kind in counted:
            counted[kind] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return counted["call"], counted["c_call"]


@contextmanager
def calls_of_proxy() -> Iterator[list[str]]:
    """Collect the functions of `proxy` that are called meanwhile, and the coroutines that are resumed."""
    called: list[str] = []

    def note(frame: FrameType, kind: str, _argument: object) -> None:
        code = frame.f_code
        if kind == "call" and code.co_filename.startswith(PROXY):
            called.append(f"{Path(code.co_filename).stem}.{code.co_qualname}")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(before)
