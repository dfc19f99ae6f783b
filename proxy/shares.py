"""How the metrics of several processes add up: each keeps its values in files of one folder.

A worker that takes the place of a dead one takes over its number, and with it its files: what was counted
stays, and there are never more files than processes.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from tempfile import gettempdir, mkdtemp
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.metrics import Metrics

_MEMORY = "/dev/shm"  # noqa: S108 - a folder of our own is made in it
"""Where files are memory: there even if the root file system is read-only, and no disk writes them out."""


_PREFIX = "think-proxy-metrics-"


@dataclass(frozen=True, slots=True)
class Share:
    """One process's part of the folder."""

    folder: str
    name: str
    """Of the process, without `_`, and of no other one that runs."""


class Shares:
    """The folder, as the parent of the processes sees it."""

    def __init__(self, folder: str) -> None:
        """Take an empty folder."""
        self._folder = folder

    def give(self, number: int) -> Share:
        """Return the part of the worker with a number."""
        return Share(self._folder, str(number))

    def close(self, number: int) -> None:
        """Drop what only counts while a worker lives; called when it has ended."""
        from proxy.metrics import forget  # noqa: PLC0415 - late, as `App.metrics` is

        forget(self.give(number))

    def count_reload(self, *, ok: bool) -> None:
        """Count that the parent read the configuration again."""
        self._metrics.count_reload(ok=ok)

    @cached_property
    def _metrics(self) -> Metrics:
        from proxy.metrics import Metrics  # noqa: PLC0415

        return Metrics(Share(self._folder, "parent"))


@contextmanager
def open_shares() -> Iterator[Shares]:
    """Make the folder, for this user only; it is removed at the end.

    A lock on it, which the workers inherit, tells that somebody lives. What a killed proxy left behind has
    none, and goes when the next one starts.
    """
    where = _MEMORY if os.access(_MEMORY, os.W_OK) else gettempdir()
    for old in Path(where).glob(f"{_PREFIX}*"):
        _remove_if_left(old)
    folder, lock = _make(where)
    try:
        yield Shares(folder)
    finally:
        rmtree(folder, ignore_errors=True)
        os.close(lock)


def _make(where: str) -> tuple[str, int]:
    """Return a folder of our own, and its lock."""
    while True:
        folder = mkdtemp(prefix=_PREFIX, dir=where)
        with suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if Path(folder).exists():
                return folder, lock
            os.close(lock)
        # Before it was locked, another start took it for one that was left behind.


def _remove_if_left(folder: Path) -> None:
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return  # another user's, or just gone
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        pass
    finally:
        os.close(lock)
