"""The bench over real sockets: one request upstream, both sides of its answer, and an end in every case."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from proxy.page import bench
from proxy.prompt import OFF_SWITCHES
from proxy.settings import Server
from tests.servers import raw_server
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

    from tests.servers import RawRequest, Script

SPLIT = ("<think>\nab", "c</think>\n\n", "xyz ", "🌊")


def ask(model: str = LISTED, *fields: str, **members: Any) -> bytes:
    body = json.dumps({"model": model, "prompt": "how?", **members}).encode()
    return wire.request("/_proxy/bench", body, "content-type: application/json", *fields, host="localhost")


def streaming(*texts: str, end: bytes = wire.DONE + b"") -> Script:
    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        events = b"".join(map(wire.event, texts)) + end
        # Cut in the middle of a character, and of everything else.
        pieces = b"".join(wire.chunk(events[at : at + 7]) for at in range(0, len(events), 7))
        writer.write(wire.STREAM_HEAD + pieces + wire.LAST_CHUNK)

    return script


class Told:
    """What the bench said."""

    def __init__(self, body: bytes) -> None:
        self.events = [
            (name.removeprefix("event: "), json.loads(data.removeprefix("data: ")))
            for name, data in (part.split("\n") for part in body.decode().split("\n\n")[:-1])
        ]
        self.plan = self.events[0][1]
        self.end = self.events[-1][1]
        assert [self.events[0][0], self.events[-1][0]] == ["plan", "end"]

    def side(self, name: str) -> bytes:
        return "".join(data for kind, data in self.events if kind == name).encode()


async def test_both_sides_are_told_as_they_are() -> None:
    async with raw_server(streaming(*SPLIT)) as upstream:
        async with proxying(upstream.url) as proxy, proxy.connect() as client:
            reply = await client.ask(ask(thinking="on", maxTokens=7))
        (request,) = upstream.requests
        plain = b"".join(map(wire.event, SPLIT)) + wire.DONE
    told = Told(reply.body)
    assert reply.header("content-type") == "text/event-stream; charset=utf-8"
    assert told.side("raw") == plain
    assert wire.texts(wire.events(told.side("split"))) == ("\nabc", "xyz 🌊")
    assert told.end == {"error": None}
    assert told.plan["entry"] == told.plan["listed"] == LISTED
    assert told.plan["inForce"] is True
    assert told.plan["rule"][0] == f'model: "{LISTED}"'
    assert {"<think>", "</think>"} <= {*told.plan["markers"]}
    assert request.json() == {
        "model": LISTED,
        "messages": [{"role": "user", "content": "how?"}],
        "max_tokens": 7,
        "stream": True,
        "chat_template_kwargs": {"enable_thinking": True, "thinking": True, "thinking_mode": "enabled"},
    }


@pytest.mark.parametrize(("thinking", "is_off"), [("off", True), ("on", False), ("default", False)])
async def test_the_switch_is_every_one_that_the_proxy_knows(thinking: str, is_off: bool) -> None:
    async with raw_server(streaming(*SPLIT)) as upstream:
        async with proxying(upstream.url) as proxy, proxy.connect() as client:
            await client.ask(ask(thinking=thinking))
        (request,) = upstream.requests
    assert (request.json().get("chat_template_kwargs") == dict(OFF_SWITCHES)) == is_off


async def test_what_is_told_is_what_a_client_gets() -> None:
    async with raw_server(streaming(*SPLIT)) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            reply = await client.ask(wire.chat(LISTED, stream=True))
        async with proxy.connect() as client:
            told = Told((await client.ask(ask())).body)
    assert told.side("split") == reply.body


async def test_a_piece_is_told_before_the_next_one_comes() -> None:
    more = asyncio.Event()

    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        writer.write(wire.STREAM_HEAD + wire.chunk(wire.event("<think>a")))
        await writer.drain()
        await more.wait()
        writer.write(wire.chunk(wire.event("</think>b") + wire.DONE) + wire.LAST_CHUNK)

    async with (
        raw_server(script) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        await client.send(ask())
        seen = await client.until(b'reasoning_content\\":\\"a')
        assert b"event: raw" in seen
        more.set()
        await client.until(b"event: end")


async def test_an_unlisted_model_passes_through_and_says_so() -> None:
    async with (
        raw_server(streaming(*SPLIT)) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        told = Told((await client.ask(ask(PLAIN))).body)
    assert (told.plan["rule"], told.plan["entry"], told.plan["markers"]) == (None, None, [])
    assert told.side("raw") == told.side("split")
    assert told.end == {"error": None}


@pytest.mark.parametrize(
    ("model", "members", "entry", "listed"),
    [
        (PLAIN, {"rule": "preset"}, PLAIN, None),
        (PLAIN, {"rule": "entry", "entry": LISTED}, LISTED, None),
        (LISTED, {"rule": "preset"}, LISTED, LISTED),
    ],
)
async def test_another_rule_can_be_tried_and_counts_for_nobody(
    model: str, members: dict[str, Any], entry: str, listed: str | None
) -> None:
    async with (
        raw_server(streaming(*SPLIT)) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        told = Told((await client.ask(ask(model, **members))).body)
        state = wire.request("/_proxy/state", None, host="localhost")
        numbers = (await client.ask(state)).json()
    assert wire.texts(wire.events(told.side("split"))) == ("\nabc", "xyz 🌊")
    assert (told.plan["entry"], told.plan["listed"], told.plan["inForce"]) == (entry, listed, False)
    for row in (*numbers["entries"], numbers["unlisted"]):
        assert (row["answers"], row["reasoningCharacters"]) == (0, 0)
    # Names that a client made up label nothing.
    assert [row["entry"] for row in numbers["entries"]] == [LISTED]


async def test_only_the_key_of_the_browsers_fields_goes_along() -> None:
    async with raw_server(streaming(*SPLIT)) as upstream:
        async with proxying(upstream.url) as proxy, proxy.connect() as client:
            fields = ("cookie: a=b", "accept-encoding: br", "user-agent: u", "authorization: Bearer theirs")
            await client.ask(ask(LISTED, *fields))
        (request,) = upstream.requests
    sent = dict(request.headers)
    assert sent["authorization"] == "Bearer theirs"
    assert sent["accept-encoding"] == "identity"
    assert not sent.keys() & {"cookie", "user-agent", "origin"}


async def test_the_servers_key_is_not_told() -> None:
    secret = "sk-upstream-secret"
    async with raw_server(streaming("<think>" + secret, secret)) as upstream:
        servers = (Server("gpu", upstream.url, api_key=secret),)
        async with proxying(servers) as proxy, proxy.connect() as client:
            told = Told((await client.ask(ask())).body)
    assert secret.encode() not in told.side("raw") + told.side("split")
    assert b"*" * len(secret) in told.side("raw")


async def test_a_client_that_leaves_frees_the_server() -> None:
    async def script(_: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(wire.STREAM_HEAD + wire.chunk(wire.event("<think>a")))
        await reader.read()

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            await client.send(ask())
            await client.until(b"event: split")
        await (await upstream.connection()).wait_peer_closed()


async def test_a_stream_that_breaks_off_ends_with_the_reason() -> None:
    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        writer.write(wire.STREAM_HEAD + wire.chunk(wire.event("<think>a")))

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        for model in (LISTED, PLAIN):
            told = Told((await client.ask(ask(model))).body)
            assert told.end["error"]["code"] == "upstream_broken"


async def test_an_error_of_the_server_comes_as_it_is() -> None:
    body = b'{"error": {"message": "no such model"}}'

    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        writer.write(wire.answer(body, status="404 Not Found"))

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(ask())
    assert (reply.status, reply.body) == (404, body)


async def test_an_unreachable_server_is_an_error_of_ours() -> None:
    async with proxying("http://127.0.0.1:9") as proxy, proxy.connect() as client:
        assert (await client.ask(ask())).error() == (502, "proxy_upstream_error", "upstream_unreachable")


async def test_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def script(_: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(wire.STREAM_HEAD + wire.chunk(wire.event("<think>a")))
        await reader.read()

    monkeypatch.setattr(bench, "MAX_S", 0.2)
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        assert Told((await client.ask(ask())).body).end["error"]["code"] == "upstream_timeout"


async def test_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    more = asyncio.Event()

    async def script(_: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(wire.STREAM_HEAD + wire.chunk(wire.event("<think>a")))
        await writer.drain()
        await more.wait()
        writer.write(wire.chunk(wire.event("b") * 3))
        await reader.read()

    monkeypatch.setattr(bench, "MAX_ANSWER_BYTES", 400)
    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(ask())
        await client.until(b"event: split")
        more.set()
        assert b'"code":"upstream_broken"' in await client.until(b"event: end") + await client.until(b"}}")


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"model": ""}, "model"),
        ({"model": 7}, "model"),
        ({"prompt": " "}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"thinking": "perhaps"}, "thinking"),
        ({"thinking": True}, "thinking"),
        ({"maxTokens": 0}, "maxTokens"),
        ({"maxTokens": True}, "maxTokens"),
        ({"maxTokens": 1.5}, "maxTokens"),
        ({"maxTokens": bench.MAX_TOKENS + 1}, "maxTokens"),
        ({"rule": "mine"}, "rule"),
        ({"rule": []}, "rule"),
        ({"rule": "entry"}, "entry"),
        ({"rule": "entry", "entry": "nobody's"}, "entry"),
        ({"entry": 1}, "rule"),
        ({"messages": []}, None),
    ],
)
async def test_what_is_not_understood_is_refused(members: dict[str, Any], param: str | None) -> None:
    async with raw_server(streaming(*SPLIT)) as upstream:
        async with proxying(upstream.url) as proxy, proxy.connect() as client:
            reply = await client.ask(ask(**({"model": LISTED} | members)))
            assert reply.error() == (400, "proxy_request_error", "invalid_request")
            assert reply.json()["error"]["param"] == param
            large = await client.ask(ask(prompt="x" * bench.MAX_REQUEST_BYTES))
            assert large.error() == (413, "proxy_request_error", "request_too_large")
        assert not upstream.connections


async def test_it_takes_its_place_among_the_requests() -> None:
    async def script(_: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(wire.STREAM_HEAD + wire.chunk(wire.event("<think>a")))
        await reader.read()

    async with (
        raw_server(script) as upstream,
        proxying(upstream.url, max_concurrent_requests=1) as proxy,
        proxy.connect() as first,
        proxy.connect() as second,
    ):
        await first.send(ask())
        await first.until(b"event: split")
        assert (await second.ask(ask())).error()[2] == "overloaded"
        proxy.app.stop_streams()
        assert b'"code":"shutting_down"' in await first.until(b"event: end") + await first.until(b"}}")
