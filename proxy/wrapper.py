"""The pair that some families wrap the answer in: both markers go, and nothing else changes.

Its beginning counts before anything visible, its end from then on. A special token can't be quoted, so it
goes wherever it stands; of the others only the first pair does, with one line break each on the inside. The
end counts directly behind a closing fence as well (it stands on no line, so that the fence's line ends
there), and on a line of its own within inline code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.markers import Kind

if TYPE_CHECKING:
    from proxy.rules import TagSet


class Wrapper:
    """What of a tag set's wrapper can still come."""

    __slots__ = ("_begun", "_special", "_wraps", "breaks", "kinds")

    def __init__(self, tags: TagSet) -> None:
        """Begin an answer. A wrapper that is no special token has to follow a block, see `expect`."""
        self._wraps = bool(tags.wrappers)
        self._special = tags.special
        self._begun = False
        self.kinds: int = Kind.WRAP | Kind.UNWRAP if tags.special and tags.wrappers else 0
        """The kinds of marker that can come."""
        self.breaks = ""
        """The line breaks of which one is left out next."""

    def counting(self, *, visible: bool) -> int:
        """Return the kinds that count now; `visible` tells whether the answer has begun."""
        return self.kinds & Kind.UNWRAP if visible else self.kinds

    def in_code(self, *, spent: bool) -> int:
        """Return the kinds that count in code as well, for `spent` see `Lines.is_spent`."""
        return self.kinds & Kind.UNWRAP if self._special or spent else 0

    def expect(self) -> None:
        """A block has ended, and nothing visible came before: the answer may begin."""
        if self._wraps and not (self._begun or self.kinds):
            self.kinds = Kind.WRAP

    def meet(self, kind: Kind) -> None:
        """Take a marker that counts."""
        if kind is Kind.WRAP:
            self.kinds, self._begun = Kind.UNWRAP, True
            self.breaks = "" if self._special else "\r\n"
        elif not self._special:
            self.kinds = 0

    def leaves_out(self, following: str) -> bool:
        """Tell whether the next character is a line break of the wrapper; a CR may bring an LF along."""
        found = following in self.breaks
        self.breaks = "\n" if found and following == "\r" else ""
        return found
