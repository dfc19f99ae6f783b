"""Streams that break, and streams that are held up."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import socket
import tracemalloc
import zlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.servers import HOST, WAIT_S, raw_server, read_buffers_bytes, reset
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable

    from tests.servers import RawRequest, Script

CLOSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
LENGTH_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 99999\r\n\r\n"


def send(*parts: bytes, end: Callable[[StreamWriter], None] | None = None, stall: bool = False) -> Script:
    """Write the parts, then stall until the peer leaves, or end the connection by `end` or by closing it."""

    async def script(_: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        writer.writelines(parts)
        await writer.drain()
        if stall:
            await reader.read()
        if end is not None:
            end(writer)

    return script


def last_error(stream: list[Any], code: str) -> list[Any]:
    """Check that a stream ends in one error event of our own, and not as if complete; return the rest."""
    *rest, last = stream
    assert set(last) == {"error"}
    assert (last["error"]["type"], last["error"]["code"]) == ("proxy_upstream_error", code)
    assert "[DONE]" not in rest
    assert not any("error" in made for made in rest)
    assert all(choice.get("finish_reason") is None for made in rest for choice in made["choices"])
    return rest


BREAKS = {
    "chunked": send(wire.STREAM_HEAD, wire.chunk(wire.event("<think>a</think>b <thi"))),
    "in a chunk": send(wire.STREAM_HEAD, wire.chunk(wire.event("<think>a</think>b <thi")), b"fff\r\ndata: {"),
    "in an event": send(wire.STREAM_HEAD, wire.chunk(wire.event("<think>a</think>b <thi") + b'data: {"choi')),
    "with a length": send(LENGTH_HEAD, wire.event("<think>a</think>b <thi")),
    "without either": send(CLOSE_HEAD, wire.event("<think>a</think>b <thi")),
    "by bad chunking": send(wire.STREAM_HEAD, wire.chunk(wire.event("<think>a</think>b <thi")), b"zz\r\n"),
}


@pytest.mark.parametrize("script", BREAKS.values(), ids=BREAKS)
async def test_a_listed_stream_that_breaks_gives_what_was_held_and_one_error(script: Script) -> None:
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.chat(LISTED, stream=True))
        assert reply.status == 200
        rest = last_error(wire.events(reply.body), "upstream_broken")
        assert wire.texts(rest) == ("a", "b <thi")
        # The client's connection goes on: the stream was ended in order.
        assert (await client.ask(wire.request("/healthz"))).status == 200


@pytest.mark.parametrize("head", [wire.STREAM_HEAD, LENGTH_HEAD, CLOSE_HEAD])
async def test_a_listed_stream_that_is_reset(head: bytes) -> None:
    seen = asyncio.Event()

    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        data = wire.event("<think>a</think>b <thi")
        writer.write(head + (wire.chunk(data) if head is wire.STREAM_HEAD else data))
        await seen.wait()  # a reset drops what the peer has not read
        reset(writer)

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(wire.chat(LISTED, stream=True))
        await client.head()
        body = await client.piece()
        seen.set()
        while piece := await client.piece():
            body += piece
    assert wire.texts(last_error(wire.events(body), "upstream_broken")) == ("a", "b <thi")


@pytest.mark.parametrize("head", [wire.STREAM_HEAD, CLOSE_HEAD])
async def test_a_listed_stream_that_falls_silent(head: bytes) -> None:
    data = wire.event("<think>a</think>b <thi")
    script = send(head, wire.chunk(data) if head is wire.STREAM_HEAD else data, stall=True)
    async with (
        raw_server(script) as upstream,
        proxying(upstream.url, timeouts={"idle_s": 0.05}) as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(wire.chat(LISTED, stream=True))
        stream = wire.events(reply.body)
        assert wire.texts(last_error(stream, "upstream_timeout")) == ("a", "b <thi")
        assert "idleSeconds" in stream[-1]["error"]["message"]
        await (await upstream.connection()).wait_peer_closed()


async def test_the_limit_for_a_whole_answer_does_not_end_a_stream() -> None:
    go = asyncio.Event()

    async def script(request: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        if request.json()["model"] == PLAIN:
            await reader.read()
            return
        writer.write(wire.STREAM_HEAD + wire.chunk(wire.event("a")))
        await go.wait()
        writer.write(wire.chunk(wire.event("b", "stop") + wire.DONE) + wire.LAST_CHUNK)

    timeouts = {"answer_s": 0.05, "idle_s": 0}
    async with (
        raw_server(script) as upstream,
        proxying(upstream.url, timeouts=timeouts) as proxy,
        proxy.connect() as client,
        proxy.connect() as other,
    ):
        await client.send(wire.chat(LISTED, stream=True))
        await client.head()
        body = await client.piece()
        # A whole answer that begins later runs into the limit, so the stream is past it.
        assert (await other.ask(wire.chat(PLAIN))).status == 504
        go.set()
        while piece := await client.piece():
            body += piece
    assert wire.events(body)[-1] == "[DONE]"


CUTS = {
    "chunked": send(wire.STREAM_HEAD, wire.chunk(b"data: a\n\n"), wire.chunk(b"data: b")),
    "in a chunk": send(wire.STREAM_HEAD, wire.chunk(b"data: a\n\n"), b"fff\r\ndata: b"),
    "by bad chunking": send(wire.STREAM_HEAD, wire.chunk(b"data: a\n\n"), wire.chunk(b"data: b"), b"zz\r\n"),
}


@pytest.mark.parametrize("script", CUTS.values(), ids=CUTS)
async def test_an_unlisted_stream_is_cut_off_as_it_was(script: Script) -> None:
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(wire.chat(PLAIN, stream=True))
        await client.head()
        raw = await client.rest()
    assert wire.LAST_CHUNK not in raw
    assert b"error" not in raw
    assert b"data: a\n\n" in raw
    assert b"data: b" in raw


async def test_a_body_ended_by_a_reset_is_cut_off() -> None:
    """The end of the connection ends a body without a length: an end in order, that is."""
    seen = asyncio.Event()

    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        writer.write(CLOSE_HEAD + b"data: a\n\n")
        await seen.wait()
        reset(writer)

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(wire.chat(PLAIN, stream=True))
        await client.head()
        assert await client.piece() == b"data: a\n\n"
        seen.set()
        assert await client.rest() == b""


async def test_an_unlisted_body_with_a_length_is_cut_off_as_it_was() -> None:
    script = send(LENGTH_HEAD, b"data: a\n\n")
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(wire.chat(PLAIN, stream=True))
        assert (await client.head()).header("content-length") == "99999"
        assert await client.rest() == b"data: a\n\n"


@pytest.mark.parametrize("head", [wire.STREAM_HEAD, CLOSE_HEAD])
async def test_an_unlisted_stream_that_falls_silent_is_cut_off(head: bytes) -> None:
    script = send(
        head, wire.chunk(b"data: a\n\n") if head is wire.STREAM_HEAD else b"data: a\n\n", stall=True
    )
    async with (
        raw_server(script) as upstream,
        proxying(upstream.url, timeouts={"idle_s": 0.05}) as proxy,
        proxy.connect() as client,
    ):
        await client.send(wire.chat(PLAIN, stream=True))
        await client.head()
        assert await client.rest() == wire.chunk(b"data: a\n\n")
        await (await upstream.connection()).wait_peer_closed()


@pytest.mark.parametrize(
    "parts",
    [
        (wire.STREAM_HEAD, wire.chunk(wire.event("a", "stop") + wire.DONE)),
        (wire.STREAM_HEAD, wire.chunk(wire.event("a", "stop") + b"data: [DONE]\n")),
        (CLOSE_HEAD, wire.event("a", "stop") + wire.DONE),
        (CLOSE_HEAD, wire.event("a", "stop") + b"data: [DONE]"),
    ],
)
async def test_a_stream_that_said_it_was_complete_is(parts: tuple[bytes, ...]) -> None:
    async with (
        raw_server(send(*parts)) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(wire.chat(LISTED, stream=True))
    first, last = wire.events(reply.body)
    assert wire.texts([first]) == ("", "a")
    assert last == "[DONE]"


async def test_a_stream_that_ends_in_order_without_done_is_left_so() -> None:
    script = send(wire.STREAM_HEAD, wire.chunk(wire.event("<think>a</think>b <thi")), wire.LAST_CHUNK)
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.chat(LISTED, stream=True))
    assert wire.texts(wire.events(reply.body)) == ("a", "b <thi")
    assert b"error" not in reply.body


async def test_the_servers_own_error_event_passes() -> None:
    error = b'data: {"error": {"message": "out of memory", "code": 500}}\n\n'
    script = send(
        wire.STREAM_HEAD, wire.chunk(wire.event("<think>a <") + error), wire.chunk(wire.DONE), wire.LAST_CHUNK
    )
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.chat(LISTED, stream=True))
    assert reply.body.endswith(error + wire.DONE)
    assert wire.texts(wire.events(reply.body)) == ("a <", "")


async def test_an_event_beyond_the_limit_ends_the_stream() -> None:
    script = send(
        wire.STREAM_HEAD,
        wire.chunk(wire.event("<think>a</think>b <thi")),
        wire.chunk(b"data: " + b"x" * 5000),
        stall=True,
    )
    async with (
        raw_server(script) as upstream,
        proxying(upstream.url, max_event_bytes=4000) as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(wire.chat(LISTED, stream=True))
        stream = wire.events(reply.body)
        assert wire.texts(last_error(stream, "upstream_broken")) == ("a", "b <thi")
        assert "maxEventBytes" in stream[-1]["error"]["message"]
        await (await upstream.connection()).wait_peer_closed()


CODERS = {
    "gzip": lambda: zlib.compressobj(wbits=31),
    "x-gzip": lambda: zlib.compressobj(wbits=31),
    "deflate": zlib.compressobj,
}


@pytest.mark.parametrize("coding", CODERS)
async def test_a_compressed_stream_is_read_all_the_same(coding: str) -> None:
    go = asyncio.Event()
    coder = CODERS[coding]()
    head = wire.STREAM_HEAD.replace(b"\r\n\r\n", f"\r\ncontent-encoding: {coding}\r\n\r\n".encode())

    async def script(request: RawRequest, _: StreamReader, writer: StreamWriter) -> None:
        assert request.header("accept-encoding") == "identity"
        writer.write(
            head + wire.chunk(coder.compress(wire.event("<think>a")) + coder.flush(zlib.Z_SYNC_FLUSH))
        )
        await go.wait()
        rest = wire.event("</think>b") + wire.event("", "stop") + wire.DONE
        writer.write(wire.chunk(coder.compress(rest) + coder.flush()) + wire.LAST_CHUNK)

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(wire.chat(LISTED, "accept-encoding: gzip", stream=True))
        assert (await client.head()).header("content-encoding") is None
        body = await client.piece()
        assert wire.texts(wire.events(body)) == ("a", "")
        go.set()
        while piece := await client.piece():
            body += piece
    *made, last = wire.events(body)
    assert (wire.texts(made), last) == (("a", "b"), "[DONE]")


async def test_a_compressed_whole_answer_is_read_all_the_same() -> None:
    text = "x" * 1_000_000
    sent = wire.answer(gzip.compress(wire.whole(f"<think>{text}</think>b")), "content-encoding: gzip")
    async with raw_server(send(sent)) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.chat(LISTED))
    message = reply.json()["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == (text, "b")
    assert reply.header("content-encoding") is None


@pytest.mark.parametrize("body", [gzip.compress(wire.whole("a"))[:-9], b"not gzip", b""])
async def test_a_faulty_compression_ends_in_the_envelope(body: bytes) -> None:
    sent = wire.answer(body, "content-encoding: gzip")
    async with raw_server(send(sent)) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.chat(LISTED))
    assert reply.error() == (502, "proxy_upstream_error", "upstream_broken")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_compressed_bomb_ends_in_an_error(stream: bool) -> None:
    bomb = gzip.compress(bytes(20_000_000))
    tracemalloc.start()
    kind = "text/event-stream" if stream else "application/json"
    sent = wire.answer(bomb, "content-encoding: gzip", content_type=kind)
    limits = {"max_body_bytes": 100_000, "max_event_bytes": 100_000}
    async with (
        raw_server(send(sent)) as upstream,
        proxying(upstream.url, **limits) as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(wire.chat(LISTED))
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert b"upstream_broken" in reply.body
    assert len(reply.body) < 1000
    assert peak_bytes < 10_000_000


async def test_an_unknown_coding_is_relayed_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    sent = wire.answer(b"\x8b\x00\x80", "content-encoding: br")
    async with raw_server(send(sent)) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        for _ in range(3):
            reply = await client.ask(wire.chat(LISTED))
            assert (reply.body, reply.header("content-encoding")) == (b"\x8b\x00\x80", "br")
    said = [record for record in caplog.records if "compressed" in record.getMessage()]
    assert [record.levelno for record in said] == [logging.WARNING]


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
async def test_an_unlisted_compressed_answer_passes_byte_by_byte(coding: str) -> None:
    body = gzip.compress(wire.event("<think>a</think>b"))

    async def script(request: RawRequest, _: StreamReader, writer: StreamWriter) -> None:
        assert request.header("accept-encoding") == "gzip;q=0.5, br"
        writer.write(wire.answer(body, f"content-encoding: {coding}"))

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.chat(PLAIN, "accept-encoding: gzip;q=0.5, br"))
    assert (reply.body, reply.header("content-encoding")) == (body, coding)


BUFFERS_BYTES = 2 * read_buffers_bytes() + 4 * 1024 * 1024
"""What is buffered at most on the way: by the kernel on each of two connections, and by the proxy."""

FLOOD_BYTES = BUFFERS_BYTES + 8 * 1024 * 1024


@pytest.mark.parametrize("model", [LISTED, PLAIN])
async def test_a_reader_that_stops_stops_the_server(model: str) -> None:
    events = wire.event("x" * 60_000)
    piece = wire.chunk(events)
    written = 0
    blocked = asyncio.Event()
    go = asyncio.Event()

    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        nonlocal written
        writer.write(wire.STREAM_HEAD)
        while written < FLOOD_BYTES:
            writer.write(piece)
            written += len(piece)
            drained = asyncio.ensure_future(writer.drain())
            # Taken for blocked after a while; were it only slow, the check below would be the weaker.
            if not (await asyncio.wait([drained], timeout=0.5))[0]:
                blocked.set()
                await asyncio.wait_for(go.wait(), WAIT_S)
            await drained
        writer.write(wire.LAST_CHUNK)

    async with (
        raw_server(script) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect(limit=1000) as client,
    ):
        await client.send(wire.chat(model, stream=True))
        await client.head()
        tracemalloc.start()
        await asyncio.wait_for(blocked.wait(), WAIT_S)
        held_bytes = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert written < BUFFERS_BYTES
        # Both ends of the test are in this process too, with some 200 KiB of their own.
        assert held_bytes < 2 * 1024 * 1024
        go.set()
        received = 0
        while size := int(await client.until(b"\r\n"), 16):
            received += size
            await client.reader.readexactly(size + 2)
        assert received >= FLOOD_BYTES * len(events) // len(piece)


async def test_200_streams_at_once_stay_apart_and_in_order() -> None:
    words = 12

    async def script(request: RawRequest, _: StreamReader, writer: StreamWriter) -> None:
        user = request.json()["user"]
        writer.write(wire.STREAM_HEAD)
        for number in range(words):
            tag = "<think>" if number == 0 else "</think>" if number == words // 2 else ""
            writer.write(wire.chunk(wire.event(f"{tag}{user}.{number} ")))
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(wire.chunk(wire.event("", "stop") + wire.DONE) + wire.LAST_CHUNK)

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy:

        async def ask(number: int) -> None:
            model = PLAIN if number % 4 == 0 else LISTED
            async with proxy.connect() as client:
                reply = await client.ask(wire.chat(model, stream=True, user=str(number)))
            *made, last = wire.events(reply.body)
            assert last == "[DONE]"
            reasoning, content = wire.texts(made)
            sent = [f"{number}.{word}" for word in range(words)]
            if model == PLAIN:
                assert content.replace("<think>", "").replace("</think>", "").split() == sent
            else:
                assert (reasoning.split(), content.split()) == (sent[: words // 2], sent[words // 2 :])

        await asyncio.gather(*(ask(number) for number in range(200)))


async def test_a_client_with_a_small_window_gets_everything() -> None:
    stream = b"".join(wire.event(f"<{number}>") for number in range(5000)) + wire.DONE
    parts = [wire.chunk(stream[i : i + 5000]) for i in range(0, len(stream), 5000)]
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        async with (
            raw_server(send(wire.STREAM_HEAD, *parts, wire.LAST_CHUNK)) as upstream,
            proxying(upstream.url) as proxy,
        ):
            sock.connect((HOST, proxy.port))
            sock.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=sock)
            reply = await wire.Wire(reader, writer).ask(wire.chat(LISTED, stream=True))
            writer.transport.abort()
    assert json.dumps("<4999>").encode() in reply.body
    assert reply.body == stream
