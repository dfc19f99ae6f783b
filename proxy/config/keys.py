"""The keys of the configuration, read off the models: their names, and what stands behind each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args, get_origin

from proxy.config.model import Configuration
from proxy.config.section import Section

if TYPE_CHECKING:
    from pydantic import BaseModel


def list_keys(section: type[BaseModel] = Configuration, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the path of every key that a variable or the file can set, in snake_case.

    Keys inside list items, and inside what a user named, are not among them. A mapping's own key comes
    before those inside it.
    """
    found: list[tuple[str, ...]] = []
    for name in section.model_fields:
        found.append((*path, name))
        inner, many = find_section(section, name)
        if inner is not None and many is None:
            found += list_keys(inner, (*path, name))
    return found


def find_section(section: type[BaseModel], name: str) -> tuple[type[Section] | None, type | None]:
    """Return the model of the mapping behind a key, if there is one.

    And, where there are many of them, whether they stand in a `list` or, under names of the user's, in
    a `dict`.
    """
    row = section.model_fields.get(name)
    annotation = row.annotation if row else None
    return _search_section(annotation), _find_many(annotation)


def _find_many(annotation: Any) -> type | None:
    origin = get_origin(annotation)
    return origin if origin in (list, dict) else None


def _search_section(annotation: Any) -> type[Section] | None:
    """Look for a Section in an annotation such as `list[X]` or `X | None`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next(filter(None, map(_search_section, get_args(annotation))), None)


def is_structured(path: tuple[str, ...]) -> bool:
    """Whether the key at a path takes a list or a mapping."""
    section: type[BaseModel] = Configuration
    for name in path[:-1]:
        section = find_section(section, name)[0] or section
    annotation = section.model_fields[path[-1]].annotation
    return _find_many(annotation) is not None or _search_section(annotation) is not None
