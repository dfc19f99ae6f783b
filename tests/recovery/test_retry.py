"""The proxy asks again: what it asks, and that the client sees one answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.rules import History, ReasoningField, Whitespace
from tests.recovery.answers import CLOSED, FORMS, OPEN, PARSED, Form
from tests.recovery.scripted import (
    ASKED,
    TOOL_LIST,
    Answer,
    Said,
    ask,
    hear_reply,
    recovering,
    retrying,
    round_of,
    usage,
)
from tests.toolcalls.cases import HERMES, QWEN, READ
from tests.transport import wire
from tests.transport.proxying import LISTED
from tests.wire.streams import DONE, choice, chunk, event, read

TIME = "<tool_call>get_time</tool_call>"
UNKNOWN = "<tool_call>rm</tool_call>"
CALL = {"id": "r", "type": "function", "function": {"name": "read", "arguments": json.dumps(READ[1])}}
FIRST = {"id": "c-1", "created": 1, "model": "m1"}

both_ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
every_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)


def calls(form: Form, number: int, thought: str) -> Said:
    """A round that calls the proper way."""
    parts = form.parts(thought) if thought else []
    return Said(parts, "tool_calls", number, usage(10 * number, number), message={"tool_calls": [CALL]})


def turn(thought: str, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "reasoning_content": thought, **fields}


def question(document: dict[str, Any], at: int = -1) -> str:
    message = document["messages"][at]
    assert set(message) == {"role", "content"}
    assert message["role"] == "user"
    text = message["content"]
    assert isinstance(text, str)
    assert "tool call" in text
    assert "thinking" in text
    return text


@both_ways
@every_form
async def test_a_call_in_the_second_round(form: Form, stream: bool) -> None:
    thought = f"I look.\n{QWEN}"
    rounds = round_of(form, 1, thought), calls(form, 2, "Now.")
    async with recovering(retrying(form), *rounds) as (proxy, upstream):
        heard = hear_reply(await ask(proxy, stream=stream, extra={"x": 1}))
        assert upstream.open <= 1
    assert heard == Answer(thought + "Now.", "", [READ], ["r"], "tool_calls", FIRST, usage(30, 3))
    first, second = upstream.documents
    assert first == {
        "model": LISTED,
        "messages": [ASKED],
        "stream": stream,
        "tools": TOOL_LIST,
        "extra": {"x": 1},
        "skip_special_tokens": False,
    }
    text = question(second)
    assert "1 tool call " in text
    assert text.endswith(f"\n\n{QWEN}")
    assert second == first | {"messages": [ASKED, turn(thought), {"role": "user", "content": text}]}


@both_ways
@every_form
async def test_content_in_the_second_round(form: Form, stream: bool) -> None:
    rounds = round_of(form, 1, f"a {QWEN} b {TIME} c"), round_of(form, 2, "done", "Yes.\n")
    # A block that the server did not close needs one here, or all of it is thinking.
    said = form if form.behind or form.native else CLOSED
    rounds = rounds[0], round_of(said, 2, "done", "Yes.\n")
    async with recovering(retrying(form), *rounds) as (proxy, upstream):
        heard = hear_reply(await ask(proxy, stream=stream))
    assert heard == Answer(f"a {QWEN} b {TIME} cdone", "Yes.\n", [], [], "stop", FIRST, usage(30, 3))
    text = question(upstream.documents[1])
    assert "2 tool calls " in text
    assert text.endswith(f"\n\n{QWEN}\n\n{TIME}")


@both_ways
@every_form
async def test_two_retries(form: Form, stream: bool) -> None:
    rounds = round_of(form, 1, f"a {QWEN}"), round_of(form, 2, f"b {HERMES}\n"), calls(form, 3, "")
    async with recovering(retrying(form), *rounds) as (proxy, upstream):
        heard = hear_reply(await ask(proxy, stream=stream))
    thoughts = [f"a {QWEN}", f"b {HERMES}\n"]
    assert heard == Answer("".join(thoughts), "", [READ], ["r"], "tool_calls", FIRST, usage(60, 6))
    first, second, third = upstream.documents
    asked = [question(second), question(third)]
    assert [text.split("\n\n", 1)[1] for text in asked] == [QWEN, HERMES]
    added = [
        message
        for thought, text in zip(thoughts, asked, strict=True)
        for message in (turn(thought), {"role": "user", "content": text})
    ]
    assert second == first | {"messages": [ASKED, *added[:2]]}
    assert third == first | {"messages": [ASKED, *added]}


@both_ways
@every_form
@pytest.mark.parametrize("max_retries", [0, 1, 2])
async def test_when_the_retries_are_used_up_the_last_answer_stands(
    form: Form, stream: bool, max_retries: int
) -> None:
    rounds = [round_of(form, number, f"{number} {QWEN}") for number in (1, 2, 3, 4)]
    async with recovering(retrying(form, max_retries=max_retries), *rounds) as (proxy, upstream):
        heard = hear_reply(await ask(proxy, stream=stream))
    count = max_retries + 1
    thought = "".join(f"{number} {QWEN}" for number in range(1, count + 1))
    total = sum(range(1, count + 1))
    assert heard == Answer(thought, "", [], [], "stop", FIRST, usage(10 * total, total))
    assert len(upstream.documents) == count


@both_ways
@pytest.mark.parametrize("finish", ["length", "content_filter", "tool_calls"])
async def test_a_last_round_keeps_its_own_finish(stream: bool, finish: str) -> None:
    rounds = round_of(PARSED, 1, QWEN), round_of(PARSED, 2, f"b {QWEN}", finish=finish)
    async with recovering(retrying(PARSED), *rounds) as (proxy, upstream):
        heard = hear_reply(await ask(proxy, stream=stream))
    assert (heard.finish, heard.reasoning) == (finish, f"{QWEN}b {QWEN}")
    assert len(upstream.documents) == 2


TURNED_DOWN = {
    "two choices": {"n": 2},
    "no tools": {"tools": None},
    "no tool may be called": {"tool_choice": "none"},
    "another tool": {"tool_choice": {"type": "function", "function": {"name": "get_time"}}},
    "goes on from a beginning": {"continue_final_message": True},
}


@both_ways
@pytest.mark.parametrize("members", TURNED_DOWN.values(), ids=TURNED_DOWN.keys())
async def test_requests_that_are_not_asked_again(stream: bool, members: dict[str, Any]) -> None:
    async with recovering(retrying(PARSED), round_of(PARSED, 1, f"a {QWEN}")) as (proxy, upstream):
        heard = hear_reply(await ask(proxy, stream=stream, **members))
    assert heard == Answer(f"a {QWEN}", "", [], [], "stop", FIRST, usage(10, 1))
    assert len(upstream.documents) == 1


@both_ways
@every_form
@pytest.mark.parametrize(
    ("thought", "content", "fields"),
    [
        ("a", "", {}),
        (f"a {UNKNOWN}", "", {}),
        (f"a {QWEN[:-3]}", "", {}),
        (f"a {QWEN}", "", {"finish": "length"}),
        (f"a {QWEN}", "", {"message": {"tool_calls": [CALL]}}),
        (f"a {QWEN}", "", {"message": {"refusal": "no"}}),
    ],
    ids=["thinking only", "unknown", "malformed", "length", "a call", "refusal"],
)
async def test_answers_that_are_not_asked_again(
    form: Form, stream: bool, thought: str, content: str, fields: dict[str, Any]
) -> None:
    async with recovering(retrying(form), round_of(form, 1, thought, content, **fields)) as (proxy, upstream):
        heard = hear_reply(await ask(proxy, stream=stream))
    assert heard.reasoning == thought
    assert heard.usage == usage(10, 1)
    assert len(upstream.documents) == 1


@both_ways
async def test_visible_content_is_not_asked_again(stream: bool) -> None:
    async with recovering(retrying(CLOSED), round_of(CLOSED, 1, QWEN, "x")) as (proxy, upstream):
        heard = hear_reply(await ask(proxy, stream=stream))
    assert (heard.reasoning, heard.content) == (QWEN, "x")
    assert len(upstream.documents) == 1


@both_ways
async def test_a_turn_that_a_stop_string_ended_is_not_asked_again(stream: bool) -> None:
    said = round_of(PARSED, 1, QWEN)
    raw = said.write(stream=stream).replace(
        b'"finish_reason":"stop"', b'"finish_reason":"stop","stop_reason":"X"'
    )
    raw = raw.replace(b'"finish_reason": "stop"', b'"finish_reason": "stop", "stop_reason": "X"')
    body = raw.partition(b"\r\n\r\n")[2]
    if stream:
        events = body.partition(b"\r\n")[2].removesuffix(wire.LAST_CHUNK).removesuffix(b"\r\n")
        raw = wire.STREAM_HEAD + wire.chunk(events) + wire.LAST_CHUNK
    else:
        raw = wire.answer(body)
    assert b'"X"' in raw
    async with recovering(retrying(PARSED), raw) as (proxy, upstream):
        assert hear_reply(await ask(proxy, stream=stream)).finish == "stop"
    assert len(upstream.documents) == 1


@both_ways
@pytest.mark.parametrize(
    ("fields", "written"),
    [
        ({"history": History.INLINE}, {"content": f"<think>a {QWEN}</think>"}),
        ({"history": History.REASONING}, {"content": "", "reasoning": f"a {QWEN}"}),
        ({"history": History.REASONING_CONTENT}, {"content": "", "reasoning_content": f"a {QWEN}"}),
        ({"history": History.DROP}, {"content": ""}),
        ({"reasoning_field": ReasoningField.REASONING}, {"content": "", "reasoning": f"a {QWEN}"}),
        (
            {"reasoning_field": ReasoningField.BOTH},
            {"content": "", "reasoning_content": f"a {QWEN}", "reasoning": f"a {QWEN}"},
        ),
        ({"reasoning_field": ReasoningField.NONE}, {"content": "", "reasoning_content": f"a {QWEN}"}),
        (
            {"reasoning_field": ReasoningField.NONE, "history": History.INLINE},
            {"content": f"<think>a {QWEN}</think>"},
        ),
        (
            {"whitespace": Whitespace.EXACT, "history": History.INLINE},
            {"content": f"<think>a {QWEN}</think>\n\n"},
        ),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if len(value) < 3 else "",
)
async def test_the_turn_goes_back_as_history_has_it(
    stream: bool, fields: dict[str, Any], written: dict[str, Any]
) -> None:
    earlier = {"role": "assistant", "content": "y", "reasoning_content": "x"}
    rounds = round_of(CLOSED, 1, f"a {QWEN}"), calls(CLOSED, 2, "")
    async with recovering(retrying(CLOSED, **fields), *rounds) as (proxy, upstream):
        await ask(proxy, stream=stream, messages=[ASKED, earlier, ASKED])
    first, second = upstream.documents
    assert second["messages"] == [
        *first["messages"],
        {"role": "assistant"} | written,
        {"role": "user", "content": question(second)},
    ]


@both_ways
async def test_reasoning_that_is_left_out_stays_out(stream: bool) -> None:
    rounds = round_of(CLOSED, 1, f"a {QWEN}"), round_of(CLOSED, 2, "b", "Yes.")
    async with recovering(retrying(CLOSED, reasoning_field=ReasoningField.NONE), *rounds) as (proxy, _):
        heard = hear_reply(await ask(proxy, stream=stream))
    assert heard == Answer("", "Yes.", [], [], "stop", FIRST, usage(30, 3))


async def test_it_asks_with_the_same_fields_over_the_same_connection() -> None:
    rounds = round_of(PARSED, 1, QWEN), calls(PARSED, 2, "")
    async with recovering(retrying(PARSED), *rounds) as (proxy, upstream):
        async with proxy.connect() as client:
            given = "authorization: Bearer k", "x-own: 1", "x-request-id: r1"
            reply = await client.ask(wire.chat(LISTED, *given, stream=True, tools=TOOL_LIST))
        assert len(upstream.server.connections) == 1
    assert reply.header("x-request-id") == "r1"
    first, second = (dict(asked.headers) for asked in upstream.requests)
    assert first.pop("content-length") != second.pop("content-length")
    assert first == second
    assert first["authorization"] == "Bearer k"


def usages(reply: wire.Reply) -> list[Any]:
    return [made["usage"] for made in read(reply.body) if isinstance(made, dict) and "usage" in made]


async def test_usage_in_every_chunk_goes_on_from_the_rounds_before() -> None:
    def tell(number: int, *deltas: dict[str, Any], finish: str = "stop") -> bytes:
        named = {"id": f"c-{number}", "created": number, "model": "m"}
        said = [{"role": "assistant", "content": ""}, *deltas]
        events = [
            event(chunk(choice(delta), **named, usage={"total_tokens": at}))
            for at, delta in enumerate(said, 1)
        ]
        events.append(event(chunk(choice({}, finish=finish), **named, usage={"total_tokens": len(said)})))
        raw = b"".join([*events, DONE])
        return wire.STREAM_HEAD + wire.chunk(raw) + wire.LAST_CHUNK

    first = tell(1, {"reasoning": "a"}, {"reasoning": QWEN})
    second = tell(2, {"reasoning": "b"}, {"content": "c"})
    async with recovering(retrying(PARSED), first, second) as (proxy, _):
        reply = await ask(proxy, stream=True)
    assert [told["total_tokens"] for told in usages(reply)] == [1, 2, 3, 4, 5, 6, 6]
    events = read(reply.body)
    assert {made["id"] for made in events[:-1]} == {"c-1"}
    # The role chunk of the second round stays for its usage alone.
    assert [made["choices"][0]["delta"] for made in events[3:5]] == [
        {"content": ""},
        {"reasoning_content": "b"},
    ]


async def test_without_usage_there_is_none() -> None:
    rounds = Said(PARSED.parts(QWEN)), Said(PARSED.parts("b", "c"), number=2)
    async with recovering(retrying(PARSED), *rounds) as (proxy, _):
        reply = await ask(proxy, stream=True)
    assert usages(reply) == []
    assert hear_reply(reply).reasoning == f"{QWEN}b"


@pytest.mark.parametrize("form", [OPEN, PARSED], ids=lambda form: form.name)
async def test_a_finish_in_the_same_chunk_as_text(form: Form) -> None:
    def tell(number: int) -> bytes:
        ((name, text), *_) = form.parts(f"{number} {QWEN}")
        entry = {"token": text, "logprob": -1.0, "bytes": list(text.encode())}
        delta = {"role": "assistant", name: text}
        made = choice(delta, finish="stop") | {"logprobs": {"content": [entry]}, "token_ids": [number]}
        named = {"id": f"c-{number}", "created": number, "model": "m"}
        raw = event(chunk(made, **named, usage={"total_tokens": number})) + DONE
        return wire.STREAM_HEAD + wire.chunk(raw) + wire.LAST_CHUNK

    async with recovering(retrying(form, max_retries=1), tell(1), tell(2)) as (proxy, _):
        reply = await ask(proxy, stream=True)
    heard = hear_reply(reply)
    assert (heard.reasoning, heard.finish) == (f"1 {QWEN}2 {QWEN}", "stop")
    assert heard.usage == {"total_tokens": 3}
    told = [made["choices"][0] for made in read(reply.body)[:-1]]
    assert [ids for made in told for ids in made.get("token_ids") or []] == [1, 2]
    assert len([made for made in told if made["logprobs"]]) == 2


async def test_chunks_behind_the_finish_are_those_of_the_last_round() -> None:
    def tell(number: int, text: str) -> bytes:
        named = {"id": f"c-{number}", "created": number, "model": "m"}
        raw = b"".join(event(chunk(choice({"reasoning": piece}), **named)) for piece in ("x", "x", text))
        raw += event(chunk(choice({}, finish="stop"), **named))
        raw += event(chunk(choice({}), **named, extra=number)) + b": bye\n\n"
        raw += event(chunk(choice({"content": ""}), **named))
        raw += event(chunk(**named, usage={"total_tokens": number})) + DONE + b": after\n\n"
        return wire.STREAM_HEAD + wire.chunk(raw) + wire.LAST_CHUNK

    async with recovering(retrying(PARSED), tell(1, QWEN), tell(2, "b")) as (proxy, _):
        reply = await ask(proxy, stream=True)
    made = read(reply.body)
    assert [one["extra"] for one in made if isinstance(one, dict) and "extra" in one] == [2]
    assert usages(reply) == [{"total_tokens": 3}]
    assert reply.body.count(b": bye\n\n") == reply.body.count(b": after\n\n") == 1
    assert reply.body.count(b"[DONE]") == 1
    assert {one["id"] for one in made if isinstance(one, dict)} == {"c-1"}
