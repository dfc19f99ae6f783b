"""Work that can wait for a moment: whoever is served comes first.

Writing down what a request came to takes longer than relaying an event. A client that keeps its connection
often asks again as soon as its answer has ended, and would wait for that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from proxy.telemetry import LOGGER, describe

if TYPE_CHECKING:
    from collections.abc import Callable

DELAY_S = 0.01
"""Seconds that work waits: longer than the way from the end of an answer to what its client asks next."""

MOST = 16
"""Pieces of work that wait; the next one has all of them done. More would be felt in between two events."""


class Backlog:
    """Work that waits, in its order."""

    def __init__(self) -> None:
        """Begin with none."""
        self._works: deque[Callable[[], None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, work: Callable[[], None]) -> None:
        """Have something done soon. Called in the event loop, like the rest."""
        self._works.append(work)
        if len(self._works) > MOST:
            self.settle()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DELAY_S, self.settle)

    def settle(self) -> None:
        """Do now what waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._works:
            work = self._works.popleft()
            try:
                work()
            except Exception as fault:  # noqa: BLE001 - whoever had it done has nothing to do with it
                LOGGER.error("internal error: %s", describe(fault))
