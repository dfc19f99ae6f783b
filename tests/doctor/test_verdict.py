"""What the answers of a model come to: one table of cases, and what is said about a rule that is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from proxy.config.frozen import read_rule
from proxy.config.model import ModelSection
from proxy.doctor.evidence import Form
from proxy.doctor.sample import Refusal, Sample
from proxy.doctor.verdict import Answers, Verdict, diagnose, fits
from proxy.presets import PRESETS
from proxy.rules import TAG_SETS, Start

OPEN, SHUT = "<|user|>Hi<|assistant|><think>\n", "<|user|>Hi<|assistant|><think>\n\n</think>\n\n"

PLAIN = Sample(content="42", finish="stop")
TAGS = Sample(content="<think>\nso\n</think>\n\n42", finish="stop")
EMPTY = Sample(content="<think>\n\n</think>\n\n42", finish="stop")
CLOSER = Sample(content="so\n</think>\n\n42", finish="stop")
TOLD = Sample(content="so\n</think>\n\n42", finish="stop", prompt=OPEN)
LATER = Sample(content="Well.\n<think>\nso\n</think>\n42", finish="stop")
NATIVE = Sample(content="42", reasoning="so", fields=("reasoning_content",), finish="stop")
RENAMED = Sample(content="42", reasoning="so", fields=("reasoning",), finish="stop")
SWALLOWED = Sample(reasoning="42", fields=("reasoning",), finish="stop")
MIXED = Sample(content="on\n</think>\n42", reasoning="so", fields=("reasoning",), finish="stop")
CUT = Sample(content="so I think", finish="length")
LATE = Sample(content="so I think", timed_out=True)
MISTRAL = Sample(content="[THINK]so[/THINK]42", finish="stop")
HUNYUAN = Sample(content="<think>\nso\n</think>\n<answer>\n42\n</answer>", finish="stop")
REFUSED = Sample(refusal=Refusal(400, "The model does not support Chat Completions API"))


@dataclass
class Case:
    name: str
    model: str
    answers: Answers
    form: Form
    keys: dict[str, str] | None
    root: str | None = None
    switch: bool | None = None
    parser: bool | None = False
    note: str = ""


def answers(plain: Sample, off: Sample | None = PLAIN, **others: Sample) -> Answers:
    return Answers(plain, off, **others)


CASES = [
    Case("tags", "a/b", answers(TAGS), Form.TAGS, {}, switch=True),
    Case("tags, no switch", "a/b", answers(TAGS, TAGS), Form.TAGS, {}, switch=False),
    Case("tags, off leaves an empty block", "a/b", answers(TAGS, EMPTY), Form.TAGS, {}, switch=True),
    Case("tags, off refused", "a/b", answers(TAGS, REFUSED), Form.TAGS, {}),
    Case("tags, off cut off", "a/b", answers(TAGS, CUT), Form.TAGS, {}),
    Case("tags of a known family", "Qwen/Qwen3-8B", answers(TAGS), Form.TAGS, {}, switch=True),
    Case(
        "tags where implicit is known",
        "deepseek-ai/DeepSeek-R1-0528",
        answers(TAGS),
        Form.TAGS,
        {},
        switch=True,
    ),
    Case("tags where auto is known", "deepseek-ai/DeepSeek-V3.1", answers(TAGS), Form.TAGS, {}, switch=True),
    Case(
        "tags of another set than is known",
        "ibm-granite/granite-3.2-8b",
        answers(TAGS),
        Form.TAGS,
        {"tags": "think"},
        switch=True,
    ),
    Case(
        "a set that shares its tags",
        "baidu/ERNIE-4.5-21B-A3B-Thinking",
        answers(CLOSER, CLOSER),
        Form.CLOSER,
        {},
        switch=False,
    ),
    Case(
        "closer, no switch", "a/b", answers(CLOSER, CLOSER), Form.CLOSER, {"start": "implicit"}, switch=False
    ),
    Case("closer, prompt not told", "a/b", answers(CLOSER), Form.CLOSER, {"start": "implicit"}, switch=True),
    Case("closer, prompt told", "a/b", answers(TOLD), Form.CLOSER, {"start": "auto"}, switch=True),
    Case("closer, told, off unknown", "a/b", answers(TOLD, REFUSED), Form.CLOSER, {"start": "auto"}),
    Case(
        "closer, told, no switch",
        "a/b",
        answers(TOLD, TOLD),
        Form.CLOSER,
        {"start": "implicit"},
        switch=False,
    ),
    Case(
        "closer, told otherwise",
        "a/b",
        answers(Sample(content="so</think>42", finish="stop", prompt="Hi<|assistant|>")),
        Form.CLOSER,
        {"start": "implicit"},
        switch=True,
    ),
    Case("closer of a known family", "Qwen/QwQ-32B", answers(CLOSER, CLOSER), Form.CLOSER, {}, switch=False),
    Case("closer of a variant", "Qwen/QwQ-32B:fast", answers(CLOSER, CLOSER), Form.CLOSER, {}, switch=False),
    Case(
        "closer where leading is known",
        "Qwen/Qwen3-8B",
        answers(CLOSER),
        Form.CLOSER,
        {"start": "implicit"},
        switch=True,
    ),
    Case(
        "closer where auto is known",
        "deepseek-ai/DeepSeek-V3.1",
        answers(CLOSER),
        Form.CLOSER,
        {"start": "implicit"},
        switch=True,
    ),
    Case("the same, told", "deepseek-ai/DeepSeek-V3.1", answers(TOLD), Form.CLOSER, {}, switch=True),
    Case(
        "cut off, but the prompt tells",
        "a/b",
        answers(
            Sample(content="so I", finish="length", prompt=OPEN),
            Sample(content="42", finish="stop", prompt=SHUT),
        ),
        Form.CLOSER,
        {"start": "auto"},
        switch=True,
    ),
    Case("later", "a/b", answers(LATER, LATER), Form.LATER, {"start": "anywhere"}, switch=False),
    Case(
        "later in a known family",
        "Qwen/QwQ-32B",
        answers(LATER),
        Form.LATER,
        {"start": "anywhere"},
        switch=True,
    ),
    Case("other tags", "a/b", answers(MISTRAL), Form.TAGS, {"tags": "mistral"}, switch=True),
    Case("other tags, known", "mistralai/Mistral-Small-4-x", answers(MISTRAL), Form.TAGS, {}, switch=True),
    Case("tags around the answer", "a/b", answers(HUNYUAN), Form.TAGS, {"tags": "hunyuan"}, switch=True),
    Case(
        "served under another name",
        "mine",
        answers(CLOSER, CLOSER),
        Form.CLOSER,
        {"start": "implicit"},
        root="Qwen/QwQ-32B",
        switch=False,
    ),
    Case("native", "a/b", answers(NATIVE), Form.NATIVE, None, switch=True, parser=True),
    Case(
        "native, other name",
        "a/b",
        answers(RENAMED),
        Form.NATIVE,
        None,
        switch=True,
        parser=True,
        note="reasoning_content alone",
    ),
    Case(
        "native, off swallowed",
        "a/b",
        answers(NATIVE, SWALLOWED),
        Form.NATIVE,
        None,
        parser=True,
        note="whole answer for thinking",
    ),
    Case("mixed", "a/b", answers(MIXED), Form.MIXED, None, switch=True, parser=True, note="leaves tags"),
    Case("nothing", "a/b", answers(PLAIN, on=PLAIN, special=PLAIN), Form.NONE, None, parser=None),
    Case(
        "nothing of a known family",
        "Qwen/Qwen3-8B",
        answers(PLAIN, on=PLAIN),
        Form.NONE,
        None,
        parser=None,
        note="known to think",
    ),
    Case("on request", "a/b", answers(PLAIN, on=TAGS), Form.TAGS, {}, switch=True),
    Case(
        "on request, only a closer",
        "a/b",
        answers(PLAIN, on=CLOSER),
        Form.CLOSER,
        {"start": "auto"},
        switch=True,
        note="does not tell its prompts",
    ),
    Case("on request, told", "a/b", answers(PLAIN, on=TOLD), Form.CLOSER, {"start": "auto"}, switch=True),
    Case(
        "on request, known",
        "deepseek-ai/DeepSeek-V3.1",
        answers(PLAIN, on=TOLD),
        Form.CLOSER,
        {},
        switch=True,
    ),
    Case("on request, native", "a/b", answers(PLAIN, on=NATIVE), Form.NATIVE, None, switch=True, parser=True),
    Case(
        "special tokens",
        "a/b",
        answers(PLAIN, on=PLAIN, special=MISTRAL),
        Form.TAGS,
        {"tags": "mistral"},
        switch=True,
    ),
    Case(
        "special tokens that a set does not know as such",
        "a/b",
        answers(PLAIN, on=PLAIN, special=TAGS),
        Form.TAGS,
        {},
        switch=True,
        note="skip_special_tokens",
    ),
    Case(
        "special tokens behind an answer cut off",
        "a/b",
        answers(CUT, special=MISTRAL),
        Form.TAGS,
        {"tags": "mistral"},
        switch=True,
    ),
    Case("cut off", "a/b", answers(CUT), Form.UNCLEAR, None, parser=None, note="nothing can be told"),
    Case("not complete in time", "a/b", answers(LATE), Form.UNCLEAR, None, parser=None, note="in time"),
    Case(
        "cut off, known",
        "Qwen/QwQ-32B",
        answers(CUT),
        Form.UNCLEAR,
        {},
        parser=None,
        note="its family is taken",
    ),
    Case(
        "cut off, known by the path it was loaded from",
        "mine",
        answers(CUT),
        Form.UNCLEAR,
        {"start": "implicit", "tags": "kimi-k3"},
        root="/models/moonshotai/Kimi-K3-x/",
        parser=None,
        note="its family is taken",
    ),
    Case("refused", "a/b", Answers(REFUSED), Form.REFUSED, None, parser=None),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_verdicts(case: Case) -> None:
    verdict = diagnose(case.model, case.answers, root=case.root)
    assert verdict.form is case.form
    keys = None if verdict.entry is None else verdict.entry.keys()
    assert keys == (None if case.keys is None else {"model": case.model} | case.keys)
    assert verdict.switch is case.switch
    assert verdict.reasoning_parser is case.parser
    if case.note:
        assert any(case.note in note for note in verdict.notes), verdict.notes
    else:
        assert verdict.notes == ()
    assert verdict.on_request is case.name.startswith("on request")
    if verdict.entry is not None:
        # What is printed comes to a rule that is right.
        rule, _ = read_rule(ModelSection(**verdict.entry.keys()))
        assert fits(verdict, rule.start, rule.tags.name)


def test_a_refusal_is_kept() -> None:
    assert diagnose("a/b", Answers(REFUSED)).refusal == REFUSED.refusal


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.globs[0])
def test_no_preset_is_repeated(preset: Any) -> None:
    """An answer as its preset says needs the name alone."""
    model = preset.globs[0].replace("*", "x")
    tags = TAG_SETS[preset.tags]
    closed = f"so{tags.closers[0]}42"
    plain = Sample(content=f"{tags.openers[0]}{closed}", finish="stop")
    if preset.start is not Start.LEADING:
        plain = Sample(content=closed, finish="stop", prompt=f"Hi{tags.openers[0]}")
    entry = diagnose(model, answers(plain)).entry
    assert entry is not None
    assert entry.keys() == {"model": model}


@pytest.mark.parametrize(
    ("tool", "parser"),
    [
        (Sample(calls=True, finish="tool_calls"), True),
        (Sample(content='<tool_call>\n{"name": "get_time"}\n</tool_call>', finish="stop"), False),
        (Sample(content="[TOOL_CALLS]get_time{}", finish="stop"), False),
        (Sample(content="It is noon.", finish="stop"), None),
        (Sample(refusal=Refusal(400, '"auto" tool choice requires --enable-auto-tool-choice')), False),
        (Sample(refusal=Refusal(500, "tools param requires --jinja flag")), False),
        (Sample(refusal=Refusal(500, "out of memory")), None),
        (None, None),
    ],
)
def test_tool_parsers(tool: Sample | None, parser: bool | None) -> None:
    assert diagnose("a/b", Answers(TAGS, PLAIN, tool=tool)).tool_parser is parser


@pytest.mark.parametrize(
    ("verdict", "fitting"),
    [
        (Verdict("a", Form.TAGS, ("think",), Start.LEADING), {Start.LEADING, Start.IMPLICIT, Start.AUTO}),
        (Verdict("a", Form.CLOSER, ("think",), Start.IMPLICIT), {Start.IMPLICIT}),
        (Verdict("a", Form.CLOSER, ("think",), Start.AUTO, prompt_told=True), {Start.IMPLICIT, Start.AUTO}),
        (Verdict("a", Form.CLOSER, ("think",), Start.AUTO, on_request=True), {Start.AUTO}),
        (Verdict("a", Form.LATER, ("think",), Start.ANYWHERE), {Start.ANYWHERE}),
    ],
)
def test_which_rules_fit(verdict: Verdict, fitting: set[Start]) -> None:
    assert {start for start in Start if fits(verdict, start, "think")} == fitting
    assert not any(fits(verdict, start, "mistral") for start in Start)
