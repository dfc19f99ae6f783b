"""One HTTP/1.1 connection to a model server, made for relaying: bytes come out as they came in.

An asyncio protocol over httptools' parser. A general client library costs a multiple of this per event
of a stream (the figures stand in `docs/design.md`). One exchange runs at a time; what it is waiting
for is always a single future, and a single timer, re-armed lazily, watches over it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import httptools

from proxy.errors import BrokenError, SilentError, UpstreamError

if TYPE_CHECKING:
    from collections.abc import Callable

Headers = list[tuple[bytes, bytes]]
"""Header fields in order, names in lower case."""

MAX_HEAD_BYTES = 64 * 1024
"""Bytes of an answer's status line and header fields."""

HIGH_WATER_BYTES = 64 * 1024
"""Bytes of a body that wait for a slow reader before the connection is no longer read."""

_LAST_INFORMATIONAL = 199
_BODYLESS = frozenset({204, 304})


class Head(NamedTuple):
    """The status and the header fields of an answer."""

    status: int
    headers: Headers


class Connection(asyncio.Protocol):
    """A connection that sends a request and reads its answer, as often as the server keeps it open."""

    def __init__(self, on_lost: Callable[[Connection], None]) -> None:
        """Report to `on_lost` once, when the connection is gone."""
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timeout_s = 0.0
        self._deadline = 0.0
        self.idle_since = 0.0
        """The loop's time at which the last exchange ended."""
        self.exchanges = 0
        """Requests sent so far."""
        self._reset(has_body=True)

    def _reset(self, *, has_body: bool) -> None:
        self._parser: Any = httptools.HttpResponseParser(self)
        self._waiter: asyncio.Future[None] | None = None
        self._head: Head | None = None
        self._headers: Headers = []
        self._head_bytes = 0
        self._has_body = has_body
        self._body: list[bytes] = []
        self._size = 0
        self._paused = False
        self._complete = False
        self._framed = False
        self._keep_alive = False
        self._error: UpstreamError | None = None
        self.answered = False
        """A byte of the answer has come."""

    @property
    def reusable(self) -> bool:
        """Whether another request may follow on this connection."""
        return (
            self._transport is not None
            and not self._transport.is_closing()
            and self._complete
            and self._keep_alive
            and not self._paused
            and not self._transport.get_write_buffer_size()
        )

    async def send(self, head: bytes, body: bytes, *, has_body: bool, timeout_s: float) -> Head:
        """Send a request, return the head of its answer.

        Args:
            head: the request line and the header fields, with the blank line.
            body: the request body.
            has_body: whether the answer to this method has one (HEAD has none).
            timeout_s: for the head, and then for the first byte of the body; 0 for none.

        Raises:
            BrokenError: the server closed, or sent what is not HTTP.
            SilentError: nothing came in time.
        """
        if self._transport is None or self._transport.is_closing():
            raise BrokenError("The model server closed the connection.")
        self._reset(has_body=has_body)
        self.exchanges += 1
        self._arm(timeout_s)
        self._transport.write(head)
        if body:
            self._transport.write(body)
        while self._head is None:
            self._check()
            await self._wait()
        return self._head

    async def read(self) -> bytes:
        """Return the next bytes of the body as they came, or nothing at its end.

        Raises:
            BrokenError: the server broke off before the end.
            SilentError: nothing came in time.
        """
        while not self._body:
            if self._complete:
                return b""
            self._check()
            await self._wait()
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body.clear()
        self._size = 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return body

    def watch(self, timeout_s: float) -> None:
        """From now on allow this time between two reads from the network; 0 for any."""
        self._arm(timeout_s)

    def close(self) -> None:
        """Close at once: what was not read is of no interest."""
        self._disarm()
        if self._transport is not None:
            self._transport.abort()

    def rest(self) -> None:
        """Wait for another exchange, without a timeout."""
        self._disarm()
        self.idle_since = self._loop.time()

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport  # type: ignore[assignment] # create_connection makes a Transport

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        self.answered = True
        if self._complete or self._error:
            self.close()  # bytes behind an answer belong to nobody
            return
        if self._head is None:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fail(BrokenError("The model server answered with a protocol upgrade."))
        except httptools.HttpParserError as error:
            self._fail(BrokenError(f"The model server sent what is not HTTP/1.1: {type(error).__name__}."))
        else:
            if self._head is None and self._head_bytes > MAX_HEAD_BYTES:
                self._fail(BrokenError(f"The model server's header is larger than {MAX_HEAD_BYTES} bytes."))
            elif self._size > HIGH_WATER_BYTES and not self._paused and self._transport is not None:
                self._paused = True
                self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the reader."""
        self._disarm()
        self._transport = None
        if self._head is not None and not self._framed and not self._complete and exc is None:
            self._complete = True  # RFC 9112, 6.3: a body without a length ends with the connection
        elif not self._complete and self._error is None:
            self._error = BrokenError(
                "The model server closed the connection before its answer was complete."
            )
        self._wake()
        self._on_lost(self)

    # What the parser calls

    def on_message_begin(self) -> None:
        """Begin an answer, which may follow an informational one."""
        self._headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header field."""
        name = name.lower()
        self._framed = self._framed or name in (b"content-length", b"transfer-encoding")
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Publish the head, unless it is an informational one."""
        status = self._parser.get_status_code()
        if status <= _LAST_INFORMATIONAL:
            self._framed = False
            return
        self._keep_alive = self._parser.should_keep_alive()
        self._head = Head(status, self._headers)
        if not self._has_body or status in _BODYLESS:
            # The parser does not know the method of the request and would wait for a body.
            self._complete = True
            self._keep_alive = self._keep_alive and status in _BODYLESS

    def on_body(self, body: bytes) -> None:
        """Collect bytes of the body; only they show that the server is at work."""
        self._deadline = self._loop.time() + self._timeout_s
        self._body.append(body)
        self._size += len(body)

    def on_message_complete(self) -> None:
        """End the answer, unless it was an informational one."""
        if self._head is not None:
            self._complete = True

    # Waiting

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _fail(self, error: UpstreamError) -> None:
        self._error = error
        self.close()
        self._wake()

    def _arm(self, timeout_s: float) -> None:
        self._disarm()
        self._timeout_s = timeout_s
        self._deadline = self._loop.time() + timeout_s
        if timeout_s:
            self._timer = self._loop.call_later(timeout_s, self._on_timer)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        left = self._deadline - self._loop.time()
        if left > 0 or self._paused:
            # Bytes came since, or it is our own reader that is slow.
            self._timer = self._loop.call_later(max(left, self._timeout_s / 2), self._on_timer)
            return
        self._timer = None
        self._fail(SilentError(f"The model server sent nothing for {self._timeout_s:g} seconds."))
