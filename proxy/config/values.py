"""Checks of single values that pydantic has no word for. Each returns the value to use, or refuses it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import PydanticCustomError

from proxy.rules import TAG_SETS, TagSet, check_tags

REFUSED = "refused"
"""The type of our own validation errors; their text is shown as it is."""

TAGS_SCHEMA = {
    "anyOf": [
        {"enum": list(TAG_SETS)},
        {
            "type": "object",
            "properties": {
                key: {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}}
                for key in ("open", "close")
            },
            "required": ["open", "close"],
            "additionalProperties": False,
        },
    ]
}
"""How a tag set is written."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, 5.6.2
_PRINTABLE = re.compile(r"[\x21-\x7e]+")


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


def read_tags(value: Any) -> TagSet:
    """Take the name of a tag set in the table, or a set of the user's own."""
    if isinstance(value, TagSet):
        return value
    if isinstance(value, str):
        if value not in TAG_SETS:
            raise refuse(f"must be {{open: [...], close: [...]}}, or one of {', '.join(TAG_SETS)}")
        return TAG_SETS[value]
    lists = list(value.values()) if isinstance(value, dict) else []
    texts = [item for items in lists if isinstance(items, list) for item in items]
    if (
        not isinstance(value, dict)
        or set(value) != {"open", "close"}
        or not all(isinstance(items, list) and items for items in lists)
        or not all(isinstance(text, str) for text in texts)
    ):
        raise refuse("must be the name of a tag set, or {open: [...], close: [...]} with texts in both lists")
    if problems := check_tags(value["open"], value["close"]):
        raise refuse(f"can't be split the same way however the text is cut: {'; '.join(problems)}")
    return TagSet("custom", tuple(value["open"]), tuple(value["close"]))


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
