"""All connections of clients to one process, and what they go by."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.telemetry import log_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.listener import ClientConnection
    from proxy.report import RequestReport
    from proxy.settings import Settings


class Traffic:
    """All connections of one process, and what they go by."""

    def __init__(self, settings: Settings) -> None:
        """Begin without any; `settings` may be replaced at any time."""
        self.settings = settings
        self.connections: set[ClientConnection] = set()
        """Those that are open."""
        self.tasks: set[asyncio.Task[None]] = set()
        """Those that serve a request."""
        self.is_draining = False
        """Every answer is the last one of its connection."""
        self.report: Callable[[RequestReport], None] = log_request
        """Takes what became of a request that was refused before it was one."""
        self.lost = asyncio.Event()
        """Set when a connection has ended."""

    async def quiet(self) -> None:
        """Return when no request is running and no connection is left."""
        while self.tasks or self.connections:
            if self.tasks:
                await asyncio.wait(self.tasks)
            else:
                self.lost.clear()
                await self.lost.wait()
