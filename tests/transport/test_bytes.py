"""What goes through unchanged is compared byte by byte, on both sides of the proxy."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.servers import raw_server, read_request
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

    from tests.servers import RawRequest, Script

ODD_BODY = (
    b'{"model": "plain",\n "messages":[{"role":"user","content":"\\u00e9 \xc3\xa9"}], "x": 1e400,'
    b' "seed": 123456789012345678901234567890, "model":"plain" }\r\n'
)
"""A body that no JSON library would write again as it is."""

RECORDINGS = sorted(Path(__file__).parent.parent.joinpath("recordings").glob("*/*.stream.sse"))


def serve(*parts: bytes) -> Script:
    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()

    return script


async def test_an_unlisted_request_arrives_as_it_was_sent() -> None:
    async with raw_server(serve(wire.answer(b"{}"))) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            await client.ask(wire.request("/v1/chat/completions?a=%41&b", ODD_BODY, "X-Odd: \xe9 x"))
        (seen,) = upstream.requests
    assert seen.body == ODD_BODY
    assert seen.target == "/v1/chat/completions?a=%41&b"
    assert seen.header("x-odd") == "\xe9 x"


async def test_a_listed_request_that_needs_no_change_arrives_as_it_was_sent() -> None:
    body = ODD_BODY.replace(b"plain", b"listed")
    async with raw_server(serve(wire.answer(b"{}"))) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            await client.ask(wire.request("/v1/chat/completions", body))
        assert upstream.requests[0].body == body


async def test_a_request_in_chunks_arrives_whole_and_with_a_length() -> None:
    body = b'{"model":"plain"}'
    chunks = b"".join(wire.chunk(body[i : i + 3]) for i in range(0, len(body), 3)) + wire.LAST_CHUNK
    async with raw_server(serve(wire.answer(b"{}"))) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            await client.ask(wire.request("/v1/chat/completions", chunks, "transfer-encoding: chunked"))
        (seen,) = upstream.requests
    assert seen.body == body
    assert seen.header("content-length") == str(len(body))
    assert seen.header("transfer-encoding") is None


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.name}")
async def test_an_unlisted_stream_passes_byte_by_byte(recording: Path) -> None:
    body = recording.read_bytes()  # noqa: ASYNC240 - nobody waits meanwhile
    parts = [wire.chunk(body[i : i + 777]) for i in range(0, len(body), 777)]
    script = serve(wire.STREAM_HEAD, *parts, wire.LAST_CHUNK)
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.chat(PLAIN, stream=True))
    assert reply.body == body
    assert reply.header("content-type") == "text/event-stream; charset=utf-8"


ODD_ANSWERS = [
    b"",
    b"\x00\xff not text \r\n\r\n0\r\n\r\n",
    b'{"choices": [ {"message": {"content": "<think>a</think>b"}} ], "n": NaN}',
    b"data: \xe2\x80\xa8\r\rdata: x\n",
]


@pytest.mark.parametrize("body", ODD_ANSWERS)
@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream", "text/html", None])
async def test_an_unlisted_answer_passes_byte_by_byte(body: bytes, content_type: str | None) -> None:
    script = serve(wire.answer(body, "x-own:", "X-Own: \xff", content_type=content_type))
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.chat(PLAIN))
    assert reply.body == body
    assert reply.header("content-type") == content_type
    assert [value for name, value in reply.headers if name == "x-own"] == ["", "\xff"]


@pytest.mark.parametrize(
    "body", [b"[1, 2]", b"not json", b'{"choices": [{"index": 0, "message": {"content": "a" }} ] }', b""]
)
async def test_a_listed_answer_that_needs_no_change_passes_byte_by_byte(body: bytes) -> None:
    async with (
        raw_server(serve(wire.answer(body))) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(wire.chat(LISTED))
    assert reply.body == body


async def test_a_listed_stream_is_rewritten_whatever_its_framing() -> None:
    body = wire.event("<think>a</think>b") + wire.event("", "stop") + wire.DONE
    head = b"HTTP/1.1 200 OK\r\nContent-Type: TEXT/Event-Stream\r\n"
    framings = [
        serve(wire.STREAM_HEAD, wire.chunk(body), wire.LAST_CHUNK),
        serve(head + b"content-length: %d\r\n\r\n" % len(body), body),
        serve(head + b"connection: close\r\n\r\n", body),
    ]
    for script in framings:
        async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
            reply = await client.ask(wire.chat(LISTED, stream=True))
        *made, last = wire.events(reply.body)
        assert wire.texts(made) == ("a", "b")
        assert last == "[DONE]"
        assert reply.header("content-length") is None


async def test_a_listed_whole_answer_is_rewritten() -> None:
    async with (
        raw_server(serve(wire.answer(wire.whole("<think>a</think>b"), 'etag: "1"'))) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(wire.chat(LISTED))
    message = reply.json()["choices"][0]["message"]
    assert message == {"role": "assistant", "reasoning_content": "a", "content": "b"}
    assert reply.header("etag") is None


@pytest.mark.parametrize("model", [LISTED, PLAIN])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/chat/%63ompletions"])
async def test_each_event_reaches_the_client_before_the_next_is_sent(model: str, path: str) -> None:
    go = asyncio.Event()
    words = [f"w{number} " for number in range(20)]

    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        writer.write(wire.STREAM_HEAD)
        for word in ["<think>", *words]:
            writer.write(wire.chunk(wire.event(word)))
            if word in words:
                await go.wait()
                go.clear()
        writer.write(wire.chunk(wire.event("", "stop") + wire.DONE) + wire.LAST_CHUNK)

    body = json.dumps({"model": model, "stream": True}).encode()
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(wire.request(path, body))
        await client.head()
        for word in words:
            while word not in "".join(wire.texts(wire.events(await client.piece()))):
                pass
            go.set()
        while await client.piece():
            pass


async def test_bytes_of_an_event_pass_an_unlisted_stream_as_they_come() -> None:
    go = asyncio.Event()
    parts = [b"da", b"ta: x", b"\n", b"\n"]

    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        writer.write(wire.STREAM_HEAD)
        for part in parts:
            writer.write(wire.chunk(part))
            await go.wait()
            go.clear()
        writer.write(wire.LAST_CHUNK)

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(wire.chat(PLAIN, stream=True))
        await client.head()
        for part in parts:
            assert await client.piece() == part
            go.set()
        assert await client.piece() == b""


async def test_a_body_of_20_mib_passes_both_ways() -> None:
    text = "x" * (20 * 1024 * 1024)
    body = json.dumps({"model": PLAIN, "messages": [{"role": "user", "content": text}]}).encode()

    async def script(request: RawRequest, _: StreamReader, writer: StreamWriter) -> None:
        writer.write(wire.answer(request.body))

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.request("/v1/chat/completions", body))
        assert upstream.requests[0].body == body
    assert reply.body == body


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_an_answer_without_a_body_leaves_the_connection_usable(status: str) -> None:
    async def script(_: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status}\r\netag: 1\r\ncontent-length: 5\r\n\r\n".encode())
        await read_request(reader)
        writer.write(wire.answer(b"second"))

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        first = await client.ask(wire.request("/v1/models"))
        second = await client.ask(wire.request("/v1/models"))
        assert len(upstream.connections) == 1
    assert (first.status, first.header("etag")) == (int(status[:3]), "1")
    assert second.body == b"second"


async def test_head_passes_with_its_length_and_no_body() -> None:
    # A server that sends a body all the same must not have it taken for the next answer.
    script = serve(wire.answer(b"uncalled for"))
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        for _ in range(2):
            reply = await client.ask(wire.request("/v1/models", method="HEAD"))
            assert (reply.status, reply.header("content-length")) == (200, "12")
        assert [seen.method for seen in upstream.requests] == ["HEAD", "HEAD"]


async def test_informational_answers_are_skipped() -> None:
    hints = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\ncontent-length: 3\r\n\r\n"
    )
    script = serve(hints, wire.answer(b"{}"))
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.request("/v1/models"))
    assert (reply.status, reply.body, reply.header("link")) == (200, b"{}", None)


async def test_a_body_ended_by_the_connection_passes() -> None:
    script = serve(b"HTTP/1.0 200 OK\r\n\r\n", b"first ", b"second")
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.request("/v1/models"))
    assert reply.body == b"first second"


async def test_trailer_fields_are_dropped() -> None:
    tail = b"0\r\nset-cookie: a=b\r\nx-late: 1\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    script = serve(head, wire.chunk(wire.whole("<think>a</think>b")), tail)
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.chat(LISTED))
    assert reply.json()["choices"][0]["message"]["content"] == "b"
    assert reply.header("x-late") is None
    assert reply.header("set-cookie") is None
