"""One HTTP/1.1 connection to a model server, made for relaying: bytes come out as they came in.

An asyncio protocol around a `Reply`. A general client library costs a multiple of this per event of a
stream (the figures stand in `docs/design.md`). One exchange runs at a time; what it waits for is always
a single future, and a single timer, re-armed lazily, watches over it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from proxy.errors import BrokenError, SilentError
from proxy.reply import Head, Reply

if TYPE_CHECKING:
    from collections.abc import Awaitable

HIGH_WATER_BYTES = 64 * 1024
"""Bytes of a body that wait for a slow reader before the connection is no longer read."""


Sink = Callable[[bytes], bool]
"""Takes a piece of a body; says whether it can take more at once."""


class Connection(asyncio.Protocol):
    """A connection that sends a request and reads its answer, as often as the server keeps it open."""

    __slots__ = (
        *("_deadline", "_error", "_loop", "_on_lost", "_paused", "_pushed", "_reply", "_sink"),
        *("_timeout_key", "_timeout_s", "_timer", "_transport", "_waiter", "answered", "idle_since"),
    )

    def __init__(self, on_lost: Callable[[Connection], None]) -> None:
        """Call `on_lost` once, when the connection is gone."""
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._reply = Reply(has_body=True)
        self._error: Exception | None = None
        self._paused = False
        self._sink: Sink | None = None
        self._pushed = 0
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timeout_s = 0.0
        self._timeout_key = ""
        self._deadline = 0.0
        self.answered = False
        """A byte of the answer to the last request has come."""
        self.idle_since = 0.0
        """The loop's time at which the last exchange ended."""

    @property
    def open(self) -> bool:
        """Whether the connection still stands."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def reusable(self) -> bool:
        """Whether another request may follow: the last answer was read, the last request was written."""
        return (
            self._transport is not None
            and not self._transport.is_closing()
            and self._reply.clean
            and not self._reply.unread
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
        self._reply = Reply(has_body=has_body)
        self.answered = False
        if self._transport is None or self._transport.is_closing():
            raise BrokenError("The model server closed the connection.")
        self._watch(timeout_s, "firstByteSeconds")
        self._transport.writelines((head, body) if body else (head,))  # one call to the kernel, one packet
        while self._reply.head is None:
            await self._wait()
        return self._reply.head

    async def read(self) -> bytes:
        """Return the next bytes of the body as they came, or nothing at its end.

        Raises:
            BrokenError: the server broke off before the end.
            SilentError: nothing came in time.
        """
        while not self._reply.unread:
            if self._reply.complete:
                return b""
            await self._wait()
        body = self._reply.take()
        if self._paused:
            self._resume()
        return body

    async def pour(self, sink: Sink, ready: Callable[[], Awaitable[None]]) -> int:
        """Give the rest of the body to a sink, each piece as it comes; return at its end how many there were.

        When the sink has enough, nothing more is read until `ready` returns.

        Raises:
            BrokenError: the server broke off before the end.
            SilentError: nothing came in time.
            Exception: what the sink raised.
        """
        self._sink, self._pushed = sink, 0
        try:
            while True:
                if self._reply.unread:
                    self._push(sink)
                if self._error is not None:
                    raise self._error
                if self._paused:
                    await ready()
                    self._resume()
                elif self._reply.complete:
                    return self._pushed
                else:
                    await self._wait()
        finally:
            self._sink = None
            self._resume()

    def watch_idle(self, timeout_s: float) -> None:
        """From now on allow this time between two reads from the network; 0 for any."""
        self._watch(timeout_s, "idleSeconds")

    def close(self) -> None:
        """Close at once: what was not read is of no interest."""
        self._disarm()
        if self._transport is not None:
            self._transport.abort()

    def fail(self, error: Exception) -> None:
        """Break off an answer that is still coming: close, and let whoever reads know why.

        What has come can still be read, and an answer that has come whole is one.
        """
        if not self._reply.complete:
            self._break(error)

    def rest(self) -> None:
        """Wait for another exchange, without a timeout."""
        self._disarm()
        self.idle_since = self._loop.time()

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        reply = self._reply
        self.answered = True
        if reply.complete:
            self.close()  # bytes behind an answer belong to nobody
            return
        try:
            has_body = reply.feed(data)
        except BrokenError as error:
            self.fail(error)
            return
        if has_body:
            # Only bytes of the body show that the server is at work.
            self._deadline = self._loop.time() + self._timeout_s
            if self._sink is None:
                if reply.unread_bytes > HIGH_WATER_BYTES:
                    self._pause()
            elif not self._paused:
                self._push(self._sink)
                if not (self._paused or self._error or reply.complete):
                    return
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the reader."""
        self._disarm()
        self._transport = None
        if self._error is None and not self._reply.complete:
            try:
                self._reply.feed_eof(clean=exc is None)
            except BrokenError as error:
                self._error = error
        self._wake()
        self._on_lost(self)

    # Flow

    def _push(self, sink: Sink) -> None:
        self._pushed += 1
        try:
            if not sink(self._reply.take()):
                self._pause()
        except Exception as error:  # noqa: BLE001 - it is for whoever pours, not for the event loop
            self._break(error)

    def _pause(self) -> None:
        if not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            self._deadline = self._loop.time() + self._timeout_s
            if self._transport is not None:
                self._transport.resume_reading()

    # Waiting

    def _break(self, error: Exception) -> None:
        self._error = error
        self.close()
        self._wake()

    async def _wait(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _watch(self, timeout_s: float, key: str) -> None:
        self._disarm()
        self._timeout_s = timeout_s
        self._timeout_key = key
        self._deadline = self._loop.time() + timeout_s
        if timeout_s and not self._reply.complete:
            self._timer = self._loop.call_later(timeout_s, self._on_timer)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        if self._reply.complete:
            return
        # While it is our own reader that is slow, the server is not to blame.
        left = self._timeout_s if self._paused else self._deadline - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._on_timer)
            return
        limit = f"timeouts.{self._timeout_key} in the proxy's configuration"
        self.fail(SilentError(f"The model server sent nothing for {self._timeout_s:g} seconds ({limit})."))
