"""How a process stops: not ready, then closed, then done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.servers import WAIT_S, raw_server
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying
from tests.transport.scripts import flood, keep_silent

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

    from tests.servers import RawRequest

FOR_EVER = 3600.0
GONE = (503, "proxy_error", "shutting_down")


class Upstream:
    """Sends the beginning of a stream, and its end when it may."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()

    async def __call__(self, request: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        if request.target == "/health":
            writer.write(wire.answer())
            return
        writer.write(wire.STREAM_HEAD + wire.chunk(wire.event("<think>why</thi")))
        ends = [asyncio.ensure_future(it) for it in (self.may_end.wait(), reader.read())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        writer.write(wire.chunk(wire.event("nk>so", "stop")) + wire.chunk(wire.DONE) + wire.LAST_CHUNK)


async def begin(client: wire.Wire, model: str) -> bytes:
    """Ask for a stream, and return what comes of it first."""
    await client.send(wire.chat(model, stream=True))
    assert (await client.head()).status == 200
    return await client.piece()


async def test_while_the_delay_runs_it_is_not_ready_and_serves_on() -> None:
    async with raw_server(Upstream()) as upstream, proxying(upstream.url, drain_delay_s=FOR_EVER) as proxy:
        async with proxy.connect() as client:
            assert (await client.ask(wire.request("/readyz"))).status == 200
        async with proxy.connect() as idle:
            assert (await idle.ask(wire.request("/healthz"))).header("connection") is None
            proxy.server.interrupt()
            async with proxy.connect() as client:
                reply = await client.ask(wire.request("/readyz"))
                assert (reply.status, reply.header("connection")) == (503, "close")
                assert await client.rest() == b""
            for client in (idle, None):
                async with proxy.connect() as fresh:
                    reply = await (client or fresh).ask(wire.request("/healthz"))
                    assert (reply.status, reply.header("connection")) == (200, "close")
            proxy.server.interrupt()
            await proxy.ended()


async def test_after_the_delay_nothing_new_comes_in() -> None:
    up = Upstream()
    async with raw_server(up) as upstream, proxying(upstream.url, drain_delay_s=0.01) as proxy:
        async with proxy.connect() as idle, proxy.connect() as fresh, proxy.connect() as busy:
            await idle.ask(wire.request("/healthz"))
            await begin(busy, PLAIN)
            proxy.server.interrupt()
            # Both are closed, the one that was used and the one that was not.
            assert await idle.rest() == b""
            assert await fresh.rest() == b""
            with pytest.raises(ConnectionRefusedError):
                async with proxy.connect():
                    pass
            assert not proxy.run.done()
            up.may_end.set()
            assert (await busy.rest()).endswith(wire.LAST_CHUNK)
        await proxy.ended()


@pytest.mark.parametrize("model", [LISTED, PLAIN])
async def test_a_running_stream_comes_to_its_end(model: str) -> None:
    up = Upstream()
    async with raw_server(up) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        first = await begin(client, model)
        proxy.server.stop()
        up.may_end.set()
        pieces = [first]
        while piece := await client.piece():
            pieces.append(piece)
        assert b"".join(pieces).endswith(wire.DONE)
        assert await client.rest() == b""
        await proxy.ended()


async def test_a_rewritten_stream_that_takes_too_long_says_so() -> None:
    async with (
        raw_server(Upstream()) as upstream,
        proxying(upstream.url, drain_s=0.05) as proxy,
        proxy.connect() as client,
    ):
        pieces = [await begin(client, LISTED)]
        proxy.server.stop()
        while piece := await client.piece():
            pieces.append(piece)
        *before, error = wire.events(b"".join(pieces))
        assert wire.texts(before) == ("why</thi", "")  # what was held comes out as what it is
        assert error["error"]["code"] == "shutting_down"
        assert b'finish_reason":"' not in b"".join(pieces)
        assert await client.rest() == b""
        await proxy.ended()


async def test_another_stream_that_takes_too_long_is_cut() -> None:
    async with (
        raw_server(Upstream()) as upstream,
        proxying(upstream.url, drain_s=0.05) as proxy,
        proxy.connect() as client,
    ):
        await begin(client, PLAIN)
        proxy.server.stop()
        assert await client.rest() == b""  # no last chunk
        await proxy.ended()


async def test_a_request_without_an_answer_yet_is_refused() -> None:
    async with (
        raw_server(keep_silent) as upstream,
        proxying(upstream.url, drain_s=0.05) as proxy,
        proxy.connect() as client,
    ):
        await client.send(wire.chat(LISTED))
        await upstream.connection()
        proxy.server.stop()
        reply = await client.reply()
        assert reply.error() == GONE
        assert reply.header("connection") == "close"
        await proxy.ended()


async def test_stopping_now_waits_for_nothing() -> None:
    async with (
        raw_server(Upstream()) as upstream,
        proxying(upstream.url, drain_s=FOR_EVER, drain_delay_s=FOR_EVER) as proxy,
        proxy.connect() as client,
    ):
        await begin(client, LISTED)
        proxy.server.interrupt()
        proxy.server.interrupt()
        await proxy.ended()
        await (await upstream.connection()).wait_peer_closed()


async def test_who_has_no_answer_yet_is_told_the_truth_when_it_stops_now() -> None:
    async with (
        raw_server(keep_silent) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as asks,
        proxy.connect() as sends,
    ):
        await asks.send(wire.chat(PLAIN))
        await sends.send(wire.request("/v1/embeddings", None, "content-length: 9", method="POST"))
        await proxy.begun(2)
        await upstream.connection()
        proxy.server.stop_now()
        for client in (asks, sends):
            assert (await client.reply()).error() == GONE
            assert await client.rest() == b""


async def test_clients_that_do_not_read_do_not_hold_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.server.LAST_S", 0.05)

    async with (
        raw_server(flood) as upstream,
        proxying(upstream.url, drain_s=0.05) as proxy,
        proxy.connect(limit=1) as client,
    ):
        await client.send(wire.chat(LISTED, stream=True))
        await upstream.connection()
        proxy.server.stop()
        await proxy.ended()


async def test_a_client_that_sends_on_after_its_refusal_does_not_hold_it_up() -> None:
    async with proxying("http://127.0.0.1:9", drain_s=FOR_EVER) as proxy, proxy.connect() as client:
        assert (await client.ask(b"nonsense\r\n\r\n")).status == 400
        proxy.server.stop()
        await proxy.ended()


async def test_a_request_that_is_still_coming_is_served() -> None:
    async with raw_server(Upstream()) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            raw = wire.chat(LISTED, stream=True)
            await client.send(raw[:-5])
            async with asyncio.timeout(WAIT_S):
                while not proxy.traffic.tasks:  # noqa: ASYNC110 - nothing tells when a head was read
                    await asyncio.sleep(0)
            proxy.server.stop()
            await client.send(raw[-5:])
            assert (await client.head()).status == 200
            await client.piece()
        await proxy.ended()
