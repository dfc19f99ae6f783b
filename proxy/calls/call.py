"""Tool calls as a model wrote them, before their arguments have types."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.calls import jsontext

if TYPE_CHECKING:
    from proxy.calls.dialects import Dialect

_LAYOUT = re.compile(r"\s*+[\"']?+[^\s\"'<>{}\[\]|`]*+[\"']?+\s*+/?+\s*+")
_ATTRIBUTES = re.compile(r'\s*+"(?P<name>[^"]++)"(?:\s++string="(?P<string>[a-z]*+)")?+\s*+')


class Parameter(NamedTuple):
    """An argument that was written as text."""

    name: str
    text: str
    is_string: bool | None
    """What the dialect says about it; None where it says nothing."""


class Call(NamedTuple):
    """A call as the model wrote it."""

    name: str
    arguments: tuple[Parameter, ...] | dict[str, Any]
    id: str = ""
    """The model's own id, or ""."""


class CallBlock(NamedTuple):
    """A complete block: an envelope with its calls, or a call that stands alone."""

    raw: str
    """The text as it stood there, markers included."""
    opener: str
    calls: tuple[Call, ...]


def may_be_name(header: str) -> bool:
    """Tell whether this can be a function's name, or the beginning of one, with quotes and layout."""
    return _LAYOUT.fullmatch(header) is not None


def read_name(header: str, row: Dialect) -> tuple[str, str]:
    """Return the name of a function and the model's id for the call, "" for none; no name if malformed."""
    name = _unquote(header)
    if not row.native_ids:
        return name, ""
    stem, _, number = name.rpartition(":")
    if not (number.isascii() and number.isdecimal()):
        return "", ""
    return stem.removeprefix("functions."), name


def read_key(header: str, row: Dialect) -> tuple[str, bool | None]:
    """Return the name of an argument and whether its value is a string; no name if malformed."""
    if not row.attributes:
        return _unquote(header), None
    match = _ATTRIBUTES.fullmatch(header)
    if match is None:
        return "", None
    return match["name"].strip(), {"true": True, "false": False}.get(match["string"] or "")


def read_calls(value: Any) -> list[Call]:
    """Return the calls that a JSON value holds; none if any of them is malformed.

    `parameters` stands for `arguments`, as SGLang 0.5.23 reads it; arguments can be JSON in a string.
    """
    calls: list[Call] = []
    for item in value if isinstance(value, list) else [value]:
        name = item.get("name") if isinstance(item, dict) else None
        if not isinstance(name, str) or not name:
            return []
        arguments = item.get("arguments", item.get("parameters"))
        if isinstance(arguments, str):
            try:
                arguments = jsontext.read(arguments)
            except ValueError:
                return []
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            return []
        calls.append(Call(name, arguments))
    return calls


def _unquote(header: str) -> str:
    """Return a name without its quotes, double or single; "" if they do not match."""
    name = header.strip()
    if name[:1] in ('"', "'"):
        name = name[1:-1] if len(name) > 1 and name[-1] == name[0] else ""
    return "" if any(quote in name for quote in "\"'") else name.strip()
