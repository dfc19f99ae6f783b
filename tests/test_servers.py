"""The servers that other tests stand on, tested themselves."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.servers import raw_server, read_request, reset, serving

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

    from tests.servers import RawRequest

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


async def echo(scope: Any, receive: Any, send: Any) -> None:
    assert scope["type"] == "http"
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": scope["path"].encode()})


async def stall(scope: Any, receive: Any, send: Any) -> None:
    del receive
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"first", "more_body": True})
    await asyncio.Event().wait()


def test_serving_serves_and_stops() -> None:
    with serving(echo, lifespan="off") as url:
        assert httpx.get(f"{url}/here").text == "/here"
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def test_serving_passes_options_on() -> None:
    with serving(echo, lifespan="off", headers=[("x-test", "yes")]) as url:
        assert httpx.get(url).headers["x-test"] == "yes"


def test_serving_raises_what_kept_the_server_from_starting() -> None:
    with serving(echo, lifespan="off") as url:
        port = urlsplit(url).port
        with pytest.raises(SystemExit), serving(echo, lifespan="off", port=port):
            pytest.fail("the port was taken")


def test_serving_stops_in_the_middle_of_an_answer() -> None:
    # The client outlives the server: it is the server that has to let go.
    with httpx.Client() as client, contextlib.ExitStack() as stack, serving(stall, lifespan="off") as url:
        pieces = stack.enter_context(client.stream("GET", url)).iter_raw()
        assert next(pieces) == b"first"
    with pytest.raises(httpx.HTTPError):
        next(pieces)


async def connect(url: str) -> tuple[StreamReader, StreamWriter]:
    address = urlsplit(url)
    return await asyncio.open_connection(address.hostname, address.port)


async def test_the_script_sees_the_request_and_owns_the_bytes() -> None:
    async def script(request: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        del reader
        assert (request.method, request.target) == ("POST", "/a?b=c")
        assert request.header("Content-Type") == "application/json"
        assert request.header("nothing") is None
        assert request.json() == {"a": 1}
        writer.write(b"these are not the bytes of HTTP")

    async with raw_server(script) as server:
        reader, writer = await connect(server.url)
        writer.write(b"POST /a?b=c HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{")
        writer.write(b'"a": 1}')
        assert await reader.read() == b"these are not the bytes of HTTP"
        connection = await server.connection()
        await connection.wait_closed()
        assert not connection.peer_closed.is_set()
        assert server.requests == [connection.request]
        writer.close()


async def test_chunked_request_bodies_are_read() -> None:
    async def pieces() -> Any:
        yield b"one, "
        yield b"two"

    async def script(request: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        del reader
        assert request.body == b"one, two"
        writer.write(OK)

    async with raw_server(script) as server, httpx.AsyncClient() as client:
        assert (await client.post(server.url, content=pieces())).text == "ok"


async def test_a_connection_can_be_kept_alive() -> None:
    async def script(request: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        while request.target != "/last":
            writer.write(OK)
            request = await read_request(reader)
        writer.write(OK)

    async with raw_server(script) as server, httpx.AsyncClient() as client:
        for target in ("/first", "/second", "/last"):
            assert (await client.get(server.url + target)).text == "ok"
        assert len(server.connections) == 1


async def silent(request: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
    del request, writer
    await reader.read()


async def test_a_peer_that_closes_is_seen() -> None:
    async with raw_server(silent) as server:
        _, writer = await connect(server.url)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        connection = await server.connection()
        assert not connection.peer_closed.is_set()
        writer.close()
        await connection.wait_peer_closed()
        await connection.wait_closed()


async def test_a_peer_that_closes_is_seen_while_the_script_waits_for_something_else() -> None:
    async def script(request: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        del request, reader, writer
        await asyncio.Event().wait()

    async with raw_server(script) as server:
        _, writer = await connect(server.url)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        connection = await server.connection()
        reset(writer)
        await connection.wait_peer_closed()


async def test_a_peer_that_closes_before_its_request_is_complete_is_no_fault() -> None:
    async with raw_server(silent) as server:
        _, writer = await connect(server.url)
        writer.write(b"GET / HT")
        writer.close()
        connection = await server.connection()
        await connection.wait_closed()
        assert connection.request is None
        assert server.requests == []


async def test_a_reset_reaches_the_peer() -> None:
    async def script(request: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        del request, reader
        reset(writer)

    async with raw_server(script) as server:
        reader, writer = await connect(server.url)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()


async def test_connections_are_counted_as_they_come() -> None:
    async with raw_server(silent) as server:
        waiting = asyncio.ensure_future(server.connection(1))
        writers = [(await connect(server.url))[1] for _ in range(2)]
        assert await waiting is server.connections[1]
        for writer in writers:
            writer.close()


async def test_what_a_script_fails_with_fails_the_test() -> None:
    async def script(request: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        del request, reader, writer
        raise AssertionError("not what was expected")

    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012  # it is the context's end that raises
        async with raw_server(script) as server:
            reader, writer = await connect(server.url)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert await reader.read() == b""
            writer.close()
    assert caught.group_contains(AssertionError, match="not what was expected")
