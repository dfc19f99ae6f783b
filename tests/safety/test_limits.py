"""How many requests at a time, and what a silent stream carries."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from proxy.pulse import COMMENT
from tests.safety.upstreams import always
from tests.servers import WAIT_S, raw_server
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying
from tests.transport.scripts import serve

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable

    from tests.servers import RawRequest
    from tests.transport.wire import Wire

PERIOD_S = 30.0
FOREVER_S = 86_400.0

both_models = pytest.mark.parametrize("model", [LISTED, PLAIN])

# How many at a time


async def test_one_request_too_many_is_refused_and_told_to_come_again() -> None:
    go_on = asyncio.Event()

    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        await go_on.wait()
        writer.write(wire.answer(b"fine"))

    async with (
        raw_server(script) as upstream,
        proxying(upstream.url, max_concurrent_requests=2) as proxy,
        proxy.connect() as first,
        proxy.connect() as second,
        proxy.connect() as third,
    ):
        await first.send(wire.chat(PLAIN))
        await second.send(wire.chat(LISTED))
        await upstream.connection(1)
        for request in (wire.chat(PLAIN), wire.request("/v1/models"), wire.request("/v1/embeddings", b"{}")):
            reply = await third.ask(request)
            assert reply.error() == (503, "proxy_error", "overloaded")
            assert reply.header("retry-after") == "1"
            assert "maxConcurrentRequests" in reply.json()["error"]["message"]
        assert (await third.ask(wire.request("/healthz"))).status == 200
        go_on.set()
        assert (await first.reply()).body == (await second.reply()).body == b"fine"
        assert (await third.ask(wire.chat(PLAIN))).body == b"fine"
    assert len(upstream.connections) == 3


async def test_a_request_that_is_still_being_sent_counts_and_one_without_a_key_does_not() -> None:
    async with (
        raw_server(always(wire.answer(b"fine"))) as upstream,
        proxying(upstream.url, max_concurrent_requests=1, api_keys=("sk-1",)) as proxy,
        proxy.connect() as first,
        proxy.connect() as second,
    ):
        key = "x-api-key: sk-1"
        await first.send(wire.request("/v1/embeddings", None, "content-length: 2", method="POST"))
        assert (await first.reply()).status == 401
        await first.send(
            b"{}" + wire.request("/v1/embeddings", None, "content-length: 2", key, method="POST")
        )
        while (reply := await second.ask(wire.chat(PLAIN, key))).status == 200:
            pass  # the head may not have been read yet
        assert reply.error()[2] == "overloaded"
        await first.send(b"{}")
        assert (await first.reply()).body == b"fine"


async def test_a_client_that_asks_one_after_the_other_is_never_too_many() -> None:
    async with (
        raw_server(always(wire.answer(b"fine"))) as upstream,
        proxying(upstream.url, max_concurrent_requests=1) as proxy,
        proxy.connect() as client,
    ):
        for _ in range(200):
            assert (await client.ask(wire.chat(PLAIN))).body == b"fine"


@both_models
async def test_requests_that_ended_in_any_way_make_room(model: str) -> None:
    async def script(request: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        how = request.json().get("user")
        if how == "stay":
            await reader.read()
        elif how == "break":
            writer.write(wire.STREAM_HEAD + wire.chunk(wire.event("a")))
        else:
            writer.write(wire.answer(b"fine"))

    async with raw_server(script) as upstream, proxying(upstream.url, max_concurrent_requests=1) as proxy:
        for round_ in range(3):
            async with proxy.connect() as client:
                await client.send(wire.chat(model, user="stay"))
                await upstream.connection(round_ * 3)
            await proxy.served(round_ * 3 + 1)
            async with proxy.connect() as client:
                await client.send(wire.chat(model, "connection: close", user="break"))
                await client.rest()
            await proxy.served(round_ * 3 + 2)
            async with proxy.connect() as client:
                assert (await client.ask(wire.chat(model))).body == b"fine"


# What a silent stream carries


class Stepwise:
    """A model server that sends each part when the test says so."""

    def __init__(self, *parts: bytes) -> None:
        self._parts = parts
        self._step = asyncio.Semaphore(0)

    def go_on(self) -> None:
        self._step.release()

    async def __call__(self, _: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        for part in self._parts:
            async with asyncio.timeout(WAIT_S):
                await self._step.acquire()
            writer.write(part)
            await writer.drain()


async def next_pieces(client: Wire, count: int) -> list[bytes]:
    return [await client.piece() for _ in range(count)]


@both_models
async def test_a_silent_stream_carries_comments_between_its_events(model: str) -> None:
    first, second = wire.event("a"), wire.event("b", "stop")
    script = Stepwise(wire.STREAM_HEAD, wire.chunk(first), wire.chunk(second + wire.DONE) + wire.LAST_CHUNK)
    async with (
        raw_server(script) as upstream,
        proxying(upstream.url, keep_alive_s=0.05) as proxy,
        proxy.connect() as client,
    ):
        await client.send(wire.chat(model, stream=True))
        script.go_on()
        head = await client.head()  # the head of the server has come: the first comment brings it
        assert (head.status, head.header("x-accel-buffering")) == (200, "no")
        assert await next_pieces(client, 3) == [COMMENT] * 3
        script.go_on()
        seen = [await client.piece()]
        while seen[-1] == COMMENT:
            seen.append(await client.piece())
        assert seen[-1] == first
        assert await next_pieces(client, 2) == [COMMENT] * 2
        script.go_on()
        rest = b""
        while piece := await client.piece():
            rest += piece
    assert rest.replace(COMMENT, b"") == second + wire.DONE
    assert wire.events(rest)[-1] == "[DONE]"


class Timers:
    """The loop as `Pulse` sees it: its timers go off when the test says so."""

    def __init__(self) -> None:
        self.delays_s: list[float] = []
        """Of every timer that was set."""
        self._loop = asyncio.get_running_loop()
        self._beat: Any = None
        self._ahead_s = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def time(self) -> float:
        return self._loop.time() + self._ahead_s

    def call_later(self, delay_s: float, beat: Callable[[], None]) -> asyncio.TimerHandle:
        self.delays_s.append(delay_s)
        self._beat = beat
        return self._loop.call_later(FOREVER_S, beat)

    async def go_off(self) -> None:
        """Let a timer go off once the body is waited for."""
        async with asyncio.timeout(WAIT_S):
            # Nothing tells when the pulse waits again.
            while self._beat is None or self._beat.__self__._waiting_since is None:  # noqa: ASYNC110, SLF001
                await asyncio.sleep(0)
        self._ahead_s += PERIOD_S
        self._beat()


@pytest.fixture
async def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    made = Timers()
    monkeypatch.setattr("proxy.pulse.asyncio", SimpleNamespace(get_running_loop=lambda: made))
    return made


@both_models
async def test_there_is_no_comment_before_the_head_of_the_server(model: str, timers: Timers) -> None:
    script = Stepwise(b"")
    async with (
        raw_server(script) as upstream,
        proxying(upstream.url, keep_alive_s=PERIOD_S) as proxy,
        proxy.connect() as client,
    ):
        await client.send(wire.chat(model, stream=True))
        await upstream.connection()
        script.go_on()
        reply = await client.reply()
    assert reply.error() == (502, "proxy_upstream_error", "upstream_broken")
    assert timers.delays_s == []


async def test_no_comment_comes_into_an_event_that_is_only_relayed(timers: Timers) -> None:
    event = wire.event("a")
    parts = (event[:9], event[9:-1], event[-1:], event[:-2] + b"\r\n\r\n")
    script = Stepwise(wire.STREAM_HEAD, *map(wire.chunk, parts), wire.LAST_CHUNK)
    told = []
    async with (
        raw_server(script) as upstream,
        proxying(upstream.url, keep_alive_s=PERIOD_S) as proxy,
        proxy.connect() as client,
    ):
        await client.send(wire.chat(PLAIN, stream=True))
        script.go_on()
        await timers.go_off()
        await client.head()  # the first comment brings it
        for part in (*parts, b""):
            script.go_on()
            told.append(await client.piece())
            while told[-1] != part:
                told.append(await client.piece())
            if part:
                await timers.go_off()
    # Behind the third part an event ends, too; that its line ended before is no longer known.
    assert told == [COMMENT, *parts, COMMENT, b""]


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 20\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: br\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n",
    ],
    ids=["with a length", "compressed", "no stream"],
)
async def test_a_comment_is_put_only_where_it_fits(head: bytes, timers: Timers) -> None:
    body = b"data: 1\n\ndata: 22\n\n\n"
    async with (
        raw_server(serve(head, body)) as upstream,
        proxying(upstream.url, keep_alive_s=PERIOD_S) as proxy,
        proxy.connect() as client,
    ):
        assert (await client.ask(wire.chat(PLAIN, stream=True))).body == body
    assert timers.delays_s == []


@both_models
async def test_the_timeouts_hold_all_the_same(model: str) -> None:
    script = Stepwise(wire.STREAM_HEAD, wire.chunk(wire.event("<think>a")), b"")
    for timeouts in ({"first_byte_s": 0.2}, {"idle_s": 0.2}):
        async with (
            raw_server(script) as upstream,
            proxying(upstream.url, keep_alive_s=0.05, timeouts=timeouts) as proxy,
            proxy.connect() as client,
        ):
            await client.send(wire.chat(model, "connection: close", stream=True))
            script.go_on()
            if "idle_s" in timeouts:
                script.go_on()
            told = await client.rest()
            await (await upstream.connection()).wait_peer_closed()
            assert COMMENT in told
            if model == LISTED:
                assert b'"code":"upstream_timeout"' in told
                assert told.endswith(b"0\r\n\r\n")
            else:
                assert not told.endswith(b"0\r\n\r\n")


@both_models
async def test_a_client_that_leaves_a_silent_stream_frees_the_server(model: str) -> None:
    script = Stepwise(wire.STREAM_HEAD, b"")
    async with raw_server(script) as upstream, proxying(upstream.url, keep_alive_s=0.02) as proxy:
        async with proxy.connect() as client:
            await client.send(wire.chat(model, stream=True))
            script.go_on()
            await client.head()
            await client.piece()
        await (await upstream.connection()).wait_peer_closed()
        await proxy.served(1)


async def test_a_stream_costs_one_timer_whatever_its_events(timers: Timers) -> None:
    stream = b"".join(wire.chunk(wire.event(str(number))) for number in range(500)) + wire.LAST_CHUNK
    async with (
        raw_server(always(wire.STREAM_HEAD + stream)) as upstream,
        proxying(upstream.url, keep_alive_s=PERIOD_S) as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(wire.chat(LISTED, stream=True))
    assert len(wire.events(reply.body)) == 500
    assert timers.delays_s == [PERIOD_S]
