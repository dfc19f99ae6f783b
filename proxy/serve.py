"""Run the application under uvicorn, and the demo model server beside it when asked to."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from typing import TYPE_CHECKING, Any

import uvicorn

from proxy.app import App
from proxy.telemetry import configure

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator
    from types import FrameType

    from starlette.types import ASGIApp

    from proxy.settings import Settings

KEEP_ALIVE_S = 75
"""Seconds an unused client connection is kept: clients that keep theirs for less meet no closed one."""

OPTIONS: dict[str, Any] = {
    "loop": "uvloop",
    "http": "httptools",
    "ws": "none",
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "date_header": False,
    "timeout_keep_alive": KEEP_ALIVE_S,
}
"""How uvicorn runs the proxy."""

_GRACE_S = 30
_START_S = 10


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
        gc.enable()
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop; the application hears of it when it must be quick, too."""
        await super().shutdown(sockets)
        if self.force_exit:
            for task in self.server_state.tasks:
                task.cancel()
            await self.lifespan.shutdown()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the base class's
        """Stop on a signal, on a second one at once.

        The base class would raise the signal again in the end, and the process would die of it; it was
        asked to stop, and it did.
        """
        self.force_exit = self.should_exit
        self.should_exit = True


def serve(settings: Settings, announcement: str = "think-proxy on {url}") -> None:
    """Serve until a signal comes.

    Args:
        settings: a configuration that names an upstream.
        announcement: the line that is printed when the proxy is ready.

    Raises:
        SystemExit: with 1, the address cannot be had; the log says why.
    """
    configure(settings.log)
    config = uvicorn.Config(
        App(settings),
        host=settings.listen.host,
        port=settings.listen.port,
        timeout_graceful_shutdown=_GRACE_S,
        **OPTIONS,
    )
    try:
        _Server(config, announcement).run()
    except SystemExit:
        sys.exit(1)  # the server's own code differs from version to version


@contextlib.contextmanager
def beside(app: ASGIApp) -> Iterator[str]:
    """Serve another application on a free port of this machine in a thread; yields its address.

    Raises:
        RuntimeError: it did not start.
    """
    # Nobody waits for the rest of a demo answer.
    config = uvicorn.Config(app, host="127.0.0.1", port=0, timeout_graceful_shutdown=1, **OPTIONS)
    server = _Server(config, None)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        if not server.ready.wait(_START_S):
            raise RuntimeError("the model server beside the proxy did not start")
        yield server.url
    finally:
        server.should_exit = True
        thread.join()
