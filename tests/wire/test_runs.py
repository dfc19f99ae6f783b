"""Long runs of events that differ in little more than their text, and what breaks such a run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.rules import ReasoningField, Rule
from tests.examples import up_to
from tests.wire.streams import (
    DONE,
    choice,
    chunk,
    fold,
    fold_spans,
    lines,
    pieces,
    read,
    rewrite,
    rewrite_whole,
)

R, C = "reasoning_content", "content"

TRICKY = [
    "a",
    " b",
    "<think>",
    "</think>",
    "<",
    "\n",
    "\n\n",
    '"',
    "\\",
    '\\"',
    "\\n",
    "\\\\",
    '"}',
    '"},"logprobs":null',
    '{"content":"',
    '"content":"x"',
    "\u00e9",
    "\u6f22",
    "\U0001f914",
    "\ud83d",
    "\ude00",
    "\x00",
    "\x1f",
    "\x7f",
    "\u2028",
    "/",
    "\t",
    "\r",
    "data: ",
    "data: x\n\n",
    "[DONE]",
    "",
    "\\u0041",
    "u0041",
    "null",
    "0",
    "1234567890123456789012",
    "NaN",
    "<think",
    ">",
    "`",
    "```\n",
]


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def ascii_only(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def spaced(value: Any) -> str:
    return json.dumps(value)


def slashed(value: Any) -> str:
    return ascii_only(value).replace("/", "\\/")


WRITERS = [compact, ascii_only, spaced, slashed]


def build(text: str, shape: int) -> dict[str, Any]:
    """Chunks as vLLM and SGLang write them, and near misses of these."""
    shapes: list[dict[str, Any]] = [
        chunk(choice({C: text}, token_ids=None)),
        chunk(choice({R: None, C: text}, matched_stop=None)),
        chunk(choice({C: text}, 1, token_ids=None)),
        chunk(choice({C: text}, token_ids=[7])),
        chunk(choice({C: text}, token_ids=None), usage={"completion_tokens": 1}),
        chunk(choice({C: text, "note": text}, token_ids=None)),
        chunk(choice({"note": text, C: text}, token_ids=None)),
        chunk(choice({C: text}, token_ids=None)) | {"id": text},
        chunk(choice({C: text}, token_ids=None), choice({C: text}, 1, token_ids=None)),
        chunk(
            choice({C: text}, token_ids=None) | {"logprobs": {"content": [{"token": text, "bytes": None}]}}
        ),
        chunk(choice({"role": "assistant", C: text})),
        chunk(choice({}, 1, "stop")),
    ]
    return shapes[shape]


SHAPES = 12
SECOND = (2, 8)
"""Those with a text of the second choice."""
FINISH = 11
"""The end of it: what text comes behind passes untouched, and would not in a whole answer."""


def encode(value: Any, writer: int, line_break: str = "\n") -> bytes:
    try:
        data = WRITERS[writer](value).encode()
    except UnicodeEncodeError:
        data = ascii_only(value).encode()
    return b"data: " + data + (line_break * 2).encode()


runs = st.lists(
    st.tuples(
        st.integers(0, SHAPES - 1),
        st.integers(0, len(WRITERS) - 1),
        st.lists(st.sampled_from(TRICKY), min_size=1, max_size=12),
    ),
    max_size=6,
)


@settings(max_examples=up_to(150))
@given(runs, st.sampled_from(ReasoningField), st.sampled_from(["\n", "\n", "\n", "\r\n"]), st.booleans())
def test_runs(
    parts: list[tuple[int, int, list[str]]], field: ReasoningField, line_break: str, think: bool
) -> None:
    rule = Rule(reasoning_field=field)
    texts = [(shape, writer, text) for shape, writer, said in parts for text in said]
    if think:
        texts.insert(0, (0, 0, "<think>"))
    shapes = [shape for shape, _, _ in texts]
    end = shapes.index(FINISH) if FINISH in shapes else len(texts)
    texts = texts[:end] + [one for one in texts[end:] if one[0] not in SECOND]
    events = [encode(build(text, shape), writer, line_break) for shape, writer, text in texts]
    # A choice of which all is held and dropped would not be in the stream at all.
    raw = b"".join([*events, encode(chunk(choice({}, 0), choice({}, 1)), 0), DONE])
    made = rewrite(raw, rule)
    assert fold(made) == rewrite_whole(fold(raw), rule)
    assert lines(rewrite(raw, rule, range(0, len(raw), 11))) == lines(made)


@pytest.mark.parametrize("writer", range(len(WRITERS)), ids=[writer.__name__ for writer in WRITERS])
@pytest.mark.parametrize("shape", [0, 1])
def test_an_unchanged_run_leaves_as_it_came(shape: int, writer: int) -> None:
    texts = [text for text in TRICKY if "think" not in text and text != "<"]
    raw = b"".join(encode(build(text, shape), writer) for text in ["a", *texts, *texts, "b"])
    assert rewrite(raw + DONE) == raw + DONE


@pytest.mark.parametrize("writer", range(len(WRITERS)), ids=[writer.__name__ for writer in WRITERS])
@pytest.mark.parametrize("shape", [0, 1])
def test_a_run_of_thinking(shape: int, writer: int) -> None:
    texts = [text for text in TRICKY if "think" not in text and text not in ("<", "")]
    made = rewrite(b"".join(encode(build(text, shape), writer) for text in ["<think>r", *texts]))
    head = {key: value for key, value in build("", shape).items() if key != "choices"}
    (form,) = build("", shape)["choices"]
    assert read(made) == [head | {"choices": [form | {"delta": {R: text}}]} for text in ["r", *texts]]


def test_what_ends_a_run() -> None:
    texts = ["<think>r", "s", "t"]
    for breaking in [
        b": ping\n\n",
        b'data: {"choices":[],"usage":{}}\n\n',
        encode(build("x", 2), 0),
        encode(chunk(choice({C: ""}, note=1)), 0),
        encode(build("u", 0), 2),
        b"event: e\n" + encode(build("u", 0), 0),
        encode(build("u", 0) | {"id": "c-2"}, 0),
    ]:
        raw = b"".join(encode(build(text, 0), 0) for text in texts)
        made = rewrite(
            raw
            + breaking
            + raw.replace(b"<think>", b"")
            + encode(build("</think>v", 0), 0)
            + raw.replace(b"<think>", b"")
        )
        own = [piece["delta"].get(C) or "" for piece in pieces(breaking) if piece["index"] == 0]
        assert fold_spans(made) == [(R, "rst" + "".join(own) + "rst"), (C, "vrst")]


def test_ids_of_a_run_stay_with_their_events() -> None:
    texts = ["<think>", "r", "s</think>", "x", "y<thi", "nk", ">z"]
    raw = b"".join(encode(build(text, 0) | {"id": f"c-{number}"}, 0) for number, text in enumerate(texts))
    assert [(value["id"], value["choices"][0]["delta"]) for value in read(rewrite(raw + DONE))[:-1]] == [
        ("c-1", {R: "r"}),
        ("c-2", {R: "s"}),
        ("c-3", {C: "x"}),
        ("c-4", {C: "y"}),
        ("c-6", {C: "<think>z"}),
    ]


def test_held_text_is_made_from_the_last_event_of_a_run() -> None:
    texts = ["<think>r</think>", "x", "y\n", "<th", "i"]
    raw = b"".join(encode(build(text, 0) | {"id": f"c-{number}"}, 0) for number, text in enumerate(texts))
    last = read(rewrite(raw + DONE))[-2]
    assert (last["id"], last["choices"][0]["delta"]) == ("c-4", {C: "<thi"})
