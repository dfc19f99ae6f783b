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
from proxy.config.frozen import freeze, read_rule
from proxy.config.layers import Layer
from proxy.config.model import Configuration, ModelSection
from proxy.config.problems import ConfigError, KeyPath, Place, Problem, show_path
from proxy.config.values import MISSING, REFUSED, is_key

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
    "string_too_long": "must not be longer than {max_length} characters",
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
            if not (problems and details["type"] in ("missing", MISSING))
        ]
        raise ConfigError(problems) from None
    entries = _read_entries(configuration.inline_think_tag_models, layers, problems)
    file_api_keys = _read_keys(configuration.api_keys_file, layers, problems)
    if problems:
        raise ConfigError(problems)
    return freeze(configuration, entries, file_api_keys)


def find_file(path: Path | None, environ: Mapping[str, str] = os.environ) -> tuple[Path, bool]:
    """Return the configuration file for a path from the command line, and whether somebody named it."""
    named = path or (Path(environ[PREFIX + "CONFIG"]) if environ.get(PREFIX + "CONFIG") else None)
    return named or DEFAULT_FILE, named is not None


def _read_file(path: Path | None, environ: Mapping[str, str]) -> Layer:
    """Read the YAML file, or nothing where none is named and the default one is not there."""
    file, is_named = find_file(path, environ)
    if not is_named and not file.exists():
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
    if kind in (REFUSED, MISSING):
        message = details["msg"]
    elif kind == "enum":
        words = re.findall(r"'([^']+)'", context["expected"])
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
        rule, sources = read_rule(section)
        entries[section.model] = settings.Entry(section.model, rule, str(place), sources)
    return tuple(entries.values())


def _read_keys(file: str | None, layers: list[Layer], problems: list[Problem]) -> tuple[str, ...]:
    """Return the keys in a file, one on a line; none at all would leave the proxy open unseen."""
    if file is None:
        return ()
    try:
        lines = [line.strip() for line in Path(file).read_text(encoding="utf-8-sig").splitlines()]
    except UnicodeDecodeError:
        message = "the file is not text"
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a path"
        message = f"the file cannot be read: {reason}"
    else:
        found = [line for line in lines if line and not line.startswith("#")]
        if found and all(map(is_key, found)):
            return tuple(found)
        message = "the file holds what is no key" if found else "the file holds no key"
    path: KeyPath = ("api_keys_file",)
    place, raw = _find_layer(path, layers).find_written(path)
    problems.append(Problem(message, place, show_path(raw)))
    return ()
