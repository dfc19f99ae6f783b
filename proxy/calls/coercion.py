"""Give the arguments of a tool call the types that the tool's schema asks for.

Models write arguments as text. What a text can be is tried in a fixed order among the types that the
schema allows, and the first that fits wins; where none fits, or nothing is said, it is a string. Nothing
is evaluated: numbers and brackets are read as JSON or not at all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from proxy.calls import jsontext
from proxy.calls.schemas import Schema

if TYPE_CHECKING:
    from proxy.calls.call import Call
    from proxy.calls.schemas import Schemas

MAX_DIGITS = 400
"""Characters of a number; the largest double has 309 digits before its point."""

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "True": True, "false": False, "False": False}
_ANY = frozenset(("null", "integer", "number", "boolean", "object", "array"))
_NO_FIT = object()


def write_arguments(call: Call, schema: Any) -> str:
    """Return the arguments of a call as JSON, typed by the schema of the tool's parameters."""
    known = Schema(schema)
    if isinstance(call.arguments, dict):
        return jsontext.write(_type_value(call.arguments, known, known.top, 0))
    values: dict[str, Any] = {}
    for name, text, is_string in call.arguments:
        schemas = known.of_property(known.top, name)
        allowed = known.allowed(schemas)
        if is_string and (not allowed or "string" in allowed):
            values[name] = text
            continue
        if is_string is False:
            # The model said that it is none. Where the schema says nothing, any JSON will do.
            allowed = _ANY if not allowed else allowed - {"string"}
        values[name] = _type_text(text, known, schemas, allowed, 1)
    return jsontext.write(values)


def _type_text(text: str, known: Schema, schemas: Schemas, allowed: frozenset[str], depth: int) -> Any:
    """Return the value of a text: the first of the allowed types that it fits, or the text."""
    stripped = text.strip()
    for name, read in _FITS.items():
        if name in allowed:
            value = read(stripped)
            if value is not _NO_FIT:
                return _type_value(value, known, schemas, depth)
    return text


def _type_value(value: Any, known: Schema, schemas: Schemas, depth: int) -> Any:
    """Return a JSON value with its parts typed, down to `MAX_DEPTH`.

    What fits stays as it is. A string that is not allowed is read like a text; a number or a boolean where
    only a string is allowed becomes its text.
    """
    below = depth + 1
    if below > jsontext.MAX_DEPTH:
        return value
    if isinstance(value, dict):
        return {
            name: _type_value(part, known, known.of_property(schemas, name), below)
            for name, part in value.items()
        }
    if isinstance(value, list):
        return [_type_value(part, known, known.of_item(schemas, at), below) for at, part in enumerate(value)]
    allowed = known.allowed(schemas)
    if isinstance(value, str):
        fits = not allowed or "string" in allowed
        return value if fits else _type_text(value, known, schemas, allowed, below)
    if value is not None and allowed == {"string"}:
        return jsontext.write(value)
    return value


def _read_null(text: str) -> Any:
    return None if text == "null" else _NO_FIT


def _read_integer(text: str) -> Any:
    return int(text) if len(text) <= MAX_DIGITS and _INTEGER.fullmatch(text) else _NO_FIT


def _read_number(text: str) -> Any:
    return _read_json(text, (int, float)) if len(text) <= MAX_DIGITS and _NUMBER.fullmatch(text) else _NO_FIT


def _read_boolean(text: str) -> Any:
    return _BOOLEANS.get(text, _NO_FIT)


def _read_object(text: str) -> Any:
    return _read_json(text, dict) if text.startswith("{") else _NO_FIT


def _read_array(text: str) -> Any:
    return _read_json(text, list) if text.startswith("[") else _NO_FIT


def _read_json(text: str, kind: type | tuple[type, ...]) -> Any:
    try:
        value = jsontext.read(text)
    except ValueError:
        return _NO_FIT
    return value if isinstance(value, kind) else _NO_FIT


_FITS = {
    "null": _read_null,
    "integer": _read_integer,
    "number": _read_number,
    "boolean": _read_boolean,
    "object": _read_object,
    "array": _read_array,
}
"""What a text can be, in the order in which it is tried. A string is what remains."""
