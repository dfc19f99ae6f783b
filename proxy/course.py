"""When the stages of one request came: a few readings of the clock, however long its answer is."""

from __future__ import annotations

import time

clock = time.perf_counter
"""Seconds, only good for differences."""


class Course:
    """One request's way through the proxy. A moment that did not come is None."""

    __slots__ = (
        "arrived",
        "began",
        "content",
        "elsewhere_s",
        "ended",
        "handled",
        "read",
        "reads",
        "rewritten",
        "sent",
        "stream",
    )

    def __init__(self) -> None:
        """Begin now."""
        self.began = clock()
        self.read: float | None = None
        """The request was here, its body too."""
        self.sent: float | None = None
        """It was given to the way to the model server."""
        self.arrived: float | None = None
        """The first bytes of the answer's body came; the last, if it is rewritten in one piece."""
        self.handled: float | None = None
        """What came of them was written."""
        self.content: float | None = None
        """The first content was written, in a rewritten stream."""
        self.ended: float | None = None
        """The answer ended by itself."""
        self.reads = 0
        """Parts in which a stream came."""
        self.elsewhere_s = 0.0
        """Between `read` and `sent`, waited for an answer of the model server about the request."""
        self.stream = False
        self.rewritten = False
        """The answer's body was read, be it to find nothing."""

    @property
    def first_event_s(self) -> float | None:
        """Seconds from the request to the first bytes of a stream."""
        return None if self.handled is None or not self.stream else _between(self.read, self.arrived)

    @property
    def first_content_s(self) -> float | None:
        """Seconds from the request to the first content."""
        return _between(self.read, self.content)

    @property
    def gap_s(self) -> float | None:
        """Seconds between two parts of a stream that was read to its end, on average."""
        whole = _between(self.arrived, self.ended)
        return None if whole is None or not self.stream or self.reads <= 1 else whole / (self.reads - 1)

    @property
    def overhead_s(self) -> float | None:
        """Seconds of our own: until the request was sent, and from first bytes to what they became."""
        before, behind = _between(self.read, self.sent), _between(self.arrived, self.handled)
        return None if before is None or behind is None else max(0.0, before - self.elsewhere_s) + behind


def _between(first: float | None, last: float | None) -> float | None:
    return None if first is None or last is None else last - first
