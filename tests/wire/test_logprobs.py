"""Token lists: every entry once, in order, beside the piece in which its token ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.logprobs import deal_out
from proxy.rules import ReasoningField, Rule
from tests.examples import up_to
from tests.wire import streams
from tests.wire.streams import choice, chunk, event


def entry(token: str, raw: bytes | None = None) -> dict[str, Any]:
    data = list(raw if raw is not None else token.encode("utf-8", "surrogatepass"))
    return {
        "token": token,
        "logprob": -0.5,
        "bytes": data,
        "top_logprobs": [{"token": "t", "logprob": -1.0, "bytes": [116]}],
    }


def burst(tokens: list[str], **fields: Any) -> bytes:
    """One event with several tokens."""
    logprobs = {"content": [entry(token) for token in tokens], "refusal": None}
    return event(chunk(choice({"content": "".join(tokens)}) | {"logprobs": logprobs} | fields))


def dealt(raw: bytes, rule: Rule | None = None) -> list[tuple[Any, Any, Any]]:
    """Text, tokens and token ids of each event that a client gets."""
    found = []
    for value in streams.read(streams.rewrite(raw, rule)):
        (made,) = value["choices"]
        text = {key: text for key, text in made["delta"].items() if text}
        entries = (made["logprobs"] or {}).get("content") or []
        found.append((text, [one["token"] for one in entries], made.get("token_ids")))
    return found


R, C = "reasoning_content", "content"

CASES: list[tuple[str, list[str], list[tuple[Any, Any, Any]]]] = [
    (
        "tags of their own",
        ["<think>", "r", "</think>", "x"],
        [({R: "r"}, ["<think>", "r"], [0, 1]), ({C: "x"}, ["</think>", "x"], [2, 3])],
    ),
    (
        "a token over the border",
        ["<think>r", "1</thi", "nk>x", "y"],
        [({R: "r1"}, ["<think>r"], [0]), ({C: "xy"}, ["1</thi", "nk>x", "y"], [1, 2, 3])],
    ),
    ("one token", ["<think>r</think>x"], [({R: "r"}, [], None), ({C: "x"}, ["<think>r</think>x"], [0])]),
    (
        "three pieces",
        ["<think>", "a", "</think>", "b", "\n<think>", "c"],
        [
            ({R: "a"}, ["<think>", "a"], [0, 1]),
            ({C: "b\n"}, ["</think>", "b"], [2, 3]),
            ({R: "c"}, ["\n<think>", "c"], [4, 5]),
        ],
    ),
    (
        "more than one byte",
        ["<think>", "\u601d", "\u8003\U0001f914", "</think>", "\u00e9"],
        [
            ({R: "\u601d\u8003\U0001f914"}, ["<think>", "\u601d", "\u8003\U0001f914"], [0, 1, 2]),
            ({C: "\u00e9"}, ["</think>", "\u00e9"], [3, 4]),
        ],
    ),
    ("all in one channel", ["<think>", "a", "b"], [({R: "ab"}, ["<think>", "a", "b"], [0, 1, 2])]),
    ("all held", ["<thi", "nk"], [({}, ["<thi", "nk"], [0, 1]), ({C: "<think"}, [], None)]),
]


@pytest.mark.parametrize(
    ("tokens", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_where_the_entries_go(tokens: list[str], expected: list[tuple[Any, Any, Any]]) -> None:
    assert dealt(burst(tokens, token_ids=list(range(len(tokens))))) == expected


def test_text_of_an_earlier_event_takes_no_entry() -> None:
    raw = burst(["<think>r</thi"]) + burst(["s", "</think>", "x"])
    assert dealt(raw) == [
        ({R: "r"}, ["<think>r</thi"], None),
        ({R: "</this"}, ["s"], None),
        ({C: "x"}, ["</think>", "x"], None),
    ]


def test_entries_of_swallowed_reasoning_stay() -> None:
    raw = burst(["<think>", "r", "</think>", "x"], token_ids=[0, 1, 2, 3])
    rule = Rule(reasoning_field=ReasoningField.NONE)
    assert dealt(raw, rule) == [({C: "x"}, ["<think>", "r", "</think>", "x"], [0, 1, 2, 3])]


def test_a_piece_keeps_whole_entries_and_the_other_keys_once() -> None:
    tokens = ["<think>", "r", "</think>", "x"]
    content = [entry(token) for token in tokens]
    logprobs = {"note": 1, "content": content, "refusal": [entry("no")]}
    raw = event(chunk(choice({"content": "".join(tokens)}) | {"logprobs": logprobs}))
    first, last = (value["choices"][0]["logprobs"] for value in streams.read(streams.rewrite(raw)))
    assert first == {"note": None, "content": content[:2], "refusal": None}
    assert last == {"note": 1, "content": content[2:], "refusal": [entry("no")]}


def test_token_ids_without_logprobs_go_with_the_last_piece() -> None:
    raw = event(chunk(choice({"content": "<think>r</think>x"}, token_ids=[1, 2, 3, 4])))
    assert dealt(raw) == [({R: "r"}, [], None), ({C: "x"}, [], [1, 2, 3, 4])]
    raw = burst(["<think>r</think>x"], token_ids=[1, 2, 3, 4])
    assert dealt(raw) == [({R: "r"}, [], None), ({C: "x"}, ["<think>r</think>x"], [1, 2, 3, 4])]


def test_bytes_of_a_character_that_began_earlier() -> None:
    # SGLang: an entry for the token that completed the character, none for those before it.
    content = [entry("\ufffd", b"\x83"), entry("</think>"), entry("x")]
    raw = streams.say("<think>") + event(
        chunk(choice({"content": "\u8003</think>x"}) | {"logprobs": {"content": content}})
    )
    assert dealt(raw) == [({R: "\u8003"}, ["\ufffd"], None), ({C: "x"}, ["</think>", "x"], None)]


def test_a_short_token_behind_such_a_character() -> None:
    content = [entry("\ufffd", b"\x83"), entry("</"), entry("think>"), entry("x")]
    said = choice({"content": "\u8003</think>x"}) | {"logprobs": {"content": content}}
    assert dealt(streams.say("<think>") + event(chunk(said))) == [
        ({R: "\u8003"}, ["\ufffd"], None),
        ({C: "x"}, ["</", "think>", "x"], None),
    ]


def test_tokens_that_are_no_text_by_themselves() -> None:
    # vLLM writes the replacement character for each, which has three bytes.
    content = [entry("\ufffd"), entry("\ufffd"), entry("</think>"), entry("x")]
    said = choice({"content": "\u00e9</think>x"}) | {"logprobs": {"content": content}}
    assert dealt(streams.say("<think>") + event(chunk(said))) == [
        ({R: "\u00e9"}, ["\ufffd", "\ufffd"], None),
        ({C: "x"}, ["</think>", "x"], None),
    ]


def test_bytes_of_a_character_that_is_still_to_come() -> None:
    content = [entry("r"), entry("</think>"), entry("x"), entry("\ufffd", b"\xf0\x9f")]
    raw = streams.say("<think>") + event(
        chunk(choice({"content": "r</think>x"}) | {"logprobs": {"content": content}})
    )
    assert dealt(raw) == [({R: "r"}, ["r"], None), ({C: "x"}, ["</think>", "x", "\ufffd"], None)]


def test_entries_without_bytes_are_measured_by_their_token() -> None:
    content: list[Any] = [
        {"token": "<think>r"},
        {"token": "</think>", "bytes": None},
        {"token": "x"},
        None,
        7,
        {"token": 3},
    ]
    raw = event(chunk(choice({"content": "<think>r</think>x"}) | {"logprobs": {"content": content}}))
    first, last = (value["choices"][0]["logprobs"]["content"] for value in streams.read(streams.rewrite(raw)))
    assert (first, last) == (content[:1], content[1:])


ODD: list[Any] = [
    None,
    [],
    "x",
    3,
    {},
    {"content": None},
    {"content": "x"},
    {"content": {}},
    {"content": []},
    {"tokens": ["a"]},
]


@pytest.mark.parametrize("logprobs", ODD, ids=repr)
@pytest.mark.parametrize("ids", [None, [], "x", 3, {"a": 1}, [1, 2]], ids=repr)
def test_odd_shapes_stay_with_the_last_piece(logprobs: Any, ids: Any) -> None:
    raw = event(chunk(choice({"content": "<think>r</think>x"}) | {"logprobs": logprobs, "token_ids": ids}))
    first, last = (value["choices"][0] for value in streams.read(streams.rewrite(raw)))
    assert first == {"index": 0, "delta": {R: "r"}, "logprobs": None, "finish_reason": None} | (
        {"token_ids": None} if logprobs == {"content": []} and ids == [] else {}
    )
    assert last["logprobs"] == logprobs
    assert last["token_ids"] == (ids if ids != [] or logprobs != {"content": []} else None)


def test_many_pieces_and_many_tokens_at_once() -> None:
    tokens = ["<think>", "r", "</think>", "x\n"] * 1000
    found = dealt(burst(tokens))
    assert len(found) == 2000
    assert [token for _, entries, _ in found for token in entries] == tokens


pieces = st.lists(st.sampled_from(["a", "\u00e9", "\u8003", "\U0001f914", "\ud83d", ""]), max_size=12)


@settings(max_examples=up_to(150))
@given(
    pieces,
    st.lists(st.integers(-3, 14), max_size=5),
    st.lists(st.integers(0, 50), max_size=10),
    st.booleans(),
)
def test_each_entry_once(tokens: list[str], ends: list[int], noise: list[int], real: bool) -> None:
    text = "".join(tokens)
    entries: list[Any] = (
        [entry(token) for token in tokens] if real else [{"bytes": [0] * size} for size in noise]
    )
    ids = list(range(len(entries)))
    given_choice = {"logprobs": {"content": entries}, "token_ids": ids}
    ends = sorted(min(end, len(text)) for end in ends)
    shares = deal_out(given_choice, text, ends)
    assert len(shares) == len(ends) + 1
    if not ends:
        assert shares == [{}]
        return
    lists = [(share["logprobs"] or {"content": []})["content"] for share in shares]
    assert [one for part in lists for one in part] == entries
    assert [one for share in shares for one in share["token_ids"] or ()] == ids
    if real:
        reached = 0
        for part, end in zip(lists, ends, strict=False):
            reached += sum(len(one["token"]) for one in part)
            assert reached <= max(end, 0)


def test_the_token_of_the_end_goes_last() -> None:
    tokens = ["<think>", "a", "</think>", "z", "y", "<|im_end|>"]
    entries = [{"token": token, "bytes": list(token.encode())} for token in tokens]
    shares = deal_out({"logprobs": {"content": entries}}, "<think>a</think>zy", [8])
    dealt = [[entry["token"] for entry in share["logprobs"]["content"]] for share in shares]
    assert dealt == [["<think>", "a"], ["</think>", "z", "y", "<|im_end|>"]]
