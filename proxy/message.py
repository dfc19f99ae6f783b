"""One choice of a whole answer: its message goes through the same splitter as a stream, in one piece."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from proxy import chat, reasoning
from proxy.calls.watch import Watch
from proxy.lines import VISIBLE
from proxy.promotion import EMPTY, Toolbox, recover, says_more, write_calls
from proxy.rules import Rule, Start, ToolCallRecovery
from proxy.spans import Channel, Span
from proxy.splitter import Splitter
from proxy.tally import Tally
from proxy.texts import NAMES, native_texts, read, read_native

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.calls.watch import Left


def rewrite_choice(
    choice: dict[str, Any], rule: Rule, toolbox: Toolbox = EMPTY, tally: Tally | None = None
) -> dict[str, Any]:
    """Return a choice with its message split; the same object when nothing changes.

    A turn that left nothing but calls in its thinking makes them, if the toolbox has their tools and the
    rule does not want them to be asked for again. What is seen is counted in the tally.
    """
    message = choice.get("message")
    if not isinstance(message, dict):
        return choice
    tally = tally or Tally()
    promotes = toolbox.tools and rule.tool_call_recovery is not ToolCallRecovery.RETRY
    if promotes and (called := _promote(message, choice, rule, toolbox, tally)):
        return choice | {"message": called, "finish_reason": "tool_calls"}
    seen = tally.reasoning_chars
    made = _rewrite(message, choice, rule, tally)
    if chat.has_stopped(choice) and tally.reasoning_chars > seen and not _says(made):
        tally.thinking_only += 1
    return choice if made is message else choice | {"message": made}


def find_left(choice: dict[str, Any], rule: Rule, toolbox: Toolbox) -> Left | None:
    """Return what a choice left in its thinking to be asked for again; None where that is nothing."""
    message = choice.get("message")
    if not isinstance(message, dict) or not toolbox.tools:
        return None
    watch = Watch(toolbox.tools)
    spans = _read_texts(message, choice, rule, Tally())
    if spans is not None:
        recover(watch, spans, message, choice)
    return watch.left


def _says(message: dict[str, Any]) -> bool:
    """Tell whether a message says anything beside its reasoning."""
    content = message.get("content")
    return says_more(message) or (isinstance(content, str) and VISIBLE.search(content) is not None)


def _rewrite(message: dict[str, Any], choice: dict[str, Any], rule: Rule, tally: Tally) -> dict[str, Any]:
    names = NAMES[rule.reasoning_field]
    if reasoning.is_native(message):
        tally.count(native_texts(message))
        return reasoning.rename(message, names)
    content = message.get("content")
    made: str | list[Any]
    if isinstance(content, str):
        made, thought = _split(content, message, choice, rule, tally)
    elif isinstance(content, list):
        made, thought = _split_parts(content, message, choice, rule, tally)
    else:
        return message
    return message if made == content else reasoning.place(message, made, thought, names)


def _promote(
    message: dict[str, Any], choice: dict[str, Any], rule: Rule, toolbox: Toolbox, tally: Tally
) -> dict[str, Any] | None:
    """Return the message with the calls that its thinking ended with; None where there are none to make."""
    recovery, seen = toolbox.begin(), Tally()
    spans = _read_texts(message, choice, rule, seen)
    if spans is None:
        return None
    spans = recover(recovery, spans, message, choice)
    if not recovery.calls:
        return None
    tally.count(spans)
    tally.promoted += len(recovery.calls)
    tally.engaged = tally.engaged or seen.engaged
    _, rest = reasoning.divide(message)
    thought = _join(spans, Channel.REASONING)
    made = reasoning.place(rest | {"content": None}, "", thought, NAMES[rule.reasoning_field])
    return made | {"content": None, "tool_calls": write_calls(recovery.calls, toolbox)}


def _read_texts(
    message: dict[str, Any], choice: dict[str, Any], rule: Rule, tally: Tally
) -> list[Span] | None:
    """Return what a message says, None where it is not text alone."""
    if reasoning.is_native(message):
        return read_native(message, 0)
    content = message.get("content")
    return _read(content, message, choice, rule, tally) if isinstance(content, str) else None


def _read(text: str, message: dict[str, Any], choice: dict[str, Any], rule: Rule, tally: Tally) -> list[Span]:
    splitter = Splitter(rule)
    spans = read(splitter, message | {"content": text}, choice) + splitter.finish()
    if text and splitter.engaged:
        tally.engaged = True
    return spans


def _split(
    text: str, message: dict[str, Any], choice: dict[str, Any], rule: Rule, tally: Tally
) -> tuple[str, str]:
    """Return the content and the reasoning in a text."""
    spans = _read(text, message, choice, rule, tally)
    tally.count(spans)
    return _join(spans, Channel.CONTENT), _join(spans, Channel.REASONING)


def _join(spans: Iterable[Span], channel: Channel) -> str:
    return "".join(span.text for span in spans if span.channel is channel)


def _split_parts(
    parts: list[Any], message: dict[str, Any], choice: dict[str, Any], rule: Rule, tally: Tally
) -> tuple[list[Any], str]:
    """Split each text part by itself; the others stay. The answer's end is that of the last part."""
    made: list[Any] = []
    thoughts: list[str] = []
    for number, part in enumerate(parts, 1):
        if chat.is_text_part(part):
            last = number == len(parts)
            context = (message, choice) if last else ({}, {})
            text, thought = _split(part["text"], *context, rule, tally)
            made.append(part if text == part["text"] else part | {"text": text})
            thoughts.append(thought)
            if rule.start is not Start.ANYWHERE:
                # The prompt opened one block, not one in each part.
                rule = replace(rule, start=Start.LEADING, prefill="")
        else:
            made.append(part)
    return made, "".join(thoughts)
