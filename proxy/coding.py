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
_EITHER_HEADER = 32 + zlib.MAX_WBITS  # zlib.h, inflateInit2: finds out itself whether it is gzip or zlib


class Inflated:
    """The body of an answer, inflated: it is read like the answer itself."""

    def __init__(self, answer: Answer) -> None:
        """Read from an answer with one of `CODINGS`."""
        self._answer = answer
        self._inflate = zlib.decompressobj(_EITHER_HEADER)
        self._more = False

    async def read(self) -> bytes:
        """Return the next bytes, nothing at the end.

        Raises:
            BrokenError: the server broke off, or this is not what it says it is.
            SilentError: the server sent nothing for too long.
        """
        while not self._inflate.eof:
            data = self._inflate.unconsumed_tail
            if not data and not self._more:
                data = await self._answer.read()
                if not data:
                    raise BrokenError("The model server's compressed answer ends in the middle.")
            try:
                piece = self._inflate.decompress(data, _PIECE_BYTES)
            except zlib.error:
                raise BrokenError("The model server's compressed answer cannot be read.") from None
            self._more = len(piece) == _PIECE_BYTES  # zlib may keep some back without any input left
            if piece:
                return piece
        return b""
