"""The application's part in a reload: a new world beside the old one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from proxy.rules import Rule, Start
from proxy.settings import Cors, Entry, Server, Settings
from tests.safety.upstreams import always, server
from tests.servers import HOST, WAIT_S, raw_server
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying, settings_for
from tests.transport.scripts import Stall

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

    from tests.servers import RawRequest


async def test_new_requests_are_served_by_the_new_configuration() -> None:
    async with (
        raw_server(server("a")) as first,
        raw_server(server("b")) as second,
        proxying(first.url) as proxy,
        proxy.connect() as client,
    ):
        assert (await client.ask(wire.chat(PLAIN))).json()["server"] == "a"
        proxy.app.reload(settings_for(second.url, api_keys=("sk-1",), cors=Cors(("*",))))
        assert (await client.ask(wire.chat(PLAIN))).status == 401
        key = "x-api-key: sk-1"
        reply = await client.ask(wire.chat(PLAIN, key, "origin: https://x.example"))
        assert reply.json()["server"] == "b"
        assert reply.header("access-control-allow-origin") == "*"
        proxy.app.reload(settings_for(first.url, max_body_bytes=500))
        assert (await client.ask(wire.chat(PLAIN))).json()["server"] == "a"
        assert (await client.ask(wire.chat(PLAIN, user="x" * 500))).status == 413


async def test_a_running_request_keeps_the_configuration_it_began_with() -> None:
    go_on = asyncio.Event()

    async def script(_: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(wire.STREAM_HEAD + wire.chunk(wire.event("<think>a")))
        await asyncio.wait_for(go_on.wait(), WAIT_S)
        writer.write(wire.chunk(wire.event("b</think>c", "stop") + wire.DONE) + wire.LAST_CHUNK)
        await reader.read()

    async with (
        raw_server(script) as old,
        raw_server(server("b")) as new,
        proxying(old.url) as proxy,
        proxy.connect() as client,
        proxy.connect() as other,
    ):
        await client.send(wire.chat(LISTED, stream=True))
        await client.head()
        told = await client.piece()
        proxy.app.reload(Settings(upstream=new.url, max_event_bytes=1))
        assert (await other.ask(wire.chat(LISTED))).json()["server"] == "b"
        running = await old.connection()
        assert not running.closed.is_set()
        go_on.set()
        while piece := await client.piece():
            told += piece
        assert wire.texts(wire.events(told)) == ("ab", "c")
        # It was the last one of the old world: its connection is not kept.
        await running.wait_peer_closed()
        assert not (await new.connection()).closed.is_set()


async def test_idle_connections_of_the_old_configuration_are_closed_at_once() -> None:
    async with raw_server(server("a")) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            await client.ask(wire.chat(PLAIN))
            idle = await upstream.connection()
            assert not idle.closed.is_set()
            proxy.app.reload(settings_for(upstream.url))
            await idle.wait_peer_closed()
            await client.ask(wire.chat(PLAIN))
        assert len(upstream.connections) == 2


@pytest.mark.parametrize(
    "faulty",
    [Settings(), Settings(upstreams=(Server("a", "https://h", ca_file="/nowhere/ca.pem"),))],
    ids=["no upstream", "no certificates"],
)
async def test_a_faulty_configuration_leaves_the_old_one_in_force(faulty: Settings) -> None:
    async with raw_server(server("a")) as upstream:
        async with proxying(upstream.url) as proxy, proxy.connect() as client:
            await client.ask(wire.chat(PLAIN))
            with pytest.raises((ValueError, OSError)):
                proxy.app.reload(faulty)
            assert (await client.ask(wire.chat(PLAIN))).json()["server"] == "a"
        assert len(upstream.connections) == 1


async def test_readiness_is_that_of_the_new_upstream() -> None:
    async with (
        raw_server(server("a")) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        assert (await client.ask(wire.request("/readyz"))).status == 200
        proxy.app.reload(settings_for(f"http://{HOST}:1"))
        assert (await client.ask(wire.request("/readyz"))).status == 503
        proxy.app.reload(settings_for(upstream.url))
        assert (await client.ask(wire.request("/readyz"))).status == 200


async def test_many_reloads_leave_nothing_behind() -> None:
    stream = wire.chunk(wire.event("a", "stop") + wire.DONE) + wire.LAST_CHUNK
    async with raw_server(always(wire.STREAM_HEAD + stream)) as upstream:
        base = settings_for(upstream.url)
        rules = (Rule(), Rule(start=Start.IMPLICIT))
        async with proxying(upstream.url) as proxy:

            async def ask() -> None:
                async with proxy.connect() as client:
                    for _ in range(20):
                        reply = await client.ask(wire.chat(LISTED, stream=True))
                        assert wire.events(reply.body)[-1] == "[DONE]"

            asking = asyncio.gather(*(ask() for _ in range(8)))
            for number in range(100):
                proxy.app.reload(replace(base, entries=(Entry(LISTED, rules[number % 2]),)))
                await asyncio.sleep(0)
            await asking
            await proxy.served(160)
            assert proxy.app.worlds == {proxy.app.world}
            proxy.app.reload(settings_for(f"http://{HOST}:1"))
            for connection in upstream.connections:
                await connection.wait_closed()


async def test_what_runs_in_an_old_world_ends_with_the_proxy() -> None:
    begin = Stall(wire.STREAM_HEAD + wire.chunk(wire.event("a")))
    async with raw_server(begin) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(wire.chat(LISTED, stream=True))
        await client.head()
        await client.piece()
        proxy.app.reload(settings_for(upstream.url))
        proxy.app.stop_streams()
        last = await client.piece()
        assert wire.events(last)[-1]["error"]["code"] == "shutting_down"
        await (await upstream.connection()).wait_peer_closed()
