"""The shortcut for runs of events gives the very bytes of the full way."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.response import Rewriter
from proxy.rules import TAG_SETS, ReasoningField, Rule, Start, Unterminated, Whitespace
from proxy.stream import Stream
from proxy.tally import Tally
from tests.examples import up_to
from tests.wire.streams import DONE, MAX_EVENT_BYTES, choice, chunk, event, rewrite, say
from tests.wire.test_properties import rules, streams

if TYPE_CHECKING:
    from collections.abc import Sequence

TOKENS = [
    *("<think>", "</think>", "<", "</", "think>", "a", " b", "\n", "\n\n", "`", "```", "~~~", " ", '"', "\\"),
    *("é", "😀", "\u2028", "\x7f", "\u0000", '"},"x', "word " * 9, "", "<answer>", "</answer>", "\t", "\r\n"),
]
HALVES = ["\ud83d", "\ude00"]
"""Of a character: only as escapes can they stand in JSON."""
TAILS = (
    {},
    {},
    {"token_ids": None},
    {"logprobs": {"content": []}},
    {"matched_stop": None},
    {"token_ids": [1]},
)


def run(raw: bytes, rule: Rule, places: Sequence[int] = ()) -> bytes:
    stream = Stream(Rewriter(rule), MAX_EVENT_BYTES)
    made = [stream.feed(raw[start:end]) for start, end in pairwise([0, *sorted(places), len(raw)])]
    return b"".join([*made, stream.finish()])


def make_stream(seed: random.Random) -> bytes:
    """Long runs, now and then broken by what servers put between."""
    tail = seed.choice(TAILS)
    nulls = {"reasoning_content": None} if seed.random() < 0.3 else {}
    count = seed.choice([1, 1, 2])
    ensure_ascii = seed.random() < 0.2
    role = {"role": "assistant", "content": ""}
    parts = [event(chunk(choice(role, index))) for index in range(count)]
    for _ in range(seed.randint(1, 60)):
        if seed.random() < 0.03:
            parts.append(b": ping\n\n")
        if seed.random() < 0.03:
            tail = seed.choice(TAILS)
        if seed.random() < 0.02:
            parts.append(event(chunk(choice({"tool_calls": [{"index": 0}]}, 0))))
        tokens = [*TOKENS, *HALVES] if ensure_ascii else TOKENS
        text = {"content": "".join(seed.choices(tokens, k=seed.randint(0, 3)))}
        made = chunk(choice({**nulls, **text}, seed.randrange(count), **tail))
        spaced = (", ", ": ") if seed.random() < 0.02 else (",", ":")
        parts.append(
            b"data: " + json.dumps(made, ensure_ascii=ensure_ascii, separators=spaced).encode() + b"\n\n"
        )
    finish = seed.choice(["stop", "length", None])
    parts += [event(chunk(choice({"content": ""}, index, finish))) for index in range(count)]
    return b"".join([*parts, DONE])


def make_rule(seed: random.Random) -> Rule:
    return Rule(
        start=seed.choice([Start.LEADING, Start.IMPLICIT, Start.ANYWHERE]),
        tags=TAG_SETS[seed.choice(["think", "think", "hunyuan"])],
        interleaved=seed.random() < 0.7,
        code_aware=seed.random() < 0.7,
        whitespace=seed.choice(list(Whitespace)),
        unterminated=seed.choice([Unterminated.REASONING, Unterminated.REASONING, Unterminated.CONTENT]),
        reasoning_field=seed.choice(list(ReasoningField)),
    )


@pytest.mark.share
@pytest.mark.parametrize("number", range(up_to(300)))
def test_random_runs(number: int) -> None:
    seed = random.Random(number)
    raw, rule = make_stream(seed), make_rule(seed)
    expected = rewrite(raw, rule)
    assert run(raw, rule) == expected
    ends = [at + 2 for at in range(len(raw)) if raw.startswith(b"\n\n", at)]
    assert run(raw, rule, ends) == expected
    assert run(raw, rule, sorted(seed.sample(ends, len(ends) // 3))) == expected
    assert run(raw, rule, sorted(seed.choices(range(len(raw)), k=9))) == expected


@given(streams(), rules, st.lists(st.integers(0, 1 << 16), max_size=6))
def test_any_stream(raw: bytes, rule: Rule, places: list[int]) -> None:
    assert run(raw, rule, [place % (len(raw) + 1) for place in places]) == rewrite(raw, rule)


def test_most_of_a_stream_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["<think>", *(" word",) * 500, "</think>", *(" word",) * 500]
    raw = b"".join(event(chunk(choice({"content": text}))) for text in texts) + DONE
    parsed = []
    read_chunk = __import__("proxy.chat", fromlist=["read_chunk"]).read_chunk
    monkeypatch.setattr("proxy.chat.read_chunk", lambda data: parsed.append(data) or read_chunk(data))
    ends = [at + 2 for at in range(len(raw)) if raw.startswith(b"\n\n", at)]
    made = run(raw, Rule(), ends)
    assert len(parsed) < 20
    monkeypatch.undo()
    assert made == rewrite(raw)


@pytest.mark.parametrize("line_break", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("length", [1, 300, 1000])
def test_a_line_break_too_many_stays_in_its_place(line_break: bytes, length: int) -> None:
    begun = [say("a")] * 4
    block = say("x" * length) + line_break + say("b") * 2 + b": c\n\n" + say("c")
    raw = b"".join([*begun, block, say("d"), DONE])
    places = [len(say("a")) * number for number in range(1, 5)]
    assert run(raw, Rule(), [*places, len(raw) - len(say("d") + DONE)]) == rewrite(raw)


def test_what_was_held_goes_out_in_the_chunk_that_came_last() -> None:
    """SGLang tells the time of each chunk."""

    def tell(text: str, created: int) -> bytes:
        return event(chunk(choice({"content": text}), created=created))

    texts = ["ok", "ok", "ok", "", "", "<think>\n<", ""]
    raw = b"".join(tell(text, 1) for text in texts) + tell("", 2) * 3 + tell("", 1) + DONE
    rule = Rule(start=Start.ANYWHERE)
    places = [at + 2 for at in range(len(raw)) if raw.startswith(b"\n\n", at)]
    held = rewrite(raw, rule)
    assert held != raw
    assert run(raw, rule, places) == held


def test_text_behind_an_error_counts_as_said() -> None:
    error = event({"error": {"message": "busy"}})
    parts = [say("<think>"), *[say("why")] * 3, error, *[say("so")] * 2, say("", finish="stop"), DONE]
    tally = Tally()
    stream = Stream(Rewriter(Rule(), tally=tally), MAX_EVENT_BYTES)
    made = b"".join([*map(stream.feed, parts), stream.finish()])
    assert made == rewrite(b"".join(parts))
    assert (tally.reasoning_chars, tally.content_chars, tally.thinking_only) == (9, 4, 0)
