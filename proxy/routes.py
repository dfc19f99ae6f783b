"""Which model server a request goes to: the first that takes its model."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING

from proxy.errors import ModelError
from proxy.settings import MAX_CACHED_NAME_CHARS, MAX_CACHED_NAMES, strip_variant
from proxy.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.settings import Server

ANY = "*"


class Routes:
    """The model servers of one configuration, in their order."""

    def __init__(self, servers: Iterable[Server]) -> None:
        """Take at least one model server.

        Raises:
            ValueError: there is none.
            OSError: a file of certificates cannot be read.
        """
        self._rows = [
            (Upstream.to(server), [re.compile(translate(glob)) for glob in server.models], server.models)
            for server in servers
        ]
        if not self._rows:
            raise ValueError("the configuration names no upstream")
        self.upstreams = [upstream for upstream, _, _ in self._rows]
        self.first = self.upstreams[0]
        """Where requests go that name no model."""
        self._remembered = lru_cache(maxsize=MAX_CACHED_NAMES)(self._match)

    @property
    def plain(self) -> bool:
        """Whether every request goes to the same server, whatever its model."""
        return len(self._rows) == 1 and ANY in self._rows[0][2]

    def find(self, model: str | None) -> Upstream:
        """Return the model server for a model, or for a request that names none.

        Raises:
            ModelError: no server takes this model.
        """
        if model is None or self.plain:
            return self.first
        known = self._remembered(model) if len(model) <= MAX_CACHED_NAME_CHARS else self._match(model)
        if known is None:
            listed = ", ".join(dict.fromkeys(glob for _, _, globs in self._rows for glob in globs))
            raise ModelError(
                f"No upstream takes this model. The proxy's configuration has: {listed}.", param="model"
            )
        return known

    def serves(self, upstream: Upstream, model: str) -> bool:
        """Tell whether requests for a model go to this server."""
        return self._match(model) is upstream

    def disconnect(self) -> None:
        """Close every connection."""
        for upstream in self.upstreams:
            upstream.disconnect()

    def _match(self, model: str) -> Upstream | None:
        names = [name for name in (model, strip_variant(model)) if name is not None]
        for upstream, patterns, _ in self._rows:
            if any(pattern.match(name) for pattern in patterns for name in names):
                return upstream
        return None
