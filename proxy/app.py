"""The application: operational paths by Starlette, everything else through the gate to the model server.

Relayed requests do not pass Starlette's middleware: it wraps every send of a stream, and a stream has
thousands.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import cached_property, partial
from os import urandom
from typing import TYPE_CHECKING

from starlette.middleware.cors import CORSMiddleware

from proxy import headers
from proxy.backlog import Backlog
from proxy.client import Client, ClientGoneError
from proxy.errors import CapacityError, ProxyError, StoppedError, UpstreamError
from proxy.exchange import Exchange
from proxy.operational import Operational, is_operational
from proxy.page import bench
from proxy.page.bench import Bench
from proxy.page.site import PATHS, show
from proxy.running import Running, stopped
from proxy.splitter import Splitter
from proxy.telemetry import LOGGER, Notes, describe, log_request
from proxy.world import World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Receive, Scope, Send

    from proxy.metrics import Metrics
    from proxy.otel import Trace, Traces
    from proxy.report import RequestReport
    from proxy.settings import Cors, Settings
    from proxy.shares import Share


class App:
    """The ASGI application of the proxy."""

    def __init__(self, settings: Settings, share: Share | None = None, traces: Traces | None = None) -> None:
        """Build everything from a configuration.

        Args:
            settings: the configuration.
            share: where this process keeps its metrics, if it is one of several.
            traces: where spans are made, if requests are traced.

        Raises:
            ValueError: the configuration names no upstream.
            OSError: a file of certificates cannot be read.
        """
        self.worlds: set[World] = set()
        """What requests run in: more than one only after a reload."""
        self.world = World(settings, self.worlds.discard)
        """What new requests begin in."""
        self.worlds.add(self.world)
        self._running: set[Running] = set()
        self.draining = self._stopping = False
        self._notes = Notes()
        self._share = share
        self._traces = traces
        self._backlog = Backlog()
        self._operational = Operational(self, self._lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection scope."""
        world = self.world
        if scope["type"] != "http" or is_operational(scope, world):
            await self._operational(scope, receive, send)
            return
        serve: ASGIApp = partial(self._serve, world)
        if world.settings.page and scope.get("raw_path") in PATHS:
            self.settle()
            # Not for other origins, whatever `cors` says.
            if scope["raw_path"] != bench.PATH:
                serve = partial(show, world, self.metrics.collect, draining=self.draining)
        elif world.settings.cors is not None:
            serve = _answer_browsers(serve, world.settings.cors)
        with world:
            await serve(scope, receive, send)

    @cached_property
    def metrics(self) -> Metrics:
        """What this process counts. Made when it is first needed: its library would delay the start."""
        from proxy.metrics import Metrics  # noqa: PLC0415

        return Metrics(self._share)

    def prepare(self) -> None:
        """Make what is made once, when it is first needed: else the first request waits for it."""
        _ = self.metrics
        for entry in self.world.settings.entries:
            tags = entry.rule.tags
            Splitter(entry.rule).feed(f"{tags.openers[0]}a{tags.closers[0]}b{tags.openers[0]}")

    def report(self, report: RequestReport) -> None:
        """Log and count a request that is over, behind those that were over before."""
        self.settle()
        self._count(report)

    def settle(self) -> None:
        """Report now what requests came to; mostly that waits for a moment."""
        self._backlog.settle()

    def begin_drain(self) -> None:
        """Say at `/readyz` that no more requests should come; those that do are served."""
        self.draining = True

    def stop_streams(self) -> None:
        """End what is being served, and refuse what still comes.

        A rewritten stream gives what it held and one event with the error `shutting_down`; an answer
        that has not begun is refused with it; any other is cut. Returns before that is done.
        """
        self.draining = self._stopping = True
        for running in tuple(self._running):
            running.stop()

    def reload(self, settings: Settings) -> None:
        """Serve new requests by another configuration; those that run keep theirs.

        Raises:
            ValueError: the configuration names no upstream; nothing has changed.
            OSError: a file of certificates cannot be read; nothing has changed.
        """
        world = World(settings, self.worlds.discard)
        self.worlds.add(world)
        self.world, old = world, self.world
        old.retire()

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        yield
        self.settle()
        for world in self.worlds:
            world.routes.disconnect()
        await asyncio.sleep(0)  # connections are told of their end in the next turn of the loop

    async def _serve(self, world: World, scope: Scope, _receive: Receive, send: Send) -> None:
        sent_id = headers.find(scope["headers"], b"x-request-id")
        request_id = sent_id if sent_id and headers.is_request_id(sent_id) else urandom(16).hex().encode()
        is_bench = world.settings.page and scope.get("raw_path") == bench.PATH
        tried = Bench(scope, request_id) if is_bench else None
        client = tried or Client(scope, request_id, send if world.settings.cors else None)
        trace = self._traces.begin(client.method, client.headers) if self._traces else None
        if trace is not None:
            client.headers = trace.carry(client.headers)
        running = Running(client)
        exchange = Exchange(client, world, self._notes, running, tried)
        outcome, error = "answered", None
        self.metrics.begin()
        try:
            exchange.admit()
            self._make_room(world.settings.max_concurrent_requests)
            self._running.add(running)
            await exchange.run()
        except ClientGoneError:
            outcome = "client_left"
        except ProxyError as failure:
            error = failure.code
            if client.status:
                # The answer stays without an end, as the server left it.
                outcome = "stopped" if isinstance(failure, StoppedError) else "broken"
            else:
                outcome = "failed" if isinstance(failure, UpstreamError) else "refused"
                await client.refuse(failure)
        except asyncio.CancelledError:
            # The proxy stops, and this is the request's outermost frame.
            outcome = "stopped"
            if not client.status:
                error = StoppedError.code
                await client.refuse(stopped())
        except Exception as fault:  # noqa: BLE001 - the last resort: the client gets an answer, the log the place
            outcome, error = "failed", ProxyError.code
            LOGGER.error("internal error: %s", describe(fault))
            if not client.status:
                await client.refuse(ProxyError("The proxy failed on this request; its log says where."))
        finally:
            self._running.discard(running)
            self.metrics.end()
            exchange.end(outcome, error)
            if self._share is None:
                self._backlog.add(partial(self._write_down, exchange, trace))
            else:
                self._write_down(exchange, trace)  # any of the processes may be asked next

    def _write_down(self, exchange: Exchange, trace: Trace | None) -> None:
        report = exchange.report()
        self._count(report)
        if trace is not None:
            trace.end(report, exchange.model)

    def _count(self, report: RequestReport) -> None:
        log_request(report)
        self.metrics.count(report)

    def _make_room(self, max_requests: int) -> None:
        if self._stopping:
            raise stopped()
        if not max_requests or len(self._running) < max_requests:
            return
        if sum(not running.finished for running in self._running) >= max_requests:
            raise CapacityError(
                f"The proxy is serving {max_requests} requests, as many as it may "
                "(maxConcurrentRequests in its configuration): send this one again later."
            )


def _answer_browsers(app: ASGIApp, cors: Cors) -> ASGIApp:
    """Return the application with the answers to browsers' cross-origin requests."""
    return CORSMiddleware(
        app,
        allow_origins=cors.allow_origins,
        allow_methods=["*"],
        allow_headers=cors.allow_headers or ["*"],
        allow_credentials=cors.allow_credentials,
        expose_headers=["x-request-id"],
        max_age=cors.max_age_s,
    )
