"""A client that leaves frees the model server at once, whatever the two were doing."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import proxy as proxy_package
from tests.servers import WAIT_S, raw_server, tcp_server
from tests.transport import wire
from tests.transport.logged import outcomes
from tests.transport.proxying import LISTED, PLAIN, proxying, settings_for
from tests.transport.scripts import Stall, refuse_all

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

    from tests.servers import RawRequest
    from tests.transport.wire import Wire

LEFT = [("client_left", None)]
JSON_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n"

both_models = pytest.mark.parametrize("model", [LISTED, PLAIN])
both_ways = pytest.mark.parametrize("leave", ["close", "reset", "half-close"])


def go_away(client: Wire, how: str) -> None:
    if how == "half-close":
        client.writer.write_eof()
    elif how == "close":
        client.writer.close()
    else:
        client.abort()


@both_ways
async def test_while_sending_the_request_nothing_was_begun(
    leave: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "think_proxy")

    async with raw_server(refuse_all) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(
            wire.request("/v1/chat/completions", None, "content-length: 50", method="POST")
            + b'{"model":"listed"'
        )
        go_away(client, leave)
        await proxy.served(1)
        assert not upstream.connections
    assert outcomes(caplog) == LEFT


@both_ways
@both_models
@pytest.mark.parametrize("size", [70_000, 300_000, 700_000])
async def test_after_a_large_request(model: str, leave: str, size: int) -> None:
    """So large that the connection stopped reading on the way."""
    script = Stall(b"")
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(wire.chat(model, pad="x" * size))
        await script.sent()
        go_away(client, leave)
        await (await upstream.connection()).wait_peer_closed()
        await proxy.served(1)


@both_ways
@both_models
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "sent", [b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK\r\nco", JSON_HEAD, wire.STREAM_HEAD]
)
async def test_before_the_first_byte(
    model: str, leave: str, stream: bool, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "think_proxy")
    script = Stall(sent)
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(wire.chat(model, stream=stream))
        await script.sent()
        go_away(client, leave)
        await (await upstream.connection()).wait_peer_closed()
        await proxy.served(1)
    assert outcomes(caplog) == LEFT


@both_ways
@both_models
async def test_in_the_middle_of_a_stream(model: str, leave: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "think_proxy")

    script = Stall(wire.STREAM_HEAD + wire.chunk(wire.event("<think>a")))
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(wire.chat(model, stream=True))
        await client.head()
        await client.piece()
        go_away(client, leave)
        await (await upstream.connection()).wait_peer_closed()
        await proxy.served(1)
    assert outcomes(caplog) == LEFT


@both_ways
@pytest.mark.parametrize("request_", [wire.chat(LISTED), wire.chat(PLAIN), wire.request("/v1/models")])
async def test_in_the_middle_of_a_whole_answer(request_: bytes, leave: str) -> None:
    script = Stall(JSON_HEAD + b'{"choices":')
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(request_)
        await script.sent()
        go_away(client, leave)
        await (await upstream.connection()).wait_peer_closed()


@both_models
async def test_while_the_server_still_reads_the_request(model: str) -> None:
    body = json.dumps({"model": model, "x": "x" * (30 * 1024 * 1024)}).encode()
    left = asyncio.Event()

    async def read_a_little(reader: StreamReader, _: StreamWriter) -> None:
        await reader.readexactly(1000)
        client.abort()
        try:
            while await reader.read(2**20):
                pass
        finally:
            left.set()

    async with (
        tcp_server(read_a_little) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        await client.send(wire.request("/v1/chat/completions", body))
        await asyncio.wait_for(left.wait(), WAIT_S)


@both_ways
@both_models
async def test_while_it_does_not_read(model: str, leave: str) -> None:
    blocked = asyncio.Event()

    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        writer.write(wire.STREAM_HEAD)
        piece = wire.chunk(wire.event("x" * 60_000))
        while True:
            writer.write(piece)
            drained = asyncio.ensure_future(writer.drain())
            if not (await asyncio.wait([drained], timeout=0.2))[0]:
                blocked.set()
            await drained

    async with (
        raw_server(script) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect(limit=100) as client,
    ):
        await client.send(wire.chat(model, stream=True))
        await asyncio.wait_for(blocked.wait(), WAIT_S)
        go_away(client, leave)
        await (await upstream.connection()).wait_peer_closed()
        await proxy.served(1)
        await asyncio.wait_for(proxy.traffic.quiet(), WAIT_S)


async def test_a_complete_answer_is_read_to_its_end_behind_a_half_close() -> None:
    answer = wire.whole("x" * 8_000_000)  # more than the buffers between the two hold

    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        writer.write(wire.answer(answer))

    async with (
        raw_server(script) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect(limit=1000) as client,
    ):
        await client.send(wire.chat(LISTED))
        await proxy.served(1)
        client.writer.write_eof()
        assert (await client.reply()).body == answer


async def test_a_connection_whose_client_left_is_not_used_again() -> None:
    async def script(request: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        if request.json()["model"] == PLAIN:
            writer.write(wire.answer(b"fine"))
        await reader.read()

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            await client.send(wire.chat(LISTED))
            first = await upstream.connection()
        await first.wait_peer_closed()
        async with proxy.connect() as client:
            assert (await client.ask(wire.chat(PLAIN))).body == b"fine"
        assert len(upstream.connections) == 2


def tasks_of_the_proxy() -> list[asyncio.Task[object]]:
    """Return the tasks that run code of the proxy itself."""
    package = Path(proxy_package.__file__).parent
    coroutines = [(task, task.get_coro()) for task in asyncio.all_tasks()]
    return [task for task, it in coroutines if package in Path(it.cr_code.co_filename).parents]  # type: ignore[union-attr]


@pytest.mark.parametrize("rounds", [4, pytest.param(120, marks=pytest.mark.slow)])
async def test_aborts_at_random_moments_leave_nothing_open(rounds: int) -> None:
    """Each client leaves after a random number of turns of the loop, in whatever phase that is."""
    moments = random.Random(7)

    async def script(request: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        streams = request.json().get("stream")
        writer.write(
            wire.STREAM_HEAD
            if streams
            else wire.STREAM_HEAD.replace(b"text/event-stream", b"application/json")
        )
        for _turn in range(20):
            writer.write(wire.chunk(wire.event("<think>a") if streams else b"  "))
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(wire.LAST_CHUNK)

    async with raw_server(script) as upstream, proxying(upstream.url, keep_alive_s=0.001) as proxy:

        async def ask_and_leave() -> None:
            async with proxy.connect() as client:
                model, stream = moments.choice([LISTED, PLAIN]), moments.choice([True, False])
                request = wire.chat(model, stream=stream)
                if moments.randrange(5) == 0:
                    request = request[: moments.randrange(1, len(request))]
                await client.send(request)
                for _turn in range(moments.randrange(80)):
                    await asyncio.sleep(0)
                at_work.append(len(tasks_of_the_proxy()))

        at_work: list[int] = []
        for _round in range(rounds):
            await asyncio.gather(*(ask_and_leave() for _ in range(25)))
            if _round % 4 == 0:
                proxy.app.reload(settings_for(upstream.url))
        async with proxy.connect() as client:
            await client.ask(wire.request("/healthz"))  # those before it have been read by then
        await proxy.settled()
        left_open = [made for made in upstream.connections if not made.closed.is_set()]
        # Answers that were read to their end may have left a connection to be used again.
        await asyncio.gather(*(made.wait_closed() for made in left_open))
        assert len(upstream.connections) > 5 * rounds
        assert proxy.app.worlds == {proxy.app.world}
        assert proxy.app.world.routes.first.live == 0
        assert max(at_work) > 1
        assert tasks_of_the_proxy() == [proxy.run]
