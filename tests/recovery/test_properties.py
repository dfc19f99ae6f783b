"""For any text and cuts: without a call that qualifies the answer is that without recovery."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import up_to
from tests.recovery.answers import (
    FORMS,
    PARSED,
    Form,
    hear,
    hear_whole,
    streamed,
    whole,
    write_stream,
    write_whole,
)
from tests.toolcalls.cases import TOOLS
from tests.toolcalls.test_properties import texts
from tests.wire.streams import choice, chunk, event, fold, rewrite
from tests.wire.test_properties import rules, streams
from tests.wire.test_stream_runs import make_rule, make_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.rules import Rule

many = settings(max_examples=up_to(200))
cuts = st.lists(st.integers(0, 400), max_size=12)
forms = st.sampled_from(FORMS)


@many
@given(forms, texts, st.sampled_from(["", "", "\n", "x"]), cuts, st.sampled_from(["stop", "stop", "length"]))
def test_streamed_as_whole(form: Form, thought: str, content: str, places: list[int], finish: str) -> None:
    parts = form.parts(thought, content)
    heard = hear_whole(whole(write_whole(parts, finish), form.rule))
    for at in (places, range(len(parts[0][1]))):
        made = hear(streamed(write_stream(parts, at, finish), form.rule))
        if made.calls:
            made.content = made.content.strip()  # white space that came before the thinking is out already
        assert made == heard


@many
@given(forms, texts, st.sampled_from(["", "", "\n", "x"]), cuts, st.sampled_from(["stop", "length"]))
def test_without_a_call_nothing_happens(
    form: Form, thought: str, content: str, places: list[int], finish: str
) -> None:
    parts = form.parts(thought, content)
    raw, answer = write_stream(parts, places, finish), write_whole(parts, finish)
    made, plain = streamed(raw, form.rule), streamed(raw, form.rule, {})
    heard = hear(made)
    if not heard.calls:
        assert fold(made) == fold(plain)
        assert whole(answer, form.rule) == whole(answer, form.rule, {})
    else:
        assert finish == "stop"
        assert not heard.content.strip()
        assert all(name in TOOLS for name, _ in heard.calls)
    for tools in ({"write": None}, {}):
        assert fold(streamed(raw, form.rule, tools)) == fold(plain)


native = st.lists(
    st.tuples(st.sampled_from(["reasoning", "reasoning_content", "content", "both", "role"]), texts),
    max_size=5,
)


@many
@given(native, rules, st.sampled_from(["stop", None]))
def test_mixed_deltas(parts: list[tuple[str, str]], rule: Rule, finish: str | None) -> None:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "reasoning": PARSED.name}]
    for name, text in parts:
        half = len(text) // 2
        deltas.append(
            {"reasoning": text[:half], "content": text[half:]}
            if name == "both"
            else {"role": "assistant", "content": text, "reasoning_content": None}
            if name == "role"
            else {name: text}
        )
    raw = b"".join(event(chunk(choice(delta))) for delta in deltas)
    raw += event(chunk(choice({}, finish=finish, last=1)))
    made = streamed(raw, rule)
    if b'"tool_calls"' not in made:
        assert fold(made) == fold(streamed(raw, rule, {}))


@settings(max_examples=up_to(120))
@given(streams(), rules, st.lists(st.integers(0, 1 << 16), max_size=6))
def test_any_stream(raw: bytes, rule: Rule, places: list[int]) -> None:
    made = streamed(raw, rule, cuts=[place % (len(raw) + 1) for place in places])
    assert fold(made) == fold(rewrite(raw, rule))


words = st.lists(st.sampled_from(["a", " b", "\n", " ", "é", "`", "{", ">", "think", "/"]), max_size=20)
closers = st.sampled_from(["</think>", "</think>c", "</think>\n\nc"])


@settings(max_examples=up_to(60))
@given(words, words, closers, st.booleans(), st.booleans())
def test_prose_goes_out_as_without_recovery(
    before: list[str], behind: list[str], closer: str, native: bool, ends: bool
) -> None:
    """Text that can't become a call is not even cut otherwise, and its token lists go with it."""
    raw = event(chunk(choice({"role": "assistant", "content": "" if native else "<think>"})))
    for text in ["a", *before, *([] if native else [closer]), *behind]:
        entry = {"token": text, "logprob": -1.0, "bytes": list(text.encode())}
        delta = {"reasoning" if native else "content": text}
        raw += event(chunk(choice(delta) | {"logprobs": {"content": [entry]}}))
    raw += event(chunk(choice({}, finish="stop"))) if ends else b""
    assert streamed(raw) == streamed(raw, tools={}) == rewrite(raw)


def write_runs(seed: random.Random) -> bytes:
    """Long runs of events with calls in them."""
    pieces: list[Callable[[], str]] = [
        lambda: "word ",
        lambda: seed.choice(["<tool_call>", "\n", "<function=read>", "</function>", "</tool_call>"]),
        lambda: "<tool_call>get_time</tool_call>",
    ]
    raw = make_stream(seed)
    for _ in range(seed.randint(1, 8)):
        text = "".join(seed.choice(pieces)() for _ in range(seed.randint(1, 6)))
        raw = raw.replace(b'"a"', json.dumps(text).encode(), 1).replace(b'" b"', json.dumps(text).encode(), 1)
    return raw


@pytest.mark.share
@pytest.mark.parametrize("number", range(up_to(150)))
def test_random_runs(number: int) -> None:
    """The shortcut for runs against the full way (see `streamed`), cut between events and within them."""
    seed = random.Random(number)
    raw, rule = write_runs(seed), make_rule(seed)
    ends = [at + 2 for at in range(len(raw)) if raw.startswith(b"\n\n", at)]
    made = {
        streamed(raw, rule, cuts=at)
        for at in ([], ends, sorted(seed.sample(ends, len(ends) // 3)), seed.choices(range(len(raw)), k=9))
    }
    assert len(made) == 1
