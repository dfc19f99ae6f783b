"""The JSON schema of the configuration file, for editors: generated from the models."""

from __future__ import annotations

import json
from typing import Any

from proxy.config.model import Configuration

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NO_TEXT = frozenset({"integer", "number", "boolean"})
_VARIABLE = {"type": "string", "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*\}"}


def build_schema() -> dict[str, Any]:
    """Return the schema: camelCase keys."""
    schema = Configuration.model_json_schema(mode="serialization")
    definitions = schema["$defs"]
    models = schema["properties"]["inlineThinkTagModels"]
    models["items"] = {"anyOf": [{"type": "string", "minLength": 1}, models["items"]]}
    upstreams = schema["properties"]["upstreams"]
    upstreams["additionalProperties"] = {
        "anyOf": [{"type": "string", "minLength": 1}, upstreams["additionalProperties"]]
    }
    for section in (schema, *definitions.values()):
        for key, value in section.get("properties", {}).items():
            value.pop("title", None)
            section["properties"][key] = _admit_variable(value, definitions)
    return {"$schema": DIALECT} | schema


def _admit_variable(row: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Let a text with `${NAME}` stand where a number, a truth value or a word of a list is wanted."""
    about = {key: row[key] for key in ("description", "default") if key in row}
    forms = row.get("anyOf") or [{key: row[key] for key in row if key not in about}]
    targets = [definitions.get(str(form.get("$ref", "")).rpartition("/")[2], form) for form in forms]
    if not any(target.get("type") in _NO_TEXT or "enum" in target for target in targets):
        return row
    return about | {"anyOf": [*forms, _VARIABLE]}


def render_schema() -> str:
    """Return the schema as the text of `config/schema.json`."""
    return json.dumps(build_schema(), indent=2, ensure_ascii=False) + "\n"
