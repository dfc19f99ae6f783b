"""The log: one line per request, and what else is worth saying. No prompt, answer or key gets here."""

from __future__ import annotations

import json
import logging
import sys
import time
from traceback import format_tb
from typing import TYPE_CHECKING, Any

from proxy.report import RequestReport
from proxy.settings import Log, LogFormat

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from logging import LogRecord

_FIELDS = tuple(name for name in RequestReport.__slots__ if name != "ended_at")

LOGGER = logging.getLogger("think_proxy")

_LIBRARIES = ("asyncio", "uvicorn", "opentelemetry")
"""Whose warnings are ours to log."""


def log_request(report: RequestReport) -> None:
    """Write one line for a request, with the fields that say something."""
    level = logging.WARNING if report.outcome in ("failed", "broken") else logging.INFO
    if LOGGER.isEnabledFor(level):
        fields = {}
        for name in _FIELDS:
            if value := getattr(report, name):
                fields[name] = round(value, 6) if isinstance(value, float) else value
        # As `log` would, but for looking up who calls, which is a fifth of it.
        extra = {"fields": fields}
        record = LOGGER.makeRecord(LOGGER.name, level, "", 0, "request", (), None, extra=extra)
        record.created = report.ended_at
        LOGGER.handle(record)


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
    # Nothing of this is told, and each record would ask for it.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    target = logging.StreamHandler(sys.stderr)
    target.setFormatter(_JsonFormatter() if log.format is LogFormat.JSON else _TextFormatter())
    for name in ("think_proxy", *_LIBRARIES):
        logger = logging.getLogger(name)
        logger.handlers = [target]
        logger.propagate = False
    LOGGER.setLevel(log.level.upper())
    for name in _LIBRARIES:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(log.level.upper())))


def describe(fault: BaseException) -> str:
    """Return the type of an exception and the places it came through, but not what it says.

    The message of an exception may quote a prompt.
    """
    return f"{type(fault).__name__}\n{''.join(format_tb(fault.__traceback__))}".rstrip()


def log_fault(_loop: AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what nobody caught, as an event loop tells it (`loop.set_exception_handler`).

    Its own words are left out as well: they show the task, with its exception, or a callback's arguments.
    """
    fault = context.get("exception")
    if fault is None:
        LOGGER.error("the event loop has found a fault")
    else:
        LOGGER.error("internal error outside of a request: %s", describe(fault))


class _JsonFormatter(logging.Formatter):
    def format(self, record: LogRecord) -> str:
        line = {
            "time": _write_time(record),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if fault := _find_fault(record):
            line["traceback"] = describe(fault)
        return json.dumps(line)


class _TextFormatter(logging.Formatter):
    def format(self, record: LogRecord) -> str:
        fields = "".join(f" {key}={value}" for key, value in getattr(record, "fields", {}).items())
        line = f"{_write_time(record)} {record.levelname.lower()} {record.getMessage()}{fields}"
        return f"{line}\n{describe(fault)}" if (fault := _find_fault(record)) else line


def _write_time(record: LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.created % 1 * 1000):03d}Z"


def _find_fault(record: LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None
