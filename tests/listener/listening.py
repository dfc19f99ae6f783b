"""The proxy as one process runs it, sockets and stopping included, in the test's own event loop."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from proxy.app import App
from proxy.endpoint import Endpoint
from proxy.server import Server
from proxy.settings import Listen
from tests.servers import HOST, WAIT_S
from tests.transport.proxying import settings_for
from tests.transport.wire import Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Listening:
    """A proxy that runs, and what a test may do to it."""

    def __init__(self, server: Server, endpoint: Endpoint, run: asyncio.Task[None]) -> None:
        self.server = server
        self.traffic = server.traffic
        self.url = endpoint.url
        self.run = run

    @asynccontextmanager
    async def connect(self, **options: Any) -> AsyncIterator[Wire]:
        """Open a connection to it; it is broken off at the end."""
        if self.url.startswith("unix:"):
            reader, writer = await asyncio.open_unix_connection(self.url.removeprefix("unix:"), **options)
        else:
            port = int(self.url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection(HOST, port, **options)
        wire = Wire(reader, writer)
        try:
            yield wire
        finally:
            wire.abort()

    async def ended(self) -> None:
        """Wait until it has stopped. Raises what it died of."""
        async with asyncio.timeout(WAIT_S):
            await asyncio.shield(self.run)


@asynccontextmanager
async def listening(
    upstream: str, *, app: Any = None, listen: Listen | None = None, **settings: Any
) -> AsyncIterator[Listening]:
    """Run the proxy (or another application) in front of `upstream`; `settings` as `settings_for` takes."""
    endpoint = Endpoint(listen or Listen(port=0))
    values = settings_for(upstream, **settings)
    made = App(values)
    server = Server(app or made, endpoint.sockets, values, made)
    is_ready = asyncio.Event()
    run = asyncio.create_task(server.run(is_ready.set))
    try:
        async with asyncio.timeout(WAIT_S):
            await is_ready.wait()
        yield Listening(server, endpoint, run)
    finally:
        server.stop_now()
        async with asyncio.timeout(WAIT_S):
            await run
        endpoint.close()
        endpoint.remove()
