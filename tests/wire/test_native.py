"""Reasoning that the server parsed itself: it switches splitting off, and goes under the rule's names."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.rules import ReasoningField, Rule
from tests.wire.streams import DONE, choice, chunk, event, fold_spans, read, rewrite, rewrite_whole, say, talk

R, C, D = "reasoning_content", "content", "reasoning_details"
TAGGED = "<think>r</think>x"
DETAILS = [{"type": "reasoning.text", "text": "r", "signature": "s"}]
FIELD = {field.value: Rule(reasoning_field=field) for field in ReasoningField}

RENAMED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("reasoning_content", {R: "r"}, {R: "r"}),
    ("reasoning_content", {"reasoning": "r"}, {R: "r"}),
    ("reasoning_content", {"reasoning": "r", R: "r"}, {R: "r"}),
    ("reasoning_content", {R: None, "role": "a", "reasoning": "r"}, {R: "r", "role": "a"}),
    ("reasoning_content", {"reasoning": "r", "role": "a", R: ""}, {"role": "a", R: "r"}),
    ("reasoning_content", {R: "r", "reasoning": None}, {R: "r", "reasoning": None}),
    ("reasoning_content", {"a": 1, D: DETAILS, "b": 2}, {"a": 1, R: "r", D: DETAILS, "b": 2}),
    ("reasoning_content", {"reasoning": "r", D: DETAILS}, {R: "r", D: DETAILS}),
    (
        "reasoning_content",
        {D: [{"type": "reasoning.encrypted", "data": "x"}]},
        {D: [{"type": "reasoning.encrypted", "data": "x"}]},
    ),
    ("reasoning_content", {"reasoning": {"text": "r"}}, {"reasoning": {"text": "r"}}),
    ("reasoning", {R: "r"}, {"reasoning": "r"}),
    ("reasoning", {"reasoning": "r"}, {"reasoning": "r"}),
    ("reasoning", {D: DETAILS}, {"reasoning": "r", D: DETAILS}),
    ("both", {R: "r"}, {"reasoning": "r", R: "r"}),
    ("both", {"reasoning": "r", "role": "a"}, {R: "r", "reasoning": "r", "role": "a"}),
    ("both", {"reasoning": "r", R: None}, {"reasoning": "r", R: "r"}),
    ("both", {D: DETAILS}, {R: "r", "reasoning": "r", D: DETAILS}),
    ("none", {R: "r", "role": "a"}, {"role": "a"}),
    ("none", {"role": "a", "reasoning": "r", D: DETAILS}, {"role": "a"}),
    ("none", {"role": "a", "reasoning": {"text": "r"}}, {"role": "a"}),
    ("none", {"role": "a", D: [{"data": "x"}], R: None}, {"role": "a", R: None}),
]


@pytest.mark.parametrize(("field", "said", "heard"), RENAMED)
def test_a_delta(field: str, said: dict[str, Any], heard: dict[str, Any]) -> None:
    (made,) = talk(said, rule=FIELD[field])
    assert made == heard
    if field != "both":
        assert list(made) == list(heard)


@pytest.mark.parametrize(("field", "said", "heard"), RENAMED)
def test_a_message(field: str, said: dict[str, Any], heard: dict[str, Any]) -> None:
    answer = {"choices": [{"index": 0, "message": {C: TAGGED, **said}, "finish_reason": "stop"}]}
    made = rewrite_whole(answer, FIELD[field])
    assert made["choices"][0]["message"] == {C: TAGGED, **heard}


def test_what_has_the_right_name_leaves_as_it_came() -> None:
    raw = (
        event(chunk(choice({R: "r", "reasoning": None})))
        + say(TAGGED)
        + event(chunk(choice({R: "s"}, finish="stop")))
        + DONE
    )
    assert rewrite(raw) == raw


def test_none_drops_events_that_carried_only_reasoning() -> None:
    raw = (
        event(chunk(choice({"reasoning": "r"})))
        + event(chunk(choice({"reasoning": "r"}), usage={"n": 1}))
        + say("x")
    )
    assert rewrite(raw, FIELD["none"]) == event(chunk(choice({}), usage={"n": 1})) + say("x")


@pytest.mark.parametrize("empty", [None, "", []])
@pytest.mark.parametrize("name", [R, "reasoning", D])
def test_empty_fields_prove_nothing(name: str, empty: Any) -> None:
    made = talk({name: empty, C: "<think>"}, {name: empty, C: "r"}, {name: empty, C: "</think>x"})
    assert made[-1] == {name: empty, C: "x"}
    assert [delta[R] for delta in made if delta.get(R)] == ["r"]
    answer = {"choices": [{"index": 0, "message": {name: empty, C: TAGGED}, "finish_reason": "stop"}]}
    assert rewrite_whole(answer)["choices"][0]["message"] == {name: empty, C: "x", R: "r"}


@pytest.mark.parametrize("native", [{R: "n"}, {"reasoning": "n"}, {D: DETAILS}])
def test_from_there_on_nothing_is_split(native: dict[str, Any]) -> None:
    raw = say("<think>a</think>b\n") + event(chunk(choice(native))) + say("<think>c</think>d")
    assert rewrite(raw).endswith(say("<think>c</think>d"))
    assert fold_spans(rewrite(raw))[:2] == [(R, "a"), (C, "b\n")]


def test_only_for_that_choice() -> None:
    raw = event(chunk(choice({R: "n"}, 1))) + say(TAGGED, 0) + say(TAGGED, 1)
    made = rewrite(raw)
    assert fold_spans(made, 0) == [(R, "r"), (C, "x")]
    assert fold_spans(made, 1) == [(R, "n"), (C, TAGGED)]


def test_held_text_goes_first() -> None:
    assert talk({C: "<thi"}, {R: "n"}, {C: "x"}) == [{C: "<thi"}, {R: "n"}, {C: "x"}]
    assert talk({C: "<thi"}, {R: "n", C: "x"}) == [{C: "<thi"}, {R: "n"}, {C: "x"}]
    assert talk({C: "<think>a</thi"}, {"reasoning": "n"}) == [{R: "a"}, {R: "</thi"}, {R: "n"}]


def test_reasoning_and_content_never_share_a_delta() -> None:
    entries = {"content": [{"token": "nx", "bytes": None}]}
    both = choice({"role": "a", "reasoning": "n", D: DETAILS, C: "x", "z": 1}, finish="stop") | {
        "logprobs": entries
    }
    assert read(rewrite(event(chunk(both, usage={"n": 1})))) == [
        chunk(choice({"role": "a", R: "n", D: DETAILS})),
        chunk(choice({C: "x", "z": 1}, finish="stop") | {"logprobs": entries}, usage={"n": 1}),
    ]
    assert talk({R: "n", C: "x"}) == [{R: "n"}, {C: "x"}]
    assert talk({R: "n", C: ""}) == [{R: "n", C: ""}]
    assert talk({R: "n", C: "x"}, rule=FIELD["none"]) == [{C: "x"}]


def test_native_reasoning_beside_other_things() -> None:
    calls = [{"index": 0, "function": {"name": "f"}}]
    assert talk({"reasoning": "n", "tool_calls": calls}) == [{R: "n", "tool_calls": calls}]
    raw = event(chunk(choice({"reasoning": "n"}, finish="stop", stop_reason=None), usage={"n": 1}))
    assert rewrite(raw) == event(chunk(choice({R: "n"}, finish="stop", stop_reason=None), usage={"n": 1}))
