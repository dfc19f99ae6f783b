"""What each mode makes of an assistant message, for every shape of content, beside tool calls and without."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from proxy.history import convert
from proxy.rules import TAG_SETS, History, Rule, TagSet, Whitespace

REASONING = "\nr\n"
BLOCK = "<think>\nr\n</think>"
TOOL_CALLS = [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}
SIGNED = {"type": "text", "text": "a", "signature": "s"}
ABSENT = object()


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


CONTENTS: dict[str, tuple[Any, Any, Any]] = {
    # name: content, the content that `inline` makes of it with `tidy`, and with `exact`
    "string": ("a", BLOCK + "\n\na", BLOCK + "a"),
    "indented": ("    a", BLOCK + "\n\n    a", BLOCK + "    a"),
    "with its own line break": ("\na", BLOCK + "\na", BLOCK + "\na"),
    "with its own CRLF": ("\r\na", BLOCK + "\r\na", BLOCK + "\r\na"),
    "empty": ("", BLOCK, BLOCK),
    "null": (None, BLOCK, BLOCK),
    "absent": (ABSENT, BLOCK, BLOCK),
    "array": ([text("a"), text("b")], [text(BLOCK + "\n\na"), text("b")], [text(BLOCK + "a"), text("b")]),
    "array that begins with an image": (
        [IMAGE, text("a")],
        [text(BLOCK), IMAGE, text("a")],
        [text(BLOCK), IMAGE, text("a")],
    ),
    "array that begins with a signed part": ([SIGNED], [text(BLOCK), SIGNED], [text(BLOCK), SIGNED]),
    "array whose part says nothing more": (
        [text("a") | {"annotations": []}],
        [text(BLOCK + "\n\na") | {"annotations": []}],
        [text(BLOCK + "a") | {"annotations": []}],
    ),
    "array whose text is null": (
        [{"type": "text", "text": None}],
        [text(BLOCK), {"type": "text", "text": None}],
        [text(BLOCK), {"type": "text", "text": None}],
    ),
    "empty array": ([], [text(BLOCK)], [text(BLOCK)]),
    "has the block": (BLOCK + "\n\na", BLOCK + "\n\na", BLOCK + "\n\na"),
    "has a block, spelled otherwise": (" \n<Thinking >r", " \n<Thinking >r", " \n<Thinking >r"),
    "array that has the block": (
        [text("\n"), text(BLOCK + "a")],
        [text("\n"), text(BLOCK + "a")],
        [text("\n"), text(BLOCK + "a")],
    ),
    "begins with what is no opener": ("<thinker>", BLOCK + "\n\n<thinker>", BLOCK + "<thinker>"),
    "begins with half an opener": ("<thi", BLOCK + "\n\n<thi", BLOCK + "<thi"),
    "has an opener further on": ("a <think>", BLOCK + "\n\na <think>", BLOCK + "a <think>"),
}

FIELDS: dict[str, dict[str, Any]] = {
    "reasoning_content": {"reasoning_content": REASONING},
    "reasoning": {"reasoning": REASONING},
    "details": {"reasoning_details": [{"type": "reasoning.text", "text": REASONING, "index": 0}]},
    "details in pieces": {
        "reasoning_details": [{"text": "\nr"}, {"data": "x"}, {"text": None}, {"text": "\n"}]
    },
    "both": {"reasoning": REASONING, "reasoning_content": REASONING},
    "all": {
        "reasoning_content": REASONING,
        "reasoning": REASONING,
        "reasoning_details": [{"text": REASONING}],
    },
    "one is null": {"reasoning_content": None, "reasoning": REASONING},
    "one is empty": {"reasoning": "", "reasoning_content": REASONING, "reasoning_details": []},
}


RULES = [
    *(Rule(history=mode) for mode in History),
    Rule(history=History.INLINE, whitespace=Whitespace.EXACT),
]


def make(before: dict[str, Any], content: Any, after: dict[str, Any]) -> dict[str, Any]:
    middle = {} if content is ABSENT else {"content": content}
    return {"role": "assistant", **before, **middle, **after}


def converted(message: Any, rule: Rule) -> Any:
    """The message between others that have to stay, as the very objects they are."""
    user = {"role": "user", "content": "q", "reasoning": "not ours"}
    document = {"model": "m", "messages": [user, message, user], "n": 1}
    made = convert(document, rule)
    assert list(made) == ["model", "messages", "n"]
    assert len(made["messages"]) == 3
    assert made["messages"][0] is made["messages"][2] is user
    if made["messages"][1] is message:
        assert made is document
    assert convert(made, rule) is made, "once is enough"
    return made["messages"][1]


def expect(fields: dict[str, Any], name: str, rule: Rule) -> tuple[dict[str, Any], Any]:
    """The fields and the content that a message is left with."""
    content, tidy, exact = CONTENTS[name]
    if rule.history is History.INLINE:
        return {}, exact if rule.whitespace is Whitespace.EXACT else tidy
    if rule.history is History.DROP:
        return {}, content
    if rule.history is History.KEEP:
        return fields, content
    return {rule.history.value: REASONING}, content


@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.history}-{rule.whitespace}")
def test_every_mode_and_content(rule: Rule, name: str) -> None:
    some_calls: dict[str, Any] = {"tool_calls": TOOL_CALLS}
    for fields, calls in product(FIELDS.values(), ({}, some_calls)):
        message = make({}, CONTENTS[name][0], {**fields, **calls, "name": "x"})
        before = repr(message)
        made = converted(message, rule)
        kept, content = expect(fields, name, rule)
        assert made == make({}, content, {**kept, **calls, "name": "x"}), before
        assert repr(message) == before, "the client's document is not changed"


@pytest.mark.parametrize(
    ("mode", "message", "keys"),
    [
        (
            History.INLINE,
            {"reasoning": "r", "role": "assistant", "content": "a", "name": "x"},
            "role content name",
        ),
        (
            History.INLINE,
            {"role": "assistant", "reasoning": "r", "tool_calls": []},
            "role content tool_calls",
        ),
        (History.INLINE, {"reasoning": "r", "role": "assistant", "reasoning_content": "r"}, "content role"),
        (History.DROP, {"reasoning": "r", "role": "assistant", "content": "a"}, "role content"),
        (History.REASONING_CONTENT, {"reasoning": "r", "role": "assistant"}, "reasoning_content role"),
        (
            History.REASONING_CONTENT,
            {"reasoning": "r", "role": "assistant", "reasoning_content": ""},
            "role reasoning_content",
        ),
        (
            History.REASONING,
            {"role": "assistant", "reasoning_details": [{"text": "r"}], "x": 1},
            "role reasoning x",
        ),
    ],
)
def test_keys_keep_their_order(mode: History, message: dict[str, Any], keys: str) -> None:
    assert " ".join(converted(message, Rule(history=mode))) == keys


@pytest.mark.parametrize(
    ("mode", "fields", "left"),
    [
        (History.REASONING, {"reasoning_content": "1", "reasoning": "2"}, {"reasoning": "2"}),
        (History.REASONING_CONTENT, {"reasoning_content": "1", "reasoning": "2"}, {"reasoning_content": "1"}),
        (History.REASONING, {"reasoning": "2", "reasoning_details": [{"text": "3"}]}, {"reasoning": "2"}),
        (History.REASONING, {"reasoning": None, "reasoning_content": "1"}, {"reasoning": "1"}),
        (
            History.REASONING,
            {"reasoning_details": [{"text": "3"}], "reasoning_content": "1"},
            {"reasoning": "1"},
        ),
        (History.INLINE, {"reasoning": "2", "reasoning_content": "1"}, {"content": "<think>1</think>"}),
        (
            History.INLINE,
            {"reasoning": "2", "reasoning_details": [{"text": "3"}]},
            {"content": "<think>2</think>"},
        ),
    ],
)
def test_of_different_texts_one_is_sent(mode: History, fields: dict[str, Any], left: dict[str, Any]) -> None:
    assert converted({"role": "assistant", **fields}, Rule(history=mode)) == {"role": "assistant", **left}


EMPTY: list[dict[str, Any]] = [
    {"reasoning_content": None},
    {"reasoning": ""},
    {"reasoning_details": []},
    {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]},
    {"reasoning_content": "", "reasoning": None},
]


@pytest.mark.parametrize("fields", EMPTY, ids=str)
@pytest.mark.parametrize("mode", History)
@pytest.mark.parametrize("content", ["a", None, ABSENT], ids=["string", "null", "absent"])
def test_fields_without_text(mode: History, fields: dict[str, Any], content: Any) -> None:
    message = make({}, content, fields)
    made = converted(message, Rule(history=mode))
    if mode in (History.INLINE, History.DROP):
        assert made == make({}, content, {})
    else:
        assert made is message


UNTOUCHED: list[Any] = [
    {"role": "assistant", "content": "a"},
    {"role": "assistant", "content": "<think>r</think>a"},
    {"role": "assistant", "content": None, "tool_calls": TOOL_CALLS},
    {"role": "user", "content": "a", "reasoning_content": "r"},
    {"role": "tool", "content": "a", "reasoning": "r"},
    {"role": "Assistant", "content": "a", "reasoning": "r"},
    {"role": ["assistant"], "content": "a", "reasoning": "r"},
    {"content": "a", "reasoning": "r"},
    {"role": "assistant", "content": "a", "reasoning": 5},
    {"role": "assistant", "content": "a", "reasoning": {"effort": "high"}},
    {"role": "assistant", "content": "a", "reasoning": False, "reasoning_content": "r"},
    {"role": "assistant", "content": "a", "reasoning_details": ["r"]},
    {"role": "assistant", "content": "a", "reasoning_details": "r", "reasoning": 1.5},
    "assistant",
    None,
    7,
    ["assistant"],
]


@pytest.mark.parametrize("message", UNTOUCHED, ids=repr)
@pytest.mark.parametrize("mode", History)
def test_other_messages_and_shapes_stay(mode: History, message: Any) -> None:
    assert converted(message, Rule(history=mode)) is message


@pytest.mark.parametrize("content", [5, True, {"text": "a"}, ["a"], [text("a"), None]], ids=repr)
def test_content_of_another_shape_stops_inline_alone(content: Any) -> None:
    message = {"role": "assistant", "content": content, "reasoning": "r"}
    assert converted(message, Rule(history=History.INLINE)) is message
    assert converted(message, Rule(history=History.DROP)) == {"role": "assistant", "content": content}


@pytest.mark.parametrize(
    "messages",
    [None, {}, "assistant", 5, [], ABSENT],
    ids=["null", "object", "string", "number", "empty", "absent"],
)
@pytest.mark.parametrize("mode", History)
def test_messages_of_another_shape_stay(mode: History, messages: Any) -> None:
    document = {"model": "m"} if messages is ABSENT else {"model": "m", "messages": messages}
    assert convert(document, Rule(history=mode)) is document


@pytest.mark.parametrize("tags", TAG_SETS.values(), ids=lambda tags: tags.name)
def test_inline_writes_the_first_markers_of_its_tag_set(tags: TagSet) -> None:
    rule = Rule(history=History.INLINE, tags=tags)
    made = converted({"role": "assistant", "content": "a", "reasoning": "r"}, rule)
    assert made["content"] == f"{tags.openers[0]}r{tags.closers[0]}\n\na"
    for opener in tags.openers:
        message = {"role": "assistant", "content": f"{opener}r", "reasoning": "r"}
        assert converted(message, rule)["content"] == f"{opener}r"


def test_another_familys_opener_is_text() -> None:
    rule = Rule(history=History.INLINE, tags=TagSet("own", ("[[",), ("]]",)), whitespace=Whitespace.EXACT)
    message = {"role": "assistant", "content": "<think>", "reasoning": "r"}
    assert converted(message, rule)["content"] == "[[r]]<think>"
