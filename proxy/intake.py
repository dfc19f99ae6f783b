"""What a client sends, read as requests and bounded in size, without any I/O.

A client sends a head, a body, and so on. Bytes of a body are the application's to bound. All other
bytes (heads, blank lines before them, the framing of chunks, trailer fields) are counted here from the
last byte of a body on, and may not exceed `maxHeaderBytes`.

A request that offers another protocol is read a second time without the offer: the parser takes the
bytes behind the head for that protocol, where for us they are the body.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import httptools

from proxy.errors import HeaderSizeError, MalformedError, ProxyError

if TYPE_CHECKING:
    from proxy.headers import Headers

_REST_BYTES = 14
"""Bytes of a head besides method, target and fields: two spaces, the version, two line ends."""

_FIELD_BYTES = len(b": \r\n")


class Phase(Enum):
    """What a client is sending."""

    NOTHING = auto()
    HEAD = auto()
    BODY = auto()


class RequestHead(NamedTuple):
    """The head of a request."""

    method: str
    path: bytes
    """As it came, percent-encoded ASCII."""
    query: bytes
    version: str
    """`1.1` or `1.0`."""
    headers: Headers
    lasts: bool
    """The client would send another request on this connection."""
    waits: bool
    """The client may wait for leave to send the body (RFC 9110, 10.1.1)."""

    def scope(self) -> dict[str, Any]:
        """Return it as ASGI has it, less what the connection knows."""
        return {
            "method": self.method,
            "path": unquote(self.path.decode("ascii")),
            "raw_path": self.path,
            "query_string": self.query,
            "http_version": self.version,
            "headers": self.headers,
            "state": {},
        }


class End(Enum):
    """The end of a request."""

    END = auto()


Event = RequestHead | bytes | End | ProxyError
"""The head of a request, a piece of its body, its end; or why nothing more can be read."""


class Intake:
    """Reads the requests of one connection."""

    def __init__(self) -> None:
        """Begin with a connection on which nothing came."""
        self.phase = Phase.NOTHING
        self.method = "-"
        """Of the request whose head was read last; `-` until then."""
        self._parser = httptools.HttpRequestParser(self)
        self._events: list[Event] = []
        self._max_header_bytes = 0
        self._framing_bytes = 0
        self._has_advanced = False
        self._target = b""
        self._headers: Headers = []

    def feed(self, data: bytes, max_header_bytes: int) -> list[Event]:
        """Return what came, in its order. After an error, which is the last event, nothing may be fed."""
        events = self._events = []
        self._max_header_bytes = max_header_bytes
        self._has_advanced = False
        if self.phase is Phase.NOTHING:
            self.phase = Phase.HEAD
        try:
            self._parse(memoryview(data))
            if not self._has_advanced:
                self._framing_bytes += len(data)
                self._check_size(self._framing_bytes)
        except httptools.HttpParserError as error:
            fault = error.__context__  # what is raised in a callback comes as the context of the parser's own
            events.append(fault if isinstance(fault, ProxyError) else MalformedError("This is not HTTP/1.1."))
        except ProxyError as error:
            events.append(error)
        return events

    def _parse(self, data: memoryview) -> None:
        while data:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                data = data[offer.args[0] :]
                version, method = self._parser.get_http_version(), self._parser.get_method()
                self._parser = httptools.HttpRequestParser(self)
                fields = (b"%b: %b\r\n" % field for field in self._headers if field[0] != b"upgrade")
                line = b"%b %b HTTP/%b\r\n" % (method, self._target, version.encode())
                self._parser.feed_data(b"%b%b\r\n" % (line, b"".join(fields)))
            else:
                return

    def _check_size(self, size: int) -> None:
        limit = self._max_header_bytes
        if size > limit:
            raise HeaderSizeError(
                f"The head of the request, or the framing of its body, is larger than {limit} bytes "
                "(maxHeaderBytes in the proxy's configuration)."
            )

    def _advance(self, phase: Phase, event: Event) -> None:
        self.phase, self._framing_bytes, self._has_advanced = phase, 0, True
        self._events.append(event)

    # What the parser calls

    def on_message_begin(self) -> None:
        """Begin a request."""
        self.phase, self.method = Phase.HEAD, "-"
        self._target, self._headers = b"", []

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field. Those behind a body are no fields of the request (RFC 9110, 6.5.1)."""
        if self.phase is Phase.HEAD:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Give out the head."""
        method, version = self._parser.get_method().decode("ascii"), self._parser.get_http_version()
        self.method = method
        size, hosts, codings, waits = _REST_BYTES + len(method) + len(self._target), 0, [], False
        for name, value in self._headers:
            size += len(name) + len(value) + _FIELD_BYTES
            if name == b"host":
                hosts += 1
            elif name == b"transfer-encoding":
                codings.append(value.lower())
            elif name == b"expect":
                waits = version == "1.1" and value.lower() == b"100-continue"
        self._check_size(size)
        if version not in ("1.0", "1.1") or method == "CONNECT":
            raise MalformedError("HTTP/1.1 is spoken here, and no tunnel is opened.")
        if hosts > 1 or (not hosts and version == "1.1"):
            raise MalformedError("A request of HTTP/1.1 has one Host field (RFC 9112, 3.2).")
        if self._parser.should_upgrade():
            return
        if codings not in ([], [b"chunked"]):
            raise MalformedError("A body may come in chunks, and in no other transfer coding.")
        target = httptools.parse_url(self._target)
        path = target.path or b"/"
        if not path.isascii():
            raise MalformedError("The target of the request has to be percent-encoded.")
        lasts = version == "1.1" and self._parser.should_keep_alive()
        head = RequestHead(method, path, target.query or b"", version, self._headers, lasts, waits)
        self._advance(Phase.BODY, head)

    def on_body(self, body: bytes) -> None:
        """Give out a piece of the body."""
        self._advance(Phase.BODY, body)

    def on_message_complete(self) -> None:
        """Give out the end of the request."""
        if not self._parser.should_upgrade():
            self._advance(Phase.NOTHING, End.END)
