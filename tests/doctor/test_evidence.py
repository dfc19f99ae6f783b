"""What one answer shows: every tag set, every place, and what only looks like thinking."""

from __future__ import annotations

import pytest

from proxy.doctor.evidence import Finding, Form, examine, find_opened, read_text
from proxy.doctor.sample import Refusal, Sample
from proxy.rules import TAG_SETS


@pytest.mark.parametrize("name", TAG_SETS)
def test_every_tag_set_is_found(name: str) -> None:
    tags = TAG_SETS[name]
    opener, closer = tags.openers[-1], tags.closers[-1]
    begin, end = tags.wrappers[0] if tags.wrappers else ("", "")
    answer = f"{closer}\n\n{begin}42{end}"
    found = read_text(f"{opener}\nseven and five\n{answer}")
    assert (found.form, found.tags[0], found.thinks) == (Form.TAGS, name, True)
    if tags.wrappers and not tags.special:
        assert found.tags == (name,)
    assert read_text(f"seven and five\n{answer}")[:1] == (Form.CLOSER,)
    assert name in read_text(f"seven and five\n{answer}").tags
    assert name in find_opened(f"<|user|>17 + 25<|assistant|>{opener}\n")
    # Cut off in the middle of the thinking.
    assert name in read_text(f"{opener}\nseven and").tags


@pytest.mark.parametrize(
    ("text", "form", "thinks"),
    [
        ("", Form.NONE, False),
        ("42", Form.NONE, False),
        ("<think>", Form.TAGS, False),
        ("<think>\n\n</think>\n\n42", Form.TAGS, False),
        (" \n<thinking >so</thinking>42", Form.TAGS, True),
        ("</think>\n\n42", Form.CLOSER, False),
        ("so\n</think>\n\n42", Form.CLOSER, True),
        ("Sure.\n<think>\nso\n</think>\n42", Form.LATER, True),
        ("A tag is `</think>`, or `<think>`.", Form.NONE, False),
        ('```\ntext.rpartition("</think>")\n```\nand `<think>` too', Form.NONE, False),
        ("I use ``a`` and then\n</think>\n42", Form.CLOSER, True),
        ("a < b, <thin", Form.NONE, False),
    ],
)
def test_where_thinking_is(text: str, form: Form, thinks: bool) -> None:
    found = read_text(text)
    assert (found.form, found.thinks) == (form, thinks)
    assert bool(found.tags) is (form is not Form.NONE)


def test_a_closer_at_the_very_beginning_belongs_to_the_prompt() -> None:
    found = read_text("</mm:think>\n\n42")
    assert found == Finding(Form.TAGS, ("minimax-m3",), thinks=False)


@pytest.mark.parametrize(
    ("sample", "form"),
    [
        (Sample(content="42", finish="stop"), Form.NONE),
        (Sample(content="42", finish="length"), Form.UNCLEAR),
        (Sample(content="42"), Form.UNCLEAR),
        (Sample(content="42", finish="stop", error="gone"), Form.UNCLEAR),
        (Sample(content="\n", finish="stop"), Form.UNCLEAR),
        (Sample(calls=True, finish="tool_calls"), Form.NONE),
        (Sample(content="<think>so", finish="length"), Form.TAGS),
        (Sample(content="so", finish="length", prompt="Hi<think>\n"), Form.CLOSER),
        (Sample(content="42", finish="stop", prompt="Hi<think>\n\n</think>\n\n"), Form.NONE),
        (Sample(reasoning="so", content="42", finish="stop"), Form.NATIVE),
        (Sample(reasoning="so", finish="length"), Form.NATIVE),
        (Sample(reasoning="so", content="on</think>42", finish="stop"), Form.MIXED),
        (Sample(refusal=Refusal(400, "no")), Form.REFUSED),
    ],
)
def test_what_an_answer_shows(sample: Sample, form: Form) -> None:
    assert examine(sample).form is form
