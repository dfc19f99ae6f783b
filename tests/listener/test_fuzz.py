"""Whatever comes over the wire, the proxy answers or closes, and is there for the next one."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import uvloop
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from proxy.app import App
from proxy.endpoint import Endpoint
from proxy.server import Server
from proxy.settings import Listen
from tests.examples import up_to
from tests.servers import HOST, WAIT_S
from tests.transport import wire
from tests.transport.proxying import LISTED, settings_for

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_HEADER_BYTES = 2_000


async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every connection once, without a look at what comes."""
    await reader.read(1)
    writer.write(wire.answer(wire.whole("<think>why</think>so"), "connection: close"))
    await writer.drain()
    await reader.read(2**20)
    writer.close()


@contextmanager
def running() -> Iterator[int]:
    """Run the proxy, and a model server, in a loop of their own; yields the port."""
    endpoint = Endpoint(Listen(port=0))
    ready: list[tuple[asyncio.AbstractEventLoop, Server]] = []
    is_ready = threading.Event()

    async def main() -> None:
        model = await asyncio.start_server(upstream, HOST, 0)
        url = f"http://{HOST}:{model.sockets[0].getsockname()[1]}"
        values = settings_for(url, max_header_bytes=MAX_HEADER_BYTES, timeouts={"request_s": 0.2})
        app = App(values)
        server = Server(app, endpoint.sockets, values, app)
        ready.append((asyncio.get_running_loop(), server))
        await server.run(is_ready.set)
        model.close()

    def run() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())

    thread = threading.Thread(target=run)
    thread.start()
    assert is_ready.wait(WAIT_S)
    try:
        yield int(endpoint.url.rpartition(":")[2])
    finally:
        for loop, server in ready:
            loop.call_soon_threadsafe(server.stop_now)
        thread.join(WAIT_S)
        endpoint.close()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with running() as made:
        yield made


def talk(port: int, pieces: list[bytes], *, ends: bool) -> bytes:
    """Send pieces, then perhaps the end, and return all that comes until the proxy closes."""
    with socket.create_connection((HOST, port), timeout=WAIT_S) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answer = b""
        try:
            for piece in pieces:
                client.sendall(piece)
            if ends:
                client.shutdown(socket.SHUT_WR)
            while more := client.recv(65_536):
                answer += more
        except TimeoutError:
            raise
        except OSError:
            pass  # closed all the same, while this side was still sending
        return answer


def check(answer: bytes) -> None:
    """Check that only whole heads came, and no fault of the proxy's own."""
    if answer:
        assert answer.startswith(b"HTTP/1.1 ")
    assert b"HTTP/1.1 500" not in answer
    assert b"internal_error" not in answer
    assert b"Internal Server Error" not in answer


METHODS = st.sampled_from(
    [b"GET", b"POST", b"HEAD", b"OPTIONS", b"PUT", b"CONNECT", b"TRACE", b"get", b"PRI"]
)
TARGETS = st.one_of(
    st.sampled_from(
        [
            b"/v1/chat/completions",
            b"/v1/models",
            b"/readyz",
            b"/v1/embeddings",
            b"*",
            b"",
            b"//",
            b"/%",
            b"/%00",
        ]
    ),
    st.binary(max_size=30),
    st.builds(lambda size: b"/v1/models?" + b"a" * size, st.integers(0, 2 * MAX_HEADER_BYTES)),
)
VERSIONS = st.sampled_from([b"HTTP/1.1", b"HTTP/1.0", b"HTTP/0.9", b"HTTP/2.0", b"HTTP/9", b"RTSP/1.0", b""])
FIELDS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"host: a",
                b"content-length: 5",
                b"content-length: 99999999999999999999",
                b"content-length: -1",
                b"Content-Length: 3",
                b"transfer-encoding: chunked",
                b"transfer-encoding: chunked, gzip",
                b"transfer-encoding: identity",
                b"connection: upgrade",
                b"connection: close",
                b"connection: keep-alive, content-length",
                b"upgrade: websocket",
                b"upgrade: h2c",
                b"expect: 100-continue",
                b"expect: more",
                b"content-type: application/json",
                b"content-encoding: gzip",
                b"accept-encoding: br",
                b"authorization: \xff",
                b"x-request-id: a b",
                b"origin: https://a.test",
                b": empty",
                b"no colon",
                b" folded",
            ]
        ),
        st.binary(max_size=40),
        st.builds(lambda size: b"x-long: " + b"a" * size, st.integers(0, 2 * MAX_HEADER_BYTES)),
    ),
    max_size=6,
)
BODIES = st.one_of(
    st.just(b""),
    st.sampled_from(
        [
            b"5\r\nhello\r\n0\r\n\r\n",
            b"5;a=b\r\nhello\r\n0\r\nx-trailer: 1\r\n\r\n",
            b"ffffffffffffffffff\r\n",
            b"-5\r\nhello",
            b"hello",
            b'{"model": "' + LISTED.encode() + b'", "messages": [], "stream": true}',
            b"[" * 5_000,
            b'{"model": 5}',
            b'{"model": "\xff"}',
        ]
    ),
    st.binary(max_size=200),
)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Draw something that looks like a request, more or less."""
    line = b" ".join([draw(METHODS), draw(TARGETS), draw(VERSIONS)])
    end = draw(st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r"]))
    host = draw(st.sampled_from([[b"host: a"], [b"host: a"], [b"host: a"], []]))
    return end.join([line, *host, *draw(FIELDS), b"", b""]) + draw(BODIES)


@st.composite
def conversations(draw: st.DrawFn) -> list[bytes]:
    """Draw what one client sends, cut somewhere."""
    raw = b"".join(draw(st.lists(st.one_of(requests(), requests(), st.binary(max_size=60)), max_size=4)))
    cuts = sorted(draw(st.lists(st.integers(0, len(raw)), max_size=4)))
    return [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]


@settings(max_examples=up_to(150), suppress_health_check=list(HealthCheck))
@given(conversations())
@example([b"GET / HTTP/1.1\r\n"])
@example(
    [
        b"POST /v1/embeddings HTTP/1.1\r\nhost: a\r\nupgrade: h2c\r\n",
        b"connection: upgrade\r\ncontent-length: 5\r\n\r\n",
        b"he",
    ]
)
@example([wire.request("/v1/models") * 40])
@example([b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"])
@example([b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])  # TLS
def test_a_client_that_ends_its_side(port: int, pieces: list[bytes]) -> None:
    check(talk(port, pieces, ends=True))
    assert talk(port, [wire.request("/healthz", None, "connection: close")], ends=False).startswith(
        b"HTTP/1.1 200"
    )


@settings(max_examples=up_to(60), suppress_health_check=list(HealthCheck))
@given(requests())
@example(b"GET /v1/models HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
@example(b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\nconnection: close\r\n\r\n")
def test_a_client_that_waits(port: int, raw: bytes) -> None:
    """It is told to go within the time that a request may take, a kept connection by one more request."""
    check(talk(port, [raw, wire.request("/healthz", None, "connection: close")], ends=False))
