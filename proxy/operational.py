"""What the proxy says of itself to machines: `/healthz`, `/readyz` and `/metrics`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from proxy import __version__
from proxy.errors import MethodError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import Lifespan, Scope

    from proxy.metrics import Metrics
    from proxy.world import World

_METRICS = b"/metrics"
_HEALTH = frozenset({b"/healthz", b"/readyz"})
"""The paths that need no key, as they come: another spelling of them is not one of them."""


class Process(Protocol):
    """What is told of."""

    world: World
    draining: bool

    @property
    def metrics(self) -> Metrics:
        """What is counted."""

    def settle(self) -> None:
        """Count what is not counted yet."""


class Operational(Starlette):
    """The operational paths of one process."""

    def __init__(self, process: Process, lifespan: Lifespan[Starlette]) -> None:
        """Tell of this process."""
        routes = [
            Route("/healthz", self._alive),
            Route("/readyz", self._ready),
            Route("/metrics", self._tell_metrics),
        ]
        super().__init__(
            routes=routes, lifespan=lifespan, exception_handlers={MethodError.status: _refuse_method}
        )
        self._process = process

    async def _alive(self, _request: Request) -> JSONResponse:
        """Answer as long as the process serves requests, and say what it is: `doctor` asks."""
        return JSONResponse({"status": "ok"}, headers={"x-think-proxy": __version__})

    async def _ready(self, _request: Request) -> JSONResponse:
        """Answer 200 while a model server can be reached, 503 else and while the proxy stops."""
        if self._process.draining:
            return JSONResponse({"status": "draining"}, status_code=503)
        world = self._process.world
        states = {
            name: "ok" if reachable else "unreachable"
            for name, reachable in (await world.health.ask()).items()
        }
        ready = "ok" in states.values()
        told = (
            {"upstreams": states} if world.settings.upstreams else {"upstream": next(iter(states.values()))}
        )
        return JSONResponse(
            {"status": "ok" if ready else "unreachable", **told}, status_code=200 if ready else 503
        )

    async def _tell_metrics(self, request: Request) -> Response:
        """Answer with what all processes counted; in a thread, since there may be much to read and write."""
        accept, is_up = request.headers.get("accept", ""), await self._process.world.health.ask()
        self._process.settle()
        body, content_type = await asyncio.to_thread(self._process.metrics.render, accept, is_up)
        return Response(body, headers={"content-type": content_type})


def is_operational(scope: Scope, world: World) -> bool:
    """Tell whether a request is for these paths, and may come in; the path counts as it came."""
    path = scope.get("raw_path")
    if path == _METRICS:
        return world.settings.public_metrics or world.keys.admit(scope["headers"])
    return path in _HEALTH


async def _refuse_method(_request: Request, _fault: Exception) -> Response:
    """Answer with the envelope where Starlette has a form of its own."""
    error = MethodError("The paths of the proxy itself take GET.")
    return Response(error.body(), error.status, {"allow": "GET, HEAD"}, "application/json")
