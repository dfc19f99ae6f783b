"""What nobody documents: it never raises, it leaves as it came, and it does not disturb what is around it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.rules import Rule
from tests.examples import up_to
from tests.wire.streams import DONE, choice, chunk, event, feed, fold_spans, rewrite, say

R, C = "reasoning_content", "content"
DEEP = b'{"choices":[{"index":0,"delta":{"content":"x"}}],"x":' + b"[" * 300 + b"]" * 300 + b"}"

ODD: list[Any] = [
    {},
    {"choices": None},
    {"choices": {}},
    {"choices": "x"},
    {"choices": 3},
    {"choices": []},
    {"choices": [[]]},
    {"choices": [None, 1, "x", [], {}]},
    {"choices": [{"index": 0}]},
    {"choices": [{"index": 0, "delta": None}]},
    {"choices": [{"index": 0, "delta": []}]},
    {"choices": [{"index": 0, "delta": "x"}]},
    {"choices": [{"index": 0, "delta": {}}]},
    {"choices": [{"index": None, "delta": {C: "<think>"}}]},
    {"choices": [{"index": "0", "delta": {C: "<think>"}}]},
    {"choices": [{"index": 0.0, "delta": {C: "<think>"}}]},
    {"choices": [{"index": False, "delta": {C: "<think>"}}]},
    {"choices": [{"index": True, "delta": {C: "<think>"}}]},
    {"choices": [{"index": [], "delta": {C: "<think>"}}]},
    {"choices": [{"index": 0, "delta": {C: 5}}]},
    {"choices": [{"index": 0, "delta": {C: True}}]},
    {"choices": [{"index": 0, "delta": {C: {"text": "<think>"}}}]},
    {"choices": [{"index": 0, "delta": {C: []}}]},
    {"choices": [{"index": 0, "delta": {C: None}, "finish_reason": None}]},
    {"choices": [{"index": 0, "message": {C: "<think>r</think>x"}}]},
    {"choices": [{"index": 0, "text": "<think>r</think>x"}]},
    {"choices": [], "usage": {"n": 1}},
    {"choices": [], "error": None},
    {"usage": {"n": 1}},
    {"object": "ping"},
    {"type": "ping"},
    {"object": ["error"]},
    [],
    [{"choices": []}],
    1,
    "x",
    None,
    True,
    "<think>",
]
RAW = [
    b"data: {\n\n",
    b"data: \xff{}\n\n",
    b"data: [DONE\n\n",
    b"data: NaN\n\n",
    b": c\n\n",
    b"event: x\n\n",
    b"\n\n",
    b"data: " + DEEP + b"\n\n",
]


@pytest.mark.parametrize("raw", [*map(event, ODD), *RAW], ids=lambda raw: repr(raw)[:70])
def test_leaves_as_it_came_and_disturbs_nothing(raw: bytes) -> None:
    assert rewrite(raw) == raw
    before = say("<think>a")
    between = rewrite(before + raw + say("</think>b"))
    assert between == event(chunk(choice({R: "a"}))) + raw + say("b")


@pytest.mark.parametrize("delta", [None, 3, "x", []])
def test_a_finish_without_a_delta_still_ends_the_choice(delta: Any) -> None:
    raw = say("<thi") + event(chunk(choice(delta, finish="stop")))
    assert rewrite(raw) == say("<thi") + event(chunk(choice(delta, finish="stop")))


def test_a_choice_without_an_index_is_the_first() -> None:
    raw = say("<thi") + event({"choices": [{"delta": {C: "nk>r</think>x"}}]})
    assert fold_spans(rewrite(raw)) == [(R, "r"), (C, "x")]


@pytest.mark.parametrize("index", [-1, 10**30, 2**63])
def test_any_whole_number_is_an_index(index: int) -> None:
    raw = say("<think>r</think>x", index) + say("<think>", 0)
    assert fold_spans(rewrite(raw), index) == [(R, "r"), (C, "x")]


def test_surrogates_and_great_numbers_survive_a_change() -> None:
    raw = (
        b'data: {"choices":[{"index":0,"delta":{"content":"<think>\\ud83d"}}],'
        b'"n":NaN,"m":123456789012345678901234567890}\n\n'
    )
    made = rewrite(raw + b'data: {"choices":[{"index":0,"delta":{"content":"\\ude00</think>\\ud83d"}}]}\n\n')
    first, _, second = (json.loads(line[6:]) for line in made.split(b"\n\n")[:3])
    assert str(first["n"]) == "nan"
    assert first["m"] == 123456789012345678901234567890
    assert (first["choices"][0]["delta"], second["choices"][0]["delta"]) == ({R: "\ud83d"}, {C: "\ud83d"})


def test_equal_keys_count_as_a_client_reads_them() -> None:
    raw = b'data: {"choices":[{"index":0,"delta":{"content":"y","content":"<think>r"}}]}\n\n'
    assert fold_spans(rewrite(raw)) == [(R, "r")]


json_values = st.recursive(
    st.sampled_from(
        [None, True, False, 0, 1, -1, 2**70, 0.5, "", "x", "<think>", "<think>r</think>x", "stop", "\ud83d"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "index",
                    "delta",
                    "content",
                    "reasoning",
                    R,
                    "reasoning_details",
                    "tool_calls",
                    "refusal",
                    "logprobs",
                    "token_ids",
                    "finish_reason",
                    "stop_reason",
                    "usage",
                    "error",
                    "object",
                    "role",
                    "message",
                    "text",
                    "bytes",
                    "token",
                ]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=14,
)

choice_like = st.fixed_dictionaries(
    {},
    optional={
        "index": st.sampled_from([0, 0, 1, None, True, "0"]),
        "delta": json_values
        | st.fixed_dictionaries(
            {}, optional=dict.fromkeys((C, R, "role", "tool_calls", "refusal"), json_values)
        ),
        "logprobs": json_values
        | st.fixed_dictionaries({"content": json_values | st.lists(json_values, max_size=4)}),
        "token_ids": json_values,
        "finish_reason": json_values,
        "matched_stop": json_values,
    },
)
chunk_like = json_values | st.fixed_dictionaries(
    {"choices": st.lists(choice_like | json_values, max_size=3)},
    optional={"error": json_values, "usage": json_values},
)


@settings(max_examples=up_to(250))
@given(st.lists(chunk_like, max_size=5), st.booleans())
def test_nothing_raises(values: list[Any], done: bool) -> None:
    raw = b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values) + DONE * done
    for step in feed(raw, Rule()):
        for made in step:
            assert made.raw


@settings(max_examples=up_to(100))
@given(
    st.lists(
        st.sampled_from(
            [
                b"data: ",
                b"\n",
                b"\r",
                b"\n\n",
                b"[DONE]",
                b": ",
                b"event: ",
                b"{}",
                b'{"choices":[{"index":0,"delta":{"content":"<think>"}}]}',
            ]
        ),
        max_size=12,
    )
)
def test_no_line_raises(pieces: list[bytes]) -> None:
    feed(b"".join(pieces), Rule(), range(0, 40, 7))
