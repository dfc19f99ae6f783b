"""How a call that is made looks, and that all else in the answer stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.calls.finder import BLOCK_LIMIT
from proxy.response import Rewriter
from proxy.rules import ReasoningField, Rule
from proxy.stream import Stream
from tests.recovery.answers import (
    FORMS,
    NATIVE,
    OPEN,
    PARSED,
    Form,
    Heard,
    hear,
    streamed,
    toolbox,
    whole,
    write_stream,
    write_whole,
)
from tests.toolcalls.cases import QWEN, READ
from tests.wire.streams import DONE, ENVELOPE, MAX_EVENT_BYTES, choice, chunk, event, read

TIME = "<tool_call>get_time</tool_call>"
PIECE = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": None}


def say(delta: Any, **fields: Any) -> Any:
    return {**ENVELOPE, "choices": [{**PIECE, "delta": delta, **fields}]}


def call(index: int, **fields: Any) -> Any:
    return say({"tool_calls": [{"index": index, **fields}]})


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_the_deltas_of_a_stream(form: Form) -> None:
    raw = write_stream(form.parts(f"I look.\n{QWEN}{TIME}"), range(300), stop_reason=None)
    made = read(streamed(raw, form.rule))
    arguments = made[-5]["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == READ[1]
    assert made[-6:] == [
        call(0, id="call_0", type="function", function={"name": "read", "arguments": ""}),
        call(0, function={"arguments": arguments}),
        call(1, id="call_1", type="function", function={"name": "get_time", "arguments": ""}),
        call(1, function={"arguments": "{}"}),
        say({}, finish_reason="tool_calls", stop_reason=None),
        b"[DONE]",
    ]
    assert made[0] == say({"role": "assistant", "content": ""})
    thoughts = [one["choices"][0]["delta"] for one in made[1:-6]]
    assert all(set(delta) == {"reasoning_content"} for delta in thoughts)
    assert "".join(delta["reasoning_content"] for delta in thoughts) == "I look.\n"


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_the_message_of_a_whole_answer(form: Form) -> None:
    answer = write_whole(form.parts(f"I look.\n{QWEN}"), refusal=None, tool_calls=[])
    (made,) = whole(answer, form.rule)["choices"]
    (called,) = made["message"].pop("tool_calls")
    assert json.loads(called["function"].pop("arguments")) == READ[1]
    assert called == {"id": "call_0", "type": "function", "function": {"name": "read"}}
    message = {"role": "assistant", "content": None, "reasoning_content": "I look.\n", "refusal": None}
    assert made == {"index": 0, "message": message, "finish_reason": "tool_calls"}


def test_a_last_event_with_text_and_the_finish() -> None:
    said = f"<think>I look.{QWEN}"
    raw = event(chunk(choice({"role": "assistant", "content": said}, finish="stop", stop_reason=None))) + DONE
    made = read(streamed(raw))
    assert made[0] == say({"role": "assistant", "reasoning_content": "I look."})
    assert made[-2] == say({}, finish_reason="tool_calls", stop_reason=None)
    assert hear(streamed(raw)) == Heard("I look.", "", [READ], ["call_0"], "tool_calls")


def test_a_turn_that_is_one_event_and_says_nothing_but_a_call_keeps_its_role() -> None:
    for given in ({"content": f"<think>{QWEN}"}, {"reasoning": QWEN}, {"reasoning": QWEN, "content": "\n"}):
        raw = event(chunk(choice({"role": "assistant", **given}, finish="stop"))) + DONE
        made = read(streamed(raw))
        assert made[0]["choices"][0]["delta"]["role"] == "assistant"
        assert all("role" not in one["choices"][0]["delta"] for one in made[1:-1])
        assert hear(streamed(raw)) == Heard("", "", [READ], ["call_0"], "tool_calls")


@pytest.mark.parametrize("field", ReasoningField)
@pytest.mark.parametrize("form", [OPEN, PARSED], ids=lambda form: form.name)
def test_reasoning_keeps_its_name(field: ReasoningField, form: Form) -> None:
    names = {"both": {"reasoning", "reasoning_content"}, "none": set[str]()}.get(field, {field.value})
    rule, parts = Rule(reasoning_field=field), form.parts(f"I look. {QWEN}")
    (made,) = whole(write_whole(parts), rule)["choices"]
    said = {name: text for name, text in made["message"].items() if "reasoning" in name}
    assert said == dict.fromkeys(names, "I look. ")
    assert len(made["message"]["tool_calls"]) == 1
    deltas = [one["choices"][0]["delta"] for one in read(streamed(write_stream(parts, range(60)), rule))[:-1]]
    told = [delta for delta in deltas if any("reasoning" in name for name in delta)]
    assert {"".join(delta[name] for delta in told) for name in names} == ({"I look. "} if names else set())
    assert all(set(delta) == names for delta in told)
    assert [call["index"] for delta in deltas for call in delta.get("tool_calls", ())] == [0, 0]


def test_other_choices_and_usage_stay() -> None:
    def both(first: Any, second: Any, finish: str | None = None, **fields: Any) -> bytes:
        return event(chunk(choice(first, 0, finish), choice(second, 1, finish), **fields))

    raw = both({"role": "assistant", "content": ""}, {"role": "assistant", "content": ""})
    raw += both({"content": "<think>a "}, {"content": "<think>b "})
    raw += both({"content": QWEN}, {"content": QWEN})
    raw += both({"content": "</think>"}, {"content": "</think>x"})
    raw += both({}, {}, "stop", usage={"total_tokens": 3})
    raw += event({**chunk(), "usage": {"total_tokens": 9}}) + DONE
    made = streamed(raw)
    assert hear(made) == Heard("a ", "", [READ], ["call_0"], "tool_calls")
    assert hear(made, 1) == Heard(f"b {QWEN}", "x", finish="stop")
    assert [one["usage"] for one in read(made)[:-1] if "usage" in one] == [
        {"total_tokens": 3},
        {"total_tokens": 9},
    ]


def test_ids_are_unique_among_the_choices() -> None:
    first, second = {"content": f"<think>{QWEN}{TIME}"}, {"content": f"<think>{QWEN}"}
    raw = event(chunk(choice(first, 0), choice(second, 1)))
    raw += event(chunk(choice({}, 1, "stop"), choice({}, 0, "stop"))) + DONE
    made = streamed(raw)
    assert sorted(hear(made).ids + hear(made, 1).ids) == ["call_0", "call_1", "call_2"]


def test_token_lists_stay_with_the_event_that_they_came_with() -> None:
    def tokens(text: str) -> dict[str, Any]:
        return {"logprobs": {"content": [{"token": text, "logprob": -1.0, "bytes": list(text.encode())}]}}

    given = ["<think>", "a", QWEN, "b", "</think>", "c"]
    raw = b"".join(event(chunk(choice({"content": text}) | tokens(text))) for text in given)
    raw += event(chunk(choice({}, finish="stop"))) + DONE
    found = []
    for one in read(streamed(raw))[:-1]:
        logprobs = one["choices"][0]["logprobs"]
        found += [entry["token"] for entry in logprobs["content"]] if logprobs else []
    assert found == given


def show(form: Form, thought: str) -> list[str]:
    """The thinking that is shown after each character of it."""
    stream = Stream(Rewriter(form.rule, toolbox=toolbox()), MAX_EVENT_BYTES)
    raw, shown = b"", []
    for char in form.before + thought:
        raw += stream.feed(event(chunk(choice({NATIVE if form.native else "content": char}))))
        shown.append(hear(raw).reasoning)
    return shown[len(form.before) :]


@pytest.mark.parametrize("form", [OPEN, PARSED], ids=lambda form: form.name)
def test_markup_is_held_until_it_proves_itself(form: Form) -> None:
    prose = "a <tool_call> b "
    shown = show(form, prose + QWEN)
    assert all(prose.startswith(text) for text in shown)
    assert shown[len("a ") - 1 : len(prose) - 1] == ["a "] * len("<tool_call> b ")
    assert shown[len(prose) + 1 :] == [prose] * (len(QWEN) - 1)


@pytest.mark.parametrize("form", [OPEN, PARSED], ids=lambda form: form.name)
def test_a_draft_is_shown_as_soon_as_it_is_one(form: Form) -> None:
    *held, shown = show(form, f"a {QWEN}\n\nb")
    assert held[-1] == "a "
    assert shown == f"a {QWEN}\n\nb"


def test_a_block_beyond_the_limit_is_released() -> None:
    block = QWEN.replace("/etc/hosts", "x" * BLOCK_LIMIT)
    for form in (OPEN, PARSED):
        parts = form.parts(f"a {block}")
        heard = hear(streamed(write_stream(parts, range(0, len(block), 999)), form.rule))
        assert heard == Heard(f"a {block}", finish="stop")
        assert hear(streamed(write_stream(parts), form.rule)) == heard


def test_what_comes_behind_a_call_that_was_made_passes() -> None:
    raw = write_stream(OPEN.parts(f"a {QWEN}")).removesuffix(DONE)
    late = event(chunk(choice({"content": "x"}))) + event(chunk(choice({}, finish="stop"))) + DONE
    made = streamed(raw + late)
    assert made.endswith(late)
    assert hear(made).calls == [READ]
