"""Model servers that say which one they are, and what they were sent."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tests.servers import HOST, RawRequest, read_request
from tests.transport import wire

if TYPE_CHECKING:
    import ssl
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator, Awaitable, Callable

    Script = Callable[[RawRequest, StreamReader, StreamWriter], Awaitable[None]]


def always(reply: bytes) -> Script:
    """Answer every request of a connection with the same bytes; close it where there are none."""

    async def script(_: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        while reply:
            writer.write(reply)
            await read_request(reader)

    return script


def server(name: str, *models: str) -> Script:
    """Answer with the name, with the fields of the request, and on /v1/models with a list."""

    async def script(request: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        while True:
            if request.target.partition("?")[0].endswith("/v1/models"):
                rows = [{"id": model, "object": "model", "owned_by": name} for model in models]
                body = json.dumps({"object": "list", "data": rows}).encode()
            else:
                told = {"server": name, "target": request.target, "headers": dict(request.headers)}
                body = json.dumps(told).encode()
            writer.write(wire.answer(body))
            request = await read_request(reader)

    return script


@asynccontextmanager
async def listening(
    script: Script, *, path: str | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Requests]:
    """Run a script behind a socket file, or behind TLS on a free port; yields the requests that come."""
    requests = Requests()
    tasks: set[asyncio.Task[None]] = set()

    async def run(reader: StreamReader, writer: StreamWriter) -> None:
        try:
            request = await read_request(reader)
            requests.append(request)
            await script(request, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def accept(reader: StreamReader, writer: StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(run(reader, writer)))

    if path is not None:
        listener = await asyncio.start_unix_server(accept, path)
    else:
        listener = await asyncio.start_server(accept, HOST, 0, ssl=tls)
        requests.port = listener.sockets[0].getsockname()[1]
    try:
        yield requests
    finally:
        listener.close()
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        await listener.wait_closed()
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome


class Requests(list[RawRequest]):
    """The requests that came, and the port they came to."""

    port = 0
