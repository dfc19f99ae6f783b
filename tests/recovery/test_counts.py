"""What is counted of an answer: the same streamed, by either way, and whole."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.response import Rewriter
from proxy.rules import ReasoningField, Rule, Whitespace
from proxy.stream import Stream
from proxy.tally import Tally
from tests.examples import IS_FULL, up_to
from tests.recovery.answers import CLOSED, FORMS, OPEN, PARSED, Form, hear, toolbox, write_stream, write_whole
from tests.toolcalls.cases import QWEN, TOOLS
from tests.toolcalls.test_properties import texts
from tests.wire.streams import DONE, MAX_EVENT_BYTES, choice, chunk, event

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

pytestmark = pytest.mark.share

TIME = "<tool_call>get_time</tool_call>"
every_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)


def count_stream(
    raw: bytes, rule: Rule, tools: Mapping[str, Any] = TOOLS, places: Iterable[int] = ()
) -> tuple[Tally, bytes]:
    tally = Tally()
    stream = Stream(Rewriter(rule, toolbox=toolbox(tools), tally=tally), MAX_EVENT_BYTES)
    out = b"".join(stream.feed(raw[start:end]) for start, end in pairwise([0, *sorted(places), len(raw)]))
    return tally, out + stream.finish()


def count_whole(answer: Any, rule: Rule, tools: Mapping[str, Any] = TOOLS) -> Tally:
    tally = Tally()
    Rewriter(rule, toolbox=toolbox(tools), tally=tally).rewrite(json.loads(json.dumps(answer)))
    return tally


def count(
    form: Form, thought: str, content: str = "", finish: str = "stop", tools: Mapping[str, Any] = TOOLS
) -> Tally:
    """What is counted, the same whole and streamed in any pieces."""
    parts = form.parts(thought, content)
    tally = count_whole(write_whole(parts, finish), form.rule, tools)
    # Byte by byte, few events are read as hundreds are.
    for cuts, bytewise in (((), True), (range(400), IS_FULL), (range(0, 400, 7), IS_FULL)):
        raw = write_stream(parts, cuts, finish)
        ends = [at + 2 for at in range(len(raw)) if raw.startswith(b"\n\n", at)]
        for places in ((), ends, *([range(len(raw))] if bytewise else [])):
            assert count_stream(raw, form.rule, tools, places)[0] == tally
    return tally


@every_form
@pytest.mark.parametrize("tools", [TOOLS, {}], ids=["with tools", "without"])
def test_thinking_and_an_answer(form: Form, tools: Mapping[str, Any]) -> None:
    said = CLOSED if form is OPEN else form
    assert count(said, "I thínk.", "Yes, so 😀.", tools=tools) == Tally(
        engaged=not form.native, reasoning_chars=8, content_chars=10
    )


@every_form
@pytest.mark.parametrize("tools", [TOOLS, {}], ids=["with tools", "without"])
def test_thinking_only(form: Form, tools: Mapping[str, Any]) -> None:
    assert count(form, "I think.", tools=tools) == Tally(
        engaged=not form.native, reasoning_chars=8, thinking_only=1
    )
    assert count(form, "I think.", finish="length", tools=tools).thinking_only == 0


def test_white_space_outside_the_thinking_says_nothing() -> None:
    assert count(PARSED, "I think.", " \n" * 20) == Tally(
        reasoning_chars=8, content_chars=40, thinking_only=1
    )
    assert count(PARSED, "I think.", "\n" * 20 + "x").thinking_only == 0


@every_form
def test_calls_that_are_promoted(form: Form) -> None:
    assert count(form, f"I think. {QWEN}{TIME}") == Tally(
        engaged=not form.native, reasoning_chars=9, promoted=2
    )


@every_form
def test_calls_that_stay_are_reasoning(form: Form) -> None:
    thought = f"I think. {QWEN}"
    for finish, only in (("stop", 1), ("length", 0)):
        assert count(form, thought, finish=finish, tools={"write": None}) == Tally(
            engaged=not form.native, reasoning_chars=len(thought), thinking_only=only
        )


def test_an_answer_without_thinking() -> None:
    assert count(CLOSED, "", "").engaged
    tally = count_whole(write_whole([("content", "Use <think>.")]), Rule())
    assert tally == Tally(content_chars=12)
    raw = write_stream([("content", "Use <think>.")], range(20))
    assert count_stream(raw, Rule())[0] == tally


def test_native_thinking_under_a_rule_for_inline_is_not_engaged() -> None:
    rule = FORMS[2].rule
    assert count_whole(write_whole(PARSED.parts("a", "b")), rule).engaged is False
    assert count_stream(write_stream(PARSED.parts("a", "b")), rule)[0].engaged is False


@pytest.mark.parametrize("beside", ["tool_calls", "refusal"])
def test_a_call_or_a_refusal_is_not_thinking_only(beside: str) -> None:
    call = {"index": 0, "id": "r", "type": "function", "function": {"name": "get_time", "arguments": "{}"}}
    value = [call] if beside == "tool_calls" else "no"
    assert count_whole(write_whole(PARSED.parts("a"), **{beside: value}), Rule()).thinking_only == 0
    raw = b"".join(event(chunk(choice(delta))) for delta in ({"reasoning": "a"}, {beside: value}))
    raw += event(chunk(choice({}, finish="stop"))) + DONE
    assert count_stream(raw, Rule())[0].thinking_only == 0


def test_a_stop_string_is_not_the_models_end() -> None:
    raw = write_stream(PARSED.parts(f"a {QWEN}"), stop_reason="X")
    tally, made = count_stream(raw, Rule())
    assert (tally.thinking_only, tally.promoted) == (0, 0)
    assert hear(made).finish == "stop"
    answer = write_whole(PARSED.parts(f"a {QWEN}"))
    answer["choices"][0]["matched_stop"] = "X"
    assert count_whole(answer, Rule()) == Tally(reasoning_chars=len(f"a {QWEN}"))


def test_reasoning_that_is_left_out_is_counted() -> None:
    rule = Rule(reasoning_field=ReasoningField.NONE)
    for form in (CLOSED, PARSED):
        assert count(replace(form, rule=rule), "I think.", "x").reasoning_chars == 8
        assert count(replace(form, rule=rule), "I think.").thinking_only == 1


def test_every_choice_counts_and_each_once() -> None:
    raw = b"".join(event(chunk(choice({"content": "<think>ab"}, at))) for at in range(3))
    raw += event(chunk(*(choice({}, at, "stop") for at in range(3))))
    raw += event(chunk(choice({}, 0, "stop"))) + DONE
    assert count_stream(raw, Rule())[0] == Tally(engaged=True, reasoning_chars=6, thinking_only=3)


def test_what_was_held_when_a_stream_breaks_off_is_counted() -> None:
    raw = event(chunk(choice({"content": "<think>ab</thi"})))
    assert count_stream(raw, Rule())[0] == Tally(engaged=True, reasoning_chars=7)


fields = st.sampled_from(["stop", "stop", "length"])
contents = st.text(st.sampled_from("\n x"), max_size=12)


whitespaces = st.sampled_from(Whitespace)
wanted = st.builds(
    lambda space, several: {"whitespace": space, "interleaved": several}, whitespaces, st.booleans()
)


@settings(max_examples=up_to(150))
@given(
    st.sampled_from(FORMS),
    wanted,
    st.tuples(texts, contents),
    fields,
    st.lists(st.integers(0, 400), max_size=12),
)
def test_streamed_as_whole(
    form: Form, options: dict[str, Any], said: tuple[str, str], finish: str, cuts: list[int]
) -> None:
    (thought, content), rule = said, replace(form.rule, **options)
    parts = form.parts(thought, content)
    for tools in (TOOLS, {}):
        expected = count_whole(write_whole(parts, finish), rule, tools)
        for at in (cuts, range(len(thought) + len(content) + 20)):
            raw = write_stream(parts, at, finish)
            ends = [place + 2 for place in range(len(raw)) if raw.startswith(b"\n\n", place)]
            for places in ((), ends):
                tally, made = count_stream(raw, rule, tools, places)
                heard = hear(made)
                assert (tally.reasoning_chars, tally.content_chars) == (
                    len(heard.reasoning),
                    len(heard.content),
                )
                if tally.promoted:
                    # White space that came before the thinking is out already.
                    expected.content_chars = tally.content_chars
                assert tally == expected
