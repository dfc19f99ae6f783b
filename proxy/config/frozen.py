"""Turns the validated models into the frozen values that the rest of the product takes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from proxy import settings
from proxy.presets import find_preset
from proxy.rules import TAG_SETS, THINK, Rule, TagSet

if TYPE_CHECKING:
    from proxy.config.model import Configuration, ModelSection
    from proxy.config.upstreams import UpstreamSection

SOCKET_URL = "http://localhost"
"""The address of a model server of which only the socket file is known: what `Host` says to it."""


def freeze(
    found: Configuration, entries: tuple[settings.Entry, ...], file_api_keys: tuple[str, ...]
) -> settings.Settings:
    """Turn the validated models into the values that the rest of the product takes."""
    times, cors = found.timeouts, found.cors
    timeouts = settings.Timeouts(
        connect_s=times.connect_seconds,
        first_byte_s=times.first_byte_seconds,
        idle_s=times.idle_seconds,
        answer_s=times.answer_seconds,
        request_s=times.request_seconds,
    )
    return settings.Settings(
        listen=settings.Listen(host=found.listen.host, port=found.listen.port, uds=found.listen.uds),
        upstream=found.upstream,
        upstreams=tuple(_read_server(name, row, timeouts) for name, row in found.upstreams.items()),
        entries=entries,
        timeouts=timeouts,
        max_body_bytes=found.max_body_bytes,
        max_header_bytes=found.max_header_bytes,
        max_event_bytes=found.max_event_bytes,
        max_concurrent_requests=found.max_concurrent_requests,
        api_keys=tuple(found.api_keys),
        api_keys_file=found.api_keys_file,
        file_api_keys=file_api_keys,
        public_metrics=found.public_metrics,
        passthrough_paths=tuple(found.passthrough_paths),
        cors=None
        if cors is None
        else settings.Cors(
            allow_origins=tuple(cors.allow_origins),
            allow_headers=tuple(cors.allow_headers),
            allow_credentials=cors.allow_credentials,
            max_age_s=cors.max_age_seconds,
        ),
        keep_alive_s=found.keep_alive_seconds,
        drain_s=found.drain_seconds,
        drain_delay_s=found.drain_delay_seconds,
        watch_config=found.watch_config,
        log=settings.Log(level=found.log.level, format=found.log.format),
    )


def _read_server(name: str, section: UpstreamSection, timeouts: settings.Timeouts) -> settings.Server:
    """Return a model server; timeouts that it does not set are those of all."""
    times = section.timeouts
    own = {
        "connect_s": times.connect_seconds,
        "first_byte_s": times.first_byte_seconds,
        "idle_s": times.idle_seconds,
        "answer_s": times.answer_seconds,
    }
    return settings.Server(
        name=name,
        url=section.url or SOCKET_URL,
        models=tuple(section.models),
        api_key=section.api_key,
        timeouts=replace(timeouts, **{key: value for key, value in own.items() if value is not None}),
        ca_file=section.ca_file,
        uds=section.uds,
    )


def read_rule(section: ModelSection) -> tuple[Rule, dict[str, str]]:
    """Return the rule of an entry, and where each value that is no default came from."""
    values = section.model_dump(include=section.model_fields_set - {"model"})
    sources = dict.fromkeys(values, "set here")
    # A variant is of its model's family.
    if found := find_preset(settings.strip_variant(section.model) or section.model):
        glob, preset = found
        for name, value in (("start", preset.start), ("tags", preset.tags)):
            if name not in values:
                values[name], sources[name] = value, f"preset for {glob}"
    tags = values.pop("tags", THINK.name)
    return Rule(**values, tags=_read_tags(tags)), sources


def _read_tags(tags: str | dict[str, list[str]]) -> TagSet:
    """Return a tag set of the table by its name, or a user's own by its markers."""
    if isinstance(tags, str):
        return TAG_SETS[tags]
    return TagSet("custom", tuple(dict.fromkeys(tags["open"])), tuple(dict.fromkeys(tags["close"])))
