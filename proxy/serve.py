"""Run the application, in one process or several, and the demo model server beside it when asked to."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import resource
import signal
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import uvloop

from proxy.app import App
from proxy.endpoint import Endpoint
from proxy.reload import follow
from proxy.server import Server
from proxy.settings import Listen, Settings
from proxy.shares import open_shares
from proxy.telemetry import LOGGER, configure, log_fault
from proxy.traces import open_traces
from proxy.worker import READY, obey
from proxy.workers import Workers

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine, Iterator

    from starlette.types import ASGIApp

    from proxy.reload import ConfigSource
    from proxy.shares import Share

_START_S = 10


def serve(source: ConfigSource, announcement: str = "think-proxy on {url}", *, workers: int = 1) -> None:
    """Serve until a signal comes, and answer what is running before the end.

    Args:
        source: a configuration that names an upstream.
        announcement: the line that is printed when the proxy is ready.
        workers: processes; with one, it is this one.

    Raises:
        SystemExit: with 1, the address cannot be had, or a worker cannot start; the log says why.
    """
    configure(source.settings.log)
    if not source.settings.entries:
        LOGGER.info("no model is listed in inlineThinkTagModels: every answer passes through untouched")
    _raise_file_limit()
    try:
        endpoint = Endpoint(source.settings.listen)
    except OSError as error:
        LOGGER.error("%s", error.strerror)
        sys.exit(1)

    def announce() -> None:
        sys.stdout.write(f"{announcement.format(url=endpoint.url)}\n")
        sys.stdout.flush()

    code = 0
    try:
        if workers == 1:
            _run(_serve_alone(source, endpoint, announce))
        else:
            gc.collect()
            gc.enable()
            gc.freeze()  # or each worker's collector would write to, and so copy, what all of them share
            serve_as_worker = partial(_run_worker, endpoint.sockets)
            with open_shares() as shares:
                code = Workers(workers, endpoint, source, shares, serve_as_worker).run(announce)
    finally:
        endpoint.close()
        endpoint.remove()
    if code:
        sys.exit(code)


def _settle(app: App) -> None:
    """Spare the first request what can be done before it, and the collector what stays for good."""
    app.prepare()
    gc.collect()
    gc.freeze()
    gc.enable()


def _raise_file_limit() -> None:
    """Allow as many files as this process may have: a stream takes two, and 1,024 are soon gone."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _run(main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(main)


def make_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop, which logs what nobody caught without what it says."""
    loop = uvloop.new_event_loop()
    loop.set_exception_handler(log_fault)
    return loop


async def _serve_alone(source: ConfigSource, endpoint: Endpoint, announce: Callable[[], None]) -> None:
    """Serve in this process, which gets the signals."""
    traces = open_traces()
    app = App(source.settings, None, traces)
    server = Server(app, endpoint.sockets, source.settings, app)
    is_asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.interrupt)
    loop.add_signal_handler(signal.SIGHUP, is_asked.set)
    server.traffic.report = app.report

    def apply(settings: Settings | None) -> bool:
        is_good = settings is not None and reload(app, server, settings)
        app.metrics.count_reload(ok=is_good)
        return is_good

    def begin() -> None:
        announce()
        _settle(app)

    following = loop.create_task(follow(source, is_asked, apply))
    try:
        await server.run(begin)
    finally:
        following.cancel()
        if traces is not None:
            traces.close()


def _run_worker(sockets: list[socket.socket], settings: Settings, share: Share, wire: socket.socket) -> None:
    """Serve as one of several, and obey the parent."""

    async def main() -> None:
        traces = open_traces()
        app = App(settings, share, traces)
        server = Server(app, sockets, settings, app)
        server.traffic.report = app.report

        def apply(settings: Settings) -> None:
            if not reload(app, server, settings):
                app.metrics.count_reload(ok=False)  # one that is good is counted by the parent, once

        def begin() -> None:
            wire.sendall(READY)
            _settle(app)

        loop = asyncio.get_running_loop()
        # Whoever signals all processes at once (a terminal, systemd) signals the parent too: twice is once.
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
        obeying = loop.create_task(obey(wire, server, apply))
        try:
            await server.run(begin)
        finally:
            obeying.cancel()
            if traces is not None:
                traces.close()

    _run(main())


def reload(app: App, server: Server, settings: Settings) -> bool:
    """Put a configuration into force; tells whether it is."""
    try:
        app.reload(settings)
    except Exception as error:  # noqa: BLE001 - whatever it is, the proxy runs on
        LOGGER.error("the configuration cannot be used, the one before stays: %s", type(error).__name__)
        return False
    server.traffic.settings = settings
    configure(settings.log)
    LOGGER.info("the configuration was read again")
    return True


@contextlib.contextmanager
def beside(app: ASGIApp, port: int = 0) -> Iterator[str]:
    """Serve another application on this machine in a thread, on a free port for 0; yields its address.

    Raises:
        RuntimeError: it did not start.
    """
    endpoint = Endpoint(Listen(port=port))
    server = Server(app, endpoint.sockets, Settings())
    loops: list[asyncio.AbstractEventLoop] = []
    is_ready = threading.Event()

    def announce() -> None:
        loops.append(asyncio.get_running_loop())
        is_ready.set()

    thread = threading.Thread(target=_run, args=(server.run(announce),), daemon=True)
    thread.start()
    try:
        if not is_ready.wait(_START_S):
            raise RuntimeError("the server beside the proxy did not start")
        yield endpoint.url
    finally:
        for loop in loops:
            # Nobody waits for the rest of a demo answer.
            loop.call_soon_threadsafe(server.stop_now)
        thread.join(_START_S)
        endpoint.close()
