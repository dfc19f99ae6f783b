"""One process that serves: from its listening sockets to the last byte of the last answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from uvicorn import Config
from uvicorn.lifespan.on import LifespanOn

from proxy.acceptor import Acceptor
from proxy.listener import ClientConnection
from proxy.traffic import Traffic

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine, Sequence

    from starlette.types import ASGIApp

    from proxy.settings import Settings

KEEP_ALIVE_S = 75
"""Seconds an unused client connection is kept: clients that keep theirs for less meet no closed one."""

LAST_S = 2.0
"""Seconds for streams that are stopped to say so, and for what was written to reach its client."""

_CANCEL_S = 1.0


class Stoppable(Protocol):
    """An application that takes part in stopping."""

    def begin_drain(self) -> None:
        """Hear that the process is about to stop: it is no longer ready."""

    def stop_streams(self) -> None:
        """End what is still running, with an error where one can be said."""


class Server:
    """Serves an application until it is stopped."""

    def __init__(
        self,
        app: ASGIApp,
        sockets: Sequence[socket.socket],
        settings: Settings,
        stops: Stoppable | None = None,
    ) -> None:
        """Take sockets that listen; `stops` is the application if it takes part in stopping."""
        self.traffic = Traffic(settings)
        self._app = app
        self._sockets = sockets
        self._stops = stops
        self._is_stopping = asyncio.Event()
        self._is_over = asyncio.Event()

    def stop(self) -> None:
        """Begin to stop, if that has not begun."""
        self._is_stopping.set()

    def stop_now(self) -> None:
        """Stop without waiting for anything."""
        self._is_stopping.set()
        self._is_over.set()

    def interrupt(self) -> None:
        """Begin to stop, or, the second time, stop now."""
        if self._is_stopping.is_set():
            self.stop_now()
        self.stop()

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Serve until stopped; `on_ready` is called as soon as requests are answered."""
        lifespan = LifespanOn(Config(self._app, loop="none", http="httptools", ws="none", log_config=None))
        await lifespan.startup()
        if lifespan.should_exit:
            raise RuntimeError("the application did not start")
        acceptors = [Acceptor(sock, self._connect) for sock in self._sockets]
        on_ready()
        try:
            await self._is_stopping.wait()
            await self._drain(acceptors)
        finally:
            await self._end()
            await lifespan.shutdown()

    def _connect(self) -> ClientConnection:
        return ClientConnection(self._app, self.traffic, KEEP_ALIVE_S)

    async def _drain(self, acceptors: list[Acceptor]) -> None:
        """Turn new requests away, and let those that are running come to their end."""
        settings = self.traffic.settings
        self.traffic.is_draining = True
        if self._stops is not None:
            self._stops.begin_drain()
        for connection in tuple(self.traffic.connections):
            connection.retire()
        await self._unless_over(asyncio.sleep(settings.drain_delay_s), None)
        for acceptor in acceptors:
            await acceptor.close()
        for connection in tuple(self.traffic.connections):
            connection.shutdown()
        await self._unless_over(self.traffic.quiet(), settings.drain_s)
        if self._stops is not None and not self._is_over.is_set():
            self._stops.stop_streams()
            await self._unless_over(self.traffic.quiet(), LAST_S)

    async def _unless_over(self, work: Coroutine[Any, Any, None], limit_s: float | None) -> None:
        """Wait for something, for so many seconds at most, and not once all is to stop now."""
        waits = [asyncio.ensure_future(work), asyncio.ensure_future(self._is_over.wait())]
        await asyncio.wait(waits, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def _end(self) -> None:
        """Cancel what is left, and drop what was not sent."""
        if tasks := self.traffic.tasks:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_CANCEL_S)
        for connection in tuple(self.traffic.connections):
            connection.abort()
        if self.traffic.tasks:  # those that waited for a client to read
            await asyncio.wait(self.traffic.tasks, timeout=_CANCEL_S)
