"""Work, counted and not timed: the lines of `proxy` that run."""

from __future__ import annotations

import sys
from collections.abc import Callable
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
