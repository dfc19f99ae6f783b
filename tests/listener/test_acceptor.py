"""How connections are taken: many in one turn of the loop, whichever loop that is."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from proxy.acceptor import MOST_PER_TURN, PAUSE_S, Acceptor
from tests.servers import HOST, WAIT_S
from tests.transport import wire
from tests.transport.proxying import proxying

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TURNS = 12
"""Turns in which any connection that was taken meets its protocol."""

Made = list[asyncio.BaseTransport]


class Protocol(asyncio.Protocol):
    def __init__(self, made: Made) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.append(transport)


def listen(kind: type[socket.socket] = socket.socket) -> socket.socket:
    sock = kind(socket.AF_INET, socket.SOCK_STREAM)
    sock.bind((HOST, 0))
    sock.listen(128)
    sock.setblocking(False)
    return sock


@contextmanager
def waiting(address: Any, count: int, family: int = socket.AF_INET) -> Iterator[list[socket.socket]]:
    """Let so many connections wait in the queue of a socket."""
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.socket(family, socket.SOCK_STREAM)) for _ in range(count)]
        for client in clients:
            client.settimeout(WAIT_S)
            client.connect(address)
        yield clients


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


on_both_loops = pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop])


@on_both_loops
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX])
def test_many_are_taken_in_one_turn_and_not_all(
    loop: Callable[[], asyncio.AbstractEventLoop], family: int, tmp_path: Path
) -> None:
    async def main() -> None:
        made: Made = []
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.bind((HOST, 0) if family == socket.AF_INET else os.fspath(tmp_path / "a.sock"))
        sock.listen(128)
        sock.setblocking(False)
        with waiting(sock.getsockname(), 4 * MOST_PER_TURN, family):
            acceptor = Acceptor(sock, lambda: Protocol(made))
            steps = [0]
            while len(made) < 4 * MOST_PER_TURN:
                await asyncio.sleep(0)
                steps.append(len(made))
                assert len(steps) < 4 + TURNS
            assert max(after - before for before, after in pairwise(steps)) == MOST_PER_TURN
            await acceptor.close()
            for transport in made:
                transport.close()
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


async def test_new_clients_of_the_proxy_do_not_wait_for_a_turn_each() -> None:
    async with proxying("http://127.0.0.1:9") as proxy:
        with waiting((HOST, proxy.port), 4 * MOST_PER_TURN) as clients:
            await turns(4 + TURNS)
            assert len(proxy.traffic.connections) == 4 * MOST_PER_TURN
            clients[-1].sendall(wire.request("/healthz", None, "connection: close"))
            reader, writer = await asyncio.open_connection(sock=clients[-1].dup())
            assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
            writer.close()


@on_both_loops
@pytest.mark.parametrize("after", range(6))
def test_what_was_taken_when_it_closes_has_met_its_protocol(
    loop: Callable[[], asyncio.AbstractEventLoop], after: int
) -> None:
    async def main() -> None:
        made: Made = []
        sock = listen()
        with waiting(sock.getsockname(), 2 * MOST_PER_TURN):
            acceptor = Acceptor(sock, lambda: Protocol(made))
            await turns(after)
            await acceptor.close()
            assert sock.fileno() == -1
            met = len(made)
            await turns(TURNS)
            assert len(made) == met
            assert met in (0, MOST_PER_TURN, 2 * MOST_PER_TURN)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            for transport in made:
                transport.close()
            await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


async def test_a_connection_that_broke_in_the_queue_costs_no_other() -> None:
    faults = [OSError(errno.ECONNABORTED, "gone"), OSError(errno.EPROTO, "no")]

    class Flaky(socket.socket):
        def accept(self) -> Any:
            if faults:
                raise faults.pop()
            return super().accept()

    made: Made = []
    sock = listen(Flaky)
    with waiting(sock.getsockname(), 3):
        acceptor = Acceptor(sock, lambda: Protocol(made))
        await turns(TURNS)
        assert len(made) == 3
        await acceptor.close()
        for transport in made:
            transport.close()


async def test_without_a_file_to_spare_clients_wait_and_the_log_says_why(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert PAUSE_S == 1
    monkeypatch.setattr("proxy.acceptor.PAUSE_S", 0.01)
    async with proxying("http://127.0.0.1:9") as proxy, proxy.connect() as other:
        assert (await other.ask(wire.request("/healthz"))).status == 200
        with waiting((HOST, proxy.port), 1) as (client,):
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, hard))
            spare = []
            try:
                while True:  # whatever number below the limit is free
                    spare.append(os.dup(client.fileno()))
            except OSError:
                pass
            try:
                async with asyncio.timeout(WAIT_S):
                    while "no connection can be taken" not in caplog.text:  # noqa: ASYNC110 - nothing else tells
                        await asyncio.sleep(0)
                # Those that are here are served on.
                assert (await other.ask(wire.request("/healthz"))).status == 200
                assert len(proxy.traffic.connections) == 1
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                for number in spare:
                    os.close(number)
            reader, writer = await asyncio.open_connection(sock=client.dup())
            writer.write(wire.request("/healthz", None, "connection: close"))
            async with asyncio.timeout(WAIT_S):
                assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
            writer.close()
