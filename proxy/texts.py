"""The text in a delta or a message, as spans; and the names under which reasoning goes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy import chat
from proxy.rules import ReasoningField
from proxy.spans import Channel, Span

if TYPE_CHECKING:
    from proxy.splitter import Splitter

NAMES = {
    ReasoningField.REASONING_CONTENT: ("reasoning_content",),
    ReasoningField.REASONING: ("reasoning",),
    ReasoningField.BOTH: ("reasoning_content", "reasoning"),
    ReasoningField.NONE: (),
}
"""The names on the wire that each setting writes."""


def read(splitter: Splitter, message: dict[str, Any], choice: dict[str, Any]) -> list[Span]:
    """Bring a delta or a message to the splitter; return the text that goes out now, in order."""
    spans: list[Span] = []
    content = message.get("content")
    if isinstance(content, str):
        spans += splitter.feed(content)
    elif content:
        spans += splitter.interrupt(ends_block=False)
    if message.get("tool_calls") or message.get("function_call"):
        spans += splitter.interrupt()
    elif message.get("refusal"):
        spans += splitter.interrupt(ends_block=False)
    if choice.get("finish_reason"):
        spans += splitter.finish(cut=chat.is_cut(choice))
    return spans


def read_native(message: dict[str, Any], end: int) -> list[Span] | None:
    """Return the text of a delta or a message whose reasoning the server parsed.

    None where it is not text alone: details may be signed, and come in pieces that can't be cut.
    """
    content = message.get("content") or ""
    given = [message[name] for name in chat.REASONING_FIELDS if message.get(name)]
    if not all(isinstance(value, str) for value in (*given, content)):
        return None
    return native_texts(message, end)


def native_texts(message: dict[str, Any], end: int = 0) -> list[Span]:
    """Return what text there is in a delta or a message whose reasoning the server parsed."""
    told = (Channel.REASONING, chat.reasoning_text(message)), (Channel.CONTENT, message.get("content"))
    return [Span(channel, text, end) for channel, text in told if isinstance(text, str) and text]
