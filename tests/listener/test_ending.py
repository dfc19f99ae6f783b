"""How a connection ends: what was written reaches a client that reads, and one that does not is left."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from proxy.app import App
from proxy.delivery import count_unsent
from proxy.listener import LINGER_S, ClientConnection
from proxy.server import KEEP_ALIVE_S
from proxy.settings import Settings
from proxy.traffic import Traffic
from tests.servers import HOST, WAIT_S, raw_server
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying
from tests.transport.scripts import flood, keep_silent, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.transport.proxying import Proxy

SMALL = wire.answer(b"a" * 400_000)
"""More than the kernel of such a client takes, and less than both kernels do."""

LARGE = wire.answer(wire.whole("<think>b</think>" + "a" * 16_000_000))
"""More than they do. It is rewritten, and so written at once."""

NARROW = 4096
"""Bytes that a client's kernel keeps for it, twice."""


@contextmanager
def narrow(proxy: Proxy) -> Iterator[socket.socket]:
    """Open the socket of a client that takes little at a time."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW)
        sock.connect((HOST, proxy.port))
        sock.setblocking(False)
        yield sock


async def nothing_open(proxy: Proxy) -> None:
    """Wait until the proxy has no client."""
    async with asyncio.timeout(WAIT_S):
        while proxy.traffic.connections:
            proxy.traffic.lost.clear()
            await proxy.traffic.lost.wait()


async def port_closed(proxy: Proxy) -> None:
    """Wait until the proxy stops taking connections: those without a request are told at the same time."""
    async with asyncio.timeout(WAIT_S):
        with suppress(ConnectionError):
            while True:
                async with proxy.connect() as client:
                    await client.reader.read()


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server((HOST, 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW)
        near = socket.create_connection(server.getsockname())
        return near, server.accept()[0]


NOBODY = "http://127.0.0.1:9"

ASK_NOTHING = wire.request("/nothing")


def ask(answer: bytes, *fields: str) -> bytes:
    return wire.chat(LISTED if answer is LARGE else PLAIN, *fields)


def http10(answer: bytes) -> bytes:
    return ask(answer).replace(b"HTTP/1.1", b"HTTP/1.0")


def last(answer: bytes) -> bytes:
    return ask(answer, "connection: close")


@pytest.mark.parametrize("answer", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize(
    ("make", "stops", "behind"),
    [
        (last, False, lambda _: b"\r\n"),
        (last, False, ask),
        (http10, False, http10),
        (ask, True, ask),
        (ask, True, lambda _: b"nonsense\r\n\r\n"),
    ],
    ids=["last, a line", "last, a request", "HTTP/1.0", "stop, a request", "stop, nonsense"],
)
async def test_an_answer_on_its_way_is_not_reset_by_what_the_client_sends_behind_it(
    make: Callable[[bytes], bytes], stops: bool, behind: Callable[[bytes], bytes], answer: bytes
) -> None:
    async with raw_server(serve(answer)) as upstream, proxying(upstream.url) as proxy:
        with narrow(proxy) as sock:
            client = wire.Wire(*await asyncio.open_connection(sock=sock, limit=NARROW))
            try:
                await client.send(make(answer))
                head = await client.head()
                await proxy.served(1)
                if stops:
                    proxy.server.stop()
                    await port_closed(proxy)
                await client.send(behind(answer))
                body = await client.rest()
            finally:
                client.abort()
        assert len(body) == int(head.header("content-length") or 0) >= len(answer) - 200
        await nothing_open(proxy)


@pytest.mark.parametrize("end", ["keeps", "is the last", "half-closed"])
async def test_a_client_that_never_reads_its_answer_is_left(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr("proxy.server.KEEP_ALIVE_S", 0.05)
    monkeypatch.setattr("proxy.listener.LINGER_S", 0.05)
    async with raw_server(serve(LARGE)) as upstream, proxying(upstream.url) as proxy:
        with narrow(proxy) as sock:
            sock.send(last(LARGE) if end == "is the last" else ask(LARGE))
            await proxy.served(1)
            if end == "half-closed":
                sock.shutdown(socket.SHUT_WR)
            await nothing_open(proxy)


@pytest.mark.parametrize("behind", [b"", ASK_NOTHING], ids=["alone", "a request behind it"])
@pytest.mark.parametrize("kind", ["stream", "split stream", "whole"])
async def test_a_client_that_takes_nothing_in_the_middle_of_an_answer_is_left(
    monkeypatch: pytest.MonkeyPatch, kind: str, behind: bytes
) -> None:
    """Its request would keep the model server busy for ever."""
    monkeypatch.setattr("proxy.delivery.STALL_S", 0.05)

    script = serve(LARGE) if kind == "whole" else flood
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy:
        with narrow(proxy) as sock:
            sock.send(wire.chat(PLAIN if kind == "stream" else LISTED, stream=kind != "whole") + behind)
            await proxy.begun(1)
            await nothing_open(proxy)
        if kind != "whole":  # the connection of a request that was answered is kept
            await (await upstream.connection()).wait_peer_closed()
        await proxy.settled()


async def test_a_client_that_takes_little_by_little_is_not_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.delivery.STALL_S", 0.001)
    unsent = iter(range(1000, 0, -1))
    monkeypatch.setattr("proxy.delivery.count_unsent", lambda _: next(unsent))
    async with (
        raw_server(serve(LARGE)) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(ask(LARGE))
        assert len(reply.body) > 10_000_000


async def test_what_still_waited_for_a_client_when_the_proxy_stops_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "think_proxy")
    async with raw_server(serve(LARGE)) as upstream, proxying(upstream.url, drain_s=0.01) as proxy:
        with narrow(proxy) as sock:
            sock.send(ask(LARGE) + ASK_NOTHING)
            await proxy.begun(2)
            proxy.server.stop()
            await proxy.ended()
    fields = [it.fields for it in caplog.records if it.message == "request"]
    assert [(it["path"], it["status"]) for it in fields] == [
        ("/v1/chat/completions", 200),
        ("(refused)", 404),
    ]


async def test_each_head_has_its_own_time() -> None:
    traffic = Traffic(Settings())
    connection = ClientConnection(App(Settings(upstream=NOBODY)), traffic, 60)
    connection.connection_made(Line([]))
    half = wire.request("/nothing")[:-10]
    connection.data_received(half)
    first = connection._deadline  # noqa: SLF001 - in the event loop's time nothing can be told apart
    assert first is not None
    connection.data_received(wire.request("/nothing")[-10:] + half)
    second = connection._deadline  # noqa: SLF001
    assert first.cancelled()
    assert second is not None
    assert second.when() >= first.when()
    connection.connection_lost(ConnectionAbortedError())
    assert second.cancelled()
    await asyncio.wait(traffic.tasks)


class Line(asyncio.Transport):
    """A connection whose client takes what it is said to take."""

    def __init__(self, unsent: list[int]) -> None:
        super().__init__()
        self._unsent = iter(unsent)
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def get_write_buffer_size(self) -> int:
        return next(self._unsent)

    def is_closing(self) -> bool:
        return False

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        pass

    def close(self) -> None:
        self.end("close")

    def abort(self) -> None:
        self.end("abort")

    def end(self, how: str) -> None:
        if not self.ended.done():
            self.ended.set_result(how)


@pytest.mark.parametrize(
    ("unsent", "end"),
    [
        *(([9, 8, 8], "abort"), ([9, 8, 7, 0, 0], "close"), ([0], "close"), ([5, 5], "abort")),
        *(([5, 0, 0], "close"), ([5, 0, 4, 4], "abort")),
    ],
)
async def test_a_client_that_reads_has_all_the_time_it_needs(unsent: list[int], end: str) -> None:
    assert KEEP_ALIVE_S > LINGER_S > 1
    line = Line(unsent)
    connection = ClientConnection(App(Settings(upstream=NOBODY)), Traffic(Settings()), 0.001)
    connection.connection_made(line)
    async with asyncio.timeout(WAIT_S):
        assert await line.ended == end
    connection.connection_lost(None if end == "close" else ConnectionAbortedError())


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX])
async def test_what_the_kernel_holds_is_not_sent_yet(family: socket.AddressFamily) -> None:
    near, far = socket.socketpair() if family == socket.AF_UNIX else tcp_pair()
    with far:
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=near)
        try:
            assert count_unsent(transport) == 0
            with suppress(BlockingIOError):
                while True:  # past the transport, and far more than the other end's kernel takes
                    os.write(near.fileno(), bytes(NARROW))
            assert count_unsent(transport) > transport.get_write_buffer_size() == 0
        finally:
            transport.abort()


async def test_a_body_that_breaks_off_is_refused_once_and_its_client_has_not_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "think_proxy")
    async with (
        raw_server(keep_silent) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        head = wire.request("/v1/embeddings", b"", "transfer-encoding: chunked", "x-request-id: mine")
        await client.send(head + b"3\r\nabc\r\n")
        await proxy.begun(1)
        reply = await client.ask(b"no length\r\n")
        assert reply.error() == (400, "proxy_request_error", "malformed_request")
        assert (reply.header("x-request-id"), reply.header("connection")) == ("mine", "close")
        assert await client.rest() == b""
        await proxy.served(1)
        assert not upstream.connections
    (fields,) = [it.fields for it in caplog.records if it.message == "request"]
    assert (fields["path"], fields["outcome"], fields["status"]) == ("/v1/embeddings", "refused", 400)
    assert fields["request_id"] == "mine"
