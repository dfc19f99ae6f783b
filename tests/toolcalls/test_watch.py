"""What is noted of a turn that is watched, and that everything passes."""

from __future__ import annotations

import pytest

from proxy.calls.finder import HEAD_LIMIT
from proxy.calls.watch import THOUGHT_LIMIT, Watch
from proxy.spans import Span
from tests.toolcalls.cases import CASES, HERMES, QWEN, TOOLS, Case
from tests.toolcalls.feeding import C, R, every_cut, watch

TIME = "<tool_call>get_time</tool_call>"
UNKNOWN = "<tool_call>rm</tool_call>"


def test_thinking_passes_at_once_and_calls_are_noted() -> None:
    text = f"a {HERMES} b {UNKNOWN} c {QWEN} d"
    watching = Watch(TOOLS)
    for span in [Span(R, char, at) for at, char in enumerate(text, 1)]:
        assert watching.feed([span]) == [span]
    assert watching.finish(stopped=True) == []
    assert watching.left is not None
    assert [block.raw for block in watching.left.blocks] == [HERMES, QWEN]
    assert (watching.left.thought, watching.left.content) == (text, "")
    assert not watching.calls


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_dialect_is_noted(case: Case) -> None:
    for cuts in ([], range(len(case.text) + 9)):
        out, watching = watch([(R, f"thought\n{case.text}\n")], TOOLS, cuts)
        assert out == [(R, f"thought\n{case.text}\n")]
        assert watching.left is not None
        assert [call.name for block in watching.left.blocks for call in block.calls] == [
            name for name, _ in case.calls
        ]


@pytest.mark.share
@pytest.mark.parametrize(
    "spans",
    [
        [(R, "just thought")],
        [(R, f"a {QWEN}"), (C, "answer")],
        [(C, "answer"), (R, f"a {QWEN}")],
        [(R, f"a {QWEN}"), (C, "\n\nanswer"), (R, TIME)],
        [(R, f"a {UNKNOWN}")],
        [(R, f"a {QWEN[:-1]}")],
        [(C, f"a {QWEN}")],
        [(R, f"a {QWEN}"), (C, " " * (HEAD_LIMIT + 1))],
        [],
    ],
    ids=lambda spans: repr(spans)[:60],
)
def test_nothing_is_left_to_be_asked_for(spans: list[tuple[object, str]]) -> None:
    for cuts in every_cut("x" * min(200, max((len(text) for _, text in spans), default=0))):
        out, watching = watch(spans, TOOLS, cuts)  # type: ignore[arg-type]
        assert (out, watching.left) == (spans, None)


def test_nothing_is_left_of_a_turn_that_did_not_end_by_itself() -> None:
    assert watch([(R, QWEN)], TOOLS, stopped=False)[1].left is None


def test_white_space_outside_the_thinking_waits_for_what_follows() -> None:
    watching = Watch(TOOLS)
    assert watching.feed([Span(R, QWEN, 200), Span(C, "\n", 201)]) == [Span(R, QWEN, 200)]
    assert not watching.passes("x")
    assert watching.feed([Span(R, "x", 202)]) == [Span(C, "\n", 201), Span(R, "x", 202)]
    assert watching.feed([Span(C, "\n", 203)]) == []
    assert watching.finish(stopped=True) == [Span(C, "\n", 203)]
    assert watching.left is not None
    assert (watching.left.thought, watching.left.content) == (f"{QWEN}x", "\n\n")


def test_something_else_settles_it() -> None:
    watching = Watch(TOOLS)
    watching.feed([Span(R, QWEN, 200), Span(C, "\n", 201)])
    assert watching.interrupt() == [Span(C, "\n", 201)]
    assert watching.passes("<tool_call>")
    assert watching.finish(stopped=True) == []
    assert watching.left is None


def test_a_turn_is_over_once() -> None:
    watching = Watch(TOOLS)
    watching.feed([Span(R, QWEN, 200)])
    watching.finish(stopped=True)
    left = watching.left
    watching.feed([Span(R, TIME, 300)])
    watching.finish(stopped=True)
    assert left is not None
    assert watching.left is left


def test_thinking_beyond_the_limit_is_not_kept() -> None:
    watching = Watch(TOOLS)
    for at in range(THOUGHT_LIMIT // 65536 + 1):
        watching.feed([Span(R, "x" * 65536, at)])
    watching.feed([Span(R, QWEN, 0)])
    watching.finish(stopped=True)
    assert watching.left is None
