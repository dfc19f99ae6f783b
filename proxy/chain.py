"""The bodies of a stream's rounds, one after the other, read like one body.

A further round is asked for while somebody reads: whatever watches over the reading (keep-alive comments, a
client that leaves, a proxy that stops) watches over the time between two rounds as well.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy import headers
from proxy.asking import Kind, late
from proxy.errors import BrokenError, UpstreamError

if TYPE_CHECKING:
    from proxy.asking import Asking
    from proxy.errors import ProxyError
    from proxy.rounds import Rounds
    from proxy.running import Running
    from proxy.upstream import Answer, Source

NO_DONE = "The model server closed the connection before its stream said [DONE]."


class Chain:
    """The bodies of a stream's rounds: where one ends that is asked again, the next one begins."""

    def __init__(
        self, asking: Asking, running: Running, rounds: Rounds, answer: Answer, source: Source
    ) -> None:
        """Begin with the first round's answer and its body; `rounds` is fed with what is read here."""
        self._asking = asking
        self._running = running
        self._rounds = rounds
        self._answer = answer
        self._source = source
        self._begins = False  # nothing has come of a further round yet
        self._limit: asyncio.Timeout | None = None
        self._error: ProxyError | None = None

    async def read(self) -> bytes:
        """Return the next bytes, nothing at the end of the answer.

        Raises:
            UpstreamError: the server failed, and the answer cannot end as the round before.
            StoppedError: the proxy stops.
        """
        rounds = self._rounds
        while not rounds.over:
            try:
                data = await self._source.read()
                if data:
                    if self._begins:
                        self._begins = False
                        self._answer.watch_idle()
                    return data
                if not rounds.round_done and not headers.is_delimited(self._answer.headers):
                    # The end of the connection is all that ended it: only [DONE] could tell it from a cut.
                    raise BrokenError(NO_DONE)
                if (again := rounds.next()) is not None:
                    await self._begin(again)
            except UpstreamError:
                if not rounds.fail():
                    raise
        return b""

    def fail(self, error: ProxyError) -> None:
        """Break off while the next round is asked for."""
        self._error = error
        if self._limit is not None:
            self._limit.reschedule(0)

    async def _begin(self, body: bytes) -> None:
        self._asking.leave()
        self._running.answer = self
        answer_s = self._asking.answer_s
        try:
            async with asyncio.timeout(answer_s or None) as self._limit:
                self._answer, self._source = await self._asking.send_again(body, Kind.STREAM)
        except TimeoutError:
            raise self._error or late(answer_s) from None
        finally:
            self._limit = None
        if self._error is not None:
            raise self._error  # the head had come just before
        self._begins = True
