"""Comments in a silent stream, against a body that comes in the very turn of the loop in which one is due."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest

from proxy.pulse import COMMENT, Pulse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.client import Client
    from proxy.headers import Headers

PERIOD_S = 0.01


class Ear:
    """A client that keeps what it got."""

    def __init__(self) -> None:
        self.status = 0
        self.told: list[bytes] = []

    async def start(self, status: int, _: Headers) -> None:
        self.status = status

    async def write(self, data: bytes) -> None:
        self.told.append(data)


class Late:
    """A body whose pieces behind the first one come just before a comment is due, in the same turn."""

    pulse: Pulse

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._loop = asyncio.get_running_loop()
        self._pieces = list(pieces)
        self._is_first = True

    async def read(self) -> bytes:
        if self._is_first:
            self._is_first = False
        else:
            came = self._loop.create_future()
            self._loop.call_soon(self._come, came)
            await came
        return self._pieces.pop(0) if self._pieces else b""

    def _come(self, came: asyncio.Future[None]) -> None:
        came.set_result(None)
        pulse = self.pulse
        pulse._waiting_since = self._loop.time() - 2 * PERIOD_S  # noqa: SLF001 - so long has it been waiting
        pulse._timer.cancel()  # noqa: SLF001
        pulse._beat()  # noqa: SLF001 - the timer is due in this turn too


async def pass_on(pieces: Sequence[bytes], *, whole_events: bool = False) -> list[bytes]:
    client, source = Ear(), Late(pieces)
    pulse = Pulse(source, cast("Client", client), (200, []), PERIOD_S, whole_events=whole_events)
    source.pulse = pulse
    try:
        while data := await pulse.read():
            if not client.status:
                await client.start(200, [])
            client.told.append(data)
    finally:
        pulse.close()
    return client.told


@pytest.mark.parametrize("rest", [b"1}\n\n", b"1}\r\n\r\n", b"1}\r\r"])
async def test_no_comment_lands_inside_an_event_whose_rest_comes_as_one_is_due(rest: bytes) -> None:
    told = b"".join(await pass_on([b'data: {"a":', rest]))
    assert told.replace(COMMENT, b"") == b'data: {"a":' + rest
    assert b'data: {"a":' + rest in told


async def test_a_comment_that_is_due_goes_out_before_what_comes_with_it() -> None:
    assert await pass_on([b"data: 1\n\n", b"data: 2"]) == [b"data: 1\n\n", COMMENT, b"data: 2"]


async def test_whole_events_are_all_that_a_client_of_a_rewritten_stream_has() -> None:
    assert await pass_on([b"data", b": 1\n\n"], whole_events=True) == [b"data", COMMENT, b": 1\n\n", COMMENT]
