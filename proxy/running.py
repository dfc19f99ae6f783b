"""A request that is being served, seen from outside: it can be made to end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from proxy.errors import StoppedError

if TYPE_CHECKING:
    from proxy.client import Client
    from proxy.errors import ProxyError


class Breakable(Protocol):
    """Something that is read from, and can be made to break off."""

    def fail(self, error: ProxyError) -> None:
        """Break off: whoever reads gets this error."""
        ...


class Running:
    """One request under way, and the place where it can be interrupted."""

    def __init__(self, client: Client) -> None:
        """Begin with the request of the current task."""
        self._client = client
        self._task = asyncio.current_task()
        self.answer: Breakable | None = None
        """The model server's answer, while it is being read."""
        self.stopped = False
        """It was told to end."""

    @property
    def finished(self) -> bool:
        """Whether the client may have its whole answer already, and send another request."""
        return self._client.finished

    def stop(self) -> None:
        """End it: an answer as if the server had broken off, anything before it by cancelling the task."""
        if self.stopped:
            return
        self.stopped = True
        if self.answer is not None:
            self.answer.fail(stopped())
        elif self._task is not None:
            self._task.cancel()


def stopped() -> StoppedError:
    """Return the error that tells a client of the end."""
    return StoppedError("The proxy is shutting down: send the request again.")
