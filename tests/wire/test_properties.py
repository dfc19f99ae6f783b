"""Random streams: whatever the server says, in whatever pieces, a client gets all of it, in order."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.rules import ReasoningField, Rule, Start, Unterminated, Whitespace
from proxy.splitter import Channel, Splitter
from proxy.texts import NAMES
from tests.examples import up_to
from tests.wire.streams import (
    DONE,
    REASONING,
    choice,
    chunk,
    event,
    feed,
    fold,
    lines,
    pieces,
    read,
    rewrite,
    rewrite_whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable

TOKENS = [
    "<think>",
    "<think>",
    "</think>",
    "</think>",
    "<thinking >",
    "</Thought>",
    "<thi",
    "nk>",
    "</",
    "think",
    ">",
    "<",
    "<div>",
    "`",
    "```\n",
    "~~~",
    "\n",
    "\n\n",
    "\r\n",
    " ",
    "    ",
    "a",
    "b c",
    "\u00e9",
    "\U0001f914",
    "\ufeff",
    "\u2028",
    "\\",
    '"',
]

texts = st.builds(
    lambda start, tokens: [start, *tokens],
    st.sampled_from(["<think>", "<think>", "", "\n<think>r</think>", "<think>r</think>a "]),
    st.lists(st.sampled_from(TOKENS), max_size=14),
)

rules = st.builds(
    Rule,
    start=st.sampled_from([Start.LEADING, Start.LEADING, Start.IMPLICIT, Start.ANYWHERE]),
    interleaved=st.booleans(),
    code_aware=st.booleans(),
    whitespace=st.sampled_from(Whitespace),
    unterminated=st.sampled_from(Unterminated),
    reasoning_field=st.sampled_from(ReasoningField),
)


@dataclass
class Server:
    """How a server writes: what goes into its chunks beside the text."""

    null: bool
    logprobs: bool
    token_ids: bool
    role: bool
    notes: bool
    burst: int
    finish: list[tuple[str | None, dict[str, Any]]] = field(default_factory=list)


FINISHES: list[tuple[str | None, dict[str, Any]]] = [
    ("stop", {}),
    ("stop", {"stop_reason": None}),
    ("stop", {"matched_stop": 2}),
    ("length", {}),
    ("tool_calls", {}),
    ("abort", {}),
    ("stop", {"stop_reason": "END"}),
    ("stop", {"matched_stop": "END"}),
    (None, {"last": True}),  # a choice that says nothing at all would not be in the rewritten stream
]

servers = st.builds(
    Server,
    null=st.booleans(),
    logprobs=st.booleans(),
    token_ids=st.booleans(),
    role=st.booleans(),
    notes=st.booleans(),
    burst=st.integers(1, 4),
    finish=st.lists(st.sampled_from(FINISHES), min_size=3, max_size=3),
)

EXTRAS = st.sampled_from(["", "", "", "tool_calls", "refusal"])

ERROR = b'data: {"error":{"message":"m"}}\n\n'

BETWEEN = [
    b": ping\n\n",
    b'event: ids\ndata: {"choices":[],"sglext":{"ids":[1]}}\n\n',
    b'data: {"type":"ping"}\n\n',
    b"data: noise\n\n",
    b"retry: 5\n\n",
]


def speak(server: Server, tokens: list[str], index: int, extra: str, with_text: bool) -> list[dict[str, Any]]:
    """The choices of one choice's chunks."""
    empty: dict[str, Any] = {"reasoning_content": None} if server.null else {}
    said: list[dict[str, Any]] = []
    if server.role:
        said.append(choice(empty | {"role": "assistant", "content": ""}, index))
    for start in range(0, len(tokens), server.burst):
        part = tokens[start : start + server.burst]
        made = choice(empty | {"content": "".join(part)}, index)
        if server.logprobs:
            made["logprobs"] = {
                "content": [
                    {"token": token, "logprob": -1.0, "bytes": list(token.encode())} for token in part
                ]
            }
        if server.token_ids:
            made["token_ids"] = list(range(start, start + len(part)))
        if server.notes:
            made["note"] = start
            made["delta"]["mark"] = f"{index}:{start}"
        said.append(made)
    if extra == "tool_calls":
        said.append(choice(empty | {"tool_calls": [{"index": 0, "function": {"name": "f"}}]}, index))
    if extra == "refusal":
        said.append(choice(empty | {"refusal": "no"}, index))
    finish, fields = server.finish[index]
    if with_text and said and not extra:
        said[-1] |= {"finish_reason": finish, **fields}
    else:
        said.append(choice(dict(empty), index, finish, **fields))
    return said


@st.composite
def streams(draw: Callable[..., Any]) -> bytes:
    server = draw(servers)
    queues = [
        deque(speak(server, draw(texts), index, draw(EXTRAS), draw(st.booleans())))
        for index in range(draw(st.integers(1, 3)))
    ]
    events: list[bytes] = []
    count = 0
    while any(queues):
        # One chunk: the next piece of one choice, or of several.
        indexes = draw(
            st.lists(
                st.sampled_from([i for i, queue in enumerate(queues) if queue]),
                min_size=1,
                max_size=3,
                unique=True,
            )
        )
        fields: dict[str, Any] = (
            {"usage": {"completion_tokens": count}} if draw(st.integers(0, 3)) == 0 else {}
        )
        if server.notes:
            fields["obfuscation"] = f"x{count}"
        value = chunk(*(queues[index].popleft() for index in indexes), **fields) | {"id": f"c-{count}"}
        name = b"event: message\n" if draw(st.integers(0, 9)) == 0 else b""
        events.append(name + event(value))
        if draw(st.integers(0, 4)) == 0:
            events.append(draw(st.sampled_from(BETWEEN)))
        count += 1
    if draw(st.booleans()):
        events.append(event({**chunk(), "id": "c-usage", "usage": {"total_tokens": count}}))
    breaks = draw(st.sampled_from([b"\n", b"\n", b"\r\n"]))
    return (b"".join(events) + DONE).replace(b"\n", breaks)


cuts = st.lists(st.integers(0, 5000), max_size=6)


def within(raw: bytes, places: list[int]) -> list[int]:
    return [place % (len(raw) + 1) for place in places]


@settings(max_examples=up_to(200))
@given(streams(), rules, cuts)
def test_a_folded_stream_is_the_whole_answer(raw: bytes, rule: Rule, places: list[int]) -> None:
    made = rewrite(raw, rule, within(raw, places))
    assert fold(made) == rewrite_whole(fold(raw), rule)


@settings(max_examples=up_to(60))
@given(streams(), rules, cuts)
def test_cuts_change_nothing(raw: bytes, rule: Rule, places: list[int]) -> None:
    cut, whole = rewrite(raw, rule, within(raw, places)), rewrite(raw, rule)
    assert lines(cut) == lines(whole)
    assert cut == whole or b"\r" in raw


@settings(max_examples=up_to(120))
@given(streams(), rules)
def test_order_and_shape(raw: bytes, rule: Rule) -> None:
    made = rewrite(raw, rule)
    others, others_after = (
        [value for value in read(stream) if not (isinstance(value, dict) and value.get("choices"))]
        for stream in (raw, made)
    )
    assert others_after == others
    names = NAMES[rule.reasoning_field]
    nulls = b'"reasoning_content":null' in raw
    for delta in (piece["delta"] for piece in pieces(made)):
        told = [name for name in REASONING if delta.get(name)]
        assert set(told) in (set(), set(names))
        assert not (told and delta.get("content"))
        assert all(name in told or (nulls and delta[name] is None) for name in REASONING if name in delta)


@settings(max_examples=up_to(60))
@given(streams(), rules)
def test_events_keep_the_order_of_those_that_they_are_made_from(raw: bytes, rule: Rule) -> None:
    *steps, _ = feed(raw.removesuffix(DONE).removesuffix(DONE.replace(b"\n", b"\r\n")), rule)
    made = b"".join(event.raw for step in steps for event in step)
    ids, ids_after = (
        [value["id"] for value in read(stream) if isinstance(value, dict) and "id" in value]
        for stream in (raw, made)
    )
    places = [ids.index(one) for one in ids_after]
    assert places == sorted(places)


@settings(max_examples=up_to(120))
@given(streams(), rules, st.integers(0, 100), st.sampled_from([DONE, ERROR, b""]))
def test_what_is_heard_is_what_the_splitter_says(raw: bytes, rule: Rule, stop: int, end: bytes) -> None:
    """Also when the stream stops in the middle: all that was held comes out before its end."""
    rule = replace(rule, reasoning_field=ReasoningField.REASONING_CONTENT)
    events = raw.replace(b"\r\n", b"\n").removesuffix(DONE).split(b"\n\n")[:-1]
    kept = b"".join(event + b"\n\n" for event in events[:stop])
    made = rewrite(kept + end, rule)
    assert made.endswith(end)
    for index in {piece["index"] for piece in pieces(kept)}:
        assert _heard(made, index) == _expected(kept, index, rule, cut=end != DONE)


def _heard(made: bytes, index: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for piece in pieces(made):
        if piece["index"] == index:
            for key in ("reasoning_content", "content", "tool_calls", "refusal"):
                value = piece["delta"].get(key)
                if value:
                    found.append((key, value if isinstance(value, str) else ""))
    return _join(found)


def _expected(raw: bytes, index: int, rule: Rule, *, cut: bool) -> list[tuple[str, str]]:
    """The same from a splitter that is told directly."""
    splitter = Splitter(rule)
    found: list[tuple[str, str]] = []
    names = {Channel.CONTENT: "content", Channel.REASONING: "reasoning_content"}

    def take(spans: Any) -> None:
        found.extend((names[span.channel], span.text) for span in spans)

    for piece in pieces(raw):
        if piece["index"] != index:
            continue
        delta = piece["delta"]
        take(splitter.feed(delta.get("content") or ""))
        if "tool_calls" in delta:
            take(splitter.interrupt())
            found.append(("tool_calls", ""))
        if "refusal" in delta:
            take(splitter.interrupt(ends_block=False))
            found.append(("refusal", delta["refusal"]))
        finish = piece["finish_reason"]
        if finish:
            own_end = finish in ("stop", "tool_calls") and "END" not in (
                piece.get("stop_reason"),
                piece.get("matched_stop"),
            )
            take(splitter.finish(cut=not own_end))
    take(splitter.finish(cut=cut))
    return _join(found)


def _join(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    joined: list[tuple[str, str]] = []
    for key, text in found:
        if joined and joined[-1][0] == key:
            joined[-1] = (key, joined[-1][1] + text)
        else:
            joined.append((key, text))
    return joined
