"""Answers that are not streamed."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.response import Rewriter
from proxy.rules import ReasoningField, Rule, Start, Unterminated, Whitespace
from tests.wire.streams import rewrite_whole

R, C = "reasoning_content", "content"
IMPLICIT = Rule(start=Start.IMPLICIT)


def answer(message: Any, finish: str | None = "stop", **fields: Any) -> dict[str, Any]:
    return {
        "id": "a",
        "choices": [{"index": 0, "message": message, "finish_reason": finish, **fields}],
        "usage": {"n": 1},
    }


def message(
    given: dict[str, Any], finish: str | None = "stop", rule: Rule | None = None, **fields: Any
) -> dict[str, Any]:
    made = rewrite_whole(answer(given, finish, **fields), rule)
    assert made == answer(made["choices"][0]["message"], finish, **fields)
    found: dict[str, Any] = made["choices"][0]["message"]
    return found


MESSAGES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("nothing to split", {"role": "a", C: "x"}, {"role": "a", C: "x"}),
    ("no content", {"role": "a", C: None, "tool_calls": [1]}, {"role": "a", C: None, "tool_calls": [1]}),
    ("a block", {"role": "a", C: "<think>r</think>x", "b": 1}, {"role": "a", C: "x", R: "r", "b": 1}),
    ("a null in place", {R: None, C: "<think>r</think>x"}, {R: "r", C: "x"}),
    ("blocks join", {C: "<think>a</think>b\n<think>c</think>d"}, {C: "b\nd", R: "ac"}),
    ("all is thinking", {C: "<think>r"}, {C: "", R: "r"}),
    ("an empty block", {C: "<think>\n</think>\nx"}, {C: "x"}),
    ("before tool calls", {C: "<think>r", "tool_calls": [1]}, {C: "", R: "r", "tool_calls": [1]}),
    ("a held opener", {C: "<think>r</think>a <think>b"}, {C: "a <think>b", R: "r"}),
    ("empty", {C: ""}, {C: ""}),
    ("a number", {C: 5}, {C: 5}),
]


@pytest.mark.parametrize(
    ("given", "expected"), [case[1:] for case in MESSAGES], ids=[case[0] for case in MESSAGES]
)
def test_messages(given: dict[str, Any], expected: dict[str, Any]) -> None:
    made = message(given)
    assert made == expected
    assert list(made) == list(expected)


@pytest.mark.parametrize(
    ("finish", "fields", "cut"),
    [
        ("stop", {}, False),
        ("length", {}, True),
        (None, {}, False),
        ("", {}, False),
        ("stop", {"stop_reason": "END"}, True),
    ],
)
def test_cut_off(finish: str | None, fields: dict[str, Any], cut: bool) -> None:
    made = message({C: "<think>r</think>a <think>b"}, finish, **fields)
    assert made == ({C: "a ", R: "rb"} if cut else {C: "a <think>b", R: "r"})


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (ReasoningField.REASONING_CONTENT, {C: "x", R: "r", "reasoning": None}),
        (ReasoningField.REASONING, {C: "x", "reasoning": "r"}),
        (ReasoningField.BOTH, {C: "x", R: "r", "reasoning": "r"}),
        (ReasoningField.NONE, {C: "x", "reasoning": None}),
    ],
)
def test_reasoning_field(field: ReasoningField, expected: dict[str, Any]) -> None:
    rule = Rule(reasoning_field=field)
    assert message({C: "<think>r</think>x", "reasoning": None}, rule=rule) == expected


def test_each_choice_by_itself() -> None:
    texts = ["<think>a</think>b", "plain", "<think>c"]
    choices = [{"message": {C: text}, "index": index} for index, text in zip([2, 0, 0], texts, strict=True)]
    made = rewrite_whole({"choices": [*choices, {"message": {C: "<think>d"}}]})
    assert [choice["message"] for choice in made["choices"]] == [
        {C: "b", R: "a"},
        {C: "plain"},
        {C: "", R: "c"},
        {C: "", R: "d"},
    ]


# Arrays of parts


def text(value: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **fields}


IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}
TAGGED = "<think>r</think>x"

UNTOUCHED: list[Any] = [
    [],
    [IMAGE],
    [text("x"), IMAGE],
    [text(TAGGED, signature="s")],
    [text(TAGGED, annotations=[{"start_index": 3}])],
    [text(TAGGED, cache_control={"type": "ephemeral"})],
    [{"type": "refusal", "refusal": TAGGED}],
    [{"type": "thinking", "thinking": TAGGED}],
    [{"type": "text"}, {"type": "text", "text": None}, {"text": TAGGED}, TAGGED, None, 3, [text(TAGGED)]],
]


@pytest.mark.parametrize("parts", UNTOUCHED, ids=repr)
def test_parts_that_stay(parts: list[Any]) -> None:
    assert message({C: parts}) == {C: parts}


def test_each_part_by_itself() -> None:
    parts = [
        text("<think>a</think>b"),
        IMAGE,
        text("<think>c"),
        text("</think>d"),
        text(TAGGED, signature="s"),
        text("<think>e</think>"),
    ]
    assert message({"role": "a", C: parts, "z": 1}) == {
        "role": "a",
        C: [text("b"), IMAGE, text(""), text("</think>d"), text(TAGGED, signature="s"), text("")],
        R: "ace",
        "z": 1,
    }


def test_empty_annotations_annotate_nothing() -> None:
    part: dict[str, Any] = {"type": "output_text", "text": TAGGED, "annotations": [], "logprobs": None}
    assert message({C: [part]}) == {C: [part | {"text": "x"}], R: "r"}


def test_the_end_of_the_answer_is_the_end_of_its_last_part() -> None:
    held = "<think>r</think>a <think>b"
    assert message({C: [text(held), text(held)]}, "length") == {C: [text("a <think>b"), text("a ")], R: "rrb"}
    assert message({C: [text(held), IMAGE]}, "length") == {C: [text("a <think>b"), IMAGE], R: "r"}
    assert message({C: [text("<think>r</think>"), text(" x\n ")], "tool_calls": [1]})[C] == [
        text(""),
        text(" x\n "),
    ]


def test_the_prompt_opens_the_first_text_part_only() -> None:
    assert message({C: [IMAGE, text("r</think>x"), text("y"), text(TAGGED)]}, rule=IMPLICIT) == {
        C: [IMAGE, text("x"), text("y"), text("x")],
        R: "rr",
    }
    anywhere = Rule(start=Start.ANYWHERE)
    assert message({C: [text("a"), text("b <think>c</think>d")]}, rule=anywhere) == {
        C: [text("a"), text("b d")],
        R: "c",
    }


@pytest.mark.parametrize("finish", ["stop", "length"])
@pytest.mark.parametrize(
    "rule", [Rule(), IMPLICIT, Rule(whitespace=Whitespace.EXACT), Rule(unterminated=Unterminated.CONTENT)]
)
@pytest.mark.parametrize(
    "said", [TAGGED, " <think>r</think>\n\n x", "<think>r", "<think>r</think>a <think>b", "x", "\n", ""]
)
def test_one_part_is_as_a_string(said: str, rule: Rule, finish: str) -> None:
    as_string, as_part = message({C: said}, finish, rule), message({C: [text(said)]}, finish, rule)
    assert as_part == as_string | {C: [text(as_string[C])]}


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"choices": None},
        {"choices": {}},
        {"choices": "x"},
        {"choices": []},
        {"choices": [None, 1, "x", [], {}]},
        {
            "choices": [
                {"message": None},
                {"message": 3},
                {"message": []},
                {"message": {}},
                {"message": {C: True}},
            ]
        },
        {"choices": [{"delta": {C: TAGGED}}], "error": {"message": "m"}},
        {"error": "m"},
    ],
)
def test_odd_answers_stay(document: dict[str, Any]) -> None:
    assert rewrite_whole(document) == document


def test_an_answer_that_could_not_be_written_stays() -> None:
    deep: Any = {}
    for _ in range(300):
        deep = [deep]
    document = answer({C: TAGGED}) | {"x": deep}
    assert not Rewriter(Rule()).rewrite(document)
    assert document["choices"][0]["message"] == {C: TAGGED}
