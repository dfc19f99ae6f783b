"""Streams, sentence by sentence: what the proxy does not mean to change stays as it was."""

from __future__ import annotations

from typing import Any

import pytest

from proxy import sse
from proxy.response import Rewriter
from proxy.rules import ReasoningField, Rule, Start, Unterminated
from tests.wire.streams import DONE, choice, chunk, deltas, event, feed, fold_spans, read, rewrite, say, talk

R, C = "reasoning_content", "content"
NONE = Rule(reasoning_field=ReasoningField.NONE)

TALKS: list[tuple[str, list[dict[str, Any]], list[dict[str, Any]]]] = [
    ("nothing to split", [{C: "a"}, {C: " b"}], [{C: "a"}, {C: " b"}]),
    ("a block", [{C: "<think>"}, {C: "r"}, {C: "</think>"}, {C: "x"}], [{R: "r"}, {C: "x"}]),
    ("two events in order", [{C: "<think>r</think>x"}], [{R: "r"}, {C: "x"}]),
    ("three", [{C: "<think>a</think>b\n<think>c"}], [{R: "a"}, {C: "b\n"}, {R: "c"}]),
    (
        "the role goes first",
        [{"role": "assistant", C: "<think>r</think>x"}],
        [{"role": "assistant", R: "r"}, {C: "x"}],
    ),
    (
        "the role alone",
        [{"role": "assistant", C: "<think>"}, {C: "r"}],
        [{"role": "assistant", C: ""}, {R: "r"}],
    ),
    ("the role with one piece", [{"role": "assistant", C: "<think>r"}], [{"role": "assistant", R: "r"}]),
    ("a null in place", [{R: None, C: "<think>r</think>x"}], [{R: "r"}, {R: None, C: "x"}]),
    ("a null in place, one piece", [{R: None, "role": "a", C: "<think>r"}], [{R: "r", "role": "a"}]),
    ("an empty string in place", [{C: "<think>r", R: ""}], [{R: "r"}]),
    ("other fields keep their order", [{"b": 1, C: "<think>r", "a": 2}], [{"b": 1, R: "r", "a": 2}]),
    (
        "other fields of a held text",
        [{"b": 1, C: "<think>", "a": 2}, {C: "r"}],
        [{"b": 1, C: "", "a": 2}, {R: "r"}],
    ),
    ("held, then released", [{C: "<thi"}, {C: "s"}], [{C: "<this"}]),
    ("tool calls after held text", [{C: "<thi"}, {"tool_calls": [1]}], [{C: "<thi"}, {"tool_calls": [1]}]),
    (
        "tool calls end the block",
        [{C: "<think>r"}, {"tool_calls": [1]}, {C: "x"}],
        [{R: "r"}, {"tool_calls": [1]}, {C: "x"}],
    ),
    (
        "text beside tool calls",
        [{C: "<think>r</think>x", "tool_calls": [1]}],
        [{R: "r"}, {C: "x", "tool_calls": [1]}],
    ),
    (
        "thinking beside tool calls",
        [{C: "<think>r</th", "tool_calls": [1]}],
        [{R: "r</th", "tool_calls": [1]}],
    ),
    ("a marker beside tool calls", [{C: "<think>", "tool_calls": [1]}], [{C: "", "tool_calls": [1]}]),
    (
        "a function call",
        [{C: "<thi"}, {"function_call": {"name": "f"}}],
        [{C: "<thi"}, {"function_call": {"name": "f"}}],
    ),
    (
        "no tool calls",
        [{C: "<think>r"}, {"tool_calls": [], C: "s"}, {C: "</think>x"}],
        [{R: "r"}, {"tool_calls": [], R: "s"}, {C: "x"}],
    ),
    ("a refusal after held text", [{C: "<thi"}, {"refusal": "no"}], [{C: "<thi"}, {"refusal": "no"}]),
    (
        "a refusal ends no block",
        [{C: "<think>r"}, {"refusal": "no"}, {C: "s</think>x"}],
        [{R: "r"}, {"refusal": "no"}, {R: "s"}, {C: "x"}],
    ),
    (
        "parts in a delta",
        [{C: "<thi"}, {C: [{"type": "text", "text": "<think>"}]}, {C: "x"}],
        [{C: "<thi"}, {C: [{"type": "text", "text": "<think>"}]}, {C: "x"}],
    ),
    ("the end of a stream", [{C: "<think>r</thi"}], [{R: "r"}, {R: "</thi"}]),
    ("an empty block", [{C: "<think>"}, {C: "\n\n"}, {C: "</think>"}, {C: "\n\nx"}], [{C: "x"}]),
    ("white space only", [{C: "\n"}, {C: " "}], [{C: "\n "}]),
]


@pytest.mark.parametrize(("said", "heard"), [case[1:] for case in TALKS], ids=[case[0] for case in TALKS])
def test_deltas(said: list[dict[str, Any]], heard: list[dict[str, Any]]) -> None:
    made = talk(*said)
    assert made == heard
    assert [list(delta) for delta in made] == [list(delta) for delta in heard]


FIELDS = [
    (ReasoningField.REASONING_CONTENT, [{R: "r"}, {C: "x"}]),
    (ReasoningField.REASONING, [{"reasoning": "r"}, {C: "x"}]),
    (ReasoningField.BOTH, [{R: "r", "reasoning": "r"}, {C: "x"}]),
    (ReasoningField.NONE, [{C: "x"}]),
]


@pytest.mark.parametrize(("field", "heard"), FIELDS)
@pytest.mark.parametrize("cut", [True, False])
def test_reasoning_field(field: ReasoningField, heard: list[dict[str, Any]], cut: bool) -> None:
    rule = Rule(reasoning_field=field)
    said = ["<think>", "r", "</think>", "x"] if cut else ["<think>r</think>x"]
    assert talk(*({C: text} for text in said), rule=rule) == heard


def test_reasoning_field_over_a_null_of_that_name() -> None:
    rule = Rule(reasoning_field=ReasoningField.BOTH)
    assert talk({"reasoning": None, C: "<think>r", R: None}, rule=rule) == [{"reasoning": "r", R: "r"}]
    rule = Rule(reasoning_field=ReasoningField.REASONING)
    assert talk({R: None, C: "<think>r"}, rule=rule) == [{R: None, "reasoning": "r"}]
    assert talk({R: None, C: "<think>r</think>x"}, rule=NONE) == [{R: None, C: "x"}]


# Bytes


UNTOUCHED = [
    event(chunk(choice({"role": "assistant", C: ""}))),
    event(chunk(choice({C: "plain"}))),
    b'data: {"choices": [{"delta": {"content": "spaced"}, "index": 0}]}\n\n',
    b'data: {"choices":[{"index":0,"delta":{"content":"escaped \\u00e9\\/"}}],"x":1.50}\n\n',
    b'data:{"choices":[{"index":0,"delta":{"content":"crlf"}}]}\r\n\r\n',
    b": a comment\n\n",
    b': a comment\nevent: e\nid: 7\ndata: {"choices":[{"index":0,"delta":{"content":"named"}}]}\n\n',
    b'event: ping\ndata: {"type": "ping"}\n\n',
    b"retry: 10\n\n",
    b"data: not json\n\n",
    b"data:\n\n",
    b"data: [1, 2]\n\n",
    b'data: {"choices":[],"usage":{"prompt_tokens":1}}\n\n',
    b'data: {"choices":[],"usage":null,"sglext":{"output_ids":[[1]]}}\n\n',
    b'data: {"id":1,\ndata: "choices":[{"index":0,"delta":{"content":"two lines"}}]}\n\n',
    event(chunk(choice({}, finish="stop"))),
    b'data: {"choices":[{"index":0,"delta":{"content":"<think>behind the end"}}]}\n\n',
    DONE,
    b": bye\n\n",
]


def test_what_needs_no_change_leaves_as_it_came() -> None:
    raw = b"".join(UNTOUCHED)
    assert [b"".join(made.raw for made in step) for step in feed(raw, Rule(), range(len(raw)))] == [
        # Each event in the very step that completes it.
        *_at_its_end(raw),
        b"",
        b"",
    ]


def _at_its_end(raw: bytes) -> list[bytes]:
    steps = [b""] * (len(raw) + 1)
    end = 0
    for one in UNTOUCHED:
        end += len(one)
        # The blank line of CRLF ends with its CR.
        for step, said in ((end - 1, one[:-1]), (end, b"\n")) if one.endswith(b"\r\n") else ((end, one),):
            steps[step] = said
    return steps


def test_a_changed_event_keeps_all_else() -> None:
    raw = (
        b': c\r\nevent: e\r\nid: 7\r\ndata: {"z": 1, "id": "a", "choices": [{"x": {"y": [1.5, null]}, "index"'
        b': 0, "delta": {"p": "q", "content": "<think>r</think>x", "o": []}, "logprobs": null, "finish_'
        b'reason": null, "stop_reason": 5}], "usage": {"n": 18446744073709551616}, "created": 3}\r\n\r\n'
    )
    assert rewrite(raw) == (
        b'data: {"id":"a","created":3,"choices":[{"index":0,"delta":{"reasoning_content":"r"},"logprobs":'
        b'null,"finish_reason":null}]}\n\n'
        b': c\r\nevent: e\r\nid: 7\r\ndata: {"z":1,"id":"a","choices":[{"x":{"y":[1.5,null]},"index":0,'
        b'"delta":{"p":"q","content":"x","o":[]},"logprobs":null,"finish_reason":null,'
        b'"stop_reason":5}],"usage":{"n":18446744073709551616},"created":3}\r\n\r\n'
    )


BARE = [
    b'data: {"id":"a","choices":[{"index":0,"delta":{"content":"<think>"}}]}\n\n',
    b'data:{"choices":[{"index":0,"delta":{"content":"<think>"}}]}\r\n\r\n',
    event(
        chunk(
            choice({R: None, C: "<think>", "tool_calls": None}, stop_reason=None, token_ids=None), usage=None
        )
    ),
]

LOADED = [
    event(chunk(choice({"role": "assistant", C: "<think>"}))),
    event(chunk(choice({C: "<think>"}), usage={"prompt_tokens": 3})),
    event(chunk(choice({C: "<think>"}, token_ids=[1]))),
    event(chunk(choice({C: "<think>"}, note=0))),
    event(chunk(choice({C: "<think>", "note": ""}))),
    event(chunk(choice({C: "<think>"}), note=False)),
    event(chunk(choice({C: "<think>"}) | {"logprobs": {"content": []}})),
    b": c\n" + event(chunk(choice({C: "<think>"}))),
    b"id: 1\n" + event(chunk(choice({C: "<think>"}))),
    b"event: e\n" + event(chunk(choice({C: "<think>"}))),
    event(chunk(choice({C: "<think>"}), choice({}, 1, "stop"))),
    event(chunk(choice({C: "<think>"}), 5)),
    event(chunk(choice({C: "<think>"}), {"index": 1})),
]


@pytest.mark.parametrize("raw", BARE)
@pytest.mark.parametrize("rule", [Rule(), NONE])
def test_an_event_that_carried_only_held_text_is_dropped(raw: bytes, rule: Rule) -> None:
    assert rewrite(raw, rule) == b""


@pytest.mark.parametrize("raw", LOADED)
def test_an_event_that_carried_more_travels(raw: bytes) -> None:
    assert rewrite(raw) == raw.replace(b"<think>", b"")


def test_none_drops_events_of_bare_reasoning() -> None:
    raw = (
        say("<think>")
        + say("r")
        + event(chunk(choice({C: "s"}), usage={"n": 1}))
        + say("</think>")
        + say("x")
    )
    assert rewrite(raw, NONE) == event(chunk(choice({C: ""}), usage={"n": 1})) + say("x")


# Choices


def test_choices_interleave_by_index() -> None:
    raw = b"".join(
        say(text, index)
        for text, index in [
            ("<think>", 2),
            ("plain", 0),
            ("a", 2),
            ("<thi", 1),
            ("<think>", 0),
            ("nk>b", 1),
            ("</think>c", 2),
        ]
    )
    made = rewrite(raw)
    assert fold_spans(made, 0) == [(C, "plain<think>")]
    assert fold_spans(made, 1) == [(R, "b")]
    assert fold_spans(made, 2) == [(R, "a"), (C, "c")]


def test_several_choices_in_a_chunk() -> None:
    one = chunk(
        choice({C: "<think>a</think>b"}, 1),
        choice({C: "plain"}, 0),
        choice({C: "<think>"}, 2),
        choice({C: "<think>c"}, 3),
        usage={"n": 1},
    )
    assert read(rewrite(event(one))) == [
        chunk(choice({R: "a"}, 1)),
        chunk(
            choice({C: "b"}, 1),
            choice({C: "plain"}, 0),
            choice({C: ""}, 2),
            choice({R: "c"}, 3),
            usage={"n": 1},
        ),
    ]


def test_a_made_event_has_the_id_of_the_one_it_is_made_from() -> None:
    ids = ["first", "second", "third"]
    raws = [
        event(chunk(choice({C: "<think>a</think>b"})) | {"id": ids[0]}),
        event(chunk(choice({C: "\n<thi"})) | {"id": ids[1]}),
        event(chunk(choice({}, finish="stop")) | {"id": ids[2]}),
    ]
    assert [(value["id"], value["choices"][0]["delta"]) for value in read(rewrite(b"".join(raws)))] == [
        ("first", {R: "a"}),
        ("first", {C: "b"}),
        ("second", {C: "\n"}),
        ("third", {C: "<thi"}),
        ("third", {}),
    ]
    held = read(rewrite(b"".join(raws[:2]) + DONE))
    assert [value["id"] for value in held[:-1]] == ["first", "first", "second", "second"]


# Ends


def test_finish_without_text() -> None:
    raw = say("<think>r</thi") + event(chunk(choice({R: None}, finish="stop", matched_stop=2)))
    assert read(rewrite(raw)) == [
        chunk(choice({R: "r"})),
        chunk(choice({R: "</thi"})),
        chunk(choice({R: None}, finish="stop", matched_stop=2)),
    ]
    assert rewrite(raw).endswith(event(chunk(choice({R: None}, finish="stop", matched_stop=2))))


def test_finish_with_text() -> None:
    raw = say("<think>r</thi") + event(chunk(choice({C: "s"}, finish="length", stop_reason=None)))
    assert read(rewrite(raw)) == [
        chunk(choice({R: "r"})),
        chunk(choice({R: "</this"}, finish="length", stop_reason=None)),
    ]
    raw = say("<think>r") + event(chunk(choice({C: "</think>x<thi"}, finish="stop")))
    assert read(rewrite(raw)) == [chunk(choice({R: "r"})), chunk(choice({C: "x<thi"}, finish="stop"))]


def test_finish_with_text_and_logprobs() -> None:
    entries = [{"token": "s</think>", "bytes": None}, {"token": "x", "bytes": None}]
    last = choice({C: "s</think>x"}, finish="stop") | {"logprobs": {"content": entries}}
    assert read(rewrite(say("<think>r") + event(chunk(last)))) == [
        chunk(choice({R: "r"})),
        chunk(choice({R: "s"})),
        chunk(choice({C: "x"}, finish="stop") | {"logprobs": {"content": entries}}),
    ]


@pytest.mark.parametrize(
    ("finish", "fields", "cut"),
    [
        ("stop", {}, False),
        ("tool_calls", {}, False),
        ("function_call", {}, False),
        ("stop", {"stop_reason": 5, "matched_stop": 2}, False),
        ("length", {}, True),
        ("abort", {}, True),
        ("content_filter", {}, True),
        ("stop", {"stop_reason": "END"}, True),
        ("stop", {"matched_stop": "END"}, True),
    ],
)
def test_an_opener_in_mid_line_is_prose_unless_the_turn_was_cut_off(
    finish: str, fields: dict[str, Any], cut: bool
) -> None:
    raw = say("<think>r</think>a <think>b") + event(chunk(choice({}, finish=finish, **fields)))
    assert (
        fold_spans(rewrite(raw)) == [(R, "r"), (C, "a "), (R, "b")] if cut else [(R, "r"), (C, "a <think>b")]
    )


@pytest.mark.parametrize(
    ("tail", "cut"),
    [
        (b"", True),
        (DONE, False),
        (b"data:[DONE]\r\n\r\n", False),
        (b"data: [DONE] \n\n", False),
        (b"data: [DONE]", False),
        (b'data: {"error": {"message": "m"}}\n\n', True),
        (b'data: {"object": "error", "message": "m", "code": 500}\n\n', True),
        (b'event: error\ndata: {"error": "m"}\n\n', True),
        (b'data: {"error": {"message": "m"}}\n\n' + DONE, True),
    ],
)
def test_held_text_goes_before_the_end(tail: bytes, cut: bool) -> None:
    raw = say("<think>r</think>a <think>b") + say("<thi", 1)
    made = rewrite(raw + tail)
    assert fold_spans(made, 0) == ([(R, "r"), (C, "a "), (R, "b")] if cut else [(R, "r"), (C, "a <think>b")])
    assert fold_spans(made, 1) == [(C, "<thi")]
    assert made.endswith(tail if tail != b"data: [DONE]" else tail + b"\n\n")
    assert read(made)[-1 - tail.count(b"data:")]["choices"][0]["delta"] == {C: "<thi"}


def test_an_error_beside_choices() -> None:
    raw = say("<thi") + event(chunk(choice({C: ""}), error={"message": "m"}))
    assert rewrite(raw) == say("<thi") + event(chunk(choice({C: ""}), error={"message": "m"}))


def test_no_error() -> None:
    raw = say("<thi") + event({"error": None}) + event(chunk(choice({C: "nk>r"}), error=None))
    assert rewrite(raw) == event({"error": None}) + event(chunk(choice({R: "r"}), error=None))


def test_an_empty_finish_reason_ends_nothing() -> None:
    raw = event(chunk(choice({C: "<think>"}, finish=""))) + event(chunk(choice({C: "r"}, finish="")))
    assert fold_spans(rewrite(raw)) == [(R, "r")]


def test_finish_of_a_choice_that_never_spoke() -> None:
    raw = say("<thi") + event(chunk(choice({}, 4, "stop"))) + say("nk>r")
    assert rewrite(raw) == event(chunk(choice({}, 4, "stop"))) + event(chunk(choice({R: "r"})))


def test_text_behind_the_finish_is_not_split() -> None:
    tail = say("<think>late</think>") + event(chunk(choice({C: "<thi"}, finish="stop"))) + DONE
    raw = event(chunk(choice({C: "<think>r</think>x"}, finish="stop"))) + tail
    assert rewrite(raw).endswith(event(chunk(choice({C: "x"}, finish="stop"))) + tail)


def test_done_is_remembered() -> None:
    rewriter = Rewriter(Rule())
    rewriter.feed(sse.Event(b": [DONE]\n\n", None))
    assert not rewriter.done
    rewriter.feed(sse.Event(DONE, b"[DONE]"))
    assert rewriter.done


# Delivery


def test_nothing_waits_but_what_may_be_a_marker() -> None:
    texts = ["<think>", "a", " b", "\n", "c <", "d", "</thin", "k>", "e", " f", "\n", "g <d", "iv>"]
    raw = [say(text) for text in texts]
    ends = [sum(map(len, raw[: count + 1])) for count in range(len(raw))]
    steps = feed(b"".join(raw), Rule(), ends)
    heard = [[delta for made in step for delta in deltas(made.raw)] for step in steps]
    assert heard == [
        [],
        [{R: "a"}],
        [{R: " b"}],
        [{R: "\n"}],
        [{R: "c "}],
        [{R: "<d"}],
        [],
        [],
        [{C: "e"}],
        [{C: " f"}],
        [{C: "\n"}],
        [{C: "g <d"}],
        [{C: "iv>"}],
        [],
        [],
        [],
    ]


def test_rules_reach_the_splitter() -> None:
    assert talk({C: "r"}, {C: "</think>x"}, rule=Rule(start=Start.IMPLICIT)) == [{R: "r"}, {C: "x"}]
    assert talk({C: "a"}, {C: " <think>b</think>"}, rule=Rule(start=Start.ANYWHERE)) == [
        {C: "a"},
        {C: " "},
        {R: "b"},
    ]
    kept = Rule(unterminated=Unterminated.CONTENT)
    assert talk({C: "<think>"}, {C: "r"}, rule=kept) == [{C: "<think>r"}]
