"""The model server: connections to it, kept for the next request, and the answers that come over them."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from typing import TYPE_CHECKING, Protocol, Self
from urllib.parse import unquote, urlsplit

from proxy.connection import Connection
from proxy.errors import BrokenError, SilentError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from proxy.connection import Sink
    from proxy.errors import ProxyError
    from proxy.headers import Headers
    from proxy.reply import Head
    from proxy.settings import Server, Timeouts

MAX_IDLE_S = 3.0
"""Seconds an unused connection is kept: clearly below the 5 after which vLLM's uvicorn closes its end."""


_NO_CONNECTION = (
    OSError,  # ssl.SSLError and socket.gaierror are of this kind
    ValueError,  # UnicodeError: a name that IDNA does not know
    EOFError,
    RuntimeError,  # asyncio, of a transport that was closed under it
    asyncio.InvalidStateError,
    asyncio.LimitOverrunError,
)
"""What can be raised while a connection is made; `tests/safety/test_faults.py` walks the libraries."""


class Source(Protocol):
    """A body that is read piece by piece."""

    async def read(self) -> bytes:
        """Return the next bytes, nothing at the end."""
        ...


class Answer:
    """An answer whose body is still coming. Leaving it returns its connection, or closes it."""

    def __init__(self, upstream: Upstream, connection: Connection, head: Head) -> None:
        """Begin with the head of the answer."""
        self._upstream = upstream
        self._connection = connection
        self.status = head.status
        self.headers = head.headers

    async def __aenter__(self) -> Self:
        """Hold the connection."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Give the connection back when the body was read to its end, else close it."""
        self.leave()

    def leave(self) -> None:
        """Give the connection back when the body was read to its end, else close it."""
        self._upstream.release(self._connection)

    async def read(self) -> bytes:
        """Return the next bytes of the body, nothing at its end.

        Raises:
            BrokenError: the server broke off.
            SilentError: the server sent nothing for too long.
        """
        return await self._connection.read()

    async def read_all(self, max_bytes: int) -> bytes | None:
        """Return the whole body as it came; None, with the rest unread, if it is larger than this.

        Raises:
            BrokenError: the server broke off.
            SilentError: the server sent nothing for too long.
        """
        body = bytearray()
        while part := await self.read():
            body += part
            if len(body) > max_bytes:
                return None
        return bytes(body)

    async def pour(self, sink: Sink, ready: Callable[[], Awaitable[None]]) -> int:
        """Give the rest of the body to a sink, see `Connection.pour`."""
        return await self._connection.pour(sink, ready)

    def watch_idle(self) -> None:
        """The answer has begun: from here on the limit is that between two parts of the body."""
        self._connection.watch_idle(self._upstream.timeouts.idle_s)

    def fail(self, error: ProxyError) -> None:
        """Break off, see `Connection.fail`."""
        self._connection.fail(error)


class Upstream:
    """One model server."""

    def __init__(
        self,
        url: str,
        timeouts: Timeouts,
        ssl_context: ssl.SSLContext | None = None,
        *,
        uds: str | None = None,
        name: str = "upstream",
        api_key: str | None = None,
    ) -> None:
        """Serve the paths below an address.

        Args:
            url: `http://host:port`, perhaps with a path of its own; `http+unix:///run/it.sock`, or
                `http+unix://%2Frun%2Fit.sock` with one.
            timeouts: limits for every request.
            ssl_context: how certificates are checked, if not against the system's.
            uds: a socket file to connect to, whatever host the address names.
            name: what it is called in the configuration.
            api_key: sent to it in place of what a client sent.
        """
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        host, path = parts.netloc, parts.path
        if parts.scheme == "http+unix":
            uds, path = (unquote(host), path) if host else (unquote(path), "")
            host = "localhost"
        self._host = parts.hostname or ""
        self._port = 0 if uds else parts.port or (443 if secure else 80)
        self._uds = uds
        self._ssl = (ssl_context or ssl.create_default_context()) if secure else None
        self._prefix = path.rstrip("/").encode()
        self._idle: deque[Connection] = deque()
        self._live: set[Connection] = set()
        self.url = url
        self.name = name
        self.timeouts = timeouts
        self.api_key = api_key
        self.host = host.encode("ascii" if host.isascii() else "idna")
        """The authority, as `Host` names it."""

    @classmethod
    def to(cls, server: Server) -> Self:
        """Return the way to a model server of the configuration.

        Raises:
            OSError: its file of certificates cannot be read.
        """
        context = ssl.create_default_context(cafile=server.ca_file) if server.ca_file else None
        return cls(
            server.url,
            server.timeouts,
            context,
            uds=server.uds,
            name=server.name,
            api_key=server.api_key,
        )

    @property
    def live(self) -> int:
        """The number of open connections, idle ones included."""
        return len(self._live)

    async def send(self, method: str, target: bytes, headers: Headers, body: bytes) -> Answer:
        """Send a request and return its answer as soon as its head is there.

        Args:
            method: the method.
            target: path and query, percent-encoded.
            headers: all header fields.
            body: the whole body.

        Raises:
            UnreachableError: no connection could be made.
            SilentError: connecting or the head took too long.
            BrokenError: the server closed, or sent what is not HTTP.
        """
        lines = [b"%b: %b\r\n" % field for field in headers]
        head = b"%b %b%b HTTP/1.1\r\n%b\r\n" % (method.encode(), self._prefix, target, b"".join(lines))
        kept = self._pick()
        if kept is not None:
            try:
                return await self._exchange(kept, method, head, body)
            except BrokenError:
                if kept.answered:
                    raise
                # The server closed the idle connection just as it was picked: nobody saw this request.
                # Whatever made it close that one has likely closed the others.
                self._drop_idle()
        return await self._exchange(await self._connect(), method, head, body)

    async def _exchange(self, connection: Connection, method: str, head: bytes, body: bytes) -> Answer:
        try:
            answer = await connection.send(
                head, body, has_body=method != "HEAD", timeout_s=self.timeouts.first_byte_s
            )
        except BaseException:
            connection.close()
            raise
        return Answer(self, connection, answer)

    def release(self, connection: Connection) -> None:
        """Take a connection back, or close it."""
        if connection.reusable:
            connection.rest()
            self._idle.append(connection)
        else:
            connection.close()

    def disconnect(self) -> None:
        """Close every connection, and those that requests under way give back."""
        for connection in tuple(self._live):
            connection.close()

    async def close(self) -> None:
        """Close every connection, and wait until they are."""
        self.disconnect()
        await asyncio.sleep(0)

    def _pick(self) -> Connection | None:
        oldest = asyncio.get_running_loop().time() - MAX_IDLE_S
        while self._idle and self._idle[0].idle_since < oldest:
            self._idle.popleft().close()
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable:
                return connection
        return None

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    async def _connect(self) -> Connection:
        timeout_s = self.timeouts.connect_s
        try:
            async with asyncio.timeout(timeout_s or None):
                connection = await self._dial()
        except TimeoutError:
            raise SilentError(
                f"The model server at {self.url} took no connection within {timeout_s:g} seconds "
                "(timeouts.connectSeconds in the proxy's configuration)."
            ) from None
        except ssl.SSLCertVerificationError as error:
            found = getattr(error, "verify_message", None) or str(error.strerror)
            raise UnreachableError(
                f"The certificate of the model server at {self.url} is not accepted ({found.rstrip('.')}). "
                "`caFile` in the proxy's configuration names the certificates to check it against."
            ) from error
        except _NO_CONNECTION as error:
            reason = getattr(error, "strerror", None) or error
            raise UnreachableError(
                f"The model server at {self.url} cannot be reached ({reason}). "
                "Is it running at this address, which the proxy's configuration has as its upstream?"
            ) from error
        if connection.open:
            self._live.add(connection)
        return connection

    async def _dial(self) -> Connection:
        loop = asyncio.get_running_loop()
        if self._uds is None:
            _, connection = await loop.create_connection(
                lambda: Connection(self._lost), self._host, self._port, ssl=self._ssl
            )
        else:
            name = self._host if self._ssl else None
            _, connection = await loop.create_unix_connection(
                lambda: Connection(self._lost), self._uds, ssl=self._ssl, server_hostname=name
            )
        return connection

    def _lost(self, connection: Connection) -> None:
        self._live.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
