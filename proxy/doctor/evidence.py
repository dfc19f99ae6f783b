"""What one answer shows: where its thinking is, and between which tags. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from proxy.calls.dialects import OPENERS
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


IN_TEXT = (Form.TAGS, Form.CLOSER, Form.LATER)
"""The forms that an entry is for."""


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


def read_switch(off: Sample | None, form: Form) -> bool | None:
    """Tell from the answer with thinking off whether the switch works."""
    if off is None or off.refusal is not None or form in (Form.NONE, Form.UNCLEAR, Form.REFUSED):
        return None
    found = examine(off)
    if found.form is Form.UNCLEAR or is_swallowed(off):
        return None
    return not found.thinks


def is_swallowed(sample: Sample) -> bool:
    """Tell whether an answer that ended by itself is all reasoning, and says nothing."""
    return bool(sample.reasoning) and not (sample.cut or sample.calls or sample.content.strip())


def read_parser(form: Form) -> bool | None:
    """Tell whether the server reads the thinking out of the text itself."""
    if form in (Form.NATIVE, Form.MIXED):
        return True
    return False if form in IN_TEXT else None


def read_tool_parser(tool: Sample | None) -> bool | None:
    """Tell from an answer that should have been a call whether the server reads calls."""
    if tool is None:
        return None
    if tool.refusal is not None:
        # vLLM: "auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set;
        # llama.cpp: tools param requires --jinja flag.
        words = tool.refusal.message.lower()
        return False if "tool" in words or "jinja" in words else None
    if tool.calls:
        return True
    return False if any(opener in tool.content for opener in OPENERS) else None


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
