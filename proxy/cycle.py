"""One request and its answer on a client's connection: uvicorn's, with two ends of its own."""

from __future__ import annotations

import time
from email.utils import formatdate
from functools import lru_cache
from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

if TYPE_CHECKING:
    from collections.abc import Callable

    from uvicorn._types import ASGI3Application, ASGISendEvent

OUTLET = "think_proxy.outlet"
"""An ASGI extension: the way of a body to the client without a message for each piece, see `Client`."""


def write_date() -> bytes:
    """Return the time as the `Date` field has it (RFC 9110, 6.6.1)."""
    return _write_date(int(time.time()))


@lru_cache(maxsize=1)
def _write_date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()


class Cycle(RequestResponseCycle):
    """An answer that any client can read to its end.

    HTTP/1.0 knows no chunks (nginx speaks it to what it stands in front of, unless told otherwise):
    there, an answer without a length ends with its connection. And the connection is never closed from
    here, since a close while the request is still coming makes the kernel send a reset, which takes the
    answer away from the client: `is_last` tells the connection to do it.
    """

    is_last = False
    """The answer is complete, and the connection ends with it."""

    on_leave: Callable[[], object] | None = None
    """Called when the client leaves before the answer is complete."""

    _ends_by_close = False

    async def run_asgi(self, app: ASGI3Application) -> None:
        """Run the application, which finds this in its scope as `OUTLET`."""
        self.scope["extensions"] = {OUTLET: self}  # type: ignore[dict-item]  # an object, not settings
        try:
            await super().run_asgi(app)
        finally:
            del self.scope["extensions"]

    def leave(self) -> None:
        """Take notice that the client is gone, the first time it is told."""
        if self.response_complete or self.disconnected:
            return
        self.disconnected = True
        self.message_event.set()
        if self.on_leave is not None:
            self.on_leave()

    def put(self, data: bytes) -> bool:
        """Send a piece of the body at once; tell whether the client takes more, else `drained` says when.

        The head was sent with `send`, and `send` ends the body.
        """
        if self.disconnected:
            return False
        if not data:
            return True  # an empty chunk would end the body
        if self.chunked_encoding:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        elif not self._ends_by_close:
            self.expected_content_length -= len(data)
        self.transport.write(data)
        return not self.flow.write_paused

    async def drained(self) -> None:
        """Return when the client takes more, or is gone."""
        await self.flow.drain()

    async def send(self, message: ASGISendEvent) -> None:
        """Send the head of the answer, or a piece of its body."""
        if message["type"] == "http.response.start":
            fields = list(message.get("headers", ()))
            names = {name.lower() for name, _ in fields}
            if self.scope["http_version"] == "1.0" and b"content-length" not in names:
                # Neither a length nor chunks: each piece is then declared to be what was expected.
                self._ends_by_close, self.chunked_encoding = True, False
            if self.waiting_for_100_continue:
                # Whether the body that was not asked for still comes, nobody can tell (RFC 9110, 10.1.1).
                self.keep_alive = False
            if not self.keep_alive and b"connection" not in names:
                fields.append((b"connection", b"close"))  # older uvicorns do not say it
            if b"date" not in names:
                fields.append((b"date", write_date()))
            message["headers"] = fields
        elif message["type"] == "http.response.body":
            if self._ends_by_close:
                self.expected_content_length = len(message.get("body", b""))
            if not self.keep_alive and not message.get("more_body", False):
                self.is_last = self.keep_alive = True
        await super().send(message)
