"""What the splitter gives: pieces of text, each for one channel, in order."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple


class Channel(Enum):
    """Where text goes."""

    CONTENT = auto()
    REASONING = auto()


class Span(NamedTuple):
    """A piece of text for one channel.

    `end` counts the code points of the input that had been read when the piece was complete;
    markers and dropped white space are among them.
    """

    channel: Channel
    text: str
    end: int


class Lane:
    """A stretch of text that need not be looked at: all of it goes out as it is, on one channel.

    It lasts until one of its stops comes. Whoever lets text pass counts it here.
    """

    __slots__ = ("channel", "chars", "stops")

    def __init__(self, channel: Channel, stops: str) -> None:
        """Begin: text without any of the characters `stops` may pass."""
        self.channel = channel
        self.stops = stops
        self.chars = 0
        """The code points that have passed."""


class Spans:
    """Collects pieces; neighbours of one channel become one span."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        """Begin empty."""
        self._found: list[tuple[Channel, list[str], int]] = []

    def add(self, channel: Channel, text: str, end: int) -> None:
        """Add a piece that was complete when `end` code points had been read."""
        if self._found and self._found[-1][0] is channel:
            pieces = self._found.pop()[1]
            pieces.append(text)
        else:
            pieces = [text]
        self._found.append((channel, pieces, end))

    def take(self) -> list[Span]:
        """Return the spans, and begin anew."""
        if not self._found:
            return []
        spans = [Span(channel, "".join(pieces), end) for channel, pieces, end in self._found]
        self._found.clear()
        return spans
