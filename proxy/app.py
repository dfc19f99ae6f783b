"""The application: operational paths by FastAPI, everything else through the gate to the model server.

Relayed requests do not pass FastAPI's middleware: it wraps every send of a stream, and a stream has
thousands.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from traceback import format_tb
from typing import TYPE_CHECKING
from uuid import uuid4

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from proxy import headers
from proxy.client import Client, ClientGoneError
from proxy.errors import MethodError, PathError, ProxyError, UpstreamError
from proxy.gate import CHAT_PATH, TAGGED_PATHS, Gate
from proxy.health import Health
from proxy.relay import relay
from proxy.request import peek_model, read_model
from proxy.settings import RuleTable
from proxy.telemetry import LOGGER, RequestReport, log_request
from proxy.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp, Receive, Scope, Send

    from proxy.settings import Entry, Settings

_OPERATIONAL = frozenset({"/healthz", "/readyz"})
_CHAT_METHODS = frozenset({"POST", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class World:
    """What a request takes along when it begins: one configuration, and what was built from it."""

    settings: Settings
    rules: RuleTable
    gate: Gate
    upstream: Upstream


class App:
    """The ASGI application of the proxy."""

    def __init__(self, settings: Settings) -> None:
        """Build everything from a configuration that names an upstream."""
        if settings.upstream is None:
            raise ValueError("the configuration names no upstream")
        upstream = Upstream(settings.upstream, settings.timeouts)
        self.world = World(settings, RuleTable(settings.entries), Gate(settings.passthrough_paths), upstream)
        self._noted: set[tuple[str, bytes]] = set()
        self._operational = FastAPI(openapi_url=None, lifespan=self._lifespan)
        self._operational.include_router(Health(upstream.url).router)
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
        entry: Entry | None = None
        outcome, error = "answered", None
        try:
            entry = await self._exchange(client)
        except ClientGoneError:
            outcome = "client_left"
        except ProxyError as failure:
            error = failure.code
            if client.status:
                outcome = "broken"  # the answer stays without an end, as the server left it
            else:
                outcome = "failed" if isinstance(failure, UpstreamError) else "refused"
                await client.refuse(failure)
        except Exception as fault:  # noqa: BLE001 - the last resort: the client gets an answer, the log the place
            outcome, error = "failed", ProxyError.code
            # Only the place: the message of an exception may quote a prompt.
            LOGGER.error(
                "internal error: %s\n%s", type(fault).__name__, "".join(format_tb(fault.__traceback__))
            )
            if not client.status:
                await client.refuse(ProxyError("The proxy failed on this request; its log says where."))
        log_request(
            RequestReport(
                request_id=request_id.decode(),
                method=client.method,
                path=scope["path"] if self.world.gate.admits(client.path) else "(refused)",
                entry=entry.name if entry else None,
                status=client.status,
                outcome=outcome,
                duration_s=time.perf_counter() - began,
                error=error,
            )
        )

    async def _exchange(self, client: Client) -> Entry | None:
        world = self.world
        if not world.gate.admits(client.path):
            raise PathError(
                "The proxy does not forward this path. Model servers have operational paths that must not be "
                "reachable through it; passthroughPaths in its configuration adds some."
            )
        chat = client.path == CHAT_PATH
        if chat and client.method not in _CHAT_METHODS:
            raise MethodError("Chat completions are asked for with POST.")
        settings = world.settings
        body = await client.body(settings.max_body_bytes, settings.timeouts.request_s)
        entry = None
        if chat and client.method == "POST":
            entry = world.rules.find(read_model(body))
        elif settings.entries and client.path in TAGGED_PATHS and (model := peek_model(body)):
            self._note_tags(world.rules.find(model), client.path)
        await relay(client, body, entry.rule if entry else None, world.upstream, settings)
        return entry

    def _note_tags(self, entry: Entry | None, path: bytes) -> None:
        """Say once that a listed model shows its tags on an endpoint that is not rewritten."""
        if entry and (entry.name, path) not in self._noted:
            self._noted.add((entry.name, path))
            LOGGER.warning(
                "a listed model is relayed as it is here: only /v1/chat/completions is rewritten",
                extra={"fields": {"entry": entry.name, "path": path.decode()}},
            )
