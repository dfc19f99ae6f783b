from __future__ import annotations

import json

import pytest

from proxy.calls import finder as limits
from proxy.calls.recovery import Recovered, Recovery, assign_ids
from proxy.spans import Channel, Span
from tests.toolcalls.cases import CASES, HERMES, QWEN, TOOLS, Case
from tests.toolcalls.feeding import C, R, every_cut, recover
from tests.toolcalls.scale import at_both_scales, scaled

READ = ("read", {"path": "/etc/hosts", "limit": 83})
TIME = "<tool_call>get_time</tool_call>"
UNKNOWN = "<tool_call>rm</tool_call>"


def calls(recovery: Recovery) -> list[tuple[str, object]]:
    return [(call.name, json.loads(call.arguments)) for call in recovery.calls]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_dialect_is_recovered(case: Case) -> None:
    for cuts in ([], range(len(case.text) + 9), [len(case.text) // 2]):
        out, recovery = recover([(R, f"thought\n{case.text}\n")], TOOLS, cuts)
        between = "\n" * (case.text.count("</function>\n<function") if case.blocks > 1 else 0)
        assert out == [(R, f"thought\n{between}\n")]
        assert calls(recovery) == case.calls
        assert tuple(call.id for call in recovery.calls if call.id) == case.ids


@pytest.mark.share
def test_a_turn_that_says_nothing_but_a_call_has_no_reasoning() -> None:
    text = f"\n\n{QWEN}\n"
    for cuts in every_cut(text):
        out, recovery = recover([(R, text), (C, "\n\n")], TOOLS, cuts)
        assert out == []
        assert calls(recovery) == [READ]


def test_white_space_outside_the_thinking_is_no_content_of_a_turn_that_calls() -> None:
    out, recovery = recover([(R, f"a {QWEN}"), (C, "\n"), (R, f"\n{TIME}\n"), (C, " \n")], TOOLS)
    assert out == [(R, "a \n\n")]
    assert calls(recovery) == [READ, ("get_time", {})]


@pytest.mark.share
@pytest.mark.parametrize(
    "spans",
    [
        [(R, "just thought")],
        [(R, f"a {QWEN} b")],
        [(R, f"a {QWEN}"), (C, "answer")],
        [(C, "answer"), (R, f"a {QWEN}")],
        [(R, f"a {QWEN}"), (C, "\n\nanswer"), (R, TIME)],
        [(R, f"a {QWEN}"), (C, "\n"), (R, "more")],
        [(R, f"a {UNKNOWN}")],
        [(R, f"a {QWEN}\n{UNKNOWN}")],
        [(R, f"a {UNKNOWN}\n{QWEN}")],
        [(R, f"a `{QWEN}`")],
        [(R, f"a\n```\n{QWEN}\n```\n")],
        [(R, f"a {QWEN[:-1]}")],
        [(R, f"a {HERMES[:40]}")],
        [(R, f"a {QWEN.replace('</parameter>', '', 1)}")],
        [(R, "a <tool_call>"), (C, "\n"), (R, "get_time</tool_call>")],
        [(C, f"a {QWEN}")],
        [(C, "\n"), (R, "  "), (C, "\n")],
        [],
    ],
    ids=repr,
)
def test_without_a_call_that_qualifies_the_spans_come_out_as_they_went_in(
    spans: list[tuple[Channel, str]],
) -> None:
    longest = max((len(text) for _, text in spans), default=0)
    for cuts in every_cut("x" * longest):
        out, recovery = recover(spans, TOOLS, cuts)
        assert (out, recovery.calls) == (spans, [])


def test_a_turn_that_did_not_end_by_itself_calls_nothing() -> None:
    spans = [(R, f"a {QWEN}\n"), (C, "\n")]
    out, recovery = recover(spans, TOOLS, stopped=False)
    assert (out, recovery.calls, recovery.blocks) == (spans, [], [])


def test_a_request_without_tools_holds_nothing() -> None:
    recovery = Recovery({})
    span = Span(R, f"a {QWEN}", 9)
    assert recovery.passes("<")
    assert recovery.feed([span]) == [span]
    assert recovery.finish(stopped=True) == []
    assert recovery.calls == []


def test_only_the_tools_that_may_be_called_count() -> None:
    _, recovery = recover([(R, f"a {QWEN}")], {"get_time": None})
    assert recovery.calls == []


@pytest.mark.share
def test_drafts_go_out_before_the_call() -> None:
    text = f"a {HERMES} b {UNKNOWN} c {QWEN}"
    for cuts in every_cut(text):
        out, recovery = recover([(R, text)], TOOLS, cuts)
        assert out == [(R, f"a {HERMES} b {UNKNOWN} c ")]
        assert calls(recovery) == [READ]
        assert [block.raw for block in recovery.blocks] == [HERMES, QWEN]


def test_what_is_held_goes_out_before_visible_content() -> None:
    recovery = Recovery(TOOLS)
    assert recovery.feed([Span(R, f"a {QWEN}", 200), Span(C, "\n", 201)]) == [Span(R, "a ", 200)]
    out = recovery.feed([Span(C, "answer", 207)])
    assert out == [Span(R, QWEN, 200), Span(C, "\n", 201), Span(C, "answer", 207)]
    assert recovery.feed([Span(R, QWEN, 400)]) == [Span(R, QWEN, 400)]


def test_something_else_settles_it() -> None:
    recovery = Recovery(TOOLS)
    recovery.feed([Span(R, f"a {QWEN}", 200)])
    assert recovery.interrupt() == [Span(R, QWEN, 200)]
    assert recovery.interrupt() == []
    recovery.feed([Span(R, TIME, 300)])
    assert recovery.finish(stopped=True) == []
    assert recovery.calls == []


def test_a_turn_is_over_once() -> None:
    recovery = Recovery(TOOLS)
    recovery.feed([Span(R, QWEN, 200)])
    assert recovery.finish(stopped=True) == []
    assert len(recovery.calls) == 1
    assert recovery.finish(stopped=False) == []
    assert len(recovery.calls) == 1


@at_both_scales
def test_a_flood_of_calls_is_released(share: int) -> None:
    with scaled(share):
        count = limits.RUN_LIMIT // len(TIME) + 2
        out, recovery = recover([(R, TIME * count)], TOOLS, range(0, count * len(TIME), 5000 // share))
    assert out == [(R, TIME * count)]
    assert recovery.calls == []


def test_ids_are_the_models_own_while_they_are_unique() -> None:
    made = [Recovered("f", "{}", own) for own in ("", "functions.f:0", "functions.f:0", "")]
    assert assign_ids(made, iter(["a", "b", "c"])) == ["a", "functions.f:0", "b", "c"]
