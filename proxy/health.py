"""Whether the proxy is alive, and whether it can be of use: `/healthz` and `/readyz`."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from proxy.errors import UpstreamError
from proxy.settings import Timeouts
from proxy.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.settings import Server

CACHE_S = 2.0
"""Seconds for which an answer of the upstream's health check is good."""

_PROBE_TIMEOUTS = Timeouts(connect_s=2, first_byte_s=2)
_ERROR = 500


class Health:
    """What is known about the model servers of one configuration."""

    def __init__(self, servers: Iterable[Server]) -> None:
        """Probe `/health` of each, which vLLM and SGLang answer without touching the model."""
        self._upstreams = [Upstream.to(replace(server, timeouts=_PROBE_TIMEOUTS)) for server in servers]
        self._lock = asyncio.Lock()
        self._since = -CACHE_S
        self._known: dict[str, bool] = {}

    async def ask(self) -> dict[str, bool]:
        """Return for each model server, by its name, whether it can be reached."""
        async with self._lock:
            if time.monotonic() - self._since >= CACHE_S:
                found = await asyncio.gather(*map(_probe, self._upstreams))
                self._known = {
                    upstream.name: reachable
                    for upstream, reachable in zip(self._upstreams, found, strict=True)
                }
                self._since = time.monotonic()
            return self._known


async def _probe(upstream: Upstream) -> bool:
    """Nearly any answer will do, a 404 as well: the server is there."""
    fields = [(b"host", upstream.host), (b"connection", b"close")]
    try:
        async with await upstream.send("GET", b"/health", fields, b"") as answer:
            return answer.status < _ERROR
    except UpstreamError:
        return False
