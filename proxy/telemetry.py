"""What a request came to, as a value, and the log that tells it.

Nothing here sees a prompt, an answer or a key: a report holds names from the configuration, counts
and durations.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from proxy.settings import Log, LogFormat

if TYPE_CHECKING:
    from logging import LogRecord

LOGGER = logging.getLogger("think_proxy")

_NOT_SAID = "ASGI callable returned without completing response."
"""What uvicorn has to say in vain: a stream that the server cut off is cut off here on purpose."""


@dataclass(frozen=True, slots=True)
class RequestReport:
    """One request, when it is over."""

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
    upstream: str | None = None
    """The name of the model server, where there are several."""
    error: str | None = None
    """The code of the proxy's own error."""


def log_request(report: RequestReport) -> None:
    """Write one line for a request."""
    level = logging.WARNING if report.outcome in ("failed", "broken") else logging.INFO
    if LOGGER.isEnabledFor(level):
        fields = asdict(report) | {"duration_s": round(report.duration_s, 6)}
        LOGGER.log(level, "request", extra={"fields": {k: v for k, v in fields.items() if v is not None}})


class Notes:
    """Warnings that are worth saying once."""

    def __init__(self) -> None:
        """Begin with nothing said."""
        self._said: set[tuple[str, ...]] = set()

    def once(self, event: str, **fields: str) -> None:
        """Warn, unless the same was said before. What is said comes from a bounded set, or memory grows."""
        said = (event, *fields.values())
        if said not in self._said:
            self._said.add(said)
            LOGGER.warning(event, extra={"fields": fields})


def configure(log: Log) -> None:
    """Send the log to standard error in the configured form."""
    target = logging.StreamHandler(sys.stderr)
    target.setFormatter(_JsonFormatter() if log.format is LogFormat.JSON else _TextFormatter())
    for name in ("think_proxy", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [target]
        logger.propagate = False
    LOGGER.setLevel(log.level.upper())
    logging.getLogger("uvicorn").setLevel(max(logging.WARNING, logging.getLevelName(log.level.upper())))
    logging.getLogger("uvicorn.error").addFilter(lambda record: not str(record.msg).startswith(_NOT_SAID))


class _JsonFormatter(logging.Formatter):
    def format(self, record: LogRecord) -> str:
        line = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)

    def formatTime(self, record: LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - the base class's
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        return f"{seconds}.{int(record.msecs):03d}Z"


class _TextFormatter(_JsonFormatter):
    def format(self, record: LogRecord) -> str:
        fields = "".join(f" {key}={value}" for key, value in getattr(record, "fields", {}).items())
        line = f"{self.formatTime(record)} {record.levelname.lower()} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line
