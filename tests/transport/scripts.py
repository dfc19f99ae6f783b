"""Model servers in a line: what a raw server does with each request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.servers import WAIT_S
from tests.transport import wire

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

    from tests.servers import RawRequest, Script


def serve(*parts: bytes) -> Script:
    """Send parts, and close."""

    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        writer.writelines(parts)

    return script


class Stall:
    """Sends parts, and then nothing until the peer closes."""

    def __init__(self, *parts: bytes) -> None:
        self._parts = parts
        self._sent = asyncio.Event()

    async def __call__(self, _: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        writer.writelines(self._parts)
        await writer.drain()
        self._sent.set()
        await reader.read()

    async def sent(self) -> None:
        """Wait until a first request was answered so far."""
        await asyncio.wait_for(self._sent.wait(), WAIT_S)


async def keep_silent(_: RawRequest, reader: StreamReader, __: StreamWriter) -> None:
    """Say nothing until the peer closes."""
    await reader.read()


async def refuse_all(request: RawRequest, _: StreamReader, __: StreamWriter) -> None:
    """Fail the test: nothing must come here."""
    pytest.fail(f"forwarded {request.target}")


async def flood(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
    """Send a stream without an end, as fast as it is taken."""
    writer.write(wire.STREAM_HEAD)
    while True:
        writer.write(wire.chunk(wire.event("x" * 50_000)))
        await writer.drain()
