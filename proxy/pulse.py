"""A comment now and then in a stream that is silent, for whatever on the way closes silent connections.

There is one timer per stream. It looks whether the relay has been waiting for long, and is set again for
when that may be so next; events do not touch it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy.errors import ProxyError

if TYPE_CHECKING:
    from proxy.client import Client
    from proxy.headers import Headers
    from proxy.upstream import Source

COMMENT = b": keep-alive\n\n"
"""A line that clients ignore (https://html.spec.whatwg.org/#event-stream-interpretation)."""

_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


class Pulse:
    """The body of a stream; while it is waited for, the client gets comments."""

    def __init__(
        self,
        source: Source,
        client: Client,
        head: tuple[int, Headers],
        period_s: float,
        *,
        whole_events: bool,
    ) -> None:
        """Begin to watch; the head of the answer is there.

        Args:
            source: the body.
            client: who gets the comments.
            head: status and fields of the answer, which the first comment sends if nothing did before.
            period_s: the silence after which a comment goes out.
            whole_events: only whole events are sent to the client, however the body comes.
        """
        self._source = source
        self._client = client
        self._head = head
        self._period_s = period_s
        self._whole_events = whole_events
        self._loop = asyncio.get_running_loop()
        self._last = b""
        self._waiting_since: float | None = None
        self._comment: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(period_s, self._beat)

    async def read(self) -> bytes:
        """Return the next bytes of the body, nothing at the end; raises what the source raises."""
        self._waiting_since = self._loop.time()
        try:
            self._last = await self._source.read()
        except ProxyError:
            await self._settle()
            raise
        await self._settle()
        return self._last

    def close(self) -> None:
        """Send no more comments."""
        self._timer.cancel()
        if self._comment is not None:
            self._comment.cancel()

    async def _settle(self) -> None:
        """Stop waiting; a comment that is being sent is not overtaken."""
        self._waiting_since = None
        if self._comment is not None:
            await self._comment
            self._comment = None

    def _beat(self) -> None:
        wait_s = self._period_s
        if self._waiting_since is not None:
            wait_s = self._waiting_since + self._period_s - self._loop.time()
        if wait_s <= 0:
            wait_s = self._period_s
            if self._is_between_events and (self._comment is None or self._comment.done()):
                self._comment = self._loop.create_task(self._send())
        self._timer = self._loop.call_later(wait_s, self._beat)

    @property
    def _is_between_events(self) -> bool:
        """Whether the client has whole events only, as long as `read` waits: what it read last was sent."""
        return self._whole_events or not self._last or self._last.endswith(_ENDS)

    async def _send(self) -> None:
        client = self._client
        if not client.status:
            await client.start(*self._head)
        await client.write(COMMENT)
