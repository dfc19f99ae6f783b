"""Run the application under uvicorn, and the demo model server beside it when asked to."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from typing import TYPE_CHECKING

import uvicorn

from proxy.app import App
from proxy.telemetry import configure

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

    from starlette.types import ASGIApp

    from proxy.settings import Settings

KEEP_ALIVE_S = 75
"""Seconds an unused client connection is kept: longer than clients keep theirs, lest one meets a closed one."""

_GRACE_S = 30


class _Server(uvicorn.Server):
    """Says where it listens as soon as it does."""

    def __init__(self, config: uvicorn.Config, announcement: str | None) -> None:
        super().__init__(config)
        self._announcement = announcement
        self.ready = threading.Event()
        self.url = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.should_exit:
            return
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        if self._announcement is not None:
            sys.stdout.write(f"{self._announcement.format(url=self.url)}\n")
            sys.stdout.flush()
        # What was imported and built so far stays: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        self.ready.set()


def serve(settings: Settings, announcement: str = "think-proxy on {url}") -> None:
    """Serve until a signal comes.

    Args:
        settings: a configuration that names an upstream.
        announcement: the line that is printed when the proxy is ready.

    Raises:
        SystemExit: the address cannot be had.
    """
    configure(settings.log)
    config = _configure(App(settings), settings.listen.host, settings.listen.port)
    # uvicorn raises the signal again once it has shut down.
    with contextlib.suppress(KeyboardInterrupt):
        _Server(config, announcement).run()


@contextlib.contextmanager
def beside(app: ASGIApp) -> Iterator[str]:
    """Serve another application on a free port of this machine in a thread; yields its address."""
    server = _Server(_configure(app, "127.0.0.1", 0, grace_s=1), None)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    server.ready.wait()
    try:
        yield server.url
    finally:
        server.should_exit = True
        thread.join()


def _configure(app: ASGIApp, host: str, port: int, grace_s: int = _GRACE_S) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="uvloop",
        http="httptools",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=grace_s,
    )
