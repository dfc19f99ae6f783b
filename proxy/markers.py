"""Finding the markers of a tag set in text that arrives in pieces.

A pattern of this module matches, leftmost first, either a whole marker (group `open` or `close`)
or, at the very end of the text only, the beginning of one (group `partial`), which the caller keeps
until more text decides. Every alternative has a bounded length, so a search is linear.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from proxy.rules import MAX_PADDING, TagSet

_PADDING = f"[ \\t]{{0,{MAX_PADDING}}}"


class Markers(NamedTuple):
    """The compiled markers of one tag set."""

    openers: re.Pattern[str]
    closers: re.Pattern[str]
    both: re.Pattern[str]
    first: re.Pattern[str]
    """Any character with which a marker begins: text without one needs no further look."""


@lru_cache(maxsize=256)
def compile_markers(tags: TagSet) -> Markers:
    """Compile the patterns for a tag set; the same set is compiled once."""
    opening = [_letters(marker, loose=tags.loose) for marker in tags.openers]
    closing = [_letters(marker, loose=tags.loose) for marker in tags.closers]
    firsts = dict.fromkeys(marker[0] for marker in (*tags.openers, *tags.closers))
    opens = f"(?P<open>{_whole(opening)})"
    closes = f"(?P<close>{_whole(closing)})"
    return Markers(
        openers=re.compile(f"{opens}|{_begun(opening)}"),
        closers=re.compile(f"{closes}|{_begun(closing)}"),
        both=re.compile(f"{opens}|{closes}|{_begun(opening + closing)}"),
        first=re.compile("|".join(re.escape(first) for first in firsts)),
    )


def _letters(marker: str, *, loose: bool) -> list[str]:
    """One pattern per position of the marker.

    Case folding is spelled out letter by letter: `re.IGNORECASE` would let U+212A stand for a `k`.
    """
    if not loose:
        return [re.escape(char) for char in marker]
    body = [f"[{char.lower()}{char.upper()}]" if char.isalpha() else re.escape(char) for char in marker]
    return [*body[:-1], _PADDING, body[-1]]


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
    return f"(?P<partial>{'|'.join(dict.fromkeys(alternatives))})"
