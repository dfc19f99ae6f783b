"""What is wrong with a configuration, as data: where, which key, and what would be right.

A message never repeats a value that somebody wrote: it may be a key, or come from a variable.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_TELLING_CHARS = 4
"""Characters of a word of which it says something that they stand in a longer one."""

KeyPath = tuple[str | int, ...]
"""Keys and list positions from the top of the configuration to one value."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was written: a file and its line (from 1), a variable, the command line."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        """Return `source:line`, as editors and terminals link it."""
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault: the key as the user spelled it (empty for the whole file) and what is wrong."""

    message: str
    place: Place
    path: str = ""
    nearest: str | None = None
    """The known key that an unknown one resembles most."""

    def __str__(self) -> str:
        """Return the one line that is shown to the user."""
        where = f"{self.place}: {self.path}: " if self.path else f"{self.place}: "
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        return f"{where}{self.message}{hint}"


class ConfigError(Exception):
    """The configuration can't be used; `problems` says why, one by one, never with a value."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Keep the problems, each once, in the order of their places."""
        unique = dict.fromkeys(problems)
        self.problems = tuple(sorted(unique, key=lambda row: (row.place.source, row.place.line or 0)))
        super().__init__("\n".join(map(str, self.problems)))


def show_path(path: KeyPath) -> str:
    """Write a path the way people do: `inlineThinkTagModels[2].start`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def find_nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that resembles `word` most, or has it in it; None if none is close."""
    by_lower, lower = {name.lower(): name for name in known}, word.lower()
    close = get_close_matches(lower, by_lower, n=1)
    if not close and len(lower) >= _TELLING_CHARS:
        close = [name for name in by_lower if lower in name]
    return by_lower[close[0]] if close else None
