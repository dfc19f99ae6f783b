"""Checks of single values that pydantic has no word for. Each returns the value to use, or refuses it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import PydanticCustomError

REFUSED = "refused"
"""The type of our own validation errors; their text is shown as it is."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_NOT_FIRST = "\ufeff\u200b`~"
"""What can't begin a marker besides `str.isspace`: more white space, and what begins Markdown code."""


def refuse(message: str) -> PydanticCustomError:
    """Return the error to raise for a value; the message must not repeat it."""
    return PydanticCustomError(REFUSED, "{message}", {"message": message})


def refuse_bool(value: Any) -> Any:
    """Refuse true and false where a number is wanted: Python counts them as 1 and 0."""
    if isinstance(value, bool):
        raise refuse("must be a number")
    return value


def read_off(value: Any) -> Any:
    """Take false for `off`: in YAML 1.1, and to the eyes of many, they are the same word."""
    return "off" if value is False else value


def check_markers(openers: list[str], closers: list[str]) -> None:
    """Refuse markers that no splitter can find in a stream without knowing how it will be cut.

    A marker that is the end of another is fine: both are decided at the same character. The refusal
    names markers by their position: what they say may come from a variable.
    """
    markers = {f"open[{index}]": marker for index, marker in enumerate(openers)}
    markers |= {f"close[{index}]": marker for index, marker in enumerate(closers)}
    problems: list[str] = []
    for place, marker in markers.items():
        if marker[0].isspace() or marker[0] in _NOT_FIRST:
            problems.append(f"{place} begins with white space, a backtick or a tilde")
        for other_place, other in markers.items():
            if marker in other[:-1]:
                problems.append(f"{place} is the beginning or the inside of {other_place}")
            elif marker == other and place.startswith("open") and other_place.startswith("close"):
                problems.append(f"{place} and {other_place} are the same")
    if problems:
        raise refuse(f"can't be told apart however the text is cut: {'; '.join(problems)}")


def read_upstream(url: str) -> str:
    """Return an http(s) address without its trailing slashes and `/v1`.

    The text of a refusal leaves the address out: it may hold a password.
    """
    if "@" in url.partition("://")[2].partition("/")[0]:
        raise refuse("must not contain a user name or password")
    try:
        parts = urlsplit(url)
        port_ok = parts.port != 0
    except ValueError:
        port_ok = False
    if (
        not port_ok
        or not _PRINTABLE.fullmatch(url)
        or parts.scheme not in {"http", "https"}
        or not parts.hostname
    ):
        raise refuse("must be an address such as http://127.0.0.1:8000")
    if "?" in url or "#" in url:
        raise refuse("must not contain a query or a fragment")
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}"


def check_model(name: str) -> str:
    """Take a model name or glob; white space around it can only be a slip."""
    if name != name.strip():
        raise refuse("must not begin or end with white space")
    return name


def check_path(glob: str) -> str:
    """Take a glob of paths: it begins with a slash and has no query."""
    if not glob.startswith("/") or not _PRINTABLE.fullmatch(glob) or "#" in glob:
        raise refuse("must be a path or a glob of paths that begins with /")
    return glob


def check_header_name(name: str) -> str:
    """Take the name of a header field."""
    if not _TOKEN.fullmatch(name):
        raise refuse("must be the name of a header")
    return name


def check_origins(origins: list[str]) -> list[str]:
    """Take origins as browsers send them (RFC 6454, 6.2), or `*` alone."""
    if "*" in origins and len(origins) > 1:
        raise refuse('"*" allows every origin and stands alone')
    for origin in origins:
        try:
            parts = urlsplit(origin)
            sane = bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
        except ValueError:
            sane = False
        if origin != "*" and (
            not sane or origin != f"{parts.scheme}://{parts.netloc}" or not _PRINTABLE.fullmatch(origin)
        ):
            raise refuse('must be origins such as https://chat.example, without a path, or "*"')
    return origins
