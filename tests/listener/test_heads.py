"""What the listener takes for a request, and what it says to the rest."""

from __future__ import annotations

import asyncio
import logging
import tracemalloc
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING

import pytest

from proxy.errors import RequestTimeoutError
from proxy.listener import LINGER_S, MAX_PIPELINED
from proxy.server import KEEP_ALIVE_S
from tests.servers import WAIT_S, raw_server, read_request
from tests.transport import wire
from tests.transport.proxying import proxying
from tests.transport.scripts import keep_silent, refuse_all

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator, Callable

    from tests.servers import RawRequest

MALFORMED = (400, "proxy_request_error", "malformed_request")
TOO_LARGE = (431, "proxy_request_error", "header_too_large")
LATE = (408, "proxy_request_error", "request_timeout")
NOBODY = "http://127.0.0.1:9"


async def echo(request: RawRequest, _: StreamReader, writer: StreamWriter) -> None:
    names = ",".join(sorted(name for name, _ in request.headers))
    writer.write(wire.answer(request.body or b"nothing", f"x-seen: {names}", content_type="text/plain"))


def head_of(size: int, *, end: bytes = b"\r\n\r\n") -> bytes:
    """Write a request without a body whose head has so many bytes."""
    start = b"GET /v1/models HTTP/1.1\r\nhost: a\r\nx-long: "
    return start + b"a" * (size - len(start) - len(end)) + end


@pytest.mark.parametrize("limit", [200, 65_536])
async def test_a_head_of_the_largest_size_is_served(limit: int) -> None:
    async with (
        raw_server(echo) as upstream,
        proxying(upstream.url, max_header_bytes=limit) as proxy,
        proxy.connect() as client,
    ):
        for _ in range(2):
            assert (await client.ask(head_of(limit))).body == b"nothing"


@pytest.mark.parametrize("limit", [200, 65_536])
@pytest.mark.parametrize("end", [b"\r\n\r\n", b""])
async def test_a_larger_head_is_refused(limit: int, end: bytes) -> None:
    async with proxying(NOBODY, max_header_bytes=limit) as proxy, proxy.connect() as client:
        reply = await client.ask(head_of(limit + 1, end=end))
        assert reply.error() == TOO_LARGE
        assert "maxHeaderBytes" in reply.json()["error"]["message"]
        assert (reply.header("connection"), bool(reply.header("x-request-id"))) == ("close", True)
        assert await client.rest() == b""


@pytest.mark.parametrize(
    "piece",
    [b"x-a: b\r\n", b"x", b"\r\n"],
    ids=["fields", "one field", "blank lines"],
)
async def test_a_head_without_an_end_is_refused(piece: bytes) -> None:
    async with proxying(NOBODY) as proxy, proxy.connect() as client:
        start = b"" if piece == b"\r\n" else b"GET /v1/models HTTP/1.1\r\n"
        assert (await client.ask(start + piece * (80_000 // len(piece)))).error() == TOO_LARGE


async def test_a_long_target_is_a_large_head() -> None:
    async with proxying(NOBODY) as proxy, proxy.connect() as client:
        assert (await client.ask(wire.request("/v1/models?" + "a" * 70_000))).error() == TOO_LARGE


@pytest.mark.parametrize("part", ["extension", "trailer"])
async def test_framing_without_an_end_is_refused(part: str) -> None:
    async with proxying(NOBODY) as proxy, proxy.connect() as client:
        head = wire.request("/v1/embeddings", b"", "transfer-encoding: chunked")
        begin = {"extension": b"5;a=", "trailer": b"5\r\nhello\r\n0\r\nx-trailer: "}[part]
        await client.send(head + begin)
        for _ in range(60):  # what came in one read with a body or a head is not counted
            await client.send(b"a" * 10_000)
        assert (await client.reply()).error() == TOO_LARGE


async def test_a_client_that_sends_on_still_gets_the_answer() -> None:
    async with proxying(NOBODY) as proxy, proxy.connect() as client:
        # More than the buffers between the two hold: this only ends if it is read.
        await client.send(head_of(16 * 2**20, end=b""))
        assert (await client.reply()).error() == TOO_LARGE


async def test_a_client_that_sends_for_ever_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LINGER_S > 1
    monkeypatch.setattr("proxy.listener.LINGER_S", 0.05)
    async with proxying(NOBODY) as proxy, proxy.connect() as client:
        with pytest.raises(ConnectionError):  # noqa: PT012 - the one or the other call notices first
            async with asyncio.timeout(10):
                while True:
                    client.writer.write(b"a" * 65_536)
                    await client.writer.drain()


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /v1/models HTTP/2.0\r\n\r\n",
        b"GET /v1/models\r\n\r\n",
        b"GET /v1/\xff HTTP/1.1\r\nhost: a\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n",
        b"GET /v1/models HTTP/1.0\r\nhost: a\r\nHOST: b\r\n\r\n",
        b"GET /v1/models HTTP/1.1\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
        b"GET //:x HTTP/1.1\r\nhost : a\r\n\r\n",
        b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        b"POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\n",
        b"POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: x\r\ntransfer-encoding:chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/embeddings HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"GET /v1/models HTTP/1.1\r\nhost: a\r\n folded\r\n\r\n",
        b"CONNECT evil.test:80 HTTP/1.1\r\nhost: evil.test:80\r\n\r\nGET /v1/models HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_is_no_request_is_refused_in_the_envelope(raw: bytes) -> None:
    async with proxying(NOBODY) as proxy, proxy.connect() as client:
        assert (await client.ask(raw)).error() == MALFORMED
        assert await client.rest() == b""


async def test_a_refusal_is_logged_without_what_came(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "think_proxy")
    async with proxying(NOBODY) as proxy, proxy.connect() as client:
        reply = await client.ask(
            b"GET /planted-secret HTTP/1.1\r\nhost: a\r\nauthorization : planted-secret\r\n\r\n"
        )
    (record,) = [it for it in caplog.records if it.message == "request"]
    assert record.fields["error"] == "malformed_request"
    assert record.fields["request_id"] == reply.header("x-request-id")
    assert "planted" not in caplog.text + str(record.fields)


@pytest.mark.parametrize("part", [b"\r\n", b"GE", b"GET /v1/models HTTP/1.1\r\nhost: a\r\n", None])
async def test_half_a_head_waits_no_longer_than_a_request_may(part: bytes | None) -> None:
    async with (
        raw_server(echo) as upstream,
        proxying(upstream.url, timeouts={"request_s": 0.05}) as proxy,
        proxy.connect() as client,
    ):
        if part is None:  # on a connection that was used before
            await client.ask(wire.request("/v1/models"))
        reply = await client.ask(part or b"GET")
        assert reply.error() == LATE
        assert "requestSeconds" in reply.json()["error"]["message"]
        assert await client.rest() == b""


@pytest.mark.parametrize(
    ("begin", "drop"),
    [
        (b"GET /v1/models HTTP/1.1\r\nhost: a\r\nx-long: ", b"a"),
        (b"GET /v1/models HTTP/1.1\r\n", b"x: y\r\n"),
        (b"", b"\r\n"),
        (wire.request("/v1/embeddings", None, "content-length: 9999999", method="POST"), b"a"),
        (wire.request("/v1/embeddings", b"", "transfer-encoding: chunked"), b"1\r\na\r\n"),
        (wire.request("/v1/embeddings", b"", "transfer-encoding: chunked") + b"5;a=", b"a"),
        (wire.request("/nothing", None, "content-length: 9999999", method="POST"), b"a"),
    ],
    ids=["field", "fields", "blank lines", "body", "chunks", "extension", "body that is refused"],
)
async def test_what_comes_in_drops_has_no_more_time_than_what_does_not(begin: bytes, drop: bytes) -> None:
    async with (
        raw_server(refuse_all) as upstream,
        proxying(upstream.url, timeouts={"request_s": 0.2}) as proxy,
        proxy.connect() as client,
    ):
        await client.send(begin)

        async def drip() -> None:
            while True:
                client.writer.write(drop)
                await asyncio.sleep(0.01)

        dripping = asyncio.create_task(drip())
        try:
            reply = await client.reply()
            assert reply.status == (404 if b"/nothing" in begin else 408)
            assert await client.rest() == b""
        finally:
            dripping.cancel()
        assert not upstream.connections


@asynccontextmanager
async def flooding(
    client: wire.Wire, pieces: int, piece: bytes, then: Callable[[], object]
) -> AsyncIterator[None]:
    """Send without an end: at whatever moment the connection ends, there is something unread on it."""

    async def flood() -> None:
        for number in count():
            if number == pieces:
                then()
            client.writer.write(piece)
            await client.writer.drain()

    task = asyncio.create_task(flood())
    try:
        yield
    finally:
        task.cancel()


@pytest.mark.parametrize("end", ["no chunk", "stop"])
async def test_a_client_that_sends_on_behind_its_answer_gets_an_end_and_no_reset(end: str) -> None:
    """A reset takes away what the client did not read yet."""
    async with proxying(NOBODY) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.request("/nothing", b"", "transfer-encoding: chunked"))
        assert reply.status == 404

        def act() -> None:
            if end == "stop":
                proxy.server.stop()
            else:
                client.writer.write(b"nonsense\r\n")

        async with flooding(client, 100, wire.chunk(bytes(4096)), act):
            assert await client.rest() == b""


async def test_what_comes_as_the_time_for_a_refused_body_ends_is_no_reason_for_a_reset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with proxying(NOBODY, timeouts={"request_s": 0.05}) as proxy, proxy.connect() as client:

        def time_is_over(_: float) -> RequestTimeoutError:
            client.writer.write(b"a")
            return RequestTimeoutError("late")

        monkeypatch.setattr("proxy.listener.RequestTimeoutError.after", time_is_over)
        reply = await client.ask(wire.request("/nothing", None, "content-length: 9", method="POST"))
        assert reply.status == 404
        assert await client.rest() == b""


@pytest.mark.parametrize("breaks_off", [False, True])
async def test_a_client_that_sends_too_many_requests_gets_what_there_is_and_no_reset(
    breaks_off: bool,
) -> None:
    go = asyncio.Event()

    async def script(_: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(wire.STREAM_HEAD + wire.chunk(b"1"))
        await go.wait()
        while not breaks_off:
            writer.write(wire.LAST_CHUNK)
            await read_request(reader)
            writer.write(wire.STREAM_HEAD + wire.chunk(b"1"))

    request = wire.request("/v1/embeddings", b"1")
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(request * 20)
        async with flooding(client, 100, request * 20, go.set):
            answers = await client.rest()
        assert answers.count(b"HTTP/1.1 200 OK") == (1 if breaks_off else MAX_PIPELINED + 1)
        assert answers.endswith(b"\r\n\r\n1\r\n1\r\n" + (b"" if breaks_off else wire.LAST_CHUNK))


async def test_the_rest_of_a_refused_body_is_not_waited_for_either() -> None:
    async with proxying(NOBODY, timeouts={"request_s": 0.05}) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.request("/nothing", None, "content-length: 9", method="POST"))
        assert reply.status == 404
        await client.send(b"some")
        assert await client.rest() == b""


async def test_a_connection_on_which_nothing_comes_is_closed_without_a_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert KEEP_ALIVE_S == 75
    monkeypatch.setattr("proxy.server.KEEP_ALIVE_S", 0.05)
    async with raw_server(echo) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as unused:
            assert await unused.rest() == b""
        async with proxy.connect() as used:
            assert (await used.ask(wire.request("/v1/models"))).status == 200
            assert await used.rest() == b""


async def test_trailer_fields_do_not_become_header_fields() -> None:
    async with raw_server(echo) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        head = wire.request("/v1/embeddings", b"", "transfer-encoding: chunked")
        body = b"3\r\nabc\r\n0\r\nauthorization: Bearer planted\r\nx-trailer: 1\r\n\r\n"
        reply = await client.ask(head + body)
        assert reply.body == b"abc"
        assert not {"authorization", "x-trailer"} & {*(reply.header("x-seen") or "").split(",")}


async def test_a_body_that_breaks_off_ends_its_request() -> None:
    async with raw_server(echo) as upstream:
        async with proxying(upstream.url) as proxy:
            async with proxy.connect() as client:
                await client.send(
                    wire.request("/v1/embeddings", b"", "transfer-encoding: chunked") + b"1\r\na\r\n"
                )
                assert (await client.ask(b"nonsense\r\n")).error() == MALFORMED
                assert await client.rest() == b""
            async with asyncio.timeout(WAIT_S):
                await proxy.traffic.quiet()
        assert not upstream.connections


@pytest.mark.parametrize("sends", [True, False])
async def test_a_refusal_before_the_body_was_asked_for_ends_the_connection(sends: bool) -> None:
    """The client may leave the body out, and then it would take its next request for it."""
    fields = ("expect: 100-continue", "content-length: 50")
    async with proxying(NOBODY, api_keys=("sk",)) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.request("/v1/embeddings", None, *fields, method="POST"))
        assert (reply.status, reply.header("connection")) == (401, "close")
        await client.send(b"x" * 50 if sends else wire.request("/healthz"))
        assert await client.rest() == b""


async def test_requests_at_once_are_answered_in_their_order() -> None:
    async with raw_server(echo) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        bodies = [b"%d" % number for number in range(6)]
        await client.send(b"".join(wire.request("/v1/embeddings", body) for body in bodies))
        assert [(await client.reply()).body for _ in bodies] == bodies


async def test_of_a_large_request_that_waits_little_is_held_until_it_is_its_turn() -> None:
    go = asyncio.Event()

    async def script(request: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        while True:
            await go.wait()
            writer.write(wire.answer(b"%d" % len(request.body)))
            request = await read_request(reader)

    body = bytes(24 * 2**20)
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(wire.request("/v1/embeddings", b"1"))
        await upstream.connection()
        tracemalloc.start()
        client.writer.write(wire.request("/v1/embeddings", body))
        left, still = len(body), 0
        while still < 500:  # turns of the loop in which nothing more was taken
            await asyncio.sleep(0)
            now = client.writer.transport.get_write_buffer_size()
            left, still = now, still + 1 if now == left else 0
        held_bytes = tracemalloc.get_traced_memory()[0] - len(body)  # the client holds that until all is sent
        tracemalloc.stop()
        assert left > 0
        assert held_bytes < 2**20
        go.set()
        assert [(await client.reply()).body for _ in range(2)] == [b"1", b"%d" % len(body)]


async def test_nonsense_behind_a_request_does_not_spoil_its_answer() -> None:
    async with raw_server(echo) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        assert (await client.ask(wire.request("/v1/embeddings", b"one") + b"nonsense\r\n\r\n")).body == b"one"
        assert await client.rest() == b""


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("requests", [1, 2, 4])
async def test_a_body_that_breaks_off_does_not_spoil_the_answers_before_its_own(
    requests: int, at_once: bool
) -> None:
    go = asyncio.Event()

    async def script(_: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        while True:
            writer.write(wire.STREAM_HEAD + wire.chunk(b"some"))
            await go.wait()
            writer.write(wire.chunk(b"more") + wire.LAST_CHUNK)
            await read_request(reader)

    head = wire.request("/v1/embeddings", b"", "transfer-encoding: chunked")
    pieces = [head, b"3\r\nabc\r\n", b"no length\r\n"]
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(wire.request("/v1/embeddings", b"1") * requests)
        await client.head()
        assert await client.piece() == b"some"
        for piece in [b"".join(pieces)] if at_once else pieces:
            await client.send(piece)
            async with proxy.connect() as other:
                await other.ask(wire.request("/healthz"))  # what came before it has been read by then
        go.set()
        assert [await client.piece(), await client.piece()] == [b"more", b""]
        assert [(await client.reply()).body for _ in range(requests - 1)] == [b"somemore"] * (requests - 1)
        assert (await client.reply()).error() == MALFORMED
        assert await client.rest() == b""
        await proxy.served(requests)


async def test_too_many_requests_at_once_end_the_connection() -> None:
    async with raw_server(echo) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(b"".join(wire.request("/v1/embeddings", b"%d" % number) for number in range(100)))
        answered = (await client.rest()).count(b"HTTP/1.1 200 OK")
        assert 0 < answered < 20


@pytest.mark.parametrize("behind", [1, 3, 20])
@pytest.mark.parametrize("at_once", [True, False])
async def test_a_client_that_left_frees_every_request_that_it_sent_at_once(
    behind: int, at_once: bool
) -> None:
    more = wire.request("/v1/embeddings", b"2") * behind
    async with raw_server(keep_silent) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            await client.send(wire.request("/v1/embeddings", b"1") + (more if at_once else b""))
            running = await upstream.connection()
            if not at_once:
                await client.send(more)
                async with proxy.connect() as other:
                    await other.ask(wire.request("/healthz"))  # what came before it has been read by then
        await running.wait_peer_closed()
        async with asyncio.timeout(WAIT_S):
            await proxy.traffic.quiet()
        assert len(upstream.connections) == 1
