"""Finding one of a few fixed texts in text that arrives in pieces."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class Hit(NamedTuple):
    """A literal in a text, or, at its very end, the beginning of one: then `literal` is empty."""

    start: int
    literal: str


class Literals:
    """A few fixed texts, none the beginning of another.

    Every one has a bounded length, so a search is linear.
    """

    def __init__(self, literals: tuple[str, ...]) -> None:
        """Compile them."""
        whole = "|".join(map(re.escape, literals))
        begun = "|".join(dict.fromkeys(_begun(literal) for literal in literals))
        # A pattern of no literals finds nothing.
        self._pattern = re.compile(f"({whole})|(?:{begun})\\Z" if literals else r"(?!)")
        self._first = re.compile("|".join(dict.fromkeys(re.escape(text[0]) for text in literals)) or r"(?!)")

    def find(self, text: str, at: int) -> Hit | None:
        """Return the first literal from this index on, whole or begun."""
        if self._first.search(text, at) is None:
            return None
        return _hit(self._pattern.search(text, at))

    def match(self, text: str, at: int) -> Hit | None:
        """Return the literal that begins at this index, whole or begun."""
        return _hit(self._pattern.match(text, at))

    def begins_in(self, text: str) -> bool:
        """Tell whether any character of a text could be the first of a literal."""
        return self._first.search(text) is not None


@lru_cache(maxsize=256)
def compile_literals(literals: tuple[str, ...]) -> Literals:
    """Return the compiled literals; the same ones are compiled once."""
    return Literals(literals)


def _hit(match: re.Match[str] | None) -> Hit | None:
    return None if match is None else Hit(match.start(), match.group(1) or "")


def _begun(literal: str) -> str:
    """Any proper, non-empty prefix."""
    pattern = ""
    for char in reversed(literal[1:-1]):
        pattern = f"(?:{re.escape(char)}{pattern})?"
    return re.escape(literal[0]) + pattern
