"""What one answer shows: where its thinking is, and between which tags. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from proxy.lines import Lines
from proxy.markers import Kind, compile_markers
from proxy.rules import TAG_SETS, Rule, Start, TagSet
from proxy.spans import Channel
from proxy.splitter import Splitter

if TYPE_CHECKING:
    from proxy.doctor.sample import Sample


class Form(StrEnum):
    """Where the thinking of an answer is."""

    NATIVE = "native"
    """In a field of its own: the server has a reasoning parser."""
    TAGS = "tags"
    """In the text, which begins with an opener."""
    CLOSER = "closer"
    """In the text, which has only a closer, or whose prompt ends in an opener."""
    LATER = "later"
    """In the text, between tags, but not at its beginning."""
    MIXED = "mixed"
    """In a field of its own, and there are tags in the text all the same."""
    NONE = "none"
    """There is none."""
    UNCLEAR = "unclear"
    """The answer was cut off before anything showed."""
    REFUSED = "refused"
    """There was no answer."""


class Finding(NamedTuple):
    """What one answer shows."""

    form: Form
    tags: tuple[str, ...] = ()
    """The tag sets that fit, by name, in the order of the table."""
    thinks: bool = True
    """There is thinking, and not just an empty block."""


_STARTS = ((Form.TAGS, Start.LEADING), (Form.CLOSER, Start.IMPLICIT), (Form.LATER, Start.ANYWHERE))


def examine(sample: Sample) -> Finding:
    """Return what an answer shows."""
    if sample.refusal is not None:
        return Finding(Form.REFUSED, thinks=False)
    found = read_text(sample.content)
    if sample.reasoning:
        return found._replace(form=Form.NATIVE if found.form is Form.NONE else Form.MIXED, thinks=True)
    if found.form is not Form.NONE:
        return found
    if opened := find_opened(sample.prompt):
        return Finding(Form.CLOSER, opened)
    unclear = not sample.calls and (sample.cut or not sample.content.strip())
    return Finding(Form.UNCLEAR if unclear else Form.NONE, thinks=False)


def read_text(text: str) -> Finding:
    """Return what the text of an answer shows: tags, or none.

    Several tag sets share their markers. Those count that leave the least of the text to the answer,
    since some take the tags around it away as well.
    """
    for form, start in _STARTS:
        found = {name: split for name, tags in TAG_SETS.items() if (split := _split(text, tags, start))}
        if found:
            least = min(left for left, _ in found.values())
            fitting = tuple(name for name, (left, _) in found.items() if left == least)
            return Finding(form, fitting, any(found[name][1] for name in fitting))
    return Finding(Form.NONE, thinks=False)


def find_opened(prompt: str | None) -> tuple[str, ...]:
    """Return the tag sets with whose opener a prompt ends."""
    if not prompt:
        return ()
    return tuple(name for name, tags in TAG_SETS.items() if compile_markers(tags).ends_open(prompt))


def _split(text: str, tags: TagSet, start: Start) -> tuple[int, bool] | None:
    """Return how much is left to the answer and whether anything was thought; None if the tags don't fit."""
    if start is Start.IMPLICIT and _find_first(text, tags) is not Kind.CLOSE:
        return None
    splitter = Splitter(Rule(start=start, tags=tags))
    spans = [*splitter.feed(text), *splitter.finish(cut=True)]
    if not splitter.engaged:
        return None
    left = sum(len(span.text) for span in spans if span.channel is Channel.CONTENT)
    return left, any(span.channel is Channel.REASONING and span.text.strip() for span in spans)


def _find_first(text: str, tags: TagSet) -> Kind | None:
    """Return the kind of the first marker that is not quoted as code."""
    markers, lines, at = compile_markers(tags), Lines(code_aware=True), 0
    while (found := markers.find(Kind.OPEN | Kind.CLOSE, text, at)) and found.kind is not Kind.PARTIAL:
        lines.read(text[at : found.start])
        if not lines.in_code():
            return found.kind
        lines.read(text[found.start : found.end])
        at = found.end
    return None
