"""What a request came to, as a value: the log, the metrics and the traces are made from it.

It never holds a prompt, an answer or a key: only names from the configuration, counts and durations.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from proxy.errors import BrokenError, SilentError, UnreachableError
from proxy.tally import Tally

if TYPE_CHECKING:
    from proxy.course import Course

_FAULTS = {UnreachableError.code: "unreachable", SilentError.code: "timeout", BrokenError.code: "broken"}
_CLIENT_ERROR, _SERVER_ERROR = 4, 5


@dataclass(frozen=True, slots=True)
class RequestReport:
    """One request, when it is over. Durations are in seconds, None where there was nothing to measure."""

    request_id: str
    method: str
    path: str
    """As it came, percent-encoded; without the query."""
    entry: str | None
    """The entry of `inlineThinkTagModels` that was in force."""
    status: int
    """What the client was sent; 0 when it left before anything was."""
    outcome: str
    """`answered`, `refused`, `failed`, `broken`, `client_left` or `stopped` (with the proxy)."""
    duration_s: float
    ended_at: float = field(default_factory=time.time)
    """Seconds since 1970."""
    upstream: str | None = None
    """The name of the model server that it was for; None when it did not get that far."""
    error: str | None = None
    """The code of the proxy's own error."""
    stream: bool = False
    rewritten: bool = False
    """The answer was read for thinking, be it to find none."""
    first_event_s: float | None = None
    first_content_s: float | None = None
    gap_s: float | None = None
    overhead_s: float | None = None
    engaged: bool = False
    """From here on as in `Tally`."""
    reasoning_chars: int = 0
    content_chars: int = 0
    promoted: int = 0
    thinking_only: int = 0
    retries: int = 0
    retries_used_up: bool = False
    retry_failures: int = 0

    @property
    def client_left(self) -> bool:
        """Whether the client left before the end."""
        return self.outcome == "client_left"

    @property
    def upstream_fault(self) -> str | None:
        """What was wrong with the model server's answer: a word of a short list, None if nothing was."""
        if self.upstream is None:
            return None
        if self.error is not None:
            return _FAULTS.get(self.error)
        return {_CLIENT_ERROR: "http_4xx", _SERVER_ERROR: "http_5xx"}.get(self.status // 100)


_COUNTS = tuple(one.name for one in fields(Tally))


def measure(course: Course, tally: Tally) -> dict[str, Any]:
    """Return what was measured and counted, by the names of the fields of a report."""
    return {
        "stream": course.stream,
        "rewritten": course.rewritten,
        "first_event_s": course.first_event_s,
        "first_content_s": course.first_content_s,
        "gap_s": course.gap_s,
        "overhead_s": course.overhead_s,
        **{name: getattr(tally, name) for name in _COUNTS},
    }
