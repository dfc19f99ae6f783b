"""A TCP server for peers that do not even read a request to its end."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from tests.servers import HOST

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator, Awaitable, Callable


@asynccontextmanager
async def tcp_server(serve: Callable[[StreamReader, StreamWriter], Awaitable[None]]) -> AsyncIterator[str]:
    """Run `serve(reader, writer)` per connection; yields the address as a base URL.

    What `serve` raises other than for a peer that left is raised again at the end.
    """
    tasks: set[asyncio.Task[None]] = set()

    async def run(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await serve(reader, writer)
                await writer.drain()
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    def accept(reader: StreamReader, writer: StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(run(reader, writer)))

    listener = await asyncio.start_server(accept, HOST, 0, limit=2**16)
    try:
        yield f"http://{HOST}:{listener.sockets[0].getsockname()[1]}"
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        await listener.wait_closed()
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
