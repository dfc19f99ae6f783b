"""A process of several, as the one that started it sees it, and the wire between the two.

The parent writes commands: one byte, and for `RELOAD` the new settings behind it. The worker writes one
byte when it serves. When the parent is gone, however it ended, the wire ends, and the worker stops.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from proxy.telemetry import LOGGER, describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.server import Server
    from proxy.settings import Settings

STOP, STOP_NOW, RELOAD, READY = b"s", b"n", b"r", b"+"

_LENGTH = struct.Struct(">I")
_SEND_S = 5.0
"""Seconds after which a worker that reads no command counts as stuck."""


class Worker:
    """A child process that serves."""

    def __init__(self, number: int, serve: Callable[[int, socket.socket], None]) -> None:
        """Start it: `serve` runs in the child, with its end of the wire, and the child ends with it.

        No other worker that runs has the number.
        """
        self.number = number
        self.wire, inner = socket.socketpair()
        self.began_s = time.monotonic()
        self.is_ready = False
        self.pid = os.fork()
        if self.pid == 0:
            self.wire.close()
            _run_child(partial(serve, number), inner)
        inner.close()
        self.wire.settimeout(_SEND_S)

    def tell(self, command: bytes, settings: Settings | None = None) -> None:
        """Send a command. A worker that does not take it is killed, and so will be replaced."""
        body = b"" if settings is None else pickle.dumps(settings)
        try:
            self.wire.sendall(command + (_LENGTH.pack(len(body)) + body if body else b""))
        except TimeoutError:
            LOGGER.error("a worker is stuck", extra={"fields": {"pid": self.pid}})
            self.kill()
        except OSError:
            pass  # it has just ended

    def take_note(self) -> None:
        """Read what it said, if it says anything more."""
        with suppress(OSError):
            self.is_ready |= self.wire.recv(1) == READY

    def kill(self) -> None:
        """End it at once."""
        os.kill(self.pid, signal.SIGKILL)

    def find_end(self) -> int | None:
        """Return its exit code once it has ended, negative for a signal, as `subprocess` has it."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return None
        self.wire.close()
        return os.waitstatus_to_exitcode(status)


def _run_child(serve: Callable[[socket.socket], None], wire: socket.socket) -> None:
    """Serve, and end the process without what the parent would do at its own end."""
    code = 1
    try:
        serve(wire)
        code = 0
    except BaseException as fault:  # noqa: BLE001 - this is the outermost frame of the process
        LOGGER.error("a worker failed: %s", describe(fault))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


async def obey(wire: socket.socket, server: Server, reload: Callable[[Settings], object]) -> None:
    """Carry out the commands of the parent; with its end, stop, be it in the middle of a command."""
    reader, writer = await asyncio.open_unix_connection(sock=wire)
    try:
        while command := await reader.read(1):
            if command == STOP:
                server.stop()
            elif command == STOP_NOW:
                server.stop_now()
            elif command == RELOAD:
                (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                reload(pickle.loads(await reader.readexactly(length)))  # noqa: S301 - our own parent wrote it
    except (asyncio.IncompleteReadError, OSError):
        pass  # it was killed
    finally:
        writer.close()
        server.stop()
