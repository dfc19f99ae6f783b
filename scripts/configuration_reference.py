"""Write docs/configuration-reference.md from the models of the configuration.

python scripts/configuration_reference.py > docs/configuration-reference.md
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_camel

from proxy.config.environment import name_variable
from proxy.config.keys import list_keys
from proxy.config.schema import build_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = """\
# Configuration reference

Every key, its type, default and limits, made from the code by `scripts/configuration_reference.py`. What the
keys are for, and how they work together, is in [configuration.md](configuration.md).

Below what a key means stands the environment variable that sets it; keys in lists and under names of your own
have none. A text with `${NAME}` in it takes the value of the variable `NAME`; it can stand in place of a
number or a truth value, too.
"""

SCHEMA = build_schema()
VARIABLES = {".".join(map(to_camel, path)): name_variable(path) for path in list_keys()}
LIMITS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤"}


def resolve(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the schema with what it refers to in place of the reference."""
    target: dict[str, Any] = SCHEMA["$defs"].get(str(row.get("$ref", "")).rpartition("/")[2], {})
    return target | row


def forms_of(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the forms that a value can take, without null and the text with a variable in it."""
    forms = [resolve(form) for form in resolve(row).get("anyOf", [row])]
    return [
        form for form in forms if form.get("type") != "null" and not form.get("pattern", "").startswith(r"\$")
    ]


def mapping_in(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return the mapping behind a key: its value, what a list holds, or what the user gives names to."""
    for form in forms_of(row):
        if "properties" in form:
            return form
        for inner in (form.get("items"), form.get("additionalProperties")):
            if isinstance(inner, dict) and (found := mapping_in(inner)):
                return found
    return None


def name_type(row: dict[str, Any]) -> str:
    """Return what a value may be, in words."""
    return " or ".join(dict.fromkeys(name_form(form) for form in forms_of(row)))


def name_form(form: dict[str, Any]) -> str:
    """Return what one form of a value is."""
    if "enum" in form:
        return ", ".join(f"`{value}`" for value in form["enum"])
    kind = str(form.get("type", "mapping"))
    limits = ", ".join(f"{sign} {form[name]:g}" for name, sign in LIMITS.items() if name in form)
    if kind == "array":
        return f"list of {name_type(form['items'])}"
    if kind == "object" and isinstance(form.get("additionalProperties"), dict):
        return "mapping of names to " + name_type(form["additionalProperties"])
    words = {"string": "text", "integer": "whole number", "boolean": "`true`, `false`"}
    return words.get(kind, "mapping" if kind == "object" else kind) + (f" {limits}" if limits else "")


def name_default(row: dict[str, Any], *, required: bool) -> str:
    """Return the default as it would be written in the file."""
    if required:
        return "required"
    default = row.get("default")
    if default is None or "properties" in resolve(row):
        return ""
    if isinstance(default, float) and default.is_integer():
        default = int(default)
    return f"`{json.dumps(default, ensure_ascii=False)}`"


def write_section(title: str, section: dict[str, Any], path: str) -> Iterator[str]:
    """Yield a table of a mapping's keys, and then those of the mappings inside it."""
    yield f"\n## {title}\n"
    if path and section.get("description"):
        yield section["description"] + "\n"
    yield "| key | type | default | meaning |"
    yield "|---|---|---|---|"
    inner: list[tuple[str, dict[str, Any], str]] = []
    for key, row in section["properties"].items():
        found = mapping_in(row)
        # pydantic leaves a description out where what the key refers to has the same one.
        about = next(
            form["description"] for form in (row, *forms_of(row), found or {}) if "description" in form
        )
        if found is not None:
            shown, below = place_of(key, row, path)
            inner.append((shown, found, below))
            about += f" See [below](#{slug(shown)})."
        default = name_default(row, required=key in section.get("required", ()))
        if path + key in VARIABLES:
            about += f"<br>`{VARIABLES[path + key]}`"
        cells = [f"`{key}`", name_type(row), default, about]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    for shown, found, below in inner:
        yield from write_section(f"`{shown}`", found, below)


def place_of(key: str, row: dict[str, Any], path: str) -> tuple[str, str]:
    """Return how the path of a mapping is shown, and the prefix of its keys."""
    form = next(form for form in forms_of(row) if mapping_in(form))
    mark = {"array": "[]"}.get(form.get("type", ""), ".NAME" if "additionalProperties" in form else "")
    if "properties" in form:
        mark = ""
    return f"{path}{key}{mark}", f"{path}{key}{mark}."


def slug(title: str) -> str:
    """Return the anchor of a heading, as the site makes it."""
    return re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-")


def render() -> str:
    """Return the page."""
    return "\n".join([HEAD.rstrip("\n"), *write_section("Top level", SCHEMA, "")]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
