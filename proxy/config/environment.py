"""Environment variables to a layer: THINK_PROXY_ and the key in capitals, `__` between nested ones."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_camel

from proxy.config import keys
from proxy.config.layers import Layer
from proxy.config.problems import KeyPath, Place, Problem, show_path

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "THINK_PROXY_"


def name_variable(path: tuple[str, ...]) -> str:
    """Return the name of the variable that sets the key at a path: THINK_PROXY_LISTEN__PORT."""
    return PREFIX + "__".join(path).upper()


def read_environ(environ: Mapping[str, str]) -> Layer:
    """Read every variable that names a key; others are left alone, and so are empty ones.

    Lists and mappings are JSON. Unknown names are no error: Kubernetes sets THINK_PROXY_PORT and
    THINK_PROXY_SERVICE_HOST for a service called think-proxy.
    """
    data: dict[str, Any] = {}
    problems: list[Problem] = []
    sources: dict[KeyPath, Place] = {}
    for path in keys.list_keys():
        name = name_variable(path)
        if not environ.get(name):
            continue
        spelled = tuple(map(to_camel, path))
        sources[spelled] = Place(name)
        try:
            value = _decode(environ[name], path)
        except (ValueError, RecursionError):
            problems.append(Problem("must be JSON", Place(name), show_path(spelled)))
            continue
        parent = data
        for part in spelled[:-1]:
            inner = parent.setdefault(part, {})
            if not isinstance(inner, dict):
                break
            parent = inner
        else:
            parent[spelled[-1]] = value

    def locate(raw: KeyPath) -> Place:
        while raw and raw not in sources:
            raw = raw[:-1]
        return sources.get(raw, Place("environment"))

    layer = Layer(data, locate, environ)
    layer.problems[:0] = problems
    return layer


def _decode(text: str, path: tuple[str, ...]) -> Any:
    """Read a variable's text: JSON where the key takes a list or a mapping, otherwise as it is."""
    return json.loads(text) if keys.is_structured(path) else text
