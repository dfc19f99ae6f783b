"""How the metrics of several processes add up: each keeps its values in files of one folder.

A worker that takes the place of a dead one takes over its number, and with it its files: what was counted
stays, and there are never more files than processes.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.metrics import Metrics

_MEMORY = "/dev/shm"  # noqa: S108 - a folder of our own is made in it
"""Where files are memory: there even if the root file system is read-only, and no disk writes them out."""


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
    """Make the folder, for this user only; it is removed at the end."""
    where = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with TemporaryDirectory(prefix="think-proxy-", dir=where, ignore_cleanup_errors=True) as folder:
        yield Shares(folder)
