"""Real servers on loopback for tests: any ASGI application under uvicorn, and one that speaks raw bytes.

`serving` runs an application the way it runs in production, in a thread with an event loop of its own.
`raw_server` runs in the test's own event loop and leaves every byte to the test: it plays upstreams
that misbehave. Both take a free port, and waiting is always for an event, bounded by `WAIT_S`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

HOST = "127.0.0.1"

WAIT_S = 30.0
"""Seconds after which a wait fails: far beyond any that succeeds, so it never decides a test."""


@contextmanager
def serving(app: Any, **uvicorn_options: Any) -> Iterator[str]:
    """Run the ASGI application `app` under uvicorn and yield its base URL, without a trailing slash.

    `uvicorn_options` are those of `uvicorn.Config` and win over the defaults here. Answers still under
    way at the end get a second, then they are cancelled. Raises what kept the server from starting,
    or what it died of, and `TimeoutError` if it does not start or stop in time.
    """
    defaults: dict[str, Any] = {
        "host": HOST,
        "port": 0,
        "ws": "none",
        "access_log": False,
        "log_config": None,
        "timeout_graceful_shutdown": 1,
    }
    ready: Future[str] = Future()
    over: Future[None] = Future()
    server = _ReadyServer(uvicorn.Config(app, **(defaults | uvicorn_options)), ready)

    def run() -> None:
        try:
            server.run()
        except BaseException as exc:  # noqa: BLE001  # a thread has no caller: it is raised in the test
            (over if ready.done() else ready).set_exception(exc)
        else:
            over.set_result(None)

    thread = threading.Thread(target=run, name="serving", daemon=True)
    thread.start()
    base_url = ready.result(WAIT_S)
    try:
        yield base_url
    finally:
        server.should_exit = True
        over.result(WAIT_S)
        thread.join(WAIT_S)


class _ReadyServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Future[str]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        self._ready.set_result(f"http://{host}:{port}")


@dataclass(frozen=True, slots=True)
class RawRequest:
    """A request as it was read off the wire; header names are in lower case, in their order."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """Return the first value of the header `name`, if there is one."""
        return next((value for key, value in self.headers if key == name.lower()), None)

    def json(self) -> Any:
        """Return the body read as JSON."""
        return json.loads(self.body)


async def read_request(reader: asyncio.StreamReader) -> RawRequest:
    """Read one request, its body framed by a length or in chunks.

    Raises `asyncio.IncompleteReadError` if the peer closes before its end.
    """
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head[:-4].split("\r\n")
    method, target, _ = first.split(" ")
    pairs = (line.partition(":") for line in lines)
    headers = tuple((name.lower(), value.strip()) for name, _, value in pairs)
    if dict(headers).get("transfer-encoding") == "chunked":
        body = await _read_chunks(reader)
    else:
        body = await reader.readexactly(int(dict(headers).get("content-length", "0")))
    return RawRequest(method, target, headers, body)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readuntil(b"\r\n")
    return body


def read_buffers_bytes() -> int:
    """Return what the kernel buffers at most on a connection, at both its ends (Linux, tcp(7))."""
    folder, bytes_ = Path("/proc/sys/net/ipv4"), {"tcp_rmem": 6 << 20, "tcp_wmem": 4 << 20}
    for name in bytes_:
        if (folder / name).exists():
            bytes_[name] = int((folder / name).read_text().split()[-1])
    return sum(bytes_.values())


def reset(writer: asyncio.StreamWriter) -> None:
    """Break the connection off with a TCP reset, dropping what was not sent yet."""
    sock: socket.socket = writer.get_extra_info("socket")
    # Closing with a linger time of zero is what makes the kernel send RST (socket(7), SO_LINGER).
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


if TYPE_CHECKING:
    Script = Callable[[RawRequest, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
    Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Connection(asyncio.StreamReaderProtocol):
    """One connection to a raw server, and what became of it."""

    def __init__(self, server: RawServer) -> None:
        self.request: RawRequest | None = None
        """The first request, once it has been read."""
        self.peer_closed = asyncio.Event()
        """Set when the peer ends or resets the connection before this side has closed it."""
        self.closed = asyncio.Event()
        """Set when the connection is gone, whoever ended it."""
        self._server = server
        super().__init__(asyncio.StreamReader(limit=2**20), self._start)

    async def wait_peer_closed(self) -> None:
        """Wait until the peer has closed. Raises `TimeoutError` if it does not."""
        await asyncio.wait_for(self.peer_closed.wait(), WAIT_S)

    async def wait_closed(self) -> None:
        """Wait until the connection is gone. Raises `TimeoutError` if it stays."""
        await asyncio.wait_for(self.closed.wait(), WAIT_S)

    def eof_received(self) -> bool:
        self.peer_closed.set()
        return bool(super().eof_received())

    def connection_lost(self, exc: Exception | None) -> None:
        # Closed by this side, there is no exception.
        if exc is not None:
            self.peer_closed.set()
        self.closed.set()
        super().connection_lost(exc)

    def _start(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._server.accept(self, writer, asyncio.ensure_future(self._run(reader, writer)))

    async def _run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A peer that leaves in the middle is what many tests are about, never a fault of the script.
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await self._server.serve(self, reader, writer)
        finally:
            writer.close()


class RawServer:
    """A server that answers with what its script writes, see `raw_server` and `tcp_server`."""

    def __init__(self, script: Script | None, serve: Serve | None = None) -> None:
        self._script = script
        self._serve = serve
        self.url = ""
        """The base URL, without a trailing slash; none behind a socket file."""
        self.port = 0
        self.connections: list[Connection] = []
        """Every connection so far, in the order of arrival."""
        self.requests: list[RawRequest] = []
        """The first request of every connection, in the order in which they were complete."""
        self._tasks: list[asyncio.Future[None]] = []
        self._writers: list[asyncio.StreamWriter] = []
        self._accepted = asyncio.Event()

    async def connection(self, index: int = 0) -> Connection:
        """Return the connection that was accepted as number `index`; wait for it if need be.

        Raises `TimeoutError` if it does not come.
        """
        async with asyncio.timeout(WAIT_S):
            while len(self.connections) <= index:
                self._accepted.clear()
                await self._accepted.wait()
        return self.connections[index]

    async def serve(
        self, connection: Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve one connection to its end."""
        if self._serve is not None:
            await self._serve(reader, writer)
        if self._script is not None:
            connection.request = await read_request(reader)
            self.requests.append(connection.request)
            await self._script(connection.request, reader, writer)

    def accept(
        self, connection: Connection, writer: asyncio.StreamWriter, task: asyncio.Future[None]
    ) -> None:
        """Take note of a new connection, of its writer and of the task that runs the script on it."""
        self.connections.append(connection)
        self._writers.append(writer)
        self._tasks.append(task)
        self._accepted.set()

    async def close(self) -> None:
        """Stop the scripts and break off the connections. Raises what a script failed with."""
        for task in self._tasks:
            task.cancel()
        outcomes = await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        for connection in self.connections:
            await connection.wait_closed()
        if faults := [outcome for outcome in outcomes if isinstance(outcome, Exception)]:
            raise ExceptionGroup("the script of a raw server failed", faults)


@asynccontextmanager
async def raw_server(
    script: Script, *, path: str | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawServer]:
    """Listen on a free port in this event loop and run `script(request, reader, writer)` per connection.

    With `path` it listens there, on a socket file; with `tls` it speaks that.

    The script is called once the first request is complete. It writes what it likes, headers included;
    what it wrote is sent when it returns, and the connection is closed. Some things a script may do:

    - `await reader.read()`: keep silent until the peer closes;
    - `await read_request(reader)`: go on with the next request of a connection that is kept alive;
    - `reset(writer)`: break off with a TCP reset.

    A peer that closes while the script runs is no fault; whatever else a script raises (a failed
    assertion too) is raised again when the context ends, in an `ExceptionGroup`.
    """
    async with _listening(RawServer(script), path, tls) as server:
        yield server


@asynccontextmanager
async def tcp_server(serve: Serve) -> AsyncIterator[RawServer]:
    """Run `serve(reader, writer)` per connection, for peers that do not even read a request to its end."""
    async with _listening(RawServer(None, serve)) as server:
        yield server


@asynccontextmanager
async def _listening(
    server: RawServer, path: str | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[RawServer]:
    loop = asyncio.get_running_loop()
    if path is not None:
        listener = await loop.create_unix_server(lambda: Connection(server), path)
    else:
        listener = await loop.create_server(lambda: Connection(server), HOST, 0, ssl=tls)
        server.port = listener.sockets[0].getsockname()[1]
        server.url = f"http{'s' if tls else ''}://{HOST}:{server.port}"
    try:
        yield server
    finally:
        listener.close()
        await server.close()
        await listener.wait_closed()
