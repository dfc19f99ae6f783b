"""One request and its answer, without a connection: what is written, in how many calls, and how it ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from starlette.types import Message
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl

from proxy.cycle import OUTLET, Cycle
from tests.servers import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Receive, Scope, Send

    from proxy.headers import Headers

DATE = (b"date", b"x")
SIZED = [DATE, (b"content-length", b"4")]


class Line(asyncio.Transport):
    """A connection that keeps what is done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[bytes] = []
        self.closed = False
        self.reads = True

    def write(self, data: Any) -> None:
        self.calls.append(bytes(data))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.calls.append(b"".join(list_of_data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


class Trip:
    """A cycle on such a connection."""

    def __init__(self, method: str = "GET", version: str = "1.1", **options: bool) -> None:
        self.line = Line()
        self.flow = FlowControl(self.line)
        self.ended = 0
        self.scope: dict[str, Any] = {"type": "http", "method": method, "http_version": version}
        options = {"waits": False, "keep_alive": version == "1.1"} | options
        self.cycle = Cycle(self.scope, self.line, self.flow, self.end, **options)

    def end(self) -> None:
        self.ended += 1

    async def answer(self, fields: Headers, pieces: list[bytes], status: int = 200) -> list[bytes]:
        """Answer, the last piece with the end; return what was written, less the date."""
        self.cycle.begin(status, fields)
        for piece in pieces[:-1]:
            self.cycle.put(piece)
        await self.cycle.finish(pieces[-1])
        return self.line.calls


CHUNKED = b"HTTP/1.1 200 OK\r\ndate: x\r\ntransfer-encoding: chunked\r\n\r\n"
LENGTH = b"HTTP/1.1 200 OK\r\ndate: x\r\ncontent-length: 4\r\n\r\n"
ENDING = b"HTTP/1.1 200 OK\r\ndate: x\r\nconnection: close\r\n\r\n"
BODYLESS = b"HTTP/1.1 200 OK\r\ndate: x\r\ncontent-length: 4\r\n\r\n"


@pytest.mark.parametrize(
    ("method", "version", "fields", "pieces", "written"),
    [
        ("GET", "1.1", [DATE], [b"ab", b"cd"], [CHUNKED + b"2\r\nab\r\n", b"2\r\ncd\r\n0\r\n\r\n"]),
        ("GET", "1.1", [DATE], [b"abcd"], [CHUNKED + b"4\r\nabcd\r\n0\r\n\r\n"]),
        ("GET", "1.1", [DATE], [b"", b""], [CHUNKED, b"0\r\n\r\n"]),
        ("GET", "1.1", [DATE], [b"ab", b"", b""], [CHUNKED + b"2\r\nab\r\n", b"0\r\n\r\n"]),
        ("GET", "1.1", SIZED, [b"abcd"], [LENGTH + b"abcd"]),
        ("GET", "1.1", SIZED, [b"ab", b"cd"], [LENGTH + b"ab", b"cd"]),
        ("GET", "1.0", [DATE], [b"ab", b"cd"], [ENDING + b"ab", b"cd"]),
        ("HEAD", "1.1", SIZED, [b"abcd"], [BODYLESS]),
        ("HEAD", "1.1", SIZED, [b"ab", b"cd"], [BODYLESS]),
    ],
)
async def test_an_answer(
    method: str, version: str, fields: Headers, pieces: list[bytes], written: list[bytes]
) -> None:
    """The head leaves together with what comes first: whoever is woken by it has something to read."""
    trip = Trip(method, version)
    assert await trip.answer(fields, pieces) == written
    assert trip.cycle.response_complete
    assert trip.ended == 1
    assert not trip.line.closed


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_a_body(status: int) -> None:
    (written,) = await Trip().answer([DATE], [b""], status)
    assert b"transfer-encoding" not in written
    assert written.endswith(b"\r\ndate: x\r\n\r\n")


async def test_a_connection_that_ends_says_so_once() -> None:
    (written,) = await Trip(keep_alive=False).answer(SIZED, [b"abcd"])
    assert written.count(b"connection: close\r\n") == 1
    trip = Trip()
    (written,) = await trip.answer([*SIZED, (b"connection", b"close")], [b"abcd"])
    assert written.count(b"connection: close\r\n") == 1
    assert not trip.cycle.keep_alive


@pytest.mark.parametrize("body", [b"abc", b"abcde"])
async def test_a_body_is_as_long_as_its_head_says(body: bytes) -> None:
    with pytest.raises(RuntimeError):
        await Trip().answer(SIZED, [body])


async def test_nothing_goes_to_a_client_that_left() -> None:
    trip, told = Trip(), list[int]()
    trip.cycle.on_leave = lambda: told.append(1)
    trip.cycle.begin(200, SIZED)
    trip.cycle.leave()
    trip.cycle.leave()
    assert not trip.cycle.put(b"ab")
    await trip.cycle.finish(b"cd")
    assert (trip.line.calls, told, trip.ended) == ([], [1], 0)


async def test_the_end_waits_until_the_client_takes_more() -> None:
    trip = Trip()
    trip.cycle.begin(200, SIZED)
    trip.flow.pause_writing()
    assert not trip.cycle.put(b"ab")
    ending = asyncio.ensure_future(trip.cycle.finish(b"cd"))
    await asyncio.sleep(0)
    assert not trip.ended
    trip.flow.resume_writing()
    await ending
    assert trip.line.calls == [LENGTH + b"ab", b"cd"]


# The request's body


async def test_a_body_is_read_whole() -> None:
    trip = Trip()
    reading = asyncio.ensure_future(trip.cycle.upload.read(HIGH_WATER_LIMIT * 3))
    await asyncio.sleep(0)
    for _ in range(3):
        trip.cycle.upload.take(b"x" * HIGH_WATER_LIMIT)
        await asyncio.sleep(0)
        assert trip.line.reads  # nobody else would read it
    trip.cycle.upload.complete()
    async with asyncio.timeout(WAIT_S):
        assert await reading == b"x" * HIGH_WATER_LIMIT * 3


async def test_a_body_is_read_up_to_a_limit() -> None:
    upload = Trip().cycle.upload
    upload.take(b"abc")
    assert await upload.read(2) == b"abc"
    assert upload.more
    upload.take(b"def")
    upload.complete()
    assert await upload.read(2) == b"def"


async def test_a_body_that_nobody_reads_is_not_taken_for_ever() -> None:
    trip = Trip()
    trip.cycle.upload.take(b"x" * HIGH_WATER_LIMIT)
    assert trip.line.reads
    trip.cycle.upload.take(b"x")
    assert not trip.line.reads
    assert await trip.cycle.upload.read(0) == b"x" * HIGH_WATER_LIMIT + b"x"
    trip.cycle.upload.complete()
    assert trip.line.reads


async def test_a_body_that_nobody_waits_for_any_more_is_dropped() -> None:
    trip = Trip("POST")
    trip.cycle.upload.take(b"x" * 9)
    await trip.answer(SIZED, [b"abcd"])
    trip.cycle.upload.take(b"x" * 9)
    assert not await trip.cycle.upload.read(99)


async def test_a_client_is_told_to_send_when_somebody_waits_for_it() -> None:
    trip = Trip("POST", waits=True)
    reading = asyncio.ensure_future(trip.cycle.upload.read(9))
    await asyncio.sleep(0)
    assert trip.line.calls == [b"HTTP/1.1 100 Continue\r\n\r\n"]
    trip.cycle.upload.take(b"ab")
    await asyncio.sleep(0)
    trip.cycle.upload.complete()
    assert await reading == b"ab"
    await trip.answer(SIZED, [b"abcd"])
    assert trip.cycle.keep_alive
    assert len(trip.line.calls) == 2


async def test_a_client_that_did_not_wait_is_not_told() -> None:
    trip = Trip("POST", waits=True)
    trip.cycle.upload.take(b"ab")
    trip.cycle.upload.complete()
    assert await trip.cycle.upload.read(9) == b"ab"
    assert not trip.line.calls
    await trip.answer(SIZED, [b"abcd"])
    assert trip.cycle.keep_alive


async def test_a_client_that_was_not_told_to_send_is_not_heard_again() -> None:
    trip = Trip("POST", waits=True)
    (written,) = await trip.answer(SIZED, [b"abcd"])
    assert b"connection: close\r\n" in written


# As ASGI has it


async def test_messages() -> None:
    trip, seen = Trip("POST"), list[Message]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["extensions"][OUTLET] is trip.cycle
        for _ in range(2):
            seen.append(await receive())
        await send({"type": "http.response.start", "status": 200, "headers": [DATE]})
        await send({"type": "http.response.body", "body": b"ab", "more_body": True})
        await send({"type": "http.response.body"})
        seen.append(await receive())

    trip.cycle.upload.take(b"ab")
    running = asyncio.ensure_future(trip.cycle.run(app))
    await asyncio.sleep(0)
    trip.cycle.upload.complete()
    async with asyncio.timeout(WAIT_S):
        await running
    assert seen == [
        {"type": "http.request", "body": b"ab", "more_body": True},
        {"type": "http.request", "body": b"", "more_body": False},
        {"type": "http.disconnect"},
    ]
    assert trip.line.calls == [CHUNKED + b"2\r\nab\r\n", b"0\r\n\r\n"]
    assert "extensions" not in trip.scope


async def test_a_client_that_leaves_ends_the_waiting_for_its_request() -> None:
    trip, seen = Trip("POST"), list[Message]()

    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        seen.append(await receive())

    running = asyncio.ensure_future(trip.cycle.run(app))
    await asyncio.sleep(0)
    trip.cycle.leave()
    async with asyncio.timeout(WAIT_S):
        await running
    assert seen == [{"type": "http.disconnect"}]
    assert not trip.line.calls


@pytest.mark.parametrize("fault", [None, LookupError("s3cret"), asyncio.CancelledError("s3cret")])
@pytest.mark.parametrize("begun", [False, True])
async def test_an_application_that_gives_no_answer(
    fault: BaseException | None, *, begun: bool, caplog: pytest.LogCaptureFixture
) -> None:
    trip = Trip()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        if begun:
            await send({"type": "http.response.start", "status": 200, "headers": [DATE]})
            await send({"type": "http.response.body", "body": b"ab", "more_body": True})
        if fault is not None:
            raise fault

    running = asyncio.ensure_future(trip.cycle.run(app))
    await asyncio.wait([running], timeout=WAIT_S)
    is_cancelled = isinstance(fault, asyncio.CancelledError)
    assert running.cancelled() == is_cancelled
    written = b"".join(trip.line.calls)
    assert trip.line.closed == is_cancelled
    assert (trip.ended, trip.cycle.keep_alive) == ((0, True) if is_cancelled else (1, False))
    assert trip.cycle.response_complete == (not begun and not is_cancelled)
    if begun:
        assert written == CHUNKED + b"2\r\nab\r\n"  # without an end: the client has to see that
    elif is_cancelled:
        assert not written
    else:
        assert written.startswith(b"HTTP/1.1 500 ")
        assert b"proxy_" in written
        assert b"connection: close\r\n" in written
    assert "s3cret" not in caplog.text
    assert ("LookupError" in caplog.text) == isinstance(fault, LookupError)
