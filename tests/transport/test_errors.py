"""Errors before an answer has begun: the envelope for our own, the server's own as they came."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from tests.servers import HOST, raw_server, reset
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying
from tests.transport.scripts import Stall, refuse_all, serve

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

    from tests.servers import RawRequest

BROKEN = (502, "proxy_upstream_error", "upstream_broken")
SILENT = (504, "proxy_upstream_error", "upstream_timeout")
INVALID = (400, "proxy_request_error", "invalid_request")

both_models = pytest.mark.parametrize("model", [LISTED, PLAIN])


@both_models
async def test_a_refused_connection(model: str) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))  # and does not listen
        url = f"http://{HOST}:{taken.getsockname()[1]}"
        async with proxying(url) as proxy, proxy.connect() as client:
            reply = await client.ask(wire.chat(model))
    assert reply.error() == (502, "proxy_upstream_error", "upstream_unreachable")
    message = reply.json()["error"]["message"]
    assert url in message
    assert "upstream" in message
    assert "Connection refused" in message


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b"])
async def test_a_name_that_nobody_knows(host: str) -> None:
    async with proxying(f"http://{host}:8000") as proxy, proxy.connect() as client:
        reply = await client.ask(wire.chat(LISTED))
    assert reply.error() == (502, "proxy_upstream_error", "upstream_unreachable")


async def test_tls_with_a_server_that_speaks_none() -> None:
    async with (
        proxying("http://127.0.0.1:1") as server,
        proxying(f"https://{HOST}:{server.port}") as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(wire.chat(LISTED))
    assert reply.error() == (502, "proxy_upstream_error", "upstream_unreachable")
    assert "SSL" in reply.json()["error"]["message"]


async def test_a_server_that_takes_no_connection() -> None:
    async with AsyncExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind((HOST, 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        # One connection fills the queue; from the next on nobody answers (listen(2): the backlog).
        for _ in range(2):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex((HOST, port))
        url = f"http://{HOST}:{port}"
        proxy = await stack.enter_async_context(proxying(url, timeouts={"connect_s": 0.05}))
        client = await stack.enter_async_context(proxy.connect())
        reply = await client.ask(wire.chat(LISTED))
        assert reply.error() == SILENT
        assert "connectSeconds" in reply.json()["error"]["message"]


@both_models
@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"HTTP/1.1 200 O",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n",
        wire.STREAM_HEAD,
        wire.STREAM_HEAD + b"1f;extension=",
    ],
)
async def test_a_silent_server(model: str, sent: bytes) -> None:
    async with (
        raw_server(Stall(sent)) as upstream,
        proxying(upstream.url, timeouts={"first_byte_s": 0.05}) as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(wire.chat(model))
        assert reply.error() == SILENT
        assert "firstByteSeconds" in reply.json()["error"]["message"]
        await (await upstream.connection()).wait_peer_closed()


async def test_a_whole_answer_that_stalls_in_the_middle() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 90\r\n\r\n"
    async with (
        raw_server(Stall(head, b'{"choices"')) as upstream,
        proxying(upstream.url, timeouts={"idle_s": 0.05}) as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(wire.chat(LISTED))
        assert reply.error() == SILENT
        assert "idleSeconds" in reply.json()["error"]["message"]


@both_models
@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n"])
async def test_an_answer_that_takes_too_long(model: str, sent: bytes) -> None:
    async with (
        raw_server(Stall(sent)) as upstream,
        proxying(upstream.url, timeouts={"answer_s": 0.05}) as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(wire.chat(model))
        assert reply.error() == SILENT
        assert "answerSeconds" in reply.json()["error"]["message"]
        await (await upstream.connection()).wait_peer_closed()


async def test_zero_switches_the_timeouts_off() -> None:
    off = {"connect_s": 0, "first_byte_s": 0, "idle_s": 0, "answer_s": 0, "request_s": 0}
    async with (
        raw_server(serve(wire.answer(b"{}"))) as upstream,
        proxying(upstream.url, timeouts=off) as proxy,
        proxy.connect() as client,
    ):
        assert (await client.ask(wire.chat(LISTED))).status == 200


OVERSIZE = b"x" * 70_000

FAULTS = {
    "closes": b"",
    "closes in the head": b"HTTP/1.1 200 OK\r\ncontent-type: text/ev",
    "closes after an informational answer": b"HTTP/1.1 100 Continue\r\n\r\n",
    "closes after the head": b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n",
    "closes before the first chunk": wire.STREAM_HEAD,
    "not HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "another HTTP": b"HTTP/3.0 200 OK\r\ncontent-length: 0\r\n\r\n",
    "TLS": b"\x15\x03\x01\x00\x02\x02\x50",
    "a header line without a colon": b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
    "a control character in a header": b"HTTP/1.1 200 OK\r\nx: a\x01b\r\ncontent-length: 0\r\n\r\n",
    "a folded header line": b"HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 0\r\n\r\n",
    "an oversize header field": b"HTTP/1.1 200 OK\r\nx: " + OVERSIZE + b"\r\ncontent-length: 0\r\n\r\n",
    "many header fields": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000 + b"content-length: 0\r\n\r\n",
    "a header without an end": b"HTTP/1.1 200 OK\r\nx: " + OVERSIZE * 10,
    "informational answers without an end": b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000,
    "bad chunking": wire.STREAM_HEAD + b"zz\r\n",
    "a chunk of impossible size": wire.STREAM_HEAD + b"fffffffffffffffffffff\r\n",
    "chunk extensions without an end": wire.STREAM_HEAD + b"1;" + OVERSIZE * 10,
    "a bad length": b"HTTP/1.1 200 OK\r\ncontent-length: -3\r\n\r\nabc",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
    "a length and chunks": wire.STREAM_HEAD[:-2] + b"content-length: 3\r\n\r\n0\r\n\r\n",
    "another transfer coding": b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\nabc",
    "a status beyond 599": b"HTTP/1.1 999 No\r\ncontent-length: 0\r\n\r\n",
    "a status below 100": b"HTTP/1.1 099 No\r\ncontent-length: 0\r\n\r\n",
}


@both_models
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_faulty_answer_ends_in_the_envelope(model: str, fault: bytes) -> None:
    async def script(_: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(fault)
        if len(fault) > 100_000:
            await reader.read()  # closed by the proxy: nothing but its size ends this

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.chat(model))
        assert reply.error() == BROKEN
        assert len(upstream.connections) == 1
        # The client's connection goes on.
        assert (await client.ask(wire.request("/healthz"))).status == 200


@both_models
async def test_a_reset_instead_of_an_answer(model: str) -> None:
    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        reset(writer)

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        assert (await client.ask(wire.chat(model))).error() == BROKEN
        assert len(upstream.connections) == 1


async def test_a_whole_answer_that_breaks_off() -> None:
    body = wire.whole("<think>a</think>b")
    for head in (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n" + body,
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        + wire.chunk(body),
    ):
        async with (
            raw_server(serve(head)) as upstream,
            proxying(upstream.url) as proxy,
            proxy.connect() as client,
        ):
            assert (await client.ask(wire.chat(LISTED))).error() == BROKEN


async def test_a_whole_answer_beyond_the_limit() -> None:
    async with (
        raw_server(serve(wire.answer(wire.whole("x" * 3000)))) as upstream,
        proxying(upstream.url, max_body_bytes=2000) as proxy,
        proxy.connect() as client,
    ):
        assert (await client.ask(wire.chat(LISTED))).error() == BROKEN
        # What is only relayed is not collected, and has no limit.
        assert (await client.ask(wire.chat(PLAIN))).status == 200


UPSTREAM_ERRORS = [
    ("400 Bad Request", "application/json", b'{"object":"error","message":"<think>a</think>b","code":400}'),
    ("401 Unauthorized", "application/json", b'{"error":"Unauthorized"}'),
    ("404 Not Found", "application/json", b'{"error":{"message":"no such model","type":"NotFoundError"}} '),
    ("422 Unprocessable Entity", "text/plain; charset=latin-1", b"\xe9"),
    ("429 Too Many Requests", None, b""),
    ("500 Internal Server Error", "text/html", b"<html>"),
    ("503 Service Unavailable", "text/event-stream", b"data: <think>a</think>b\n\n"),
    ("302 Found", "text/plain", b"elsewhere"),
]


@both_models
@pytest.mark.parametrize(("status", "content_type", "body"), UPSTREAM_ERRORS)
async def test_the_servers_own_errors_pass_as_they_came(
    model: str, status: str, content_type: str | None, body: bytes
) -> None:
    sent = wire.answer(body, "retry-after: 7", "location: /x", status=status, content_type=content_type)
    async with (
        raw_server(serve(sent)) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(wire.chat(model))
        assert len(upstream.connections) == 1
    assert (reply.status, reply.header("content-type"), reply.body) == (int(status[:3]), content_type, body)
    assert (reply.header("retry-after"), reply.header("location")) == ("7", "/x")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"model": "\xff"}',
        b"[" * 200_000,
        b'{"model":"listed","x":' + b"[" * 200_000,
        b"[]",
        b'"listed"',
        b"null",
        b"{}",
        b'{"model": null}',
        b'{"model": 3}',
        b'{"model": ["listed"]}',
        b'{"Model": "listed"}',
    ],
    ids=lambda body: repr(body[:24]),
)
async def test_a_request_without_a_model(body: bytes) -> None:
    async with raw_server(refuse_all) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.request("/v1/chat/completions", body))
        assert reply.error() == INVALID
        assert not upstream.connections
        # Elsewhere nobody looks, so it is the server's to judge.
    async with (
        raw_server(serve(wire.answer(b"fine"))) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        assert (await client.ask(wire.request("/v1/completions", body))).body == b"fine"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings"])
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_request_beyond_the_limit(path: str, chunked: bool) -> None:
    body = json.dumps({"model": PLAIN, "input": "x" * 300_000}).encode()
    async with raw_server(serve(wire.answer(b"fine"))) as upstream:
        async with proxying(upstream.url, max_body_bytes=len(body) - 1) as proxy, proxy.connect() as client:
            framed = wire.chunk(body[:9]) + wire.chunk(body[9:]) + wire.LAST_CHUNK
            if chunked:
                reply = await client.ask(wire.request(path, framed, "transfer-encoding: chunked"))
            else:
                reply = await client.ask(wire.request(path, body))
            assert reply.error() == (413, "proxy_request_error", "request_too_large")
            assert "maxBodyBytes" in reply.json()["error"]["message"]
            assert reply.header("connection") == "close"
            assert await client.rest() == b""
        assert not upstream.connections
        async with proxying(upstream.url, max_body_bytes=len(body)) as proxy, proxy.connect() as client:
            assert (await client.ask(wire.request(path, body))).body == b"fine"


async def test_a_request_that_asks_first_is_refused_before_it_is_sent() -> None:
    async with raw_server(serve(wire.answer(b"fine"))) as upstream:
        async with proxying(upstream.url, max_body_bytes=10) as proxy, proxy.connect() as client:
            head = wire.request(
                "/v1/embeddings", None, "content-length: 11", "expect: 100-continue", method="POST"
            )
            assert (await client.ask(head)).status == 413
            async with proxy.connect() as other:
                await other.send(head.replace(b": 11", b": 10"))
                assert (await other.head()).status == 100
                await other.send(b"0123456789")
                assert (await other.reply()).body == b"fine"
        assert upstream.requests[0].header("expect") is None


async def test_an_absurd_length_is_refused_before_it_is_sent() -> None:
    async with raw_server(refuse_all) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        head = wire.request("/v1/embeddings", None, "content-length: 99999999999", method="POST")
        assert (await client.ask(head)).error() == (413, "proxy_request_error", "request_too_large")


@pytest.mark.parametrize("sent", [b"", b'{"model":'])
async def test_a_request_that_does_not_come(sent: bytes) -> None:
    async with raw_server(refuse_all) as upstream:
        async with proxying(upstream.url, timeouts={"request_s": 0.05}) as proxy, proxy.connect() as client:
            head = wire.request("/v1/chat/completions", None, "content-length: 20", method="POST")
            reply = await client.ask(head + sent)
            assert reply.error() == (408, "proxy_request_error", "request_timeout")
            assert "requestSeconds" in reply.json()["error"]["message"]
            assert await client.rest() == b""
        assert not upstream.connections


async def test_a_refused_request_leaves_the_connection_usable() -> None:
    async with (
        raw_server(serve(wire.answer(b"fine"))) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        assert (await client.ask(wire.request("/nothing", b"x" * 300_000))).status == 404
        assert (await client.ask(wire.request("/v1/chat/completions", b"{}"))).status == 400
        assert (await client.ask(wire.request("/v1/models"))).body == b"fine"


async def test_a_fault_of_our_own_is_answered_and_its_place_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "planted-secret"

    def fail(*_: object) -> None:
        raise LookupError(secret)

    async with raw_server(serve(wire.answer(b"fine"))) as upstream, proxying(upstream.url) as proxy:
        monkeypatch.setattr("proxy.exchange.read_chat", fail)
        async with proxy.connect() as client:
            reply = await client.ask(wire.chat(PLAIN))
            assert reply.error() == (500, "proxy_error", "internal_error")
            assert (await client.ask(wire.request("/v1/models"))).body == b"fine"
    assert "LookupError" in caplog.text
    assert "test_errors.py" in caplog.text
    assert secret not in caplog.text + reply.body.decode()


async def test_parallel_failures_are_told_apart() -> None:
    async def script(request: RawRequest, _: StreamReader, writer: StreamWriter) -> None:
        if b"good" in request.body:
            writer.write(wire.answer(request.body))

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy:

        async def ask(number: int) -> None:
            async with proxy.connect() as client:
                good = number % 2 == 0
                reply = await client.ask(wire.chat(PLAIN, user=f"good {number}" if good else "bad"))
                assert reply.json()["user"] == f"good {number}" if good else reply.error() == BROKEN

        await asyncio.gather(*(ask(number) for number in range(40)))
