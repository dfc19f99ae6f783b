"""Clients and servers that mean harm: each gets a clear answer, and nobody gets past the proxy."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from proxy.settings import Server
from tests.safety.upstreams import always, server
from tests.servers import raw_server, read_buffers_bytes, read_request
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Callable

    from tests.servers import RawRequest

both_models = pytest.mark.parametrize("model", [LISTED, PLAIN])
DEEP = 100_000

# Requests


BOMBS: dict[str, Callable[[bytes], bytes]] = {
    "deep lists": lambda named: b'{%b,"messages":' % named + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep objects": lambda named: b'{%b,"x":' % named + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
    "deep, as deep as can be read": lambda named: b'{%b,"x":' % named + b"[" * 900 + b"]" * 900 + b"}",
    "deep history": lambda named: (
        b'{%b,"messages":[{"role":"assistant","content":"<think>a</think>b","x":%b}]}'
        % (named, b"[" * 500 + b"]" * 500)
    ),
    "unclosed": lambda named: b'{%b,"messages":' % named + b"[" * DEEP,
    "a list": lambda _: b"[" * DEEP + b"]" * DEEP,
    "a huge number": lambda named: b'{%b,"seed":%b}' % (named, b"9" * DEEP),
    "a huge exponent": lambda named: b'{%b,"temperature":1e999999999}' % named,
    "not a number": lambda named: b'{%b,"temperature":NaN,"top_p":-Infinity}' % named,
    "invalid UTF-8": lambda named: (
        b'{%b,"messages":[{"role":"user","content":"\xff\xfe\xed\xa0\x80"}]}' % named
    ),
    "invalid UTF-8 in a key": lambda named: b'{%b,"\xc0\xaf":1}' % named,
    "half a pair": lambda named: b'{%b,"messages":[{"role":"user","content":"\\ud800"}]}' % named,
    "a NUL": lambda named: b'{%b,"messages":[{"role":"user","content":"\\u0000"}]}\x00' % named,
    "a byte order mark": lambda named: b"\xef\xbb\xbf{%b}" % named,
    "UTF-16": lambda named: ("{" + named.decode() + "}").encode("utf-16"),
    "one key twice": lambda named: b'{"model":"other",%b,"messages":[],"messages":{}}' % named,
    "many keys": lambda named: (
        b"{%b,%b}" % (named, b",".join(b'"%d":0' % number for number in range(50_000)))
    ),
    "one key many times": lambda named: b"{%b,%b}" % (named, b",".join([b'"a":0'] * 50_000)),
    "escapes": lambda named: b'{%b,"x":"%b"}' % (named, b"\\u0041" * 100_000),
    "wrong types": lambda named: (
        b'{%b,"messages":{"0":[]},"stream":"yes","chat_template_kwargs":[1]}' % named
    ),
    "wrong types inside": lambda named: (
        b'{%b,"messages":[1,null,"x",[],{"role":[],"content":{"a":1}}]}' % named
    ),
    "no model": lambda _: b'{"messages":[]}',
    "a model of another type": lambda _: b'{"model":{"a":[1]}}',
    "nothing": lambda _: b"",
}
"""Bodies that a parser may choke on, each with a model that can be found in it, or not."""


@both_models
@pytest.mark.parametrize("name", BOMBS)
async def test_a_json_bomb_gets_the_verdict_of_the_server_or_a_400(model: str, name: str) -> None:
    body = BOMBS[name](f'"model":"{model}"'.encode())
    verdict = wire.answer(b'{"error": "mine"}', status="422 No")
    judged: list[bytes] = []

    async def judge(request: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        while True:
            if request.target == "/v1/completions":
                judged.append(request.body)
            writer.write(verdict)
            request = await read_request(reader)

    async with raw_server(judge) as upstream:
        servers = (Server("a", upstream.url, models=("no",)), Server("b", upstream.url))
        for target in (upstream.url, servers):
            async with proxying(target) as proxy, proxy.connect() as client:
                reply = await client.ask(wire.request("/v1/chat/completions", body))
                if reply.status != 422:
                    assert reply.error() == (400, "proxy_request_error", "invalid_request")
                reply = await client.ask(wire.request("/v1/completions", body))
                assert (reply.status, reply.body) == (422, b'{"error": "mine"}')
    # What the server got is what the client wrote: it alone judges it.
    assert judged == [body, body]


@pytest.mark.parametrize(
    "field",
    [
        "host: evil.test",
        "x-forwarded-host: evil.test",
        "x-forwarded-proto: https",
        "x-forwarded-for: 169.254.169.254",
        "forwarded: host=evil.test;proto=https",
        "x-original-url: /metrics",
        "x-rewrite-url: /metrics",
        "x-http-method-override: DELETE",
        "x-real-ip: 10.0.0.1",
        "x-upstream: http://evil.test",
        "referer: http://evil.test",
        "origin: http://evil.test",
        "location: http://evil.test",
        "content-location: http://evil.test",
    ],
)
async def test_no_field_of_a_request_chooses_the_server_or_the_path(field: str) -> None:
    async with (
        raw_server(server("a")) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        is_host = field.startswith("host: ")  # of which there may be one only
        request = wire.request("/v1/models/x", None, "x: y" if is_host else field)
        reply = await client.ask(request.replace(b"host: proxy.test", field.encode()) if is_host else request)
        (seen,) = upstream.requests
    assert reply.status == 200
    assert (seen.method, seen.target) == ("GET", "/v1/models/x")
    assert [value for name, value in seen.headers if name == "host"] == [upstream.url.removeprefix("http://")]


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See", "307 Temporary", "308 Permanent"])
@both_models
async def test_a_redirect_is_not_followed(model: str, status: str) -> None:
    async with raw_server(server("elsewhere")) as elsewhere:
        redirect = wire.answer(b"", f"location: {elsewhere.url}/v1/models", status=status)
        async with raw_server(always(redirect)) as upstream:
            for target in (upstream.url, (Server("a", upstream.url), Server("b", upstream.url))):
                async with proxying(target) as proxy, proxy.connect() as client:
                    for request in (wire.chat(model), wire.request("/v1/models")):
                        reply = await client.ask(request)
                        assert reply.status == int(status[:3])
                        assert reply.header("location") == f"{elsewhere.url}/v1/models"
                    assert (await client.ask(wire.request("/readyz"))).status == 200
        assert not elsewhere.connections


# Answers


@both_models
@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/html", b"<html><think>a</think>"),
        (None, b'{"choices":[]}'),
        ("application/json", b"data: {}\n\n"),
        ("application/json", b""),
        ("application/json", b"\xff\xfe"),
        ("application/json", b"[" * DEEP + b"]" * DEEP),
        ("application/json", b'{"choices":' + b"[" * DEEP + b"]" * DEEP + b"}"),
        ("application/json", b'{"choices":[{"message":{"content":"<think>a</think>","x":' + b"[" * 900),
        ("application/json", b'{"choices":{"0":[]},"choices":5}'),
        ("application/json", b'{"choices":[null,5,{"message":[]},{"message":{"content":{"a":1}}}]}'),
        ("text/event-stream", b'{"choices":[{"message":{"content":"x"}}]}\n\n'),
        ("text/event-stream", b"data: " + b"[" * DEEP + b"\n\n"),
        ("text/event-stream", b'data: {"choices":' + b"[" * DEEP + b"]" * DEEP + b"}\n\n"),
        ("text/event-stream", b"data: \xff\xfe\xed\xa0\x80\n\n"),
        ("text/event-stream", b'data: {"choices":[null,5,{"delta":[]},{"delta":{"content":{"a":1}}}]}\n\n'),
    ],
)
async def test_what_is_not_what_it_says_passes_as_it_came(
    model: str, content_type: str | None, body: bytes
) -> None:
    sent = wire.answer(body, content_type=content_type)
    async with (
        raw_server(always(sent)) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(wire.chat(model))
    assert (reply.status, reply.body) == (200, body)


@pytest.mark.parametrize("line", [b"data: " + b"x" * 65_530, b"x", b": comment\n", b"data: \n", b"data:\r"])
async def test_an_event_without_an_end_is_ended_by_its_size(line: bytes) -> None:
    written, most = 0, read_buffers_bytes() + 4 * 1024 * 1024

    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        nonlocal written
        writer.write(wire.STREAM_HEAD)
        piece = wire.chunk(line * (65_536 // len(line)))
        while written < 2 * most:
            writer.write(piece)
            written += len(piece)
            await writer.drain()

    async with (
        raw_server(script) as upstream,
        proxying(upstream.url, max_event_bytes=300_000) as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(wire.chat(LISTED, stream=True))
        (error,) = wire.events(reply.body)
        assert error["error"]["code"] == "upstream_broken"
        await (await upstream.connection()).wait_peer_closed()
    assert written < most  # the limit, and what fits into the sockets between the two


async def test_a_server_that_sends_more_than_it_said_does_not_reach_the_next_answer() -> None:
    extra = wire.answer(b"first") + wire.answer(b'{"stolen": true}')
    async with (
        raw_server(always(extra)) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        for _ in range(5):
            assert (await client.ask(wire.chat(PLAIN))).body == b"first"
    assert len(upstream.connections) == 5


@pytest.mark.parametrize("name", ["x-a\r\nset-cookie", "x a", ""])
async def test_a_request_id_that_would_be_a_header_is_replaced(name: str) -> None:
    async with (
        raw_server(server("a")) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        raw = f"GET /v1/models HTTP/1.1\r\nhost: x\r\nx-request-id: {json.dumps(name)}\r\n\r\n".encode()
        reply = await client.ask(raw)
    assert len(reply.header("x-request-id") or "") == 32
