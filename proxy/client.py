"""The client's side of one exchange: its request comes in whole, its answer goes out piece by piece.

It speaks to the connection through an extension of our listener (`cycle`). ASGI's own way would cost more
than most of what is done to an answer: a message for each piece of a stream, and a task that does
nothing but wait for the client to leave.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from proxy import headers
from proxy.cycle import OUTLET
from proxy.errors import BodySizeError, RequestTimeoutError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from starlette.types import Scope, Send

    from proxy.connection import Sink
    from proxy.errors import ProxyError
    from proxy.headers import Headers
    from proxy.upload import Upload

DISCARD_BYTES = 64 * 1024 * 1024
"""Bytes of a body beyond the limit that are still read, and dropped, before it is refused.

Most clients read no answer while they send; closing on them would lose it, and say nothing.
"""

_NO_CONTENT = 204


class ClientGoneError(Exception):
    """The client went away: there is nobody to answer."""


class Outlet(Protocol):
    """The request and its answer on the connection, which knows first that the client has left."""

    upload: Upload
    disconnected: bool
    on_leave: Callable[[], object] | None

    def begin(self, status: int, fields: Headers) -> None:
        """Begin the answer."""

    def put(self, data: bytes) -> bool:
        """Send a piece; tell whether more may follow at once."""

    async def drained(self) -> None:
        """Return when more may follow, or the client is gone."""

    async def finish(self, data: bytes) -> None:
        """Send the last piece, and the end."""


class Client:
    """One request of a client, and the answer to it."""

    def __init__(self, scope: Scope, request_id: bytes, send: Send | None = None) -> None:
        """Begin with the head of the request; the head of the answer goes to `send`, if that adds to it."""
        self._send = send
        self._outlet: Outlet = scope["extensions"][OUTLET]
        self.put: Sink = self._outlet.put
        """Send a piece of the body at once; tells whether the client takes more, see `drained`."""
        self.method: str = scope["method"]
        self.path: bytes = scope.get("raw_path") or scope["path"].encode()
        """The path as it came, percent-encoded."""
        self.query: bytes = scope["query_string"]
        self.headers: Headers = list(scope["headers"])
        self.request_id = request_id
        self.body = b""
        """The request body, from `read_body` until the model server has begun to answer."""
        self.status = 0
        """The status that was sent; 0 before the answer has begun."""
        self.finished = False
        """The last piece of the answer is on its way."""

    async def read_body(self, max_bytes: int, timeout_s: float) -> None:
        """Read the whole request body.

        Raises:
            BodySizeError: it is larger than `max_bytes`.
            RequestTimeoutError: it was not complete after `timeout_s` (0: any time will do).
            ClientGoneError: the client left before the end.
        """
        outlet = self._outlet
        if outlet.upload.more:
            body = await self._await_body(max_bytes, timeout_s)
        else:
            body = await outlet.upload.read(max_bytes)  # mostly all of it is here already, and needs no timer
        if outlet.disconnected:
            raise ClientGoneError
        if len(body) > max_bytes:
            raise BodySizeError.beyond(max_bytes)
        self.body = body

    async def _await_body(self, max_bytes: int, timeout_s: float) -> bytes:
        """Return the whole body, or the beginning of one that is too large, as soon as it may be refused."""
        upload, body = self._outlet.upload, b""
        length = int(headers.find(self.headers, b"content-length") or 0)
        if length > max_bytes and (upload.waits or length > max_bytes + DISCARD_BYTES):
            raise BodySizeError.beyond(max_bytes)
        try:
            async with asyncio.timeout(timeout_s or None):
                body = await upload.read(max_bytes)
                size = len(body)
                while max_bytes < size <= max_bytes + DISCARD_BYTES and upload.more and not upload.is_over:
                    size += len(await upload.read(0))
        except TimeoutError:
            if not body:
                raise RequestTimeoutError.after(timeout_s) from None
        return body

    async def attend(self, answering: Coroutine[Any, Any, None]) -> None:
        """Run what answers; end it at once when the client leaves. The body must have been read before.

        Raises:
            ClientGoneError: the client left.
        """
        task, outlet = asyncio.current_task(), self._outlet
        has_left = outlet.disconnected
        if has_left or task is None:
            answering.close()
            raise ClientGoneError
        outlet.on_leave = task.cancel
        try:
            await answering
        except asyncio.CancelledError:
            if not outlet.disconnected:
                raise
            task.uncancel()
            raise ClientGoneError from None
        finally:
            outlet.on_leave = None

    async def start(self, status: int, fields: Headers) -> None:
        """Send the head of the answer."""
        if status == _NO_CONTENT:  # it must not state a length (RFC 9110, 8.6)
            fields = [field for field in fields if field[0] != b"content-length"]
        self.status = status
        if self._send is None:
            self._outlet.begin(status, fields)
        else:
            await self._send({"type": "http.response.start", "status": status, "headers": fields})

    async def write(self, data: bytes) -> None:
        """Send a piece of the body; returns when the client is ready for more."""
        if not self._outlet.put(data):
            await self._outlet.drained()

    async def drained(self) -> None:
        """Return when the client is ready for more.

        Raises:
            ClientGoneError: it left.
        """
        await self._outlet.drained()
        if self._outlet.disconnected:
            raise ClientGoneError

    async def finish(self, data: bytes = b"") -> None:
        """Send the last piece of the body, and its end."""
        self.finished = True
        await self._outlet.finish(data)

    async def refuse(self, error: ProxyError) -> None:
        """Answer with an error of our own."""
        body = error.body()
        await self.start(
            error.status,
            [
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(body)),
                (b"x-request-id", self.request_id),
                *error.headers,
            ],
        )
        await self.finish(b"" if self.method == "HEAD" else body)
