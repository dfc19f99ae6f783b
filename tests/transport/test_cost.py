"""What a request and one event of a stream cost, counted in calls and not timed, which any machine shows."""

from __future__ import annotations

import asyncio
import gc
import logging
import tracemalloc
from typing import Any

import pytest

from proxy.connection import Connection
from proxy.response import Rewriter
from proxy.rules import Rule
from proxy.stream import Stream
from tests.counting import calls_made, calls_of_proxy
from tests.servers import raw_server
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying
from tests.transport.scripts import serve
from tests.wire.streams import MAX_EVENT_BYTES, choice, chunk, event

EVENTS = 320
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
WORD = event(chunk(choice({"content": " word"})))

OPENING = b"".join(event(chunk(choice({"content": text}))) for text in ("<think>", "\n", "It", " is", " so"))
ANSWER = b"".join(
    event(chunk(choice({"content": text}))) for text in ("</think>", "\n\n", "It", " is", " so")
)


def begun(*, answer: bool) -> Stream:
    stream = Stream(Rewriter(Rule()), MAX_EVENT_BYTES)
    stream.feed(OPENING)
    if answer:
        stream.feed(ANSWER)
    return stream


@pytest.mark.parametrize("answer", [False, True], ids=["thinking", "answer"])
@pytest.mark.parametrize(("at_once", "most", "most_in_c"), [(1, 3, 12), (16, 0.5, 2)])
def test_an_event_of_the_straight_line(at_once: int, most: float, most_in_c: float, *, answer: bool) -> None:
    stream, read = begun(answer=answer), WORD * at_once
    stream.feed(read)

    def work() -> None:
        for _ in range(EVENTS // at_once):
            stream.feed(read)

    of_python, of_c = calls_made(work)
    assert of_python - 1 <= most * EVENTS
    assert of_c <= most_in_c * EVENTS


@pytest.mark.parametrize("answer", [False, True], ids=["thinking", "answer"])
def test_an_event_that_the_splitter_has_to_read(*, answer: bool) -> None:
    """Its JSON is not parsed for that, nor written anew: the full way makes some hundred and fifty calls."""
    stream, read = begun(answer=answer), event(chunk(choice({"content": " i<n"})))
    stream.feed(read)

    def work() -> None:
        for _ in range(EVENTS):
            stream.feed(read)

    assert sum(calls_made(work)) <= 100 * EVENTS


async def test_a_piece_of_a_body_on_its_way_to_the_client() -> None:
    """Too few calls for anything to be awaited, or a task, a future or a timer to be made."""
    connection = Connection(lambda _: None)
    connection.connection_made(_Wire())
    head = asyncio.ensure_future(connection.send(b"", b"", has_body=True, timeout_s=60))
    await asyncio.sleep(0)
    connection.data_received(HEAD)
    await head
    pieces: list[bytes] = []

    def sink(piece: bytes) -> bool:
        pieces.append(piece)
        return True

    async def ready() -> None:
        raise AssertionError

    pouring = asyncio.ensure_future(connection.pour(sink, ready))
    await asyncio.sleep(0)
    framed = b"%x\r\n%b\r\n" % (len(WORD), WORD)

    def work() -> None:
        for _ in range(EVENTS):
            connection.data_received(framed)

    of_python, of_c = calls_made(work)
    assert pieces == [WORD] * EVENTS
    assert of_python - 1 <= 7 * EVENTS
    assert of_c <= 12 * EVENTS
    connection.data_received(b"0\r\n\r\n")
    assert await pouring == EVENTS


@pytest.mark.parametrize(
    ("model", "body", "most"),
    [
        (PLAIN, wire.answer(b"{}"), 200),
        (LISTED, wire.answer(wire.whole("<think>so</think>fine")), 325),
        (PLAIN, wire.STREAM_HEAD + wire.chunk(WORD) + wire.LAST_CHUNK, 200),
        (LISTED, wire.STREAM_HEAD + wire.chunk(WORD) + wire.LAST_CHUNK, 330),
    ],
    ids=["plain", "split", "plain stream", "split stream"],
)
async def test_a_request_and_its_answer(
    model: str, body: bytes, most: int, caplog: pytest.LogCaptureFixture
) -> None:
    """What stands around the events of a stream: each call is felt before the first of them."""
    caplog.set_level(logging.CRITICAL, "think_proxy")  # what a line costs is up to how the log is set up
    async with (
        raw_server(serve(body)) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        for _ in range(3):
            await client.ask(wire.chat(model))
        await proxy.served(3)
        with calls_of_proxy() as called:
            await client.ask(wire.chat(model))
            await proxy.served(4)
    assert len(called) <= most, "\n".join(called)


def test_a_long_stream_holds_no_more_than_a_short_one() -> None:
    stream = begun(answer=False)
    for _ in range(EVENTS):
        stream.feed(WORD)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(4 * EVENTS):
            stream.feed(WORD)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 4 * EVENTS
    finally:
        tracemalloc.stop()


class _Wire(asyncio.Transport):
    """A connection to nowhere."""

    def write(self, data: Any) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        pass
