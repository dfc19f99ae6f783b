"""The proxy as one process runs it, sockets and stopping included, in the test's own event loop."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from proxy.app import App
from proxy.endpoint import Endpoint
from proxy.rules import Rule
from proxy.server import Server
from proxy.settings import Entry, Listen, Settings, Timeouts
from tests.servers import HOST, WAIT_S
from tests.transport.wire import Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from proxy import settings as values
    from proxy.otel import Traces

LISTED = "listed"
PLAIN = "plain"


class Counter:
    """An application that counts the requests that have begun and those that are over."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.begun = 0
        self.over = 0
        self.changed = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun += scope["type"] == "http"
        self.changed.set()
        try:
            await self._app(scope, receive, send)
        finally:
            self.over += scope["type"] == "http"
            self.changed.set()


class Proxy:
    """A proxy that runs, and what a test may do to it."""

    def __init__(self, app: App, counter: Counter, server: Server, url: str) -> None:
        self.app = app
        self.server = server
        self.traffic = server.traffic
        self.url = url
        self.is_ready = asyncio.Event()
        self.run = asyncio.create_task(server.run(self.is_ready.set))
        self._counter = counter

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @asynccontextmanager
    async def connect(self, **options: Any) -> AsyncIterator[Wire]:
        """Open a connection to it; it is broken off at the end, and what came on it is dropped."""
        if self.url.startswith("unix:"):
            reader, writer = await asyncio.open_unix_connection(self.url.removeprefix("unix:"), **options)
        else:
            reader, writer = await asyncio.open_connection(HOST, self.port, **options)
        wire = Wire(reader, writer)
        try:
            yield wire
        finally:
            wire.abort()

    async def served(self, requests: int) -> None:
        """Wait until so many requests, since the proxy runs, are over, whoever ended them, and reported."""
        async with asyncio.timeout(WAIT_S):
            while self._counter.over < requests:
                self._counter.changed.clear()
                await self._counter.changed.wait()
        self.app.settle()

    async def begun(self, requests: int) -> None:
        """Wait until so many requests, since the proxy runs, have begun: their heads have been read."""
        async with asyncio.timeout(WAIT_S):
            while self._counter.begun < requests:
                self._counter.changed.clear()
                await self._counter.changed.wait()

    def cancel(self) -> None:
        """Cancel what is being served, as a server does whose patience is at its end."""
        for task in self.traffic.tasks:
            task.cancel()

    async def settled(self) -> None:
        """Wait until no request is being served, and all are reported."""
        if self.traffic.tasks:
            await asyncio.wait(self.traffic.tasks, timeout=WAIT_S)
        assert not self.traffic.tasks
        self.app.settle()

    async def ended(self) -> None:
        """Wait until it has stopped. Raises what it died of."""
        async with asyncio.timeout(WAIT_S):
            await asyncio.shield(self.run)


def settings_for(upstream: str | tuple[values.Server, ...], **settings: Any) -> Settings:
    """Make settings with one listed model, and one model server or several.

    `timeouts` is a dictionary, in seconds.
    """
    timeouts = Timeouts(**settings.pop("timeouts", {}))
    if not isinstance(upstream, str):
        return replace(settings_for("", **settings), upstream=None, upstreams=upstream, timeouts=timeouts)
    base = Settings(upstream=upstream, entries=(Entry(LISTED, Rule()),), timeouts=timeouts)
    return replace(base, **settings)


@asynccontextmanager
async def proxying(
    upstream: str | tuple[values.Server, ...],
    *,
    listen: Listen | None = None,
    traces: Traces | None = None,
    **settings: Any,
) -> AsyncIterator[Proxy]:
    """Run the proxy in front of `upstream`; see `settings_for`.

    `listen` is where, if not on a free port. Checks that no request is left at the end.
    """
    made = settings_for(upstream, **settings)
    endpoint = Endpoint(listen or Listen(port=0))
    app = App(made, None, traces)
    counter = Counter(app)
    server = Server(counter, endpoint.sockets, made, app)
    server.traffic.report = app.report
    proxy = Proxy(app, counter, server, endpoint.url)
    try:
        async with asyncio.timeout(WAIT_S):
            await proxy.is_ready.wait()
        yield proxy
        await proxy.settled()
    finally:
        server.stop_now()
        await proxy.ended()
        endpoint.close()
        endpoint.remove()
