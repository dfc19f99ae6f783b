"""The proxy on a real socket in the test's own event loop, with the protocol that production has."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.lifespan.on import LifespanOn

from proxy.app import App
from proxy.rules import Rule
from proxy.server import OPTIONS
from proxy.settings import Entry, Server, Settings, Timeouts
from proxy.traffic import Traffic
from tests.servers import HOST, WAIT_S
from tests.transport.wire import Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from proxy.otel import Traces

LISTED = "listed"
PLAIN = "plain"


class Counter:
    """An application that counts the requests that have begun and those that are over."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.begun = 0
        self.count = 0
        self.changed = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.begun += scope["type"] == "http"
        self.changed.set()
        try:
            await self._app(scope, receive, send)
        finally:
            self.count += scope["type"] == "http"
            self.changed.set()


@dataclass
class Proxy:
    """A proxy that runs."""

    port: int
    app: App
    _state: Traffic
    _served: Counter

    @asynccontextmanager
    async def connect(self, **options: Any) -> AsyncIterator[Wire]:
        """Open a connection to it; it is closed at the end, and what came on it is dropped."""
        reader, writer = await asyncio.open_connection(HOST, self.port, **options)
        wire = Wire(reader, writer)
        try:
            yield wire
        finally:
            wire.abort()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    async def served(self, requests: int) -> None:
        """Wait until so many requests, since the proxy runs, are over; whoever ended them."""
        async with asyncio.timeout(WAIT_S):
            while self._served.count < requests:
                self._served.changed.clear()
                await self._served.changed.wait()

    async def begun(self, requests: int) -> None:
        """Wait until so many requests, since the proxy runs, have begun: their heads have been read."""
        async with asyncio.timeout(WAIT_S):
            while self._served.begun < requests:
                self._served.changed.clear()
                await self._served.changed.wait()

    def cancel(self) -> None:
        """Cancel what is being served, as uvicorn does when its patience ends."""
        for task in self._state.tasks:
            task.cancel()

    async def settled(self) -> None:
        """Wait until no request is being served."""
        if self._state.tasks:
            await asyncio.wait(self._state.tasks, timeout=WAIT_S)
        assert not self._state.tasks


def settings_for(upstream: str | tuple[Server, ...], **settings: Any) -> Settings:
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
    upstream: str | tuple[Server, ...], *, traces: Traces | None = None, **settings: Any
) -> AsyncIterator[Proxy]:
    """Run the proxy in front of `upstream`; see `settings_for`. Checks that no request is left at the end."""
    made = settings_for(upstream, **settings)
    inner = App(made, None, traces)
    app = Counter(inner)
    config = uvicorn.Config(app, lifespan="on", **OPTIONS)
    config.load()
    lifespan = LifespanOn(config)
    await lifespan.startup()
    state = Traffic(made)
    state.report = inner.report
    listener = await asyncio.get_running_loop().create_server(
        lambda: OPTIONS["http"](config, state, {}), HOST, 0
    )
    proxy = Proxy(listener.sockets[0].getsockname()[1], inner, state, app)
    try:
        yield proxy
        await proxy.settled()
    finally:
        listener.close()
        proxy.cancel()
        for connection in list(state.connections):
            connection.shutdown()
        await lifespan.shutdown()
        await listener.wait_closed()
