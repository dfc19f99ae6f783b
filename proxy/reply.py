"""One answer of a model server, as its bytes come in: head, body and end, without any I/O.

httptools (llhttp) does the parsing; this module decides what may follow what, and how much of it. The
body is given out as it came, less its transfer coding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import httptools

from proxy.errors import BrokenError

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.headers import Headers

MAX_HEAD_BYTES = 64 * 1024
"""Bytes of a status line and header fields, of the trailer fields, and of all that frames a body's bytes."""

_FIELD_BYTES = len(b": \r\n")
_INFORMATIONAL = range(100, 200)
_FINAL = range(200, 600)
_BODYLESS = frozenset({204, 304})  # RFC 9110, 6.4.1
_CUT_OFF = "The model server closed the connection before its answer was complete; its log may say why."


class Head(NamedTuple):
    """The status and the header fields of an answer."""

    status: int
    headers: Headers


class Reply:
    """An answer that is being read. Informational ones (1xx) before it are skipped."""

    __slots__ = (
        *("_delimited", "_end", "_fault", "_has_body", "_headers", "_idle_bytes", "_parser"),
        *("_persistent", "complete", "head", "on_body", "unread"),
    )

    def __init__(self, *, has_body: bool) -> None:
        """Expect the answer to a request; one to HEAD (not `has_body`) ends with its head."""
        self.head: Head | None = None
        self.complete = False
        """The whole answer is here."""
        self.unread: list[bytes] = []
        """Pieces of the body that nobody took yet."""
        self.on_body: Callable[[bytes], None] = self.unread.append
        """Collects the body: the parser calls it for each piece, without a frame of Python between."""
        self._parser = httptools.HttpResponseParser(self)
        self._has_body = has_body
        self._headers: Headers = []
        self._end = 0  # of the body, in pieces, once the answer is complete
        self._idle_bytes = 0  # since the last byte of the body
        self._delimited = False
        self._persistent = False
        self._fault: str | None = None

    @property
    def unread_bytes(self) -> int:
        """How many bytes of the body nobody took yet."""
        return sum(map(len, self.unread))

    @property
    def clean(self) -> bool:
        """Whether the answer ended where it said, on a connection that may carry another one."""
        return self.complete and self._persistent

    def feed(self, data: bytes) -> bool:
        """Take the next bytes of an answer that is not complete; tell whether there is something to `take`.

        Raises:
            BrokenError: this is not HTTP/1.1, or larger than allowed.
        """
        pieces = len(self.unread)
        self._idle_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._fault = "The model server switched to another protocol."
        except httptools.HttpParserError as error:
            self._persistent = False
            self._fault = self._fault or f"The model server sent what is not HTTP/1.1 ({error})."
        if self.complete:
            del self.unread[self._end :]  # bytes behind an answer belong to nobody
            return bool(self.unread)
        if len(self.unread) > pieces:
            self._idle_bytes = 0
        if self._idle_bytes > MAX_HEAD_BYTES:
            self._fault = self._fault or f"The model server sent a header larger than {MAX_HEAD_BYTES} bytes."
        if self._fault is not None:
            raise BrokenError(self._fault)
        return bool(self.unread)

    def feed_eof(self, *, clean: bool) -> None:
        """Take the end of the connection, a `clean` one or not.

        Raises:
            BrokenError: the answer was not complete.
        """
        self._persistent = False
        # RFC 9112, 6.3: a body without a length ends with the connection.
        self.complete = self.complete or (clean and self.head is not None and not self._delimited)
        if not self.complete:
            raise BrokenError(_CUT_OFF)

    def take(self) -> bytes:
        """Return the bytes of the body that came since the last time."""
        body = self.unread[0] if len(self.unread) == 1 else b"".join(self.unread)
        self.unread.clear()
        self._end = 0
        return body

    # What the parser calls

    def on_message_begin(self) -> None:
        """Begin the answer, or an informational one before it."""
        if self.head is None:
            self._headers = []
        else:
            self._persistent = False  # bytes behind an answer belong to nobody

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header field. Trailer fields are dropped: nothing announced them to the client."""
        if self.head is None:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Publish the head, unless it is an informational one."""
        status = self._parser.get_status_code()
        if self.head is not None or status in _INFORMATIONAL:
            return
        size, codings, self._delimited = 0, [], False
        for name, value in self._headers:
            size += len(name) + len(value) + _FIELD_BYTES
            if name == b"transfer-encoding":
                codings.append(value.lower())
                self._delimited = True
            elif name == b"content-length":
                self._delimited = True
        if status not in _FINAL:
            self._fault = f"The model server answered with the status {status}, which HTTP does not know."
        elif codings not in ([], [b"chunked"]):
            self._fault = "The model server used a transfer coding that was not asked for."
        elif size > MAX_HEAD_BYTES:
            self._fault = f"The model server sent a header larger than {MAX_HEAD_BYTES} bytes."
        self._persistent = self._parser.should_keep_alive()
        if self._fault is not None:
            return
        self.head = Head(status, self._headers)
        if not self._has_body or status in _BODYLESS:
            # The parser does not know the method and waits for a body; one that comes is not to be
            # taken for the next answer.
            self._persistent = self._persistent and status in _BODYLESS
            self.complete = True

    def on_message_complete(self) -> None:
        """End the answer, unless it was an informational one."""
        if self.head is not None and not self.complete:
            self.complete, self._end = True, len(self.unread)
