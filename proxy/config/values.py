"""Checks of single values that pydantic has no word for. Each returns the value to use, or refuses it."""

from __future__ import annotations

import re
import ssl
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import PydanticCustomError

REFUSED = "refused"
"""The type of our own validation errors; their text is shown as it is."""

MISSING = "nowhere"
"""The type of the one of them that a misspelt key brings about, which is enough to report."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MAX_SOCKET_BYTES = 103  # macOS takes the fewest
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
        or parts.scheme not in {"http", "https", "http+unix"}
        or not (parts.hostname or (parts.scheme == "http+unix" and parts.path.strip("/")))
    ):
        raise refuse("must be an address such as http://127.0.0.1:8000")
    if "?" in url or "#" in url:
        raise refuse("must not contain a query or a fragment")
    if not parts.netloc:  # all of the path is that of the socket
        return f"{parts.scheme}://{parts.path}"
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}"


def check_address(url: str | None, *, uds: str | None, ca_file: str | None) -> None:
    """Refuse a model server that is nowhere, or at two places, or whose certificate is never looked at."""
    if url is None and uds is None:
        raise PydanticCustomError(MISSING, "needs a url, or a uds")
    if uds is not None and url is not None and url.startswith("http+unix:"):
        raise refuse("names a socket twice: in its url, and as uds")
    if ca_file is not None and not (url or "").startswith("https:"):
        raise refuse("has a caFile, which takes an https address")


def check_names(named: dict[str, Any]) -> dict[str, Any]:
    """Take names that may stand in a header or a log."""
    if not all(map(_NAME.fullmatch, named)):
        raise refuse("names are of letters, digits, dots, - and _, at most 64 of them")
    return named


def is_key(text: str) -> bool:
    """Tell whether a text can be a key in a header field, where a space would end it."""
    return _PRINTABLE.fullmatch(text) is not None


def check_key(key: str) -> str:
    """Take a key."""
    if not is_key(key):
        raise refuse("must be printable ASCII without spaces")
    return key


def check_socket(path: str) -> str:
    """Take the path of a socket file, which systems keep short (unix(7): 108 bytes, its end included)."""
    if "\0" in path or len(path.encode()) > _MAX_SOCKET_BYTES:
        raise refuse(f"must be a path of at most {_MAX_SOCKET_BYTES} bytes")
    return path


def check_ca_file(path: str) -> str:
    """Take a file that holds certificates."""
    try:
        ssl.create_default_context(cafile=path)
    except (OSError, ValueError):  # ssl.SSLError is one of the former
        raise refuse("must be a file that can be read, with certificates in PEM form") from None
    return path


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
        sane = sane and "*" not in origin and _PRINTABLE.fullmatch(origin) is not None
        if origin != "*" and not (sane and origin == f"{parts.scheme}://{parts.netloc}"):
            raise refuse('must be origins such as https://chat.example, without a path, or "*"')
    return origins
