"""Connections to the model server: kept, used again, and given up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from proxy.upstream import MAX_IDLE_S
from tests.servers import raw_server, read_request, reset, tcp_server
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying
from tests.transport.scripts import Stall, serve

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

    from tests.servers import RawRequest

FINE = wire.answer(b"fine")
BROKEN = (502, "proxy_upstream_error", "upstream_broken")
SILENT = (504, "proxy_upstream_error", "upstream_timeout")
STREAM = wire.STREAM_HEAD + wire.chunk(wire.event("a", "stop") + wire.DONE) + wire.LAST_CHUNK


async def keep_answering(request: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
    while True:
        streamed = b'"stream": true' in request.body
        writer.write(STREAM if streamed else FINE)
        request = await read_request(reader)


async def test_a_connection_is_used_again_by_any_client() -> None:
    async with raw_server(keep_answering) as upstream, proxying(upstream.url) as proxy:
        for model in (LISTED, PLAIN):
            for stream in (True, False):
                for _ in range(2):
                    async with proxy.connect() as client:
                        assert (await client.ask(wire.chat(model, stream=stream))).status == 200
        assert len(upstream.connections) == 1


async def test_parallel_requests_have_connections_of_their_own() -> None:
    gate = asyncio.Barrier(5)

    async def script(_: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        await gate.wait()
        writer.write(FINE)
        await reader.read()

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy:

        async def ask() -> None:
            async with proxy.connect() as client:
                assert (await client.ask(wire.chat(PLAIN))).body == b"fine"

        await asyncio.gather(*(ask() for _ in range(5)))
        assert len(upstream.connections) == 5


@pytest.mark.parametrize(
    "reply",
    [
        wire.answer(b"fine", "connection: close"),
        b"HTTP/1.0 200 OK\r\ncontent-length: 4\r\n\r\nfine",
        FINE + b"x",
        FINE + FINE,
        FINE + b"HTTP/1.1 200 OK\r\nconte",
        b"HTTP/1.1 204 No Content\r\n\r\nfine",
    ],
)
async def test_a_connection_that_may_carry_no_other_answer_is_closed(reply: bytes) -> None:
    async with (
        raw_server(Stall(reply)) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        for number in range(3):
            assert (await client.ask(wire.chat(PLAIN))).body in {b"fine", b""}
            await (await upstream.connection(number)).wait_peer_closed()


async def test_bytes_that_nobody_asked_for_close_an_idle_connection() -> None:
    go = asyncio.Event()

    async def script(_: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(FINE)
        await go.wait()
        writer.write(wire.answer(b"planted"))
        await reader.read()

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        assert (await client.ask(wire.chat(PLAIN))).body == b"fine"
        go.set()
        await (await upstream.connection()).wait_peer_closed()
        assert (await client.ask(wire.chat(PLAIN))).body == b"fine"


async def test_an_answer_before_the_request_was_read_closes_the_connection() -> None:
    """A server may refuse early; what it has not read yet would be taken for the next request."""
    head = bytearray()

    async def refuse(reader: StreamReader, writer: StreamWriter) -> None:
        head.extend(await reader.readuntil(b"\r\n\r\n"))
        writer.write(wire.answer(b"too long", status="413 Too Large"))
        await writer.drain()
        while await reader.read(2**16):
            pass

    async with tcp_server(refuse) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        for _ in range(2):
            reply = await client.ask(wire.chat(PLAIN, x="x" * 20_000_000))
            assert (reply.status, reply.body) == (413, b"too long")
    assert head.count(b"POST /v1/chat/completions HTTP/1.1") == 2


async def test_an_idle_connection_is_given_up_before_the_server_does(monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        raw_server(keep_answering) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        await client.ask(wire.chat(PLAIN))
        await client.ask(wire.chat(PLAIN))
        assert len(upstream.connections) == 1
        monkeypatch.setattr("proxy.upstream.MAX_IDLE_S", -1.0)  # any time is too long
        await client.ask(wire.chat(PLAIN))
        assert len(upstream.connections) == 2
        await (await upstream.connection(0)).wait_peer_closed()


def test_idle_connections_are_kept_for_less_than_the_server_keeps_them() -> None:
    assert 0 < MAX_IDLE_S < 5  # uvicorn's timeout_keep_alive, which vLLM leaves at its default


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("model", [LISTED, PLAIN])
async def test_a_stale_connection_is_replaced_once(how: str, model: str) -> None:
    bodies: list[bytes] = []

    async def script(_: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(FINE)
        if len(upstream.connections) == 1:
            # The next request is read, and the connection ends without a byte of an answer.
            bodies.append((await read_request(reader)).body)
            if how == "reset":
                reset(writer)
        else:
            await reader.read()

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        assert (await client.ask(wire.chat(model))).body == b"fine"
        assert (await client.ask(wire.chat(model, n=2))).body == b"fine"
        assert len(upstream.connections) == 2
        assert [upstream.requests[1].body] == bodies


async def test_the_replacement_is_not_replaced() -> None:
    async def script(_: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        if len(upstream.connections) == 1:
            writer.write(FINE)
            await read_request(reader)

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        assert (await client.ask(wire.chat(PLAIN))).body == b"fine"
        assert (await client.ask(wire.chat(PLAIN))).error() == BROKEN
        assert len(upstream.connections) == 2


@pytest.mark.parametrize(
    "sent", [b"H", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"]
)
async def test_a_request_that_the_server_began_to_answer_is_not_sent_again(sent: bytes) -> None:
    async def script(_: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(FINE)
        await read_request(reader)
        writer.write(sent)

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        assert (await client.ask(wire.chat(PLAIN))).body == b"fine"
        assert (await client.ask(wire.chat(PLAIN))).error() == BROKEN
        assert len(upstream.connections) == 1


async def test_a_fresh_connection_that_closes_is_not_replaced() -> None:
    async with raw_server(serve()) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        assert (await client.ask(wire.chat(PLAIN))).error() == BROKEN
        assert len(upstream.connections) == 1


async def test_a_silent_kept_connection_is_not_replaced() -> None:
    async with (
        raw_server(Stall(FINE)) as upstream,
        proxying(upstream.url, timeouts={"first_byte_s": 0.2}) as proxy,
    ):
        async with proxy.connect() as client:
            assert (await client.ask(wire.chat(PLAIN))).body == b"fine"
            assert (await client.ask(wire.chat(PLAIN))).error() == SILENT
        assert len(upstream.connections) == 1


async def test_the_proxy_closes_its_connections_when_it_stops() -> None:
    async with raw_server(keep_answering) as upstream:
        async with proxying(upstream.url) as proxy, proxy.connect() as client:
            await client.ask(wire.chat(PLAIN))
            assert not upstream.connections[0].peer_closed.is_set()
        await upstream.connections[0].wait_peer_closed()
