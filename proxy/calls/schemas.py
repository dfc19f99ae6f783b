"""What a JSON schema says about the type of a value: enough to type a tool call's arguments, no validation.

A value is described by several schemas at once: the alternatives of `anyOf`, `oneOf` and `allOf` and the
targets of local references count like the schema that names them.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

MAX_SCHEMAS = 256
"""Schemas that are looked at for one value; what more there are is not known."""

Schemas = tuple[dict[str, Any], ...]

_TYPES: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
    str: "string",
}


class Schema:
    """The schema of a tool's arguments, with what was found out about its parts."""

    def __init__(self, root: Any) -> None:
        """Take a schema as the request carries it; anything but an object says nothing."""
        self._root = root
        self._spread: dict[tuple[int, ...], Schemas] = {}
        self._allowed: dict[tuple[int, ...], frozenset[str]] = {}
        self.top: Schemas = (root,) if isinstance(root, dict) else ()

    def allowed(self, schemas: Schemas) -> frozenset[str]:
        """Return the types that a value can have; none when nothing is said about it."""
        key = tuple(map(id, schemas))
        if key not in self._allowed:
            self._allowed[key] = frozenset(name for part in self._all(schemas) for name in _types(part))
        return self._allowed[key]

    def of_property(self, schemas: Schemas, name: str) -> Schemas:
        """Return what is said about a property of an object."""
        parts = self._all(schemas)
        found = [part["properties"].get(name) for part in parts if isinstance(part.get("properties"), dict)]
        if not any(isinstance(part, dict) for part in found):
            found = [part.get("additionalProperties") for part in parts]
        return tuple(part for part in found if isinstance(part, dict))

    def of_item(self, schemas: Schemas, index: int) -> Schemas:
        """Return what is said about an item of an array."""
        found: list[Any] = []
        for part in self._all(schemas):
            first = part.get("prefixItems")
            listed = isinstance(first, list) and index < len(first)
            found.append(first[index] if listed and isinstance(first, list) else part.get("items"))
        return tuple(part for part in found if isinstance(part, dict))

    def _all(self, schemas: Schemas) -> Schemas:
        """Return these schemas, their alternatives, and what they refer to, each once."""
        key = tuple(map(id, schemas))
        if key in self._spread:
            return self._spread[key]
        found: dict[int, dict[str, Any]] = {}
        waiting: list[Any] = list(schemas)
        while waiting and len(found) < MAX_SCHEMAS:
            part = waiting.pop()
            if not isinstance(part, dict) or id(part) in found:
                continue
            found[id(part)] = part
            for name in ("anyOf", "oneOf", "allOf"):
                if isinstance(part.get(name), list):
                    waiting += part[name][:MAX_SCHEMAS]
            if isinstance(part.get("$ref"), str):
                waiting.append(self._resolve(part["$ref"]))
        self._spread[key] = tuple(found.values())
        return self._spread[key]

    def _resolve(self, reference: str) -> Any:
        """Return the target of a local reference (RFC 6901 in a fragment); None if there is none."""
        if not reference.startswith("#"):
            return None
        target = self._root
        for step in unquote(reference[1:]).split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict):
                target = target.get(name)
            elif isinstance(target, list) and name.isdecimal() and len(name) < len(str(MAX_SCHEMAS)) + 1:
                target = target[int(name)] if int(name) < len(target) else None
            else:
                return None
        return target


def _types(schema: dict[str, Any]) -> set[str]:
    """Return the types that one schema names, or shows by its values or by what it says about parts."""
    named = schema.get("type")
    found = {name for name in (named if isinstance(named, list) else [named]) if isinstance(name, str)}
    values = list(schema["enum"]) if isinstance(schema.get("enum"), list) else []
    if "const" in schema:
        values.append(schema["const"])
    # JSON that is not ours has no other types; a subclass (a number kept as it was written) is a number.
    found |= {_TYPES.get(type(value), "number") for value in values}
    if not found and isinstance(schema.get("properties"), dict):
        found.add("object")
    if not found and ("items" in schema or "prefixItems" in schema):
        found.add("array")
    return found
