"""The application's part in stopping: it is not ready, and then it ends what runs."""

from __future__ import annotations

import json
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from tests.safety.upstreams import always
from tests.servers import raw_server
from tests.transport import wire
from tests.transport.logged import outcomes
from tests.transport.proxying import LISTED, PLAIN, proxying
from tests.transport.scripts import Stall

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

both_models = pytest.mark.parametrize("model", [LISTED, PLAIN])
STOPPED = (503, "proxy_error", "shutting_down")


async def test_a_proxy_that_drains_is_alive_and_serves_but_is_not_ready() -> None:
    async with (
        raw_server(always(wire.answer(b"fine"))) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        assert (await client.ask(wire.request("/readyz"))).status == 200
        proxy.app.begin_drain()
        reply = await client.ask(wire.request("/readyz"))
        assert (reply.status, reply.json()) == (503, {"status": "draining"})
        assert (await client.ask(wire.request("/healthz"))).status == 200
        assert (await client.ask(wire.chat(PLAIN))).body == b"fine"


def begin() -> Stall:
    """Send the beginning of a stream, in which text is held, and no more."""
    return Stall(wire.STREAM_HEAD + wire.chunk(wire.event("<think>thought</think>said <thi")))


@asynccontextmanager
async def stopped(model: str) -> AsyncIterator[tuple[wire.Wire, bytes]]:
    """Stop a proxy in the middle of a stream; yields the client, and what it had got before."""
    async with (
        raw_server(begin()) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        await client.send(wire.chat(model, stream=True))
        await client.head()
        told = await client.piece()
        proxy.app.stop_streams()
        yield client, told
        await (await upstream.connection()).wait_peer_closed()
        await proxy.served(1)


async def test_a_rewritten_stream_gives_what_it_held_and_one_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "think_proxy")
    async with stopped(LISTED) as (client, begun):
        told = begun
        while piece := await client.piece():
            told += piece
    *events, error = wire.events(told)
    assert wire.texts(events) == ("thought", "said <thi")
    assert (error["error"]["type"], error["error"]["code"]) == ("proxy_error", "shutting_down")
    assert b"[DONE]" not in told
    assert b'"finish_reason":"' not in told.replace(b" ", b"")
    assert outcomes(caplog) == [("stopped", "shutting_down")]


async def test_any_other_stream_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "think_proxy")
    async with stopped(PLAIN) as (client, _):
        assert await client.rest() == b""
    assert outcomes(caplog) == [("stopped", "shutting_down")]


@both_models
@pytest.mark.parametrize(
    "sent", [b"", b"HTTP/1.1 200 OK\r\nco", wire.STREAM_HEAD, wire.answer(b"x" * 9)[:-1]]
)
async def test_an_answer_that_has_not_begun_is_refused(
    model: str, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "think_proxy")
    script = Stall(sent)
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(wire.chat(model))
        await script.sent()
        if sent.endswith(b"x") and model == PLAIN:
            await client.head()  # this one has begun
            proxy.app.stop_streams()
            assert await client.rest() == b"x" * 8
        else:
            proxy.app.stop_streams()
            reply = await client.reply()
            assert reply.error() == STOPPED
            assert (reply.header("retry-after"), reply.header("connection")) == ("1", "close")
        await (await upstream.connection()).wait_peer_closed()
        await proxy.served(1)
    ((outcome, error),) = outcomes(caplog)
    assert outcome in ("stopped", "refused")
    assert error == "shutting_down"


async def test_a_request_that_is_still_being_sent_is_refused() -> None:
    async with (
        raw_server(always(wire.answer(b"fine"))) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        assert (await client.ask(wire.chat(PLAIN))).status == 200
        await client.send(wire.request("/v1/embeddings", None, "content-length: 9", method="POST") + b"{")
        await proxy.begun(2)
        proxy.app.stop_streams()
        assert (await client.reply()).error() == STOPPED
        assert await client.rest() == b""
    assert len(upstream.connections) == 1


async def test_what_comes_after_that_is_refused() -> None:
    async with (
        raw_server(begin()) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        proxy.app.stop_streams()
        assert (await client.ask(wire.chat(PLAIN))).error() == STOPPED
        assert not upstream.connections


async def test_an_answer_that_is_complete_stays_so() -> None:
    """Stopping once more, and while the last bytes are on their way, changes nothing."""
    body = json.dumps({"x": "y" * 3_000_000}).encode()
    async with (
        raw_server(always(wire.answer(body))) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect(limit=1000) as client,
    ):
        await client.send(wire.chat(LISTED))
        head = await client.head()
        proxy.app.stop_streams()
        proxy.app.stop_streams()
        read = await client.reader.readexactly(int(head.header("content-length") or 0))
        assert read == body
