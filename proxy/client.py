"""The client's side of one exchange: its request comes in whole, its answer goes out piece by piece.

An ASGI 3.0 conversation, with an extension of our listener (`cycle`) for two things that would cost more
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

    from starlette.types import Receive, Scope, Send

    from proxy.connection import Sink
    from proxy.errors import ProxyError
    from proxy.headers import Headers

DISCARD_BYTES = 64 * 1024 * 1024
"""Bytes of a body beyond the limit that are still read, and dropped, before it is refused.

Most clients read no answer while they send; closing on them would lose it, and say nothing.
"""

_BODYLESS = frozenset({204, 304})


class ClientGoneError(Exception):
    """The client went away: there is nobody to answer."""


class Outlet(Protocol):
    """What sends pieces of a body, and knows first that the client has left: `cycle.Cycle`."""

    more_body: bool
    disconnected: bool
    on_leave: Callable[[], object] | None

    def put(self, data: bytes) -> bool:
        """Send a piece; tell whether more may follow at once."""

    async def drained(self) -> None:
        """Return when more may follow, or the client is gone."""


class Client:
    """One request of a client, and the answer to it."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, request_id: bytes) -> None:
        """Begin with the head of the request."""
        self._receive = receive
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
        length = int(headers.find(self.headers, b"content-length") or 0)
        waits = (headers.find(self.headers, b"expect") or b"").lower() == b"100-continue"
        if length > max_bytes and (waits or length > max_bytes + DISCARD_BYTES):
            raise BodySizeError.beyond(max_bytes)
        pieces: list[bytes] = []
        size = 0
        try:
            # Mostly all of it is here already, and needs no timer.
            async with asyncio.timeout((timeout_s or None) if self._outlet.more_body else None):
                more = True
                while more and size <= max_bytes + DISCARD_BYTES:
                    message = await self._receive()
                    if message["type"] != "http.request":
                        raise ClientGoneError
                    piece = message.get("body", b"")
                    more = message.get("more_body", False)
                    size += len(piece)
                    if size > max_bytes:
                        pieces.clear()
                    else:
                        pieces.append(piece)
        except TimeoutError:
            if size <= max_bytes:
                raise RequestTimeoutError.after(timeout_s) from None
        if size > max_bytes:
            raise BodySizeError.beyond(max_bytes)
        self.body = pieces[0] if len(pieces) == 1 else b"".join(pieces)

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
        if status in _BODYLESS:
            # uvicorn would hold us to the length that a 304 states of a body that is not sent.
            fields = [field for field in fields if field[0] != b"content-length"]
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": fields})

    async def write(self, data: bytes) -> None:
        """Send a piece of the body; returns when the client is ready for more."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

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
        await self._send({"type": "http.response.body", "body": data, "more_body": False})

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
