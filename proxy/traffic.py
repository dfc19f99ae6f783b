"""All connections of clients to one process, and what they go by."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from uvicorn.server import ServerState

from proxy.telemetry import log_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.report import RequestReport
    from proxy.settings import Settings


class Traffic(ServerState):
    """All connections of one process, and what they go by."""

    def __init__(self, settings: Settings) -> None:
        """Begin without any; `settings` may be replaced at any time."""
        super().__init__()
        self.settings = settings
        self.is_draining = False
        """Every answer is the last one of its connection."""
        self.report: Callable[[RequestReport], None] = log_request
        """Takes what became of a request that is refused before it is one."""
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
