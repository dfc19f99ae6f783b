"""What the answers of a model come to: how it thinks, and the entry that it needs. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from proxy.doctor.evidence import (
    IN_TEXT,
    Finding,
    Form,
    examine,
    find_opened,
    is_swallowed,
    read_parser,
    read_switch,
    read_tool_parser,
)
from proxy.presets import find_preset
from proxy.rules import TAG_SETS, THINK, Start
from proxy.settings import strip_variant

if TYPE_CHECKING:
    from proxy.doctor.sample import Refusal, Sample
    from proxy.presets import Preset


@dataclass(frozen=True, slots=True)
class Answers:
    """What a model answered to each question that it was asked."""

    plain: Sample
    off: Sample | None = None
    """With thinking switched off."""
    on: Sample | None = None
    """With thinking switched on; asked where the plain one shows none."""
    special: Sample | None = None
    """With special tokens in the text; asked where the one before shows nothing either."""
    tool: Sample | None = None


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry of `inlineThinkTagModels`: what it has to say, and no more."""

    model: str
    start: Start | None = None
    tags: str | None = None

    def keys(self) -> dict[str, str]:
        """Return it keyed like the configuration file."""
        given = {"model": self.model, "start": self.start, "tags": self.tags}
        return {key: str(value) for key, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a model thinks, as far as its answers tell."""

    model: str
    form: Form
    tags: tuple[str, ...] = ()
    """The tag sets that fit, the one to take first."""
    start: Start | None = None
    """The start mode that fits."""
    fields: tuple[str, ...] = ()
    """Where reasoning came in fields of its own: their names."""
    on_request: bool = False
    """It thinks only when it is asked to."""
    prompt_told: bool = False
    """The server told the prompt, and it ended in an opener: `auto` works there."""
    switch: bool | None = None
    """Whether thinking can be switched off; None: cannot be told."""
    reasoning_parser: bool | None = None
    tool_parser: bool | None = None
    entry: NewEntry | None = None
    """The entry that it needs, if any."""
    refusal: Refusal | None = None
    notes: tuple[str, ...] = ()
    """What else there is to say, in sentences."""


def diagnose(model: str, answers: Answers, *, root: str | None = None) -> Verdict:
    """Return what the answers of a model come to.

    Args:
        model: the name that requests have.
        answers: what it said.
        root: the name under which the server loaded it, if that is another one and known.
    """
    plain = answers.plain
    finding, sample, on_request = _choose(answers)
    prompt_told = bool(find_opened(sample.prompt or plain.prompt))
    verdict = Verdict(
        model,
        finding.form,
        fields=sample.fields,
        on_request=on_request,
        prompt_told=prompt_told,
        switch=read_switch(answers.off, finding.form),
        reasoning_parser=read_parser(finding.form),
        tool_parser=read_tool_parser(answers.tool),
        refusal=plain.refusal,
    )
    if finding.form in IN_TEXT:
        verdict = _fit(verdict, finding, root)
    elif finding.form is Form.UNCLEAR:
        verdict = _fall_back(verdict, root)
    return replace(verdict, notes=_note(verdict, answers, root))


def fits(verdict: Verdict, start: Start, tags: str) -> bool:
    """Tell whether a rule with these does what the model needs."""
    if tags not in verdict.tags:
        return False
    if verdict.form is Form.TAGS:
        return start is not Start.ANYWHERE  # `implicit` consumes an opener, and `auto` is one or the other
    if verdict.form is Form.CLOSER:
        if start is Start.AUTO:
            return verdict.prompt_told or verdict.on_request
        return start is Start.IMPLICIT and not verdict.on_request
    return start is verdict.start


def _choose(answers: Answers) -> tuple[Finding, Sample, bool]:
    """Return what counts: the first answer that shows thinking, and whether it had to be asked for."""
    plain = examine(answers.plain)
    for sample in (answers.on, answers.special):
        if plain.form not in (Form.NONE, Form.UNCLEAR) or sample is None:
            continue
        found = examine(sample)
        if found.form in (*IN_TEXT, Form.NATIVE, Form.MIXED):
            return found, sample, plain.form is Form.NONE and sample is answers.on
    return plain, answers.plain, False


def _fit(verdict: Verdict, finding: Finding, root: str | None) -> Verdict:
    """Add the tags and the start that fit, and the entry that says what the name alone does not."""
    known = _know(verdict.model, root)
    tags = tuple(sorted(finding.tags, key=lambda name: known is None or name != known.tags))
    if finding.form is Form.TAGS:
        start = Start.LEADING
    elif finding.form is Form.LATER:
        start = Start.ANYWHERE
    elif verdict.on_request or (verdict.prompt_told and verdict.switch is not False):
        start = Start.AUTO
    else:
        start = Start.IMPLICIT
    verdict = replace(verdict, tags=tags, start=start)
    return replace(verdict, entry=_write_entry(verdict, start, tags[0]))


def _fall_back(verdict: Verdict, root: str | None) -> Verdict:
    """Take what is known of the model's family for an answer that showed nothing."""
    known = _know(verdict.model, root)
    if known is None:
        return verdict
    own = find_preset(_strip(verdict.model))
    given = NewEntry(verdict.model) if own else NewEntry(verdict.model, known.start, known.tags)
    return replace(verdict, tags=(known.tags,), start=known.start, entry=given)


def _write_entry(verdict: Verdict, start: Start, tags: str) -> NewEntry:
    """Return the entry with the fewest keys: what a preset of its name says right is left out."""
    found = find_preset(_strip(verdict.model))
    base_start, base_tags = (found[1].start, found[1].tags) if found else (Start.LEADING, THINK.name)
    right_tags = base_tags if base_tags in verdict.tags else tags
    return NewEntry(
        verdict.model,
        None if fits(verdict, base_start, right_tags) else start,
        None if base_tags in verdict.tags else tags,
    )


def _know(model: str, root: str | None) -> Preset | None:
    """Return what is known of a model by its name, or by the one it was loaded under, a path perhaps."""
    loaded = "/".join((root or "").rstrip("/").split("/")[-2:])
    found = find_preset(_strip(model)) or find_preset(loaded)
    return found[1] if found else None


def _strip(model: str) -> str:
    return strip_variant(model) or model


def _note(verdict: Verdict, answers: Answers, root: str | None) -> tuple[str, ...]:
    """Return what else there is to say."""
    notes: list[str] = []
    known = _know(verdict.model, root)
    if verdict.form is Form.NONE and known is not None:
        notes.append("Its family is known to think, but nothing of it came: list it if clients switch it on.")
    if verdict.form is Form.UNCLEAR:
        cut = "was not complete in time" if answers.plain.timed_out else "was cut off"
        taken = "what is known of its family is taken" if verdict.entry else "so nothing can be told"
        notes.append(f"The answer {cut} before any tag: {taken}.")
    if verdict.form is Form.MIXED:
        notes.append(
            "The server's reasoning parser leaves tags in the answer. Start the server without it, or with "
            "the one for this model, and ask again."
        )
    if verdict.form is Form.NATIVE and "reasoning_content" not in verdict.fields and verdict.fields:
        notes.append(
            f"Clients that read reasoning_content alone do not find {verdict.fields[0]}: with an entry, the "
            "proxy gives it that name."
        )
    if answers.off is not None and is_swallowed(answers.off):
        notes.append("With thinking switched off, the server takes the whole answer for thinking.")
    if verdict.start is Start.AUTO and not verdict.prompt_told:
        notes.append(
            "The server does not tell its prompts, which start: auto needs (vLLM from 0.21, SGLang from "
            "0.5.13): thinking that was switched on stays in the text."
        )
    hidden = answers.special is not None and examine(answers.special).form in IN_TEXT
    if hidden and not any(TAG_SETS[name].special for name in verdict.tags):
        notes.append(
            "Its tags are special tokens, which the server drops: clients have to send "
            "skip_special_tokens: false, else nothing can be split."
        )
    return tuple(notes)
