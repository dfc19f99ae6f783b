"""Clients that speak HTTP/1.0, or offer to speak something else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.servers import raw_server, read_request
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying
from tests.transport.scripts import serve

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

    from tests.servers import RawRequest


async def echo(request: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
    """Answer every request of a connection with its body, and the names of its fields."""
    while True:
        names = ",".join(sorted(name for name, _ in request.headers))
        writer.write(wire.answer(request.body or b"nothing", f"x-seen: {names}", content_type="text/plain"))
        request = await read_request(reader)


async def stream(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
    pieces = [wire.event("<think>why"), wire.event("</think>so", "stop"), wire.DONE]
    writer.write(wire.STREAM_HEAD + b"".join(map(wire.chunk, pieces)) + wire.LAST_CHUNK)


def old(raw: bytes) -> bytes:
    return raw.replace(b"HTTP/1.1", b"HTTP/1.0", 1)


async def test_http_1_0_gets_a_stream_without_chunks() -> None:
    async with raw_server(stream) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(old(wire.chat(LISTED, stream=True)))
        head = await client.head()
        assert (head.status, head.header("transfer-encoding"), head.header("connection")) == (
            200,
            None,
            "close",
        )
        body = await client.rest()
        assert wire.texts(wire.events(body)) == ("why", "so")
        assert body.startswith(b"data: ")
        assert body.endswith(wire.DONE)


def by_nginx(model: str, *fields: str) -> bytes:
    """Ask for a stream as nginx does with `proxy_pass` alone (ngx_http_proxy_module, proxy_http_version)."""
    return old(wire.chat(model, "connection: close", "x-real-ip: 10.0.0.1", *fields, stream=True))


@pytest.mark.parametrize("model", [LISTED, PLAIN])
@pytest.mark.parametrize("fields", [(), ("connection: keep-alive",)])
@pytest.mark.parametrize("framed", [True, False], ids=["chunks", "until the end"])
async def test_behind_nginx_a_stream_is_its_events_and_ends_with_the_connection(
    model: str, fields: tuple[str, ...], framed: bool
) -> None:
    pieces = [wire.event("<think>why"), wire.event("</think>so", "stop"), wire.DONE]
    go = asyncio.Event()

    async def script(request: RawRequest, _: StreamReader, writer: StreamWriter) -> None:
        assert request.header("connection") is None
        head = (
            wire.STREAM_HEAD if framed else wire.STREAM_HEAD.replace(b"transfer-encoding: chunked\r\n", b"")
        )
        for number, piece in enumerate(pieces):
            writer.write((b"" if number else head) + (wire.chunk(piece) if framed else piece))
            await go.wait()
        writer.write(wire.LAST_CHUNK if framed else b"")

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(by_nginx(model, *fields))
        head = await client.head()
        assert (head.status, head.header("connection")) == (200, "close")
        assert not {"transfer-encoding", "content-length"} & {name for name, _ in head.headers}
        assert head.header("x-accel-buffering") == "no"
        body = await client.until(b"\n\n")  # it comes while the rest is still to be sent
        go.set()
        body += await client.rest()
        if model == PLAIN:
            assert body == b"".join(pieces)
        else:
            *made, last = wire.events(body)
            assert (wire.texts(made), last) == (("why", "so"), "[DONE]")
            assert b"".join(b"data: " + part for part in body.split(b"data: ")[1:]) == body


@pytest.mark.parametrize("model", [LISTED, PLAIN])
async def test_behind_nginx_a_stream_that_breaks_is_told_in_it_or_cut(model: str) -> None:
    broken = serve(wire.STREAM_HEAD, wire.chunk(wire.event("<think>why</thi")))
    async with raw_server(broken) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(by_nginx(model))
        await client.head()
        body = await client.rest()
    events = wire.events(body)
    assert (events[-1].get("error", {}).get("code") == "upstream_broken") is (model == LISTED)
    assert b"[DONE]" not in body


async def test_http_1_0_gets_an_answer_with_a_length() -> None:
    async with raw_server(echo) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(old(wire.request("/v1/embeddings", b"hello", "connection: keep-alive")))
        assert (reply.body, reply.header("content-length")) == (b"hello", "5")
        assert await client.rest() == b""


async def test_http_1_0_gets_errors_and_heads_too() -> None:
    for raw, status in (
        (wire.request("/nothing"), 404),
        (wire.request("/nothing", method="HEAD"), 404),
        (wire.request("/healthz"), 200),
    ):
        async with proxying("http://127.0.0.1:9") as proxy, proxy.connect() as client:
            reply = await client.ask(old(raw))
            assert (reply.status, reply.header("transfer-encoding")) == (status, None)
            assert await client.rest() == b""


async def test_http_1_0_is_not_told_to_continue() -> None:
    async with raw_server(echo) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        raw = old(wire.request("/v1/embeddings", b"hello", "expect: 100-continue"))
        assert (await client.ask(raw)).status == 200


OFFERS = {
    "java": ("connection: Upgrade, HTTP2-Settings", "http2-settings: AAEAAEAAAAIAAAAA", "upgrade: h2c"),
    "two": ("upgrade: h2c", "connection: upgrade", "upgrade: websocket"),
    "websocket": ("connection: keep-alive, Upgrade", "upgrade: websocket", "sec-websocket-version: 13"),
}


@pytest.mark.parametrize("fields", OFFERS.values(), ids=OFFERS)
@pytest.mark.parametrize("framing", ["length", "chunks"])
@pytest.mark.parametrize("cut", [1, 7, 40, 10_000])
async def test_a_request_that_offers_another_protocol_is_served_in_this_one(
    fields: tuple[str, ...], framing: str, cut: int
) -> None:
    # What looks like a request in the body is not to be taken for one.
    body = wire.request("/metrics")
    if framing == "length":
        raw = wire.request("/v1/embeddings", body, *fields)
    else:
        head = wire.request("/v1/embeddings", b"", "transfer-encoding: chunked", *fields)
        raw = head + wire.chunk(body) + wire.LAST_CHUNK
    async with raw_server(echo) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        for _ in range(2):
            for start in range(0, len(raw), cut):
                await client.send(raw[start : start + cut])
            reply = await client.reply()
            assert (reply.status, reply.body) == (200, body)
            seen = {*(reply.header("x-seen") or "").split(",")}
            assert not seen & {"upgrade", "connection", "http2-settings"}
        assert (await client.ask(wire.request("/v1/models"))).body == b"nothing"


async def test_offers_that_come_at_once_are_served_one_by_one() -> None:
    bodies = [b"one", b"", b"three"]
    raw = b"".join(wire.request("/v1/embeddings", body, *OFFERS["java"]) for body in bodies)
    async with raw_server(echo) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(raw)
        assert [(await client.reply()).body for _ in bodies] == [b"one", b"nothing", b"three"]


async def test_an_offer_does_not_widen_the_head() -> None:
    async with proxying("http://127.0.0.1:9", max_header_bytes=300) as proxy, proxy.connect() as client:
        raw = wire.request("/v1/embeddings", b"x", f"x-long: {'a' * 300}", *OFFERS["java"])
        assert (await client.ask(raw)).status == 431


@pytest.mark.parametrize(("path", "status"), [("/v1/realtime", 404), ("/v1/models", 200)])
async def test_a_websocket_is_answered_in_plain_http(path: str, status: int) -> None:
    fields = (*OFFERS["websocket"], "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==")
    async with raw_server(echo) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        assert (await client.ask(wire.request(path, None, *fields))).status == status
