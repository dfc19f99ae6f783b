"""Settings written out in full, for `think-proxy check`: every value, defaults too.

The text is YAML that loads back to the same settings. Nothing secret is among the keys.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_camel

from proxy.rules import TAG_SETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from proxy.rules import TagSet
    from proxy.settings import Entry, Settings


def describe(settings: Settings) -> dict[str, Any]:
    """Return the settings as plain data, keyed like the configuration file, in a fixed order."""
    times = settings.timeouts
    cors = settings.cors
    return {
        "listen": {"host": settings.listen.host, "port": settings.listen.port},
        "upstream": settings.upstream,
        "inlineThinkTagModels": [_describe_entry(entry) for entry in settings.entries],
        "timeouts": {
            "connectSeconds": times.connect_s,
            "firstByteSeconds": times.first_byte_s,
            "idleSeconds": times.idle_s,
            "answerSeconds": times.answer_s,
            "requestSeconds": times.request_s,
        },
        "maxBodyBytes": settings.max_body_bytes,
        "maxEventBytes": settings.max_event_bytes,
        "passthroughPaths": list(settings.passthrough_paths),
        "cors": cors
        and {
            "allowOrigins": list(cors.allow_origins),
            "allowHeaders": list(cors.allow_headers),
            "allowCredentials": cors.allow_credentials,
            "maxAgeSeconds": cors.max_age_s,
        },
        "log": {"level": str(settings.log.level), "format": str(settings.log.format)},
    }


def _describe_entry(entry: Entry) -> dict[str, Any]:
    """Return one entry with its whole rule."""
    rule = {row.name: getattr(entry.rule, row.name) for row in fields(entry.rule)}
    rule["tags"] = _describe_tags(entry.rule.tags)
    return {"model": entry.name} | {
        to_camel(name): str(value) if isinstance(value, str) else value for name, value in rule.items()
    }


def _describe_tags(tags: TagSet) -> str | dict[str, list[str]]:
    """Return a tag set of the table by name, another as its markers."""
    if tags.name in TAG_SETS:
        return tags.name
    return {"open": list(tags.openers), "close": list(tags.closers)}


def render(settings: Settings) -> list[str]:
    """Return `describe` as lines of YAML, with a comment that says where each entry was written."""
    lines: list[str] = []
    for key, value in describe(settings).items():
        if key == "inlineThinkTagModels" and value:
            lines.append(f"{key}:")
            for entry, item in zip(settings.entries, value, strict=True):
                lines.append(f"  # {entry.origin}")
                rows = list(_render_mapping(item, "    ", entry.sources))
                lines += [f"  - {rows[0].lstrip()}", *rows[1:]]
        else:
            lines += _render_mapping({key: value}, "")
    return lines


def _render_mapping(data: dict[str, Any], indent: str, sources: Mapping[str, str] = {}) -> Iterator[str]:
    """Yield a mapping in block style; lists and single values as JSON, which is YAML too.

    With `sources`, a line says where its value came from, if that is not the default.
    """
    notes = {to_camel(name): f"  # {source}" for name, source in sources.items()}
    for key, value in data.items():
        if isinstance(value, dict):
            yield f"{indent}{key}:{notes.get(key, '')}"
            yield from _render_mapping(value, indent + "  ")
        else:
            yield f"{indent}{key}: {_quote(value)}{notes.get(key, '')}"


def _quote(value: Any) -> str:
    """Write a value as JSON, with escapes where YAML is stricter about what may stand in a text."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = json.dumps(value, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in text)
