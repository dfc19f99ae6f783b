"""Finding the markers of a tag set in text that arrives in pieces.

A search names the kinds of marker that count and gives a match, leftmost first: a whole marker, or,
at the very end of the text only, the beginning of one, which the caller keeps until more text
decides. Every alternative has a bounded length, so a search is linear.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from proxy.lines import SPACE
from proxy.rules import MAX_PADDING, TagSet

_PADDING = f"[ \\t]{{0,{MAX_PADDING}}}"


class Kind(IntEnum):
    """What a marker does. Kinds that count are a sum of these."""

    PARTIAL = 0
    """The beginning of a marker, at the end of the text."""
    OPEN = 1
    CLOSE = 2
    WRAP = 4
    """Begins the answer, where a family wraps it."""
    UNWRAP = 8
    """Ends a wrapped answer."""


class Found(NamedTuple):
    """A marker in a text."""

    kind: Kind
    start: int
    end: int


class _Pattern(NamedTuple):
    firsts: str
    """The characters with which a marker begins."""
    first: re.Pattern[str]
    """Any of them: text without one needs no further look."""
    whole: re.Pattern[str]


class Markers:
    """The compiled markers of one tag set."""

    def __init__(self, tags: TagSet) -> None:
        """Compile nothing yet: few of the combinations are ever asked for."""
        unwrap = [end for _, end in tags.wrappers]
        if not tags.special:
            unwrap = [line_break + end for end in unwrap for line_break in ("\r\n", "\n", "\r", "")]
        self._alternatives = {
            Kind.OPEN: [_letters(marker, loose=tags.loose) for marker in tags.openers],
            Kind.CLOSE: [_letters(marker, loose=tags.loose) for marker in tags.closers],
            Kind.WRAP: [_letters(begin, loose=False) for begin, _ in tags.wrappers],
            Kind.UNWRAP: [_letters(end, loose=False) for end in (*unwrap, *tags.trailers)],
        }
        self._patterns: list[_Pattern | None] = [None] * 16

    def find(self, kinds: int, text: str, at: int) -> Found | None:
        """Return the first marker of these kinds from this index on, whole or begun."""
        pattern = self._patterns[kinds] or self._compile(kinds)
        first = pattern.first.search(text, at)
        return None if first is None else _found(pattern.whole.search(text, first.start()))

    def begins_in(self, kinds: int, text: str) -> bool:
        """Tell whether any character of a text could be the first of such a marker."""
        return (self._patterns[kinds] or self._compile(kinds)).first.search(text) is not None

    def firsts(self, kinds: int) -> str:
        """Return the characters with which such markers begin."""
        return (self._patterns[kinds] or self._compile(kinds)).firsts

    def match(self, kinds: int, text: str, at: int) -> Found | None:
        """Return the marker that begins at this index, whole or begun."""
        return _found((self._patterns[kinds] or self._compile(kinds)).whole.match(text, at))

    def ends_open(self, prompt: str) -> bool:
        """Tell whether a prompt ends in an opener, white space behind it aside."""
        return (
            re.search(f"(?:{_whole(self._alternatives[Kind.OPEN])})[{SPACE}]*\\Z", prompt[-1024:]) is not None
        )

    def _compile(self, kinds: int) -> _Pattern:
        chosen = [kind for kind in self._alternatives if kind & kinds and self._alternatives[kind]]
        markers = [letters for kind in chosen for letters in self._alternatives[kind]]
        named = [f"(?P<{kind.name}>{_whole(self._alternatives[kind])})" for kind in chosen]
        firsts = "".join(_unescape(letter) for letter in dict.fromkeys(letters[0] for letters in markers))
        # A pattern of no kinds matches nothing.
        pattern = _Pattern(
            firsts,
            re.compile(f"[{re.escape(firsts)}]" if firsts else r"(?!)"),
            re.compile("|".join([*named, _begun(markers)]) if markers else r"(?!)"),
        )
        self._patterns[kinds] = pattern
        return pattern


@lru_cache(maxsize=256)
def compile_markers(tags: TagSet) -> Markers:
    """Return the markers of a tag set; the same set is compiled once."""
    return Markers(tags)


_KINDS = {kind.name: kind for kind in Kind}


def _found(match: re.Match[str] | None) -> Found | None:
    if match is None:
        return None
    return Found(_KINDS.get(match.lastgroup or "", Kind.PARTIAL), match.start(), match.end())


def _letters(marker: str, *, loose: bool) -> list[str]:
    """One pattern per position of the marker.

    Case folding is spelled out letter by letter: `re.IGNORECASE` would let U+212A stand for a `k`.
    """
    if not loose:
        return [re.escape(char) for char in marker]
    body = [f"[{char.lower()}{char.upper()}]" if char.isalpha() else re.escape(char) for char in marker]
    return [*body[:-1], _PADDING, body[-1]]


def _unescape(letter: str) -> str:
    """Return the characters that the pattern of one position admits."""
    return letter[-1] if letter.startswith("\\") else letter.strip("[]")


def _whole(markers: list[list[str]]) -> str:
    return "|".join("".join(letters) for letters in markers)


def _begun(markers: list[list[str]]) -> str:
    """Any proper, non-empty prefix of a marker, up to the end of the text."""
    alternatives = []
    for letters in markers:
        pattern = ""
        for letter in reversed(letters[1:-1]):
            pattern = f"(?:{letter}{pattern})?"
        alternatives.append(f"{letters[0]}{pattern}\\Z")
    return "|".join(dict.fromkeys(alternatives))
