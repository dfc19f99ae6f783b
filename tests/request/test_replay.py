"""An answer that was split comes back inline: the model has to find its own words, or prefix caches miss."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy import chat
from proxy.lines import VISIBLE
from proxy.markers import Kind, compile_markers
from proxy.request import make_plan, read_chat
from proxy.response import Rewriter
from proxy.rules import THINK, History, ReasoningField, Rule, Start, Whitespace
from tests.examples import up_to

MARKERS = compile_markers(THINK)
OPENERS = ["<think>", "<think>", "<thinking>", "<THINK >", "<Reasoning\t>"]
CLOSERS = ["</think>", "</think>", "</Thinking>", "</thought \t>"]
TOKENS = [
    "a", "b c", "\u00e9", "\U0001f914", "\ud83d", "\x00", "\\", '"', "<", "</", "<think", "</thin", "think>",
    "<div>", "`", "```", "\n```\n", "~~~", "\n", "\r\n", "\r", "\n\n", " ", "    ", "\t", "\u200b",
    "\ufeff", "\u2028",
]  # fmt: skip


def is_plain(text: str) -> bool:
    found = MARKERS.find(Kind.OPEN | Kind.CLOSE, text, 0)
    return found is None or found.kind is Kind.PARTIAL


plain = st.lists(st.sampled_from(TOKENS), max_size=12).map("".join).filter(is_plain)
"""Text without a marker: with one, a nested or a second block would begin."""

thoughts = plain.filter(bool)
"""An empty block leaves nothing that could come back."""

visible_thoughts = plain.filter(VISIBLE.search)

answers = st.builds(
    lambda indent, first, rest: indent + first + rest,
    st.sampled_from(["", "", "  ", "\t"]),
    st.sampled_from(["a", "`", "```py\n", "\U0001f914"]),
    plain,
).filter(is_plain)
"""Answers as `tidy` leaves them: no blank line at the head."""

white = st.lists(st.sampled_from(["\n", " ", "\r\n", "\u200b"]), max_size=3).map("".join)

fields = st.sampled_from([ReasoningField.REASONING_CONTENT, ReasoningField.REASONING, ReasoningField.BOTH])

tool_calls = st.sampled_from(
    [None, [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]]
)


def replay(text: str, rule: Rule, calls: list[Any] | None = None) -> str:
    """The content of the client's next request as the model server gets it."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = calls
    answer = {
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}]
    }
    Rewriter(rule).rewrite(answer)
    returned = answer["choices"][0]["message"]
    body = chat.write_json({"model": "m", "messages": [{"role": "user", "content": "q"}, returned]})
    sent = make_plan(read_chat(body), rule)
    assert make_plan(read_chat(sent.body), rule).body == sent.body
    made = chat.read_json(sent.body)["messages"][1]
    assert made.keys() == message.keys()
    assert made.get("tool_calls") == message.get("tool_calls")
    content: str = made["content"]
    return content


blocks = st.tuples(white, st.sampled_from(OPENERS), thoughts, st.sampled_from(CLOSERS), plain)


@settings(max_examples=up_to(300))
@given(blocks, fields, tool_calls)
def test_exact_gives_back_the_models_own_bytes(
    pieces: tuple[str, str, str, str, str], field: ReasoningField, calls: list[Any] | None
) -> None:
    rule = Rule(whitespace=Whitespace.EXACT, history=History.INLINE, reasoning_field=field)
    lead, _, thought, _, answer = pieces
    # White space before the block moves behind it; how loose markers were spelled is forgotten.
    assert replay("".join(pieces), rule, calls) == f"<think>{thought}</think>{lead}{answer}"


@settings(max_examples=up_to(200))
@given(thoughts, plain, fields)
def test_exact_gives_back_what_followed_the_prompts_own_opener(
    thought: str, answer: str, field: ReasoningField
) -> None:
    rule = Rule(
        start=Start.IMPLICIT, whitespace=Whitespace.EXACT, history=History.INLINE, reasoning_field=field
    )
    text = f"{thought}</think>{answer}"
    assert replay(text, rule) == "<think>" + text


@settings(max_examples=up_to(200))
@given(visible_thoughts, answers, fields)
def test_tidy_gives_back_the_bytes_of_the_usual_form(
    thought: str, answer: str, field: ReasoningField
) -> None:
    rule = Rule(history=History.INLINE, reasoning_field=field)
    text = f"<think>{thought}</think>\n\n{answer}"
    assert replay(text, rule) == text
    assert replay(text.removeprefix("<think>"), Rule(start=Start.IMPLICIT, history=History.INLINE)) == text


@settings(max_examples=up_to(100))
@given(plain, st.sampled_from(Whitespace))
def test_an_answer_without_thinking_is_left_alone(text: str, whitespace: Whitespace) -> None:
    assert replay(text, Rule(whitespace=whitespace, history=History.INLINE)) == text


@pytest.mark.parametrize("whitespace", Whitespace)
def test_a_turn_of_tool_calls_alone(whitespace: Whitespace) -> None:
    rule = Rule(whitespace=whitespace, history=History.INLINE)
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    assert replay("<think>\nr\n</think>", rule, calls) == "<think>\nr\n</think>"


def test_blocks_between_answers_come_back_in_front_of_them() -> None:
    rule = Rule(whitespace=Whitespace.EXACT, history=History.INLINE)
    assert replay("<think>1</think>a\n<think>2</think>b", rule) == "<think>12</think>a\nb"


def test_an_empty_block_does_not_come_back() -> None:
    assert replay("<think></think>a", Rule(whitespace=Whitespace.EXACT, history=History.INLINE)) == "a"
