"""Every dialect, in every form of thinking: whole, per character and in random cuts, streamed as whole."""

from __future__ import annotations

import random

import pytest

from tests.examples import share_of
from tests.recovery.answers import FORMS, Form, hear, hear_whole, streamed, whole, write_stream, write_whole
from tests.toolcalls.cases import CASES, Case


@pytest.mark.share
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_call_that_ends_the_thinking_is_made(case: Case, form: Form) -> None:
    parts = form.parts(f"I should look.\n{case.text}\n")
    seed = random.Random(case.name)
    expected = hear_whole(whole(write_whole(parts), form.rule))
    assert expected.calls == case.calls
    assert expected.finish == "tool_calls"
    assert (expected.content, expected.reasoning.rstrip()) == ("", "I should look.")
    own = iter(case.ids)
    assert expected.ids == [next(own, f"call_{number}") for number in range(len(case.calls))]
    size = len(parts[0][1])
    randomly = [seed.choices(range(size), k=seed.randint(1, 12)) for _ in range(4)]
    for cuts in ([], range(size), *share_of(randomly)):
        raw = write_stream(parts, cuts)
        assert hear(streamed(raw, form.rule, cuts=seed.choices(range(len(raw)), k=5))) == expected
