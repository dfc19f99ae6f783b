"""Reads the configuration: command line over environment over file over defaults, into `Settings`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from proxy import settings
from proxy.config import yamlfile
from proxy.config.environment import PREFIX, read_environ
from proxy.config.layers import Layer
from proxy.config.model import Configuration, ModelSection
from proxy.config.problems import ConfigError, KeyPath, Place, Problem, show_path
from proxy.config.unbuilt import NOT_BUILT_VALUES
from proxy.config.values import REFUSED
from proxy.presets import find_preset
from proxy.rules import TAG_SETS, THINK, Rule, TagSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails
    from pydantic_settings import PydanticBaseSettingsSource

DEFAULT_FILE = Path("config/proxy.yaml")
"""Read if it exists, relative to the working directory."""

_MESSAGES = {
    "missing": "is required",
    "string_type": "must be text; put numbers, true and false in quotes",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "greater_than_equal": "must be at least {ge:g}",
    "greater_than": "must be more than {gt:g}",
    "less_than_equal": "must be at most {le:g}",
    "finite_number": "must be a finite number",
    "list_type": "must be a list",
    "model_type": "must be a mapping of keys to values",
    "dict_type": "must be a mapping of keys to values",
}
"""Our words for pydantic's error types; its own repeat what was written in the code's terms."""

_FAMILIES = {
    "int": "must be a whole number",
    "float": "must be a number",
    "bool": "must be true or false",
}
"""The same for types that begin with these: `int_parsing`, `int_from_float`, …"""


def load(
    path: Path | None = None,
    *,
    overrides: Mapping[str, Any] = {},
    environ: Mapping[str, str] = os.environ,
) -> settings.Settings:
    """Read the configuration.

    Args:
        path: The file. None means THINK_PROXY_CONFIG, else `config/proxy.yaml` if there is one.
        overrides: What the command line says, keyed like the file; None counts as not said.
        environ: The environment, for THINK_PROXY_… and for `${NAME}`.

    Raises:
        ConfigError: with every problem found. A file that was named and is not there is one.
    """
    layers = [
        Layer(overrides, lambda _: Place("command line"), environ),
        read_environ(environ),
        _read_file(path, environ),
    ]
    problems = [problem for layer in layers for problem in layer.problems]
    try:
        configuration = _merge(layers)
    except ValidationError as error:
        problems += [
            _explain(details, layers)
            for details in error.errors(include_url=False, include_input=False)
            # A key that could not be read is already reported; that it is missing too helps nobody.
            if not (problems and details["type"] == "missing")
        ]
        raise ConfigError(problems) from None
    entries = _read_entries(configuration.inline_think_tag_models, layers, problems)
    if problems:
        raise ConfigError(problems)
    return _freeze(configuration, entries)


def _read_file(path: Path | None, environ: Mapping[str, str]) -> Layer:
    """Read the YAML file, or nothing where none is named and the default one is not there."""
    named = path or (Path(environ[PREFIX + "CONFIG"]) if environ.get(PREFIX + "CONFIG") else None)
    file = named or DEFAULT_FILE
    if named is None and not file.exists():
        return Layer({}, lambda _: Place(str(file)), environ)
    document = yamlfile.read(file)

    def locate(raw: KeyPath) -> Place:
        return Place(str(file), document.lines.get(raw))

    return Layer(document.data, locate, environ)


def _merge(layers: list[Layer]) -> Configuration:
    """Let pydantic-settings merge the layers, the first one winning, and validate the result."""

    class Merged(Configuration):
        @classmethod
        def settings_customise_sources(cls, *_: Any, **__: Any) -> tuple[PydanticBaseSettingsSource, ...]:
            return tuple(layers)

    return Merged()


def _find_layer(path: KeyPath, layers: list[Layer]) -> Layer:
    """Return the layer that the value at a path came from, or should have come from."""
    holders: list[tuple[Layer, Any]] = [(layer, layer.data) for layer in layers]
    for part in path:
        inner = [(layer, data[part]) for layer, data in holders if isinstance(data, dict) and part in data]
        if not inner:
            break
        # What is no mapping is taken whole from the first layer that has it.
        holders = inner if isinstance(inner[0][1], dict) else inner[:1]
    return holders[0][0]


def _explain(details: ErrorDetails, layers: list[Layer]) -> Problem:
    """Turn one of pydantic's errors into a problem."""
    kind, context = details["type"], details.get("ctx", {})
    if kind == REFUSED:
        message = details["msg"]
    elif kind == "enum":
        refused = NOT_BUILT_VALUES.get(str(details["loc"][-1]), frozenset())
        words = [word for word in re.findall(r"'([^']+)'", context["expected"]) if word not in refused]
        message = f"must be {' or '.join(words)}" if not words[2:] else f"must be one of {', '.join(words)}"
    else:
        family = _FAMILIES.get(kind.partition("_")[0], "is not valid")
        message = _MESSAGES.get(kind, family).format(**context)
    layer = _find_layer(details["loc"], layers)
    place, path = layer.find_written(details["loc"])
    return Problem(message, place, show_path(path))


def _read_entries(
    sections: list[ModelSection], layers: list[Layer], problems: list[Problem]
) -> tuple[settings.Entry, ...]:
    """Return the entries; a name that is listed twice is a problem, since only one could count."""
    entries: dict[str, settings.Entry] = {}
    for index, section in enumerate(sections):
        path: KeyPath = ("inline_think_tag_models", index)
        place, raw = _find_layer(path, layers).find_written(path)
        if section.model in entries:
            message = f"this model is already listed at {entries[section.model].origin}"
            problems.append(Problem(message, place, show_path(raw)))
            continue
        rule, sources = _read_rule(section)
        entries[section.model] = settings.Entry(section.model, rule, str(place), sources)
    return tuple(entries.values())


def _read_rule(section: ModelSection) -> tuple[Rule, dict[str, str]]:
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


def _freeze(found: Configuration, entries: tuple[settings.Entry, ...]) -> settings.Settings:
    """Turn the validated models into the values that the rest of the product takes."""
    times, cors = found.timeouts, found.cors
    return settings.Settings(
        listen=settings.Listen(host=found.listen.host, port=found.listen.port),
        upstream=found.upstream,
        entries=entries,
        timeouts=settings.Timeouts(
            connect_s=times.connect_seconds,
            first_byte_s=times.first_byte_seconds,
            idle_s=times.idle_seconds,
            answer_s=times.answer_seconds,
            request_s=times.request_seconds,
        ),
        max_body_bytes=found.max_body_bytes,
        max_event_bytes=found.max_event_bytes,
        passthrough_paths=tuple(found.passthrough_paths),
        cors=None
        if cors is None
        else settings.Cors(
            allow_origins=tuple(cors.allow_origins),
            allow_headers=tuple(cors.allow_headers),
            allow_credentials=cors.allow_credentials,
            max_age_s=cors.max_age_seconds,
        ),
        log=settings.Log(level=found.log.level, format=found.log.format),
    )
