"""One choice of a whole answer: its message goes through the same splitter as a stream, in one piece."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from proxy import chat, reasoning
from proxy.calls.recovery import Recovery
from proxy.promotion import EMPTY, Toolbox, recover, write_calls
from proxy.rules import Rule, Start
from proxy.spans import Channel, Span
from proxy.splitter import Splitter
from proxy.turn import NAMES, read, read_native

if TYPE_CHECKING:
    from collections.abc import Iterable


def rewrite_choice(choice: dict[str, Any], rule: Rule, toolbox: Toolbox = EMPTY) -> dict[str, Any]:
    """Return a choice with its message split; the same object when nothing changes.

    A turn that left nothing but calls in its thinking makes them, if the toolbox has their tools.
    """
    message = choice.get("message")
    if not isinstance(message, dict):
        return choice
    if toolbox.tools and (called := _promote(message, choice, rule, toolbox)):
        return choice | {"message": called, "finish_reason": "tool_calls"}
    made = _rewrite(message, choice, rule)
    return choice if made is message else choice | {"message": made}


def _rewrite(message: dict[str, Any], choice: dict[str, Any], rule: Rule) -> dict[str, Any]:
    names = NAMES[rule.reasoning_field]
    if reasoning.is_native(message):
        return reasoning.rename(message, names)
    content = message.get("content")
    made: str | list[Any]
    if isinstance(content, str):
        made, thought = _split(content, message, choice, rule)
    elif isinstance(content, list):
        made, thought = _split_parts(content, message, choice, rule)
    else:
        return message
    return message if made == content else reasoning.place(message, made, thought, names)


def _promote(
    message: dict[str, Any], choice: dict[str, Any], rule: Rule, toolbox: Toolbox
) -> dict[str, Any] | None:
    """Return the message with the calls that its thinking ended with; None where there are none to make."""
    recovery = Recovery(toolbox.tools)
    content = message.get("content")
    if reasoning.is_native(message):
        spans = read_native(message, 0)
    else:
        spans = _read(content, message, choice, rule) if isinstance(content, str) else None
    if spans is None:
        return None
    spans = recover(recovery, spans, message, choice)
    if not recovery.calls:
        return None
    _, rest = reasoning.divide(message)
    thought = _join(spans, Channel.REASONING)
    made = reasoning.place(rest | {"content": None}, "", thought, NAMES[rule.reasoning_field])
    return made | {"content": None, "tool_calls": write_calls(recovery.calls, toolbox)}


def _read(text: str, message: dict[str, Any], choice: dict[str, Any], rule: Rule) -> list[Span]:
    splitter = Splitter(rule)
    return read(splitter, message | {"content": text}, choice) + splitter.finish()


def _split(text: str, message: dict[str, Any], choice: dict[str, Any], rule: Rule) -> tuple[str, str]:
    """Return the content and the reasoning in a text."""
    spans = _read(text, message, choice, rule)
    return _join(spans, Channel.CONTENT), _join(spans, Channel.REASONING)


def _join(spans: Iterable[Span], channel: Channel) -> str:
    return "".join(span.text for span in spans if span.channel is channel)


def _split_parts(
    parts: list[Any], message: dict[str, Any], choice: dict[str, Any], rule: Rule
) -> tuple[list[Any], str]:
    """Split each text part by itself; the others stay. The answer's end is that of the last part."""
    made: list[Any] = []
    thoughts: list[str] = []
    for number, part in enumerate(parts, 1):
        if chat.is_text_part(part):
            last = number == len(parts)
            text, thought = _split(part["text"], message if last else {}, choice if last else {}, rule)
            made.append(part if text == part["text"] else part | {"text": text})
            thoughts.append(thought)
            if rule.start is not Start.ANYWHERE:
                # The prompt opened one block, not one in each part.
                rule = replace(rule, start=Start.LEADING)
        else:
            made.append(part)
    return made, "".join(thoughts)
