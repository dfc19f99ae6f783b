"""What a client sends: uvicorn's protocol as far as it reads, bounded in size.

A client sends a head, a body, and so on. Bytes of a body are the application's to bound. All other
bytes (heads, blank lines before them, the framing of chunks, trailer fields) are counted here from the
last byte of a body on, and may not exceed `maxHeaderBytes`.

A request that offers another protocol is read a second time without the offer: the parser takes the
bytes behind the head for that protocol, where for us they are the body.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from proxy.cycle import Cycle
from proxy.errors import HeaderSizeError, RequestError
from proxy.settings import Settings
from proxy.traffic import Traffic

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

MAX_PIPELINED = 8
"""Requests that may wait on one connection for the answer before theirs."""

_REST_BYTES = 14
"""Bytes of a head besides method, target and fields: two spaces, the version, two line ends."""


class MalformedError(RequestError):
    """What came is not HTTP/1.1, or not in a form that is served."""

    code = "malformed_request"


class Phase(Enum):
    """What a client is sending."""

    NOTHING = auto()
    HEAD = auto()
    BODY = auto()


class Intake(HttpToolsProtocol):
    """Reads requests from a connection, and says when one can be started."""

    cycle: Cycle | None  # type: ignore[assignment]  # there is none before the first head is complete
    """The last request that came."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """Take what uvicorn gives; a `Traffic` in place of the plain state brings the settings."""
        super().__init__(config, server_state, app_state, _loop)
        self.traffic = server_state if isinstance(server_state, Traffic) else Traffic(Settings())
        self.phase = Phase.NOTHING
        self._framing_bytes = 0
        self._head_bytes = 0
        self._has_advanced = False

    def start(self, cycle: Cycle) -> None:
        """Run a request."""
        raise NotImplementedError

    def feed(self, data: memoryview) -> None:
        """Read what came.

        Raises:
            HttpParserError: it is not HTTP; or, as its context, one of the errors below.
            HeaderSizeError: it is too much.
        """
        self._has_advanced = False
        size = len(data)
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                data = data[offer.args[0] :]
                self.parser = httptools.HttpRequestParser(self)
                fields = (b"%b: %b\r\n" % field for field in self.headers if field[0] != b"upgrade")
                line = b"%b %b HTTP/%b\r\n" % (
                    self.scope["method"].encode(),
                    self.url,
                    self.scope["http_version"].encode(),
                )
                self.parser.feed_data(b"%b%b\r\n" % (line, b"".join(fields)))
            else:
                break
        if not self._has_advanced:
            self._framing_bytes += size
            self._check_size(self._framing_bytes)

    def _check_size(self, size: int) -> None:
        limit = self.traffic.settings.max_header_bytes
        if size > limit:
            raise HeaderSizeError(
                f"The head of the request, or the framing of its body, is larger than {limit} bytes "
                "(maxHeaderBytes in the proxy's configuration)."
            )

    def _advance(self, phase: Phase) -> None:
        self.phase, self._framing_bytes, self._has_advanced = phase, 0, True

    # What the parser calls. What is raised here comes out of `feed_data` as the context of its own error.

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self.phase, self._head_bytes = Phase.HEAD, _REST_BYTES

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        super().on_url(url)
        self._head_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field. Those behind a body are no fields of the request (RFC 9110, 6.5.1)."""
        if self.phase is Phase.HEAD:
            super().on_header(name, value)
            self._head_bytes += len(name) + len(value) + 4

    def on_headers_complete(self) -> None:
        """Start the request, or let it wait for the answer before its own."""
        method, version = self.parser.get_method().decode("ascii"), self.parser.get_http_version()
        self.scope["method"], self.scope["http_version"] = method, version
        self._check_size(self._head_bytes + len(method))
        if version not in ("1.0", "1.1") or method == "CONNECT":
            raise MalformedError("HTTP/1.1 is spoken here, and no tunnel is opened.")
        if self.parser.should_upgrade():
            return
        if len(self.pipeline) == MAX_PIPELINED:
            raise MalformedError("These are too many requests at once for one connection.")
        target = httptools.parse_url(self.url)
        self.scope["path"] = unquote(target.path.decode("ascii"))
        self.scope["raw_path"] = target.path
        self.scope["query_string"] = target.query or b""
        self._advance(Phase.BODY)
        before = self.cycle
        lasts = version == "1.1" and self.parser.should_keep_alive() and not self.traffic.is_draining
        self.cycle = Cycle(
            scope=self.scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue and version == "1.1",
            keep_alive=lasts,
            on_response=self.on_response_complete,
        )
        if before is None or before.response_complete:
            self.start(self.cycle)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((self.cycle, self.app))

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._advance(Phase.BODY)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request."""
        if not self.parser.should_upgrade():
            self._advance(Phase.NOTHING)
            super().on_message_complete()
