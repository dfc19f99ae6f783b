"""Undo the compression of an answer that has to be read.

A rewritten route asks for `identity`; a server, or something in front of it, may compress all the same.
zlib knows two of the codings (RFC 9110, 8.4.1); what comes out of it comes in bounded pieces, however
small what went in.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from proxy.errors import BrokenError

if TYPE_CHECKING:
    from proxy.upstream import Answer

CODINGS = frozenset({b"gzip", b"x-gzip", b"deflate"})
"""The codings that can be undone here."""

_PIECE_BYTES = 64 * 1024
_INPUT_BYTES = 4096  # what is behind a member is copied, and members may be tiny
_EITHER_HEADER = 32 + zlib.MAX_WBITS  # zlib.h, inflateInit2: finds out itself whether it is gzip or zlib
_MEMBER = b"\x1f"  # RFC 1952, 2.3.1


class Inflated:
    """The body of an answer, inflated: it is read like the answer itself.

    gzip may come in several members, one behind the other (RFC 1952, 2.2). What is behind the last one and
    is none is padding, and dropped.
    """

    def __init__(self, answer: Answer) -> None:
        """Read from an answer with one of `CODINGS`."""
        self._answer = answer
        self._inflate = zlib.decompressobj(_EITHER_HEADER)
        self._data = memoryview(b"")  # what came and was not read
        self._more = False  # zlib may keep some back without any input left
        self._is_between = False  # a member has ended, and no other has begun

    async def read(self) -> bytes:
        """Return the next bytes, nothing at the end.

        Raises:
            BrokenError: the server broke off, or this is not what it says it is.
            SilentError: the server sent nothing for too long.
        """
        while True:
            if not self._data and not self._more:
                self._data = memoryview(await self._answer.read())
                if not self._data and not self._is_between:
                    raise BrokenError("The model server's compressed answer ends in the middle.")
                if not self._data:
                    return b""
            if self._is_between and self._data[:1] != _MEMBER:
                self._data = self._data[:0]
            elif piece := self._inflate_some():
                return piece

    def _inflate_some(self) -> bytes:
        inflate, data = self._inflate, self._data[:_INPUT_BYTES]
        try:
            piece = inflate.decompress(data, _PIECE_BYTES)
        except zlib.error:
            raise BrokenError("The model server's compressed answer cannot be read.") from None
        self._is_between = inflate.eof
        self._more = len(piece) == _PIECE_BYTES and not inflate.eof
        self._data = self._data[len(data) - len(inflate.unused_data or inflate.unconsumed_tail) :]
        if inflate.eof:
            self._inflate = zlib.decompressobj(_EITHER_HEADER)
        return piece
