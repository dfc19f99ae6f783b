"""Whether an answer that came through the proxy is as it should be. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.doctor.evidence import IN_TEXT, Form, examine, is_swallowed
from proxy.doctor.verdict import diagnose

if TYPE_CHECKING:
    from proxy.doctor.evidence import Finding
    from proxy.doctor.sample import Refusal, Sample
    from proxy.doctor.verdict import Answers, NewEntry


@dataclass(frozen=True, slots=True)
class Inspection:
    """What came of one model through the proxy."""

    model: str
    form: Form
    fields: tuple[str, ...] = ()
    live: bool | None = None
    """Whether reasoning came while it was thought; None: none came, or too fast to tell."""
    problems: tuple[str, ...] = ()
    entry: NewEntry | None = None
    """What the proxy's configuration lacks, if tags were seen."""
    refusal: Refusal | None = None
    notes: tuple[str, ...] = ()
    """What is no fault of the proxy, in sentences."""


def inspect(model: str, answers: Answers) -> Inspection:
    """Return what is wrong with the answers of a model, with thinking left alone and switched off."""
    plain, off = answers.plain, answers.off
    finding = examine(plain)
    problems = _find_problems(plain, finding, "")
    notes: list[str] = []
    if off is not None and off.refusal is None:
        switched = examine(off)
        if not problems and finding.form is Form.NATIVE and switched.form is Form.CLOSER and switched.thinks:
            # `implicit` takes a request at its word.
            notes.append(
                "A request that switches thinking off shows tags: the model thinks all the same. Where the "
                "server tells its prompts, start: auto is right for such requests too."
            )
        else:
            problems += _find_problems(off, switched, " with thinking switched off")
    return Inspection(
        model,
        finding.form,
        plain.fields,
        plain.live,
        tuple(problems),
        diagnose(model, answers).entry if finding.form in IN_TEXT else None,
        plain.refusal,
        tuple(notes),
    )


def _find_problems(sample: Sample, finding: Finding, when: str) -> list[str]:
    problems: list[str] = []
    if finding.tags:
        problems.append(f"tags in the answer{when} (tag set {finding.tags[0]})")
    elif is_swallowed(sample):
        problems.append(f"the whole answer{when} is reasoning, and nothing is left to say")
    if sample.live is False:
        problems.append(f"reasoning{when} comes all at once at its end: something on the way holds it back")
    if sample.error is not None:
        problems.append(f"the answer{when} broke off: {sample.error}")
    return problems
