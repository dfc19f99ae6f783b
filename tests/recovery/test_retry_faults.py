"""A further round that fails, is left by its client, is silent, or is stopped."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Self

import pytest

import proxy.exchange
from proxy.tally import Tally
from tests.recovery.answers import CLOSED, PARSED, Form, hear
from tests.recovery.scripted import Answer, Said, ask, hear_reply, recovering, retrying, round_of, usage
from tests.recovery.test_retry import FIRST, TOOL_LIST, both_ways, calls
from tests.servers import reset
from tests.toolcalls.cases import QWEN
from tests.transport import wire
from tests.transport.proxying import LISTED
from tests.wire.streams import DONE, choice, chunk, event, read

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Iterator

THOUGHT = f"a {QWEN}"
DEEP = b'{"choices":[{"message":{"content":"x","y":%b1%b},"finish_reason":"stop"}]}' % (
    b"[" * 300,
    b"]" * 300,
)


@pytest.fixture
def tallies(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Tally]]:
    """What was counted, request by request."""
    made: list[Tally] = []

    def make() -> Tally:
        made.append(Tally())
        return made[-1]

    monkeypatch.setattr(proxy.exchange, "Tally", make)
    return made


async def hang(_: StreamReader, __: StreamWriter) -> None:
    await asyncio.Event().wait()


async def drop(_: StreamReader, writer: StreamWriter) -> None:
    reset(writer)


def streamed(*events: bytes, end: bytes = wire.LAST_CHUNK) -> bytes:
    return wire.STREAM_HEAD + b"".join(wire.chunk(one) for one in events) + end


def think(text: str, **fields: Any) -> bytes:
    return event(chunk(choice({"reasoning": text} | fields), id="c-2", created=2, model="m2"))


async def fall_silent(reader: StreamReader, writer: StreamWriter) -> None:
    writer.write(streamed(think("b"), end=b""))
    await hang(reader, writer)


ROLE = event(chunk(choice({"role": "assistant", "content": ""}), id="c-2", created=2, model="m2"))
FAULT = b'data: {"error":{"message":"m","code":500}}\n\n'
UNDELIMITED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
SPOKEN: dict[str, tuple[Any, str]] = {
    "400": (wire.answer(b'{"error":{}}', status="400 Bad Request"), ""),
    "500 in a stream": (wire.STREAM_HEAD.replace(b"200 OK", b"500 No") + wire.LAST_CHUNK, ""),
    "another type": (wire.answer(b"data: [DONE]\n\n", content_type="text/plain"), ""),
    "JSON for a stream": (wire.answer(wire.whole("x")), ""),
    "a coding that is unknown": (
        wire.answer(DONE, "content-encoding: zstd", content_type="text/event-stream"),
        "",
    ),
    "closed": (b"", ""),
    "reset": (drop, ""),
    "not HTTP": (b"hello\r\n\r\n", ""),
    "an error": (streamed(FAULT), ""),
    "an error and the end": (streamed(FAULT + DONE), ""),
    "an error behind thinking": (streamed(ROLE, think("b"), FAULT + think("c")), "b"),
    "an error in the last event": (streamed(think("b"), FAULT.rstrip()), "b"),
    "a cut": (streamed(ROLE, think("b"), end=b""), "b"),
    "a cut in an event": (streamed(ROLE, think("b") + think("c")[:30], end=b""), "b"),
    "a reset behind white space": (streamed(think("b", content="\n\n"), end=b""), "b"),
    "nothing": (streamed(), ""),
    "only the end": (streamed(DONE), ""),
    "thinking and the end": (streamed(ROLE, think("b"), DONE), "b"),
    "an end that nothing tells": (UNDELIMITED + think("b"), "b"),
    "an event that is too large": (streamed(think("b"), b"data: " + b"x" * 3000), "b"),
    "silence": (hang, ""),
    "silence behind thinking": (fall_silent, "b"),
}
WHOLE: dict[str, tuple[Any, str]] = {
    "400": (wire.answer(b'{"error":{}}', status="400 Bad Request"), ""),
    "another type": (wire.answer(b"{}", content_type="text/plain"), ""),
    "a stream": (streamed(DONE), ""),
    "closed": (b"", ""),
    "reset": (drop, ""),
    "a cut": (wire.answer(wire.whole("x"))[:-1], ""),
    "an error": (wire.answer(b'{"error":{"message":"m"},"choices":[]}'), ""),
    "no JSON": (wire.answer(b"{"), ""),
    "no choice": (wire.answer(b'{"choices":[]}'), ""),
    "two choices": (wire.answer(b'{"choices":[{"message":{},"finish_reason":"stop"},{}]}'), ""),
    "no message": (wire.answer(b'{"choices":[{"finish_reason":"stop"}]}'), ""),
    "no object": (wire.answer(b"[1]"), ""),
    "nested too deeply": (wire.answer(DEEP), ""),
    "too large": (wire.answer(b'{"x":"%b"}' % (b"x" * 9000)), ""),
    "silence": (hang, ""),
}
LIMITS: dict[str, Any] = {"max_event_bytes": 2000, "max_body_bytes": 8000}
SILENCE: dict[str, Any] = {"timeouts": {"first_byte_s": 0.2, "idle_s": 0.2}}
FAULTS = [
    *(pytest.param(True, *row, id=f"stream, {name}") for name, row in SPOKEN.items()),
    *(pytest.param(False, *row, id=f"whole, {name}") for name, row in WHOLE.items()),
]


@pytest.mark.parametrize(("stream", "reply", "more"), FAULTS)
async def test_a_retry_that_fails_ends_as_the_round_before(
    stream: bool, reply: Any, more: str, tallies: list[Tally], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "think_proxy")
    first = round_of(PARSED, 1, THOUGHT, "\n" if stream else "")
    limits = LIMITS | SILENCE if reply in (hang, fall_silent) else LIMITS
    async with recovering(retrying(PARSED), first, reply, **limits) as (proxy, upstream):
        reply = await ask(proxy, stream=stream)
        await proxy.served(1)
        assert len(upstream.requests) in (2, 3)  # a kept connection that closes is tried anew
    content = "\n" if stream else ""  # what the round would have ended with
    assert hear_reply(reply) == Answer(THOUGHT + more, content, [], [], "stop", FIRST, usage(10, 1))
    (tally,) = tallies
    assert (tally.retries, tally.retry_failures, tally.retries_used_up, tally.thinking_only) == (
        1,
        1,
        False,
        1,
    )
    assert tally.reasoning_chars == len(THOUGHT + more)
    (told,) = [record.__dict__["fields"] for record in caplog.records if record.message == "request"]
    assert (told["status"], told["outcome"]) == (200, "answered")


@both_ways
async def test_the_second_retry_fails(stream: bool, tallies: list[Tally]) -> None:
    rounds = round_of(PARSED, 1, THOUGHT), round_of(PARSED, 2, f"b {QWEN}")
    async with recovering(retrying(PARSED), *rounds, b"") as (proxy, _):
        heard = hear_reply(await ask(proxy, stream=stream))
    assert heard == Answer(f"{THOUGHT}b {QWEN}", "", [], [], "stop", FIRST, usage(30, 3))
    assert (tallies[0].retries, tallies[0].retry_failures, tallies[0].thinking_only) == (2, 1, 1)


@both_ways
async def test_a_server_that_is_gone(stream: bool, tallies: list[Tally]) -> None:
    async def leave(_: StreamReader, writer: StreamWriter) -> None:
        said = round_of(PARSED, 1, THOUGHT).write(stream=stream)
        writer.write(said.replace(b"200 OK\r\n", b"200 OK\r\nconnection: close\r\n"))
        proxy.app.world.routes.first._port = 1  # noqa: SLF001 - where nobody listens

    async with recovering(retrying(PARSED), leave) as (proxy, upstream):
        heard = hear_reply(await ask(proxy, stream=stream))
        assert len(upstream.requests) == 1
    assert heard == Answer(THOUGHT, "", [], [], "stop", FIRST, usage(10, 1))
    assert tallies[0].retry_failures == 1


@pytest.mark.parametrize("said", [{"content": "Yes"}, {"tool_calls": [{"index": 0, "id": "r"}]}])
async def test_a_retry_that_breaks_off_after_content_or_a_call_breaks_off(
    said: dict[str, Any], tallies: list[Tally]
) -> None:
    for fault in (streamed(ROLE, think("b"), think("", **said), end=b""), streamed(think("", **said), FAULT)):
        async with recovering(retrying(PARSED), round_of(PARSED, 1, THOUGHT), fault) as (proxy, _):
            reply = await ask(proxy, stream=True)
        assert b"[DONE]" not in reply.body
        *events, error = read(reply.body)
        assert "error" in error
        assert {made["id"] for made in events} == {"c-1"}
        assert all(made["choices"][0]["finish_reason"] is None for made in events)
    assert [tally.retry_failures for tally in tallies] == [0, 0]


@pytest.mark.parametrize("end", [b"", FAULT, b"data: x\n\n"], ids=["cut", "an error", "no JSON"])
async def test_a_first_round_that_breaks_off_is_as_without_retries(end: bytes) -> None:
    raw = Said(PARSED.parts(THOUGHT)).stream(done=False) + end
    async with recovering(retrying(PARSED), streamed(raw, end=b"")) as (proxy, upstream):
        reply = await ask(proxy, stream=True)
        assert len(upstream.requests) == 1
    async with recovering(retrying(PARSED, max_retries=0), streamed(raw, end=b"")) as (proxy, _):
        plain = await ask(proxy, stream=True)
    assert reply.body == plain.body
    assert b'"code":"upstream_broken"' in reply.body


async def test_an_error_behind_the_finish_ends_it() -> None:
    raw = Said(PARSED.parts(THOUGHT)).stream(done=False) + FAULT + DONE
    async with recovering(retrying(PARSED), streamed(raw)) as (proxy, upstream):
        reply = await ask(proxy, stream=True)
        assert len(upstream.requests) == 1
    assert hear(reply.body).finish == "stop"
    assert reply.body.endswith(FAULT + DONE)


async def test_another_choice_behind_the_finish_ends_it() -> None:
    raw = Said(PARSED.parts(THOUGHT)).stream(done=False)
    raw += event(chunk(choice({"content": "x"}, 1))) + event(chunk(choice({}, 1, "stop"))) + DONE
    async with recovering(retrying(PARSED), streamed(raw)) as (proxy, upstream):
        reply = await ask(proxy, stream=True)
        assert len(upstream.requests) == 1
    assert (hear(reply.body).finish, hear(reply.body, 1).content) == ("stop", "x")
    assert reply.body.endswith(DONE)


async def test_more_behind_the_finish_than_may_be_withheld_ends_it() -> None:
    raw = Said(PARSED.parts(THOUGHT)).stream(done=False) + b": x\n\n" * 1000 + DONE
    async with recovering(retrying(PARSED), streamed(raw), max_event_bytes=2000) as (proxy, upstream):
        reply = await ask(proxy, stream=True)
        assert len(upstream.requests) == 1
    assert hear(reply.body).finish == "stop"
    assert reply.body.endswith(b": x\n\n" + DONE)
    assert reply.body.count(b": x\n\n") == 1000


async def test_a_first_round_without_its_last_blank_line() -> None:
    raw = Said(PARSED.parts(THOUGHT)).stream(done=False).rstrip()
    async with recovering(retrying(PARSED), streamed(raw), calls(PARSED, 2, "b")) as (proxy, _):
        heard = hear_reply(await ask(proxy, stream=True))
    assert (heard.reasoning, heard.finish) == (f"{THOUGHT}b", "tool_calls")


PHASES = {
    "before the head": (b"", b""),
    "in the head": (b"HTTP/1.1 200 OK\r\nco", b"HTTP/1.1 200 OK\r\nco"),
    "behind the head": (wire.STREAM_HEAD, wire.answer(b"x" * 9)[:-9]),
    "in the body": (
        wire.STREAM_HEAD + wire.chunk(think("b")),
        wire.answer(b'{"choices":' + b" " * 9)[:-1],
    ),
}
in_each_round = pytest.mark.parametrize("number", [1, 2, 3])
in_each_phase = pytest.mark.parametrize("phase", PHASES.values(), ids=PHASES.keys())


def halt(text: bytes) -> tuple[Any, asyncio.Event]:
    """A reply that begins and does not go on, and what is set then."""
    begun = asyncio.Event()

    async def act(reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(text)
        await writer.drain()
        begun.set()
        await reader.read()

    return act, begun


@both_ways
@in_each_round
@in_each_phase
@pytest.mark.parametrize("form", [CLOSED, PARSED], ids=lambda form: form.name)
async def test_a_client_that_leaves_stops_the_chain(
    form: Form,
    stream: bool,
    number: int,
    phase: tuple[bytes, bytes],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "think_proxy")
    last, begun = halt(phase[not stream])
    rounds = [round_of(form, at, THOUGHT) for at in range(1, number)]
    async with recovering(retrying(form), *rounds, last) as (proxy, upstream):
        async with proxy.connect() as client:
            await client.send(wire.chat(LISTED, stream=stream, tools=TOOL_LIST))
            await asyncio.wait_for(begun.wait(), 10)
        await proxy.served(1)
        for connection in upstream.server.connections:
            await connection.wait_closed()
        assert upstream.open == 0
        assert len(upstream.requests) == number
        assert proxy.app.world.routes.first.live == 0
    (told,) = [record.__dict__["fields"] for record in caplog.records if record.message == "request"]
    assert told["outcome"] == "client_left"


@in_each_round
@in_each_phase
async def test_a_proxy_that_stops_says_so_in_a_stream(
    number: int, phase: tuple[bytes, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "think_proxy")
    last, begun = halt(phase[0])
    rounds = [round_of(PARSED, at, THOUGHT) for at in range(1, number)]
    async with recovering(retrying(PARSED), *rounds, last) as (proxy, upstream), proxy.connect() as client:
        await client.send(wire.chat(LISTED, stream=True, tools=TOOL_LIST))
        await asyncio.wait_for(begun.wait(), 10)
        if number > 1:
            told = (await client.head(), b"")[1]
            while len(hear(told).reasoning) < len(THOUGHT) * (number - 1):
                told += await client.piece()
        elif phase[0].endswith(b"\n\n\r\n"):
            await client.head()
            told = await client.piece()
        else:
            proxy.app.stop_streams()
            assert (await client.reply()).error() == (503, "proxy_error", "shutting_down")
            return
        proxy.app.stop_streams()
        while piece := await client.piece():
            told += piece
        await proxy.served(1)
        for connection in upstream.server.connections:
            await connection.wait_closed()
    *events, error = read(told)
    assert error["error"]["code"] == "shutting_down"
    assert b"[DONE]" not in told
    assert all(made["choices"][0]["finish_reason"] is None for made in events)
    (fields,) = [record.__dict__["fields"] for record in caplog.records if record.message == "request"]
    assert (fields["outcome"], fields["error"]) == ("stopped", "shutting_down")


@in_each_round
@in_each_phase
async def test_a_proxy_that_stops_refuses_a_whole_answer(number: int, phase: tuple[bytes, bytes]) -> None:
    last, begun = halt(phase[1])
    rounds = [round_of(PARSED, at, THOUGHT) for at in range(1, number)]
    async with recovering(retrying(PARSED), *rounds, last) as (proxy, upstream), proxy.connect() as client:
        await client.send(wire.chat(LISTED, tools=TOOL_LIST))
        await asyncio.wait_for(begun.wait(), 10)
        proxy.app.stop_streams()
        assert (await client.reply()).error() == (503, "proxy_error", "shutting_down")
        await proxy.served(1)
        for connection in upstream.server.connections:
            await connection.wait_closed()


async def test_comments_keep_the_stream_alive_between_the_rounds() -> None:
    go_on = asyncio.Event()

    async def wait(_: StreamReader, writer: StreamWriter) -> None:
        await go_on.wait()
        writer.write(calls(PARSED, 2, "b").write(stream=True))

    async with (
        recovering(retrying(PARSED), round_of(PARSED, 1, THOUGHT), wait, keep_alive_s=0.02) as (
            proxy,
            upstream,
        ),
        proxy.connect() as client,
    ):
        await client.send(wire.chat(LISTED, stream=True, tools=TOOL_LIST))
        await upstream.wait(2)
        told = (await client.head(), b"")[1]
        while hear(told).reasoning != THOUGHT or not told.endswith(b": keep-alive\n\n"):
            told += await client.piece()
        go_on.set()
        while piece := await client.piece():
            told += piece
    heard = hear(told)
    assert (heard.reasoning, heard.finish) == (f"{THOUGHT}b", "tool_calls")


class Limit(asyncio.Timeout):  # type: ignore[misc] # it is final for type checkers
    """A limit that tells whether it holds."""

    entered = False

    async def __aenter__(self) -> Self:
        self.entered = True
        await super().__aenter__()
        return self

    async def __aexit__(self, *error: object) -> bool | None:
        self.entered = False
        return await super().__aexit__(*error)

    @property
    def holds(self) -> bool:
        return self.entered and self.when() is not None


@both_ways
async def test_each_round_has_its_own_time(
    stream: bool, tallies: list[Tally], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each round a limit holds that was set in it, and no other one; the last round takes too long."""
    set_: list[Limit] = []
    answer_s, others = 3600.0, asyncio.timeout

    def limit(delay_s: float | None) -> asyncio.Timeout:
        if delay_s != answer_s:
            return others(delay_s)
        set_.append(Limit(asyncio.get_running_loop().time() + delay_s))
        return set_[-1]

    def say(number: int) -> Any:
        async def act(reader: StreamReader, writer: StreamWriter) -> None:
            assert [it.holds for it in set_] == [False] * (number - 1) + [True]
            if number > max_retries:
                set_[-1].reschedule(0)
                await hang(reader, writer)
            writer.write(round_of(PARSED, number, THOUGHT).write(stream=stream))

        return act

    monkeypatch.setattr(asyncio, "timeout", limit)
    max_retries, settings = 3, {"timeouts": {"answer_s": answer_s}}
    rounds = [say(number) for number in range(1, max_retries + 2)]
    async with recovering(retrying(PARSED, max_retries=max_retries), *rounds, **settings) as (
        proxy,
        upstream,
    ):
        heard = hear_reply(await ask(proxy, stream=stream))
        assert len(upstream.requests) == 4
    assert heard == Answer(THOUGHT * 3, "", [], [], "stop", FIRST, usage(60, 6))
    assert (tallies[0].retries, tallies[0].retry_failures) == (3, 1)


@both_ways
async def test_what_is_counted(stream: bool, tallies: list[Tally]) -> None:
    rounds = round_of(CLOSED, 1, THOUGHT), round_of(CLOSED, 2, "b", "Yes.")
    async with recovering(retrying(CLOSED), *rounds) as (proxy, _):
        await ask(proxy, stream=stream)
    expected = Tally(engaged=True, reasoning_chars=len(THOUGHT) + 1, content_chars=4, retries=1)
    assert tallies == [expected]
    rounds = round_of(CLOSED, 1, THOUGHT), round_of(CLOSED, 2, THOUGHT)
    async with recovering(retrying(CLOSED, max_retries=1), *rounds) as (proxy, _):
        await ask(proxy, stream=stream)
    assert tallies[1] == Tally(
        engaged=True,
        reasoning_chars=2 * len(THOUGHT),
        thinking_only=1,
        retries=1,
        retries_used_up=True,
    )
