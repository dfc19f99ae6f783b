"""A place in text that arrives in pieces, and what was read up to it."""

from __future__ import annotations

from proxy.calls.literals import compile_literals
from proxy.lines import VISIBLE


class Cursor:
    """Reads a text on from a place. What is consumed is kept, in order."""

    __slots__ = ("_kept", "at", "size", "text")

    def __init__(self, read: str) -> None:
        """Begin behind a text that was read already."""
        self._kept = [read]
        self.text = ""
        """What can be read now."""
        self.at = 0
        """The index in it that comes next."""
        self.size = len(read)
        """Code points consumed so far."""

    @property
    def raw(self) -> str:
        """All that was consumed."""
        return "".join(self._kept)

    @property
    def char(self) -> str:
        """The next character, "" while there is none."""
        return self.text[self.at : self.at + 1]

    def take(self, until: int) -> str:
        """Consume text up to this index; return it."""
        piece = self.text[self.at : until]
        self._kept.append(piece)
        self.size += len(piece)
        self.at = until
        return piece

    def skip_space(self) -> bool:
        """Consume white space; tell whether something is behind it already."""
        visible = VISIBLE.search(self.text, self.at)
        self.take(visible.start() if visible else len(self.text))
        return visible is not None

    def expect(self, literals: tuple[str, ...]) -> str | None:
        """Consume white space and one of these; return which.

        It is "" while none is there yet, None when other text stands there.
        """
        if not self.skip_space():
            return ""
        hit = compile_literals(literals).match(self.text, self.at)
        if hit is None:
            return None
        self.take(self.at + len(hit.literal))
        return hit.literal

    def take_before(self, literals: tuple[str, ...]) -> tuple[str, str]:
        """Consume text up to one of these, and that one; return both.

        While none is there, all text that can't be the beginning of one is consumed, and the second is "".
        """
        hit = compile_literals(literals).find(self.text, self.at)
        piece = self.take(hit.start if hit else len(self.text))
        literal = hit.literal if hit else ""
        self.take(self.at + len(literal))
        return piece, literal

    def look_before(self, literals: tuple[str, ...], limit: int) -> tuple[str, str]:
        """The same, without consuming anything; a text that is longer than the limit is cut behind it."""
        window = self.text[self.at : self.at + limit + max(map(len, literals))]
        hit = compile_literals(literals).find(window, 0)
        return window[: hit.start] if hit else window, hit.literal if hit else ""
