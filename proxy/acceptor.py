"""Connections that come in at a listening socket, several of them in one turn of the loop.

A server of uvloop takes one in each turn. With a thousand streams a turn lasts for tens of milliseconds,
and whoever comes then would wait for seconds behind them.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

from proxy.telemetry import LOGGER

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

MOST_PER_TURN = 16
"""Connections taken in one turn: enough to keep up, few enough to leave some to the other workers."""

PAUSE_S = 1.0
"""Seconds without a look at the socket when no connection can be taken, as asyncio's own servers have it."""

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """Takes the connections of one listening socket, until it is closed."""

    def __init__(self, sock: socket.socket, make: Callable[[], asyncio.Protocol]) -> None:
        """Begin with a socket that listens and does not block; `make` returns a connection's protocol."""
        self._sock = sock
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._watch()

    async def close(self) -> None:
        """Close the socket. Connections that were taken have met their protocols when this returns."""
        self._loop.remove_reader(self._sock)
        if self._pause is not None:
            self._pause.cancel()
        self._sock.close()
        if self._opening:
            await asyncio.wait(self._opening)

    def _watch(self) -> None:
        self._loop.add_reader(self._sock, self._accept)

    def _accept(self) -> None:
        for _ in range(MOST_PER_TURN):
            try:
                taken, _ = self._sock.accept()
            except (BlockingIOError, InterruptedError):
                return  # another worker was faster, or there are no more
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    LOGGER.error("no connection can be taken for a second: %s", error.strerror)
                    self._loop.remove_reader(self._sock)
                    self._pause = self._loop.call_later(PAUSE_S, self._watch)
                    return
                # accept(2) hands over what is wrong with the connection: it is that one which is lost.
            else:
                taken.setblocking(False)
                task = self._loop.create_task(self._open(taken))
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)

    async def _open(self, taken: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, taken)
        except OSError:
            taken.close()  # it has ended already
