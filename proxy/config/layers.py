"""The places configuration comes from, each read into one shape: snake_case keys, variables filled in.

A `Layer` is a pydantic-settings source, so pydantic-settings merges them: mappings key by key, lists
and single values whole. It also remembers how each key was spelled and where it stood, for messages.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_camel
from pydantic_settings import PydanticBaseSettingsSource

from proxy.config import keys, model
from proxy.config.problems import KeyPath, Place, Problem, find_nearest, show_path

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from proxy.config.section import Section

MAX_DEPTH = 32

_VARIABLE = re.compile(r"\$\{([^}]*)\}?")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Layer(PydanticBaseSettingsSource):
    """One source of configuration, read and translated; what was wrong with it is in `problems`."""

    def __init__(
        self, data: Mapping[str, Any], locate: Callable[[KeyPath], Place], environ: Mapping[str, str]
    ) -> None:
        """Translate `data`, whose keys are spelled as the user wrote them.

        Args:
            data: What was written, as plain values.
            locate: Gives the place of a path in `data`.
            environ: The variables that `${NAME}` stands for.
        """
        super().__init__(model.Configuration)
        self.locate = locate
        self.environ = environ
        self.problems: list[Problem] = []
        self.written: dict[KeyPath, KeyPath] = {(): ()}
        self.data = self._read_mapping(data, model.Configuration, (), ())

    def __call__(self) -> dict[str, Any]:
        """Return the translated data, for pydantic-settings to merge."""
        return self.data

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return one top-level value (part of the interface of a source; `__call__` gives all)."""
        del field
        return self.data.get(field_name), field_name, False

    def find_written(self, path: KeyPath) -> tuple[Place, KeyPath]:
        """Return where the value at a translated path stands, and that path as the user spelled it."""
        known = path
        while known not in self.written:
            known = known[:-1]
        raw = self.written[known]
        rest = tuple(part if isinstance(part, int) else to_camel(part) for part in path[len(known) :])
        return self.locate(raw), (*raw, *rest)

    def _report(self, raw: KeyPath, message: str, nearest: str | None = None) -> None:
        self.problems.append(Problem(message, self.locate(raw), show_path(raw), nearest))

    def _read_mapping(
        self, data: Mapping[str, Any], section: type[BaseModel], raw: KeyPath, path: KeyPath
    ) -> dict[str, Any]:
        """Translate the keys of one mapping. `raw` is its path as spelled, `path` in snake_case."""
        names = list(section.model_fields)
        spellings = {to_camel(name): name for name in names} | {name: name for name in names}
        result: dict[str, Any] = {}
        seen: dict[str, str] = {}
        for key, value in data.items():
            name = spellings.get(key)
            here: KeyPath = (*raw, key)
            if name is None:
                self._report(here, "unknown key", _suggest(key, names))
            elif name in seen:
                self._report(here, f"is the same key as {seen[name]}; keep one of them")
            else:
                seen[name] = key
                found = None if value is None else self._read_value(value, section, here, (*path, name))
                if found is not None:
                    result[name] = found
        return result

    def _read_value(self, value: Any, section: type[BaseModel], raw: KeyPath, path: KeyPath) -> Any:
        """Translate the value of one known key; None means that there is nothing to use."""
        self.written[path] = raw
        inner, many = keys.find_section(section, str(path[-1]))
        if inner is not None and many is list and isinstance(value, list):
            return [
                self._read_item(item, inner, (*raw, index), (*path, index))
                for index, item in enumerate(value)
            ]
        if inner is not None and many is dict and isinstance(value, dict):
            return {
                name: self._read_item(item, inner, (*raw, name), (*path, name))
                for name, item in value.items()
            }
        if inner is not None and many is None and isinstance(value, dict):
            return self._read_mapping(value, inner, raw, path)
        return self._fill_or_drop(value, raw)

    def _read_item(self, item: Any, section: type[Section], raw: KeyPath, path: KeyPath) -> Any:
        """Translate one of many mappings; a bare value may stand for a mapping."""
        self.written[path] = raw
        if isinstance(item, dict):
            return self._read_mapping(item, section, raw, path)
        if section.SHORTHAND is None or isinstance(item, list):
            return item
        self.written[*path, section.SHORTHAND] = raw
        filled = self._fill_or_drop(item, raw)
        # An item that is written as null is still there: let the check of its type say so.
        return {section.SHORTHAND: filled} if filled is not None or item is None else {}

    def _fill_or_drop(self, value: Any, raw: KeyPath) -> Any:
        """Return a value filled in, or None where a variable was missing: one problem is enough."""
        count = len(self.problems)
        filled = self._fill(value, raw)
        return filled if len(self.problems) == count else None

    def _fill(self, value: Any, raw: KeyPath, depth: int = 0) -> Any:
        """Return a value with every `${NAME}` in its texts replaced; what comes in is not read again."""
        if depth > MAX_DEPTH:
            self._report(raw, "is nested too deeply")
            return None
        if isinstance(value, list):
            return [self._fill(item, (*raw, index), depth + 1) for index, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: self._fill(item, (*raw, key), depth + 1) for key, item in value.items()}
        if not isinstance(value, str):
            return value

        def replace(match: re.Match[str]) -> str:
            name = match[1]
            if not match[0].endswith("}") or not _VARIABLE_NAME.fullmatch(name):
                self._report(raw, "${ begins a variable, written ${NAME}")
            elif name not in self.environ:
                self._report(raw, f"the environment variable {name} is not set")
            return self.environ.get(name, "")

        return _VARIABLE.sub(replace, value)


def _suggest(key: str, names: list[str]) -> str | None:
    """Return the known key that was probably meant, spelled in the style of `key`."""
    spell = str if "_" in key else to_camel
    near = find_nearest(key, map(spell, names))
    if near is None:
        elsewhere = {path[-1]: path for path in keys.list_keys()}
        words = {to_camel(name): path for name, path in elsewhere.items()} | elsewhere
        near = show_path(tuple(map(to_camel, words[key]))) if key in words else None
    return near
