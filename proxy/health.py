"""Whether the proxy is alive, and whether it can be of use: `/healthz` and `/readyz`."""

from __future__ import annotations

import asyncio
import time

import httpx
from fastapi import APIRouter
from fastapi.responses import JSONResponse

CACHE_S = 2.0
"""Seconds for which an answer of the upstream's health check is good."""

PROBE_TIMEOUT_S = 2.0


class Health:
    """The two health paths in front of one upstream."""

    def __init__(self, upstream_url: str) -> None:
        """Probe `/health` below this address, which vLLM and SGLang answer without touching the model."""
        self._url = f"{upstream_url}/health"
        self._lock = asyncio.Lock()
        self._known: tuple[float, bool] = (-CACHE_S, False)
        self.router = APIRouter()
        self.router.add_api_route("/healthz", self.alive, methods=["GET"])
        self.router.add_api_route("/readyz", self.ready, methods=["GET"])

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
        """Any answer will do, a 404 as well: the server is there."""
        try:
            async with httpx.AsyncClient(timeout=PROBE_TIMEOUT_S, trust_env=False) as http:
                return (await http.get(self._url)).status_code < httpx.codes.INTERNAL_SERVER_ERROR
        except httpx.HTTPError:
            return False
