"""JSON inside a model's text: where a value ends, and what it says.

Only what can be written again as JSON is read: no NaN, no Infinity, no number that overflows, and no
deeper nesting than `MAX_DEPTH`.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

MAX_DEPTH = 64
"""Levels of nesting; the arguments of a call are written by hand, so to speak."""

_OUTSIDE = re.compile(r"[^\s:,0-9.+\-eEtrufalsn]")
_INSIDE = re.compile(r'["\\\x00-\x1f]')
_SURROGATE = re.compile("[\ud800-\udfff]")


class JsonEnd:
    """Follows an object or a list to its end, however the text is cut. Each character is read once.

    Prose is told from JSON early: by a character that JSON has in strings only, by a line break in a string.
    """

    __slots__ = ("_depth", "_escaped", "_quoted", "failed")

    def __init__(self) -> None:
        """Begin before the first bracket."""
        self._depth = 0
        self._quoted = False
        self._escaped = False
        self.failed = False
        """It is no JSON, or nested too deeply."""

    def feed(self, text: str, at: int) -> int | None:
        """Read on from this index; return the index behind the value, or None while it goes on."""
        while True:
            if self._escaped:
                if at >= len(text):
                    return None
                at += 1
                self._escaped = False
            found = (_INSIDE if self._quoted else _OUTSIDE).search(text, at)
            if found is None:
                return None
            at = found.end()
            mark = found.group()
            if mark == "\\":
                self._escaped = True
            elif mark == '"':
                self._quoted = not self._quoted
            elif mark in "{[":
                self._depth += 1
            elif mark in "}]":
                self._depth -= 1
            else:
                self.failed = True
            if self.failed or not 0 < self._depth <= MAX_DEPTH:
                self.failed = self.failed or self._depth != 0
                return at


def read(text: str) -> Any:
    """Parse JSON.

    Raises:
        ValueError: it is not JSON, or can't be written again as JSON.
    """
    end = JsonEnd()
    if text.lstrip()[:1] in ("{", "[") and (end.feed(text, 0) is None or end.failed):
        raise ValueError("unbalanced, or nested too deeply")
    return json.loads(text, parse_float=_read_float, parse_constant=_refuse)


def write(value: Any) -> str:
    """Write JSON. Non-ASCII characters stay as they are, but for what is no character by itself."""
    return _SURROGATE.sub(_escape, json.dumps(value, ensure_ascii=False))


def _read_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("a number that overflows")
    return number


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"
