"""Rounds without a socket: for any text and cuts, one answer, the same streamed and whole."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.request import Plan, make_plan, read_chat
from proxy.retries import Retries
from proxy.rounds import Rounds
from proxy.rules import ToolCallRecovery
from proxy.tally import Tally
from proxy.whole import Whole
from tests.examples import up_to
from tests.recovery.answers import (
    FORMS,
    Form,
    hear,
    hear_whole,
    streamed,
    toolbox,
    write_stream,
    write_whole,
)
from tests.recovery.answers import whole as rewritten
from tests.recovery.scripted import TOOL_LIST, Said, retrying
from tests.recovery.test_properties import write_runs
from tests.toolcalls.cases import QWEN
from tests.toolcalls.test_properties import texts
from tests.wire.streams import DONE, MAX_EVENT_BYTES, fold, rewrite
from tests.wire.test_properties import rules, streams
from tests.wire.test_stream_runs import make_rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from proxy.rules import Rule
    from tests.wire.streams import JSON

many = settings(max_examples=up_to(150))
forms = st.sampled_from(FORMS)
cuts = st.lists(st.integers(0, 1 << 16), max_size=8)
BODY = json.dumps({"model": "m", "messages": [], "tools": TOOL_LIST}).encode()


def plan_of(rule: Rule) -> Plan:
    plan = make_plan(read_chat(BODY), rule, toolbox().ids)
    assert isinstance(plan.retries, Retries)
    return plan


def singly(raw: bytes) -> list[int]:
    """The places behind its events."""
    return [at + 2 for at in range(len(raw)) if raw.startswith(b"\n\n", at)]


def run(
    raws: Sequence[bytes], rule: Rule, places: Iterable[int] | Callable[[bytes], Iterable[int]] = ()
) -> tuple[bytes, list[JSON], Tally]:
    """What the client gets for the bodies of these rounds, what else was asked, and what was counted."""
    plan, tally, asked = plan_of(rule), Tally(), []
    assert plan.retries is not None
    rounds = Rounds(plan, plan.retries, tally, max_event_bytes=MAX_EVENT_BYTES)
    out = b""
    for raw in raws:
        cut = places(raw) if callable(places) else places
        at = [0, *sorted(place % (len(raw) + 1) for place in cut), len(raw)]
        out += b"".join(rounds.feed(raw[start:end]) for start, end in pairwise(at))
        if rounds.over or (again := rounds.next()) is None:
            break
        asked.append(json.loads(again)["messages"])
    else:
        rounds.fail()
    return out + rounds.finish(), asked, tally


def run_whole(answers: Sequence[JSON], rule: Rule) -> tuple[JSON, list[JSON], Tally]:
    tally, asked = Tally(), []
    whole = Whole(plan_of(rule), tally)
    for answer in answers:
        again = whole.take(json.dumps(answer).encode())
        if again is None:
            break
        asked.append(json.loads(again)["messages"])
    else:
        whole.fail()
    return json.loads(whole.body), asked, tally


thoughts = st.one_of(texts, texts.map(lambda text: text + QWEN))
contents = st.sampled_from(["", "", "\n", "x"])
said = st.tuples(thoughts, contents, st.sampled_from(["stop", "stop", "length"]))


@many
@given(forms, st.lists(said, min_size=1, max_size=3), cuts)
def test_streamed_as_whole(form: Form, rounds: list[tuple[str, str, str]], places: list[int]) -> None:
    told = [
        Said(form.parts(thought, content), finish, number, {"total_tokens": number})
        for number, (thought, content, finish) in enumerate(rounds, 1)
    ]
    rule = retrying(form, max_retries=len(rounds))
    answer, asked_whole, tally_whole = run_whole([json.loads(one.whole()) for one in told], rule)
    raw, asked, tally = run([one.stream() for one in told], rule, places)
    heard, said_whole = hear(raw), hear_whole(answer)
    # White space that came before more thinking is out already.
    heard.content, said_whole.content = heard.content.strip(), said_whole.content.strip()
    assert heard == said_whole
    assert f'"total_tokens":{answer["usage"]["total_tokens"]}}}'.encode() in raw
    assert asked == asked_whole
    assert tally == tally_whole
    assert raw.endswith(DONE)
    assert raw.count(b"[DONE]") == 1


@many
@given(forms, thoughts, contents, st.sampled_from(["stop", "length"]), cuts)
def test_without_a_call_nothing_happens(
    form: Form, thought: str, content: str, finish: str, places: list[int]
) -> None:
    parts, rule = form.parts(thought, content), retrying(form)
    for at in ((), range(len(parts[0][1]))):
        raw = write_stream(parts, at, finish)
        made, asked, tally = run([raw], rule, places)
        # Where it asks again, that fails here, and the answer ends as it would have.
        assert fold(made) == fold(streamed(raw, form.rule, {}))
        assert tally.retries == tally.retry_failures == len(asked) <= 1
        if asked:
            assert (finish, hear(made).content.strip()) == ("stop", "")
    answer = write_whole(parts, finish)
    assert run_whole([answer], rule)[0] == rewritten(answer, form.rule, {})


@settings(max_examples=up_to(100))
@given(streams(), rules, cuts)
def test_any_stream(raw: bytes, rule: Rule, places: list[int]) -> None:
    made, asked, _ = run([raw], replace(rule, tool_call_recovery=ToolCallRecovery.RETRY), places)
    assert not asked
    assert fold(made) == fold(rewrite(raw, rule))


@pytest.mark.share
@pytest.mark.parametrize("number", range(up_to(100)))
def test_random_runs(number: int) -> None:
    """The shortcut, cut between events and within them, against one event after the other."""
    seed = random.Random(number)
    rule = replace(make_rule(seed), tool_call_recovery=ToolCallRecovery.RETRY)
    raws = [write_runs(seed), write_runs(seed)]
    expected = run(raws, rule, singly)
    assert run(raws, rule) == expected
    assert run(raws, rule, seed.choices(range(1 << 16), k=9)) == expected
