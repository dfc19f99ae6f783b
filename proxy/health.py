"""Whether the proxy is alive, and whether it can be of use: `/healthz` and `/readyz`."""

from __future__ import annotations

import asyncio
import time

from fastapi import APIRouter
from fastapi.responses import JSONResponse

from proxy.errors import UpstreamError
from proxy.settings import Timeouts
from proxy.upstream import Upstream

CACHE_S = 2.0
"""Seconds for which an answer of the upstream's health check is good."""

_PROBE_TIMEOUTS = Timeouts(connect_s=2, first_byte_s=2)
_METHODS = ["GET", "HEAD"]
_ERROR = 500


class Health:
    """The two health paths in front of one upstream."""

    def __init__(self, upstream_url: str) -> None:
        """Probe `/health` below this address, which vLLM and SGLang answer without touching the model."""
        self._upstream = Upstream(upstream_url, _PROBE_TIMEOUTS)
        self._lock = asyncio.Lock()
        self._known: tuple[float, bool] = (-CACHE_S, False)
        self.router = APIRouter()
        self.router.add_api_route("/healthz", self.alive, methods=_METHODS)
        self.router.add_api_route("/readyz", self.ready, methods=_METHODS)

    async def alive(self) -> JSONResponse:
        """Answer as long as the process serves requests."""
        return JSONResponse({"status": "ok"})

    async def ready(self) -> JSONResponse:
        """Answer 200 while the upstream can be reached, 503 else."""
        async with self._lock:
            since, reachable = self._known
            if time.monotonic() - since >= CACHE_S:
                reachable = await self._probe()
                self._known = (time.monotonic(), reachable)
        state = "ok" if reachable else "unreachable"
        return JSONResponse({"status": state, "upstream": state}, status_code=200 if reachable else 503)

    async def _probe(self) -> bool:
        """Nearly any answer will do, a 404 as well: the server is there."""
        fields = [(b"host", self._upstream.host), (b"connection", b"close")]
        try:
            async with await self._upstream.send("GET", b"/health", fields, b"") as answer:
                return answer.status < _ERROR
        except UpstreamError:
            return False
