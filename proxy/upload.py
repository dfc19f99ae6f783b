"""The body of a request, as it comes in on a client's connection."""

from __future__ import annotations

import asyncio
from io import BytesIO
from typing import TYPE_CHECKING

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

if TYPE_CHECKING:
    from uvicorn.protocols.http.flow_control import FlowControl

    from proxy.errors import ProxyError

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Upload:
    """A body that the connection brings, and somebody reads."""

    __slots__ = (
        *("_body", "_fault", "_flow", "_most_unread", "_news", "_transport"),
        *("is_over", "more", "waits"),
    )

    def __init__(self, transport: asyncio.Transport, flow: FlowControl, *, waits: bool) -> None:
        """Begin with a request whose head is there.

        Args:
            transport: where the client is told to send the body, if it waits for that.
            flow: what keeps the client from sending more than is read.
            waits: the client may wait to be told (RFC 9110, 10.1.1).
        """
        self._transport = transport
        self._flow = flow
        self.waits = waits
        """The client was not told yet."""
        self.more = True
        """The request is not complete."""
        self.is_over = False
        """What still comes is of no interest: the answer is complete, the client has left, or it failed."""
        self._body = BytesIO()  # gives its bytes away without another copy of them
        self._most_unread = HIGH_WATER_LIMIT
        self._fault: ProxyError | None = None
        self._news: asyncio.Event | None = None

    def take(self, data: bytes) -> None:
        """Take a piece."""
        if not self.is_over:
            self._body.write(data)
            if self._body.tell() > self._most_unread:
                self._flow.pause_reading()
            self._tell()

    def complete(self) -> None:
        """Take the end."""
        self.more = self.waits = False
        if not self.is_over:
            # Nothing more of it can come: what does is news of the client, if only that it left.
            self._flow.resume_reading()
            self._tell()

    def fail(self, fault: ProxyError) -> None:
        """Take notice that no more comes which could be read."""
        self._fault = fault
        self.end()

    def end(self) -> None:
        """Take notice that nobody needs it any more: whoever waits for it goes on."""
        self.is_over = True
        if not self._body.closed:
            self._body = BytesIO()  # what came may be large, and the connection may last
        self._tell()

    async def read(self, most: int) -> bytes:
        """Return what came: all of it, or more than `most` bytes; less when it is over.

        Raises:
            ProxyError: what the connection was told of it with `fail`.
        """
        self._most_unread = most
        while self.more and self._body.tell() <= most and not self.is_over:
            await self._hear()
        if self._fault is not None:
            raise self._fault
        return self._give()

    async def read_next(self) -> bytes | None:
        """Return what comes next, perhaps nothing at the end; None when it is over, at once or later."""
        is_read = self._body.closed
        while not self.is_over:
            if not is_read and (self._body.tell() or not self.more):
                return self._give()
            await self._hear()
        return None

    def _give(self) -> bytes:
        body = self._body.getvalue()
        self._body.close()
        if self.more:
            self._body = BytesIO()
        return body

    async def _hear(self) -> None:
        """Return when something has come, or it is over."""
        if self.waits and not self._transport.is_closing():
            self._transport.write(_CONTINUE)
            self.waits = False
        self._flow.resume_reading()
        self._news = asyncio.Event()
        await self._news.wait()

    def _tell(self) -> None:
        if self._news is not None:
            self._news.set()
