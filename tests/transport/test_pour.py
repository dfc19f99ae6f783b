"""A body that is pushed: its end, and what breaks it off, whatever the sink is doing then."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.errors import StoppedError
from proxy.running import stopped
from proxy.settings import Timeouts
from proxy.upstream import Upstream
from tests.servers import WAIT_S, raw_server
from tests.transport import wire
from tests.transport.scripts import Stall

if TYPE_CHECKING:
    from proxy.upstream import Answer


class Slow:
    """A sink that has enough with the first piece, until it is told to go on."""

    def __init__(self) -> None:
        self.body = b""
        self.full = asyncio.Event()
        self.go = asyncio.Event()

    def take(self, data: bytes) -> bool:
        self.body += data
        return False

    async def ready(self) -> None:
        self.full.set()
        await asyncio.wait_for(self.go.wait(), WAIT_S)


async def stop_while_full(answer: Answer) -> bytes:
    """Break an answer off while its sink is full; return what the sink got."""
    slow = Slow()
    pouring = asyncio.create_task(answer.pour(slow.take, slow.ready))
    await asyncio.wait_for(slow.full.wait(), WAIT_S)
    answer.fail(stopped())
    slow.go.set()
    await asyncio.wait_for(pouring, WAIT_S)
    return slow.body


async def test_what_came_whole_is_not_broken_off_any_more() -> None:
    async with raw_server(Stall(wire.answer(b"fine"))) as server:
        upstream = Upstream(server.url, Timeouts())
        async with await upstream.send("GET", b"/", [(b"host", b"h")], b"") as answer:
            assert await stop_while_full(answer) == b"fine"
        await upstream.close()


async def test_what_is_still_coming_is_broken_off() -> None:
    async with raw_server(Stall(wire.STREAM_HEAD + wire.chunk(b"fine"))) as server:
        upstream = Upstream(server.url, Timeouts())
        async with await upstream.send("GET", b"/", [(b"host", b"h")], b"") as answer:
            with pytest.raises(StoppedError):
                await stop_while_full(answer)
        await upstream.close()


async def test_a_sink_that_fails_with_the_last_piece_is_heard() -> None:
    def fail(_: bytes) -> bool:
        raise ValueError

    async with raw_server(Stall(wire.answer(b"fine"))) as server:
        upstream = Upstream(server.url, Timeouts())
        async with await upstream.send("GET", b"/", [(b"host", b"h")], b"") as answer:
            with pytest.raises(ValueError):  # noqa: PT011 - it is the sink's
                await answer.pour(fail, Slow().ready)
        await upstream.close()
