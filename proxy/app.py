"""The application: operational paths by FastAPI, everything else through the gate to the model server.

Relayed requests do not pass FastAPI's middleware: it wraps every send of a stream, and a stream has
thousands.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from traceback import format_tb
from typing import TYPE_CHECKING
from uuid import uuid4

from fastapi import FastAPI, Response
from starlette.middleware.cors import CORSMiddleware

from proxy import headers
from proxy.client import Client, ClientGoneError
from proxy.errors import MethodError, ProxyError, UpstreamError
from proxy.exchange import Exchange, World
from proxy.gate import Gate
from proxy.health import Health
from proxy.settings import RuleTable
from proxy.telemetry import LOGGER, Notes, RequestReport, log_request
from proxy.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from fastapi import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from proxy.settings import Settings

_OPERATIONAL = frozenset({"/healthz", "/readyz"})


class App:
    """The ASGI application of the proxy."""

    def __init__(self, settings: Settings) -> None:
        """Build everything from a configuration that names an upstream."""
        if settings.upstream is None:
            raise ValueError("the configuration names no upstream")
        upstream = Upstream(settings.upstream, settings.timeouts)
        self.world = World(settings, RuleTable(settings.entries), Gate(settings.passthrough_paths), upstream)
        self._notes = Notes()
        self._operational = FastAPI(openapi_url=None, lifespan=self._lifespan)
        self._operational.include_router(Health(settings.upstream).router)
        self._operational.add_exception_handler(MethodError.status, _refuse_method)
        self._relay: ASGIApp = self._serve
        if cors := settings.cors:
            self._relay = CORSMiddleware(
                self._serve,
                allow_origins=cors.allow_origins,
                allow_methods=["*"],
                allow_headers=cors.allow_headers or ["*"],
                allow_credentials=cors.allow_credentials,
                expose_headers=["x-request-id"],
                max_age=cors.max_age_s,
            )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection scope."""
        if scope["type"] == "http" and scope["path"] not in _OPERATIONAL:
            await self._relay(scope, receive, send)
        else:
            await self._operational(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, _app: FastAPI) -> AsyncIterator[None]:
        yield
        await self.world.upstream.close()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        sent_id = headers.find(scope["headers"], b"x-request-id")
        request_id = sent_id if sent_id and headers.is_request_id(sent_id) else uuid4().hex.encode()
        client = Client(scope, receive, send, request_id)
        exchange = Exchange(client, self.world, self._notes)
        outcome, error = "answered", None
        try:
            await exchange.run()
        except ClientGoneError:
            outcome = "client_left"
        except ProxyError as failure:
            error = failure.code
            if client.status:
                outcome = "broken"  # the answer stays without an end, as the server left it
            else:
                outcome = "failed" if isinstance(failure, UpstreamError) else "refused"
                await client.refuse(failure)
        except asyncio.CancelledError:
            # The server stops. This is the request's outermost frame: there is nobody to tell but uvicorn,
            # which would log a traceback.
            outcome = "stopped"
        except Exception as fault:  # noqa: BLE001 - the last resort: the client gets an answer, the log the place
            outcome, error = "failed", ProxyError.code
            # Only the place: the message of an exception may quote a prompt.
            place = "".join(format_tb(fault.__traceback__))
            LOGGER.error("internal error: %s\n%s", type(fault).__name__, place)
            if not client.status:
                await client.refuse(ProxyError("The proxy failed on this request; its log says where."))
        log_request(
            RequestReport(
                request_id=request_id.decode(),
                method=client.method,
                path=exchange.path,
                entry=exchange.entry.name if exchange.entry else None,
                status=client.status,
                outcome=outcome,
                duration_s=time.perf_counter() - began,
                error=error,
            )
        )


async def _refuse_method(_request: Request, _fault: Exception) -> Response:
    """Answer with the envelope where FastAPI has a form of its own."""
    error = MethodError("The health paths take GET.")
    return Response(error.body(), error.status, {"allow": "GET, HEAD"}, "application/json")
