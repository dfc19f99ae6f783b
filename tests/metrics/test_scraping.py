"""`/metrics` of a proxy that runs: who may read it, and what requests leave there."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING

import pytest

from proxy.settings import Log, LogFormat, Server
from proxy.telemetry import configure
from tests.metrics.reading import Told
from tests.safety.upstreams import always
from tests.servers import HOST, raw_server
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying
from tests.transport.test_logs import log, misbehave

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

    from tests.servers import RawRequest
    from tests.transport.proxying import Proxy
    from tests.transport.wire import Wire

__all__ = ["log"]  # a fixture

KEY = "sk-proxy-one"
NOBODY = f"http://{HOST}:1"
METRICS = wire.request("/metrics")
STREAM = wire.STREAM_HEAD
SOME = (wire.event("<think>a</think>"), wire.event("b"), wire.event("", "stop"), wire.DONE)


async def scrape(proxy: Proxy) -> Told:
    async with proxy.connect() as client:
        reply = await client.ask(METRICS)
    assert reply.status == 200
    return Told(reply.body.decode())


# Who may read it


async def test_without_keys_it_is_open_and_with_keys_it_needs_one() -> None:
    async with proxying(NOBODY) as proxy, proxy.connect() as client:
        assert (await client.ask(METRICS)).status == 200
    for keys in ({"api_keys": (KEY,)}, {"file_api_keys": (KEY,)}):
        async with proxying(NOBODY, **keys) as proxy, proxy.connect() as client:
            reply = await client.ask(METRICS)
            assert reply.error() == (401, "proxy_request_error", "invalid_api_key")
            assert (await client.ask(wire.request("/metrics", None, "x-api-key: wrong"))).status == 401
            for field in (f"x-api-key: {KEY}", f"authorization: Bearer {KEY}"):
                reply = await client.ask(wire.request("/metrics", None, field))
                assert (reply.status, reply.header("content-type")) == (
                    200,
                    "text/plain; version=0.0.4; charset=utf-8",
                )


async def test_it_can_be_opened_and_nothing_else_with_it() -> None:
    async with (
        proxying(NOBODY, api_keys=(KEY,), public_metrics=True) as proxy,
        proxy.connect() as client,
    ):
        for target in ("/metrics", "/metrics?x=/v1/models", "http://other.test/metrics"):
            assert (await client.ask(wire.request(target))).status == 200
        for path in ("/metrics/", "/%6detrics", "/metrics%3f", "//metrics", "/v1/models", "/Metrics"):
            assert (await client.ask(wire.request(path))).status == 401


async def test_it_takes_get_and_head_only() -> None:
    async with proxying(NOBODY, passthrough_paths=("*",)) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.request("/metrics", method="HEAD"))
        assert (reply.status, reply.body) == (200, b"")
        reply = await client.ask(wire.request("/metrics", b"x"))
        assert reply.error() == (405, "proxy_request_error", "method_not_allowed")
        reply = await client.ask(wire.request("/metrics", None, "accept: application/openmetrics-text"))
        assert reply.body.endswith(b"# EOF\n")


# What is there


class Player:
    """Streams an answer, each event as a part of its own: the next one goes when the client has the last."""

    def __init__(self) -> None:
        self._turn = asyncio.Semaphore(0)

    async def __call__(self, _: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        writer.write(STREAM)
        for piece in SOME:
            writer.write(wire.chunk(piece))
            await self._turn.acquire()
        writer.write(wire.LAST_CHUNK)

    async def listen(self, client: Wire, request: bytes) -> None:
        await client.send(request)
        await client.head()
        while await client.piece():
            self._turn.release()


@pytest.mark.parametrize("model", [LISTED, PLAIN])
async def test_a_stream_is_measured_once(model: str) -> None:
    entry = {"upstream": "default", "entry": LISTED if model == LISTED else ""}
    player = Player()
    async with raw_server(player) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            await player.listen(client, wire.chat(model, stream=True))
        await proxy.served(1)
        found = await scrape(proxy)
    for name in ("request", "first_event", "event_gap", "overhead"):
        assert found.value(f"think_proxy_{name}_seconds_count", **entry) == 1, name
        assert (found.value(f"think_proxy_{name}_seconds_sum", **entry) or 0) > 0, name
    assert found.value("think_proxy_requests_total", **entry, status="2xx", outcome="answered") == 1
    assert found.total("think_proxy_answers_total") == (model == LISTED)
    assert found.value("think_proxy_upstream_up", upstream="default") == 1
    assert found.value("think_proxy_requests_in_flight") == 0


async def test_a_whole_answer_has_an_overhead_and_no_gap() -> None:
    answer = wire.answer(wire.whole("<think>a</think>b"))
    async with raw_server(always(answer)) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            await client.ask(wire.chat(LISTED))
            await client.ask(wire.chat(PLAIN))
        await proxy.served(2)
        found = await scrape(proxy)
    for entry in (LISTED, ""):
        of = {"upstream": "default", "entry": entry}
        assert found.value("think_proxy_overhead_seconds_count", **of) == 1
        assert found.value("think_proxy_event_gap_seconds_count", **of) == 0
        assert found.value("think_proxy_first_event_seconds_count", **of) == 0
    assert found.total("think_proxy_answers_total", entry=LISTED) == 1
    assert found.total("think_proxy_answers_total") == 1


async def test_the_first_content_is_noted_when_it_comes() -> None:
    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        writer.write(STREAM + wire.chunk(SOME[0]))
        await said.wait()
        for piece in SOME[1:]:
            writer.write(wire.chunk(piece))
        writer.write(wire.LAST_CHUNK)

    said = asyncio.Event()
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            await client.send(wire.chat(LISTED, stream=True))
            await client.until(b"reasoning_content")
            said.set()
            await client.until(wire.LAST_CHUNK)
        await proxy.served(1)
        found = await scrape(proxy)
    first, content = (
        found.value(f"think_proxy_first_{name}_seconds_sum", upstream="default", entry=LISTED) or 0
        for name in ("event", "content")
    )
    assert 0 < first < content


async def test_what_is_under_way_is_in_flight() -> None:
    async with raw_server(misbehave) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            await client.send(wire.chat(LISTED, user="silence", stream=True))
            await client.head()
            assert (await scrape(proxy)).value("think_proxy_requests_in_flight") == 1
        await proxy.served(2)
        found = await scrape(proxy)
    assert found.value("think_proxy_requests_in_flight") == 0
    assert found.value("think_proxy_client_aborts_total", upstream="default", entry=LISTED) == 1


async def test_errors_of_servers_are_told_by_server_and_kind() -> None:
    async with raw_server(misbehave) as upstream:
        servers = (
            Server("good", upstream.url, models=(LISTED,)),
            Server("down", NOBODY, models=("down",)),
        )
        async with proxying(servers) as proxy:
            requests = [
                wire.chat("down"),
                wire.chat("nowhere"),
                *(wire.chat(LISTED, user=how) for how in ("garbage", "break", "error", "fine")),
            ]
            for request in requests:
                async with proxy.connect() as client:
                    await client.ask(request)
            await proxy.served(len(requests))
            found = await scrape(proxy)
    errors = "think_proxy_upstream_errors_total"
    assert found.value(errors, upstream="down", kind="unreachable") == 1
    assert found.value(errors, upstream="good", kind="broken") == 2
    assert found.value(errors, upstream="good", kind="http_5xx") == 1
    assert found.total(errors) == 4
    outcomes = "think_proxy_requests_total"
    assert found.value(outcomes, upstream="none", entry="", status="4xx", outcome="refused") == 1
    assert found.value(outcomes, upstream="down", entry="", status="5xx", outcome="failed") == 1
    assert found.value(outcomes, upstream="good", entry=LISTED, status="2xx", outcome="broken") == 1
    assert found.total(outcomes) == len(requests)
    assert found.value("think_proxy_upstream_up", upstream="good") == 1
    assert found.value("think_proxy_upstream_up", upstream="down") == 0


async def test_what_is_no_request_is_counted_as_it_is_logged() -> None:
    async with proxying(NOBODY) as proxy:
        async with proxy.connect() as client:
            await client.send(b"no HTTP\r\n\r\n")
            await client.rest()
        found = await scrape(proxy)
    assert (
        found.value("think_proxy_requests_total", upstream="none", entry="", status="4xx", outcome="refused")
        == 1
    )


async def test_no_client_can_make_a_series() -> None:
    """Many names that nobody configured leave the series of one."""
    async with raw_server(always(wire.answer(b"{}"))) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            await client.ask(wire.chat(PLAIN))
            await proxy.served(1)
            before = await scrape(proxy)
            for number in range(50):
                await client.ask(wire.chat(f"model-{number}"))
            for number in range(20):
                await client.ask(wire.request(f"/v1/models/model-{number}", None, f"x-request-id: r{number}"))
            await proxy.served(71)
        after = await scrape(proxy)
    assert {*after.samples} == {*before.samples}
    assert after.total("think_proxy_requests_total") == 71
    assert after.labels("upstream") == {"default"}
    assert after.labels("entry") == {""}


# The log


@pytest.mark.usefixtures("log")
async def test_a_line_has_what_was_measured_and_nothing_that_says_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    configure(Log(format=LogFormat.JSON))
    player = Player()
    async with raw_server(player) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await player.listen(client, wire.chat(LISTED, stream=True))
        await proxy.served(1)
        await client.ask(wire.request("/nothing"))
        await proxy.served(2)
    stream, refused = (json.loads(line) for line in capfd.readouterr().err.splitlines())
    times = {"duration_s", "first_event_s", "first_content_s", "gap_s", "overhead_s"}
    assert all(stream.pop(name) > 0 for name in times)
    known = {"time": stream["time"], "request_id": stream["request_id"]}
    assert stream == known | {
        "level": "info",
        "event": "request",
        "method": "POST",
        "path": "/v1/chat/completions",
        "upstream": "default",
        "entry": LISTED,
        "status": 200,
        "outcome": "answered",
        "stream": True,
        "rewritten": True,
        "engaged": True,
        "reasoning_chars": 1,
        "content_chars": 1,
    }
    assert {*refused} - times == {
        *("time", "level", "event", "request_id", "method", "path", "status", "outcome", "error"),
    }


@pytest.mark.usefixtures("log")
def test_configuring_again_adds_nothing() -> None:
    for _ in range(3):
        configure(Log())
    for name in ("think_proxy", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        assert len(logger.handlers) <= 1, name
        assert not logger.filters, name
