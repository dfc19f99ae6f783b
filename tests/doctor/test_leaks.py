"""What is wrong with answers that came through a proxy."""

from __future__ import annotations

import pytest

from proxy.doctor.leaks import inspect
from proxy.doctor.sample import Refusal, Sample
from proxy.doctor.verdict import Answers

PLAIN = Sample(content="42", finish="stop")
SPLIT = Sample(content="42", reasoning="so", fields=("reasoning_content",), finish="stop")
TAGS = Sample(content="<think>\nso\n</think>\n\n42", finish="stop")
CLOSER = Sample(content="so\n</think>\n\n42", finish="stop")
STRAY = Sample(content="</think>\n\n42", finish="stop")
MIXED = Sample(content="on</think>42", reasoning="so", fields=("reasoning_content",), finish="stop")
SWALLOWED = Sample(reasoning="42", fields=("reasoning_content",), finish="stop")
CUT = Sample(reasoning="so", fields=("reasoning_content",), finish="length")
QUOTED = Sample(content="Tags: `<think>` and `</think>`.", reasoning="so", finish="stop")
HELD = Sample(content="42", reasoning="so", pieces=50, thought_s=9, end_s=9, finish="stop")
BROKEN = Sample(content="4", error="the server broke off")
REFUSED = Sample(refusal=Refusal(400, "no chats"))


@pytest.mark.parametrize(
    ("plain", "off", "problems", "keys"),
    [
        (PLAIN, PLAIN, [], None),
        (SPLIT, PLAIN, [], None),
        (SPLIT, SPLIT, [], None),
        (SPLIT, REFUSED, [], None),
        (SPLIT, None, [], None),
        (CUT, PLAIN, [], None),
        (QUOTED, PLAIN, [], None),
        (TAGS, PLAIN, ["tags in the answer (tag set think)"], {}),
        (CLOSER, CLOSER, ["tags in the answer (", "tags in the answer with thinking"], {"start": "implicit"}),
        (MIXED, PLAIN, ["tags in the answer ("], None),
        (SPLIT, STRAY, ["tags in the answer with thinking switched off"], None),
        (SPLIT, TAGS, ["tags in the answer with thinking switched off"], None),
        (SWALLOWED, PLAIN, ["the whole answer is reasoning"], None),
        (SPLIT, SWALLOWED, ["the whole answer with thinking switched off is reasoning"], None),
        (HELD, PLAIN, ["all at once"], None),
        (BROKEN, PLAIN, ["broke off"], None),
        (REFUSED, None, [], None),
    ],
)
def test_what_is_wrong(
    plain: Sample, off: Sample | None, problems: list[str], keys: dict[str, str] | None
) -> None:
    found = inspect("a/b", Answers(plain, off))
    assert len(found.problems) == len(problems)
    for problem, words in zip(found.problems, problems, strict=True):
        assert words in problem
    assert (found.entry and found.entry.keys()) == (None if keys is None else {"model": "a/b"} | keys)
    assert found.refusal == plain.refusal


def test_a_model_without_a_switch_is_no_fault_of_the_proxy() -> None:
    found = inspect("a/b", Answers(SPLIT, CLOSER))
    assert (found.problems, found.entry) == ((), None)
    (note,) = found.notes
    assert "start: auto" in note
    assert inspect("a/b", Answers(SPLIT, PLAIN)).notes == ()
