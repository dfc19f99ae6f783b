"""A compressed answer in several members, and what may stand behind the last one."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from typing import TYPE_CHECKING, cast

import pytest

from proxy.coding import Inflated
from proxy.errors import BrokenError
from tests.servers import raw_server
from tests.transport import wire
from tests.transport.proxying import LISTED, proxying

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Sequence

    from proxy.upstream import Answer
    from tests.servers import RawRequest

TEXT = bytes(range(256)) * 1000


class Said:
    """An answer that comes in these pieces."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = list(pieces)

    async def read(self) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


async def inflate(pieces: Sequence[bytes]) -> bytes:
    said = Said([piece for piece in pieces if piece])
    source, told = Inflated(cast("Answer", said)), []
    while piece := await source.read():
        told.append(piece)
    assert max(map(len, told), default=0) <= 65_536
    assert not said.pieces  # what is read to its end leaves a connection that can be used again
    return b"".join(told)


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


MEMBERS = {
    "one": [TEXT],
    "two": [b"one ", b"two"],
    "large ones": [TEXT, TEXT * 10, b"", b"end"],
    "empty ones": [b""] * 500 + [b"x"] + [b""] * 500,
    "only an empty one": [b""],
}


@pytest.mark.parametrize("size", [1, 7, 5000, 10**9])
@pytest.mark.parametrize("members", MEMBERS.values(), ids=MEMBERS.keys())
@pytest.mark.parametrize("behind", [b"", bytes(600), b"padding"])
async def test_all_members_are_read(members: Sequence[bytes], behind: bytes, size: int) -> None:
    data = b"".join(map(gzip.compress, members)) + behind
    assert await inflate(cut(data, size)) == b"".join(members)


@pytest.mark.parametrize("size", [1, 7, 5000, 10**9])
async def test_what_stands_behind_a_zlib_stream_is_dropped(size: int) -> None:
    assert await inflate(cut(zlib.compress(TEXT) + bytes(9000), size)) == TEXT


@pytest.mark.parametrize("size", [1, 5000, 10**9])
@pytest.mark.parametrize("kept", range(1, 25))
async def test_a_further_member_that_is_cut_is_no_end(kept: int, size: int) -> None:
    data = gzip.compress(b"one") + gzip.compress(b"two, and more")[:kept]
    with pytest.raises(BrokenError):
        await inflate(cut(data, size))


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_in_two_members_reaches_the_client_whole(stream: bool) -> None:
    one = gzip.compress(wire.event("<think>a") if stream else wire.whole("<think>a</think>b")[:20])
    other = gzip.compress(
        wire.event("</think>b") + wire.DONE if stream else wire.whole("<think>a</think>b")[20:]
    )
    go = asyncio.Event()

    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        head = (
            wire.STREAM_HEAD
            if stream
            else wire.STREAM_HEAD.replace(b"text/event-stream", b"application/json")
        )
        writer.write(head.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n") + wire.chunk(one))
        await writer.drain()
        if stream:
            await go.wait()
        writer.write(wire.chunk(other) + wire.LAST_CHUNK)

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(wire.chat(LISTED, stream=stream))
        if stream:
            await client.head()
            body = await client.piece()
            go.set()
            while piece := await client.piece():
                body += piece
            *made, last = wire.events(body)
            assert (wire.texts(made), last) == (("a", "b"), "[DONE]")
        else:
            message = (await client.reply()).json()["choices"][0]["message"]
            assert (message["reasoning_content"], message["content"]) == ("a", "b")
