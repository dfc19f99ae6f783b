"""Model servers that say which one they are, and what they were sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.servers import RawRequest, read_request
from tests.transport import wire

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Awaitable, Callable

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
