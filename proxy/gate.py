"""Which paths are forwarded. A model server has operational paths that must not be reachable by default.

The path is judged after percent-decoding, since that is what the server will see; one that holds dot
segments then, or that would decode a second time, is refused whatever else it says.
"""

from __future__ import annotations

import re
from fnmatch import translate
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

CHAT_PATH = b"/v1/chat/completions"
"""The one path whose answers are rewritten."""

TAGGED_PATHS = frozenset({b"/v1/completions", b"/v1/responses", b"/v1/messages"})
"""Paths that carry a model's text too and are relayed as they are: a listed model shows its tags there."""

_EXACT = frozenset(
    {
        CHAT_PATH,
        b"/v1/models",
        b"/v1/completions",
        b"/v1/embeddings",
        b"/v1/responses",
        b"/v1/messages",
        b"/v1/score",
        b"/v1/rerank",
        b"/tokenize",
        b"/detokenize",
        b"/version",
        b"/health",
    }
)
_BELOW = (b"/v1/models/", b"/v1/responses/", b"/v1/messages/", b"/v1/audio/")
_SUSPECT = re.compile(rb"//|\\|[\x00-\x1f\x7f]|/\.{1,2}(?:[/;]|$)|%[0-9a-fA-F]{2}")


class Gate:
    """The paths that are forwarded: the built-in ones, and the globs of the configuration."""

    def __init__(self, globs: Iterable[str]) -> None:
        """Admit paths that match a glob besides the built-in ones."""
        self._globs = [re.compile(translate(glob).encode()) for glob in globs]

    def admit(self, raw_path: bytes) -> bytes | None:
        """Return the path that the model server will see, None if it is not forwarded.

        `raw_path` is the path as it came, percent-encoded.
        """
        if raw_path == CHAT_PATH:
            return raw_path  # what nearly all requests are for
        path = unquote_to_bytes(raw_path)
        if not path.startswith(b"/") or _SUSPECT.search(path):
            return None
        known = path in _EXACT or path.startswith(_BELOW) or any(glob.match(path) for glob in self._globs)
        return path if known else None
