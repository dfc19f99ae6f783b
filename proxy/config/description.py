"""Settings written out in full, for `think-proxy check`: every value, defaults too.

The text is YAML that loads back to the same settings. Keys are secrets: in the place of each stands a
variable, so that the text does not load, and leave a proxy open, before somebody gave it one.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_camel

from proxy.rules import TAG_SETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from proxy.rules import TagSet
    from proxy.settings import Entry, Server, Settings, Timeouts


def describe(settings: Settings) -> dict[str, Any]:
    """Return the settings as plain data, keyed like the configuration file, in a fixed order."""
    times = settings.timeouts
    cors = settings.cors
    return {
        "listen": {
            "host": settings.listen.host,
            "port": settings.listen.port,
            "uds": settings.listen.uds,
        },
        "upstream": settings.upstream,
        "upstreams": {server.name: _describe_server(server) for server in settings.upstreams},
        "inlineThinkTagModels": [_describe_entry(entry) for entry in settings.entries],
        "timeouts": _describe_times(times) | {"requestSeconds": times.request_s},
        "maxBodyBytes": settings.max_body_bytes,
        "maxHeaderBytes": settings.max_header_bytes,
        "maxEventBytes": settings.max_event_bytes,
        "maxConcurrentRequests": settings.max_concurrent_requests,
        "apiKeys": [f"${{API_KEY_{number}}}" for number, _ in enumerate(settings.api_keys, 1)],
        "apiKeysFile": settings.api_keys_file,
        "publicMetrics": settings.public_metrics,
        "passthroughPaths": list(settings.passthrough_paths),
        "cors": cors
        and {
            "allowOrigins": list(cors.allow_origins),
            "allowHeaders": list(cors.allow_headers),
            "allowCredentials": cors.allow_credentials,
            "maxAgeSeconds": cors.max_age_s,
        },
        "keepAliveSeconds": settings.keep_alive_s,
        "drainSeconds": settings.drain_s,
        "drainDelaySeconds": settings.drain_delay_s,
        "watchConfig": settings.watch_config,
        "page": settings.page,
        "log": {"level": str(settings.log.level), "format": str(settings.log.format)},
    }


def _describe_times(times: Timeouts) -> dict[str, float]:
    """Return the limits that a model server can have of its own."""
    return {
        "connectSeconds": times.connect_s,
        "firstByteSeconds": times.first_byte_s,
        "idleSeconds": times.idle_s,
        "answerSeconds": times.answer_s,
    }


def _describe_server(server: Server) -> dict[str, Any]:
    """Return one model server."""
    variable = re.sub(r"[^A-Z0-9]", "_", server.name.upper())
    return {
        "url": server.url,
        "apiKey": server.api_key and f"${{API_KEY_OF_{variable}}}",
        "models": list(server.models),
        "timeouts": _describe_times(server.timeouts),
        "caFile": server.ca_file,
        "uds": server.uds,
    }


def _describe_entry(entry: Entry) -> dict[str, Any]:
    """Return one entry with its whole rule."""
    rule = entry.rule.settings()
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
            for entry in settings.entries:
                first, *others = render_entry(entry)
                lines += [f"  # {entry.origin}", f"  - {first}", *(f"    {row}" for row in others)]
        else:
            lines += _render_mapping({key: value}, "")
    return lines


def render_entry(entry: Entry) -> list[str]:
    """Return one entry as lines of YAML: its name, and its whole rule."""
    return list(_render_mapping(_describe_entry(entry), "", entry.sources))


def _render_mapping(data: dict[str, Any], indent: str, sources: Mapping[str, str] = {}) -> Iterator[str]:
    """Yield a mapping in block style; lists and single values as JSON, which is YAML too.

    With `sources`, a line says where its value came from, if that is not the default.
    """
    notes = {to_camel(name): f"  # {source}" for name, source in sources.items()}
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield f"{indent}{key}:{notes.get(key, '')}"
            yield from _render_mapping(value, indent + "  ")
        else:
            yield f"{indent}{key}: {quote(value)}{notes.get(key, '')}"


def quote(value: Any) -> str:
    """Write a value as JSON, with escapes where YAML is stricter about what may stand in a text."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    text = json.dumps(value, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in text)
