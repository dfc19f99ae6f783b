"""What a worker makes of its wire to the parent, and of the wire's end."""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from proxy.server import Server
from proxy.settings import Settings
from proxy.worker import RELOAD, STOP, STOP_NOW, obey
from tests.servers import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Iterator

BODY = pickle.dumps(Settings(upstream="http://127.0.0.1:9"))
COMMAND = RELOAD + struct.pack(">I", len(BODY)) + BODY


class Told(Server):
    """A server that keeps what it is told to do."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def stop(self) -> None:
        self.told.append("stop")

    def stop_now(self) -> None:
        self.told.append("stop now")


@contextmanager
def wires() -> Iterator[tuple[socket.socket, socket.socket]]:
    parent, inner = socket.socketpair()
    inner.setblocking(False)
    with parent, inner:
        yield parent, inner


async def hear(said: bytes, *, is_reset: bool = False) -> tuple[list[str], list[Settings]]:
    """Obey a parent that says this and is gone."""
    server, read = Told(), list[Settings]()
    with wires() as (parent, inner):
        if is_reset:
            inner.send(b"x")  # what the parent has not read when it ends makes the end a reset
        parent.sendall(said)
        parent.close()
        async with asyncio.timeout(WAIT_S):
            await obey(inner, server, read.append)
    return server.told, read


async def test_commands_are_carried_out_and_the_end_of_the_wire_is_one() -> None:
    told, read = await hear(COMMAND + STOP + COMMAND + STOP_NOW)
    assert told == ["stop", "stop now", "stop"]
    assert read == [pickle.loads(BODY)] * 2  # noqa: S301 - written above


@pytest.mark.parametrize("is_reset", [False, True])
@pytest.mark.parametrize("length", [0, 1, 3, 5, 6, len(COMMAND) - 1])
async def test_a_worker_stops_wherever_in_a_command_its_parent_was_killed(
    length: int, is_reset: bool
) -> None:
    assert await hear(COMMAND[:length], is_reset=is_reset) == (["stop"], [])


async def test_a_worker_that_cannot_read_a_command_does_not_go_on_unled() -> None:
    server = Told()
    with wires() as (parent, inner):
        parent.sendall(RELOAD + struct.pack(">I", 1) + b"?")
        with pytest.raises(pickle.UnpicklingError):
            await obey(inner, server, print)
    assert server.told == ["stop"]
