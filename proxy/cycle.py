"""One request and its answer on a client's connection.

An ASGI 3.0 conversation for whoever wants one (the operational paths are Starlette's), and an outlet
for what relays, which gives and takes bytes at once: a message and a coroutine for each piece of a stream
would cost more than most of what is done to it.

The connection is never closed from here behind an answer, since a close while something is still coming
makes the kernel send a reset, which takes the answer away from the client: `keep_alive` tells the
connection whether to do it.
"""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from proxy.errors import ProxyError
from proxy.telemetry import LOGGER, describe
from proxy.upload import Upload

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message
    from uvicorn.protocols.http.flow_control import FlowControl

    from proxy.headers import Headers

OUTLET = "think_proxy.outlet"
"""An ASGI extension: the cycle itself, see `client.Outlet`."""

_BODYLESS = frozenset({204, 304})  # RFC 9110, 6.4.1


def write_date() -> bytes:
    """Return the time as the `Date` field has it (RFC 9110, 6.6.1)."""
    return _write_date(int(time.time()))


@lru_cache(maxsize=1)
def _write_date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode()


class Cycle:
    """A request that comes in and an answer that goes out, on a connection that carries one at a time."""

    __slots__ = (
        *("_chunked", "_flow", "_head", "_is_bodyless", "_on_end", "_owed", "_scope", "_transport"),
        *("disconnected", "keep_alive", "on_leave", "response_complete", "response_started", "upload"),
    )

    def __init__(
        self,
        scope: dict[str, Any],
        transport: asyncio.Transport,
        flow: FlowControl,
        on_end: Callable[[], None],
        *,
        waits: bool,
        keep_alive: bool,
    ) -> None:
        """Begin with a request whose head is there.

        Args:
            scope: the request, as ASGI has it.
            transport: where the answer goes.
            flow: what slows both sides down.
            on_end: called when the answer is complete, or is left without its end.
            waits: the client may wait for leave to send the body (RFC 9110, 10.1.1).
            keep_alive: another request may follow on this connection.
        """
        self._scope = scope
        self._transport = transport
        self._flow = flow
        self._on_end = on_end
        self.upload = Upload(transport, flow, waits=waits)
        self.keep_alive = keep_alive
        self.on_leave: Callable[[], object] | None = None
        """Called when the client leaves before the answer is complete."""
        self.disconnected = False
        """The client has left, or never gets the rest of its answer."""
        self.response_started = False
        self.response_complete = False
        self._head = b""  # leaves with the first piece of the body: one call to the kernel, one packet
        self._is_bodyless = False
        self._chunked = False
        self._owed: int | None = None  # bytes of the body that its length still promises

    async def run(self, app: ASGIApp) -> None:
        """Run the application, which finds this in its scope as `OUTLET`, and see that there is an end."""
        self._scope["extensions"] = {OUTLET: self}
        try:
            await app(self._scope, self.receive, self.send)
        except Exception as fault:  # noqa: BLE001 - the last resort: the client gets an answer, the log the place
            LOGGER.error("internal error: %s", describe(fault))
        except asyncio.CancelledError:
            self.disconnected = True  # the process ends: who has no answer yet gets none
            self._transport.close()
            raise
        finally:
            del self._scope["extensions"]
            self._settle()

    def _settle(self) -> None:
        """End the answer if nobody did. A stream that its server cut off is cut off here, too."""
        if self.response_complete or self.disconnected:
            return
        if self.response_started:
            self.put(b"")  # the head, if it has not left yet
            self.disconnected, self.keep_alive = True, False
            self._on_end()
            return
        LOGGER.error("a request was left without an answer")
        body = ProxyError("The proxy failed on this request; its log says where.").body()
        self.keep_alive = False
        fields = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        self.begin(ProxyError.status, fields)
        self._end(body)

    # What the connection calls

    def leave(self) -> None:
        """Take notice that the client is gone, the first time it is told."""
        if self.response_complete or self.disconnected:
            return
        self.disconnected = True
        self.upload.end()
        if self.on_leave is not None:
            self.on_leave()

    # What the application calls

    async def receive(self) -> Message:
        """Return what comes of the request next, as ASGI has it."""
        body = await self.upload.read_next()
        if body is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": body, "more_body": self.upload.more}

    def begin(self, status: int, fields: Headers) -> None:
        """Begin the answer; its head leaves with the first piece of its body, or with its end.

        Args:
            status: of the answer.
            fields: its header fields, names in lower case. They are our own, or were read by a parser that
                takes no control characters (llhttp): nothing in them can end a line. Without a length
                among them the body goes out in chunks, or, for HTTP/1.0, which knows none (nginx speaks it
                to what it stands in front of, unless told otherwise), ends with the connection.
        """
        self.response_started = True
        named = dict(fields)
        if self.upload.waits:
            # Whether the body that was not asked for still comes, nobody can tell (RFC 9110, 10.1.1).
            self.upload.waits = self.keep_alive = False
        lines = [b"%b: %b\r\n" % field for field in fields]
        if self._scope["method"] == "HEAD" or status in _BODYLESS:
            self._is_bodyless = True
        elif b"content-length" in named:
            self._owed = int(named[b"content-length"])
        elif self._scope["http_version"] != "1.0":
            self._chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
        if b"connection" in named:
            self.keep_alive = False  # all that an application of ours says with it
        elif not self.keep_alive:
            lines.append(b"connection: close\r\n")
        if b"date" not in named:
            lines.append(b"date: %b\r\n" % write_date())
        self._head = b"%b%b\r\n" % (STATUS_LINE[status], b"".join(lines))

    def put(self, data: bytes) -> bool:
        """Send a piece of the body at once; tell whether the client takes more, else `drained` says when."""
        if self.disconnected:
            return False
        if self._chunked and data:  # an empty chunk would end the body
            data = b"%x\r\n%b\r\n" % (len(data), data)
        elif self._is_bodyless:
            data = b""
        elif self._owed is not None:
            self._owed -= len(data)
        if self._head:
            self._transport.writelines((self._head, data))
            self._head = b""
        elif data:
            self._transport.write(data)
        return not self._flow.write_paused

    async def drained(self) -> None:
        """Return when the client takes more, or is gone."""
        await self._flow.drain()

    async def finish(self, data: bytes = b"") -> None:
        """Send the last piece of the body and its end, as soon as the client takes more.

        Raises:
            RuntimeError: the body is not as long as the head said.
        """
        if self._flow.write_paused:
            await self._flow.drain()
        self._end(data)

    def _end(self, data: bytes) -> None:
        if self.disconnected:
            return
        parts = [self._head] if self._head else []
        if self._chunked:
            parts += (b"%x\r\n" % len(data), data, b"\r\n0\r\n\r\n") if data else (b"0\r\n\r\n",)
        elif data and not self._is_bodyless:
            parts.append(data)
            if self._owed is not None:
                self._owed -= len(data)
        if self._owed:
            raise RuntimeError("the body is not as long as its head said")
        self._head = b""
        if parts:
            self._transport.writelines(parts)
        self.response_complete = True
        self.upload.end()
        self._on_end()

    async def send(self, message: Message) -> None:
        """Send the head of the answer, or a piece of its body, as ASGI has it."""
        if message["type"] == "http.response.start":
            self.begin(message["status"], list(message.get("headers", ())))
        elif not message.get("more_body", False):
            await self.finish(message.get("body", b""))
        elif not self.put(message.get("body", b"")):
            await self.drained()
