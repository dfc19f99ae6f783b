"""Mid-line openers in content, held until it is known whether they open a block or are mentioned.

The text behind each opener is read as content meanwhile. A closer turns the oldest opener that is still
within the limit into a block; the limit, an opener that counts at once, or the end makes them prose.
Every piece of text is stored once and joined once, however many openers are held.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from proxy.lines import Lines


@dataclass(slots=True)
class _Opener:
    start: int
    marker: str
    lines: Lines
    text: list[str] = field(default_factory=list)


class HeldBlock(NamedTuple):
    """A hold that became a block."""

    marker: str
    text: str
    lines: Lines
    """Where the content stood at its opener."""
    nested: int
    """The openers inside it."""


class Hold:
    """The held openers, oldest first. It is true while there are any."""

    __slots__ = ("_limit", "_openers")

    def __init__(self, limit: int) -> None:
        """Let a block be at most `limit` code points long, both markers included."""
        self._limit = limit
        self._openers: deque[_Opener] = deque()

    def __bool__(self) -> bool:
        """Tell whether an opener is held."""
        return bool(self._openers)

    def open(self, start: int, marker: str, lines: Lines) -> None:
        """Hold an opener that starts at this code point of the input."""
        self._openers.append(_Opener(start, marker, lines))

    def write(self, text: str) -> None:
        """Hold text behind the newest opener."""
        self._openers[-1].text.append(text)

    def expire(self, position: int) -> str:
        """Give up the openers whose block would end at `position` and be too long; return their prose."""
        prose: list[str] = []
        while self._openers and self._openers[0].start + self._limit < position:
            opener = self._openers.popleft()
            prose += (opener.marker, *opener.text)
        return "".join(prose)

    def release(self) -> str:
        """Give up every opener; return the prose."""
        prose = [piece for opener in self._openers for piece in (opener.marker, *opener.text)]
        self._openers.clear()
        return "".join(prose)

    def close(self) -> HeldBlock:
        """Make the oldest opener a block up to here."""
        first = self._openers.popleft()
        nested = len(self._openers)
        return HeldBlock(first.marker, "".join((*first.text, self.release())), first.lines, nested)
