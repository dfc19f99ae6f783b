"""Split a recording on disk with the same machine that works on the wire.

A recording is a stream of events (`.sse`), a whole answer (`.json`) or plain text; what is in it tells
which. It is how a bug report becomes a test.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy import chat, sse
from proxy.response import Rewriter
from proxy.rules import ReasoningField
from proxy.splitter import Channel, Splitter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.rules import Rule

_STREAM_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")


class Piece(NamedTuple):
    """A run of text of one choice for one channel."""

    choice: int
    channel: Channel
    text: str


def split(recording: bytes, rule: Rule) -> list[Piece]:
    """Split a recording; pieces come choice by choice, in the order in which they alternate.

    Raises:
        UnicodeDecodeError: plain text that is not UTF-8.
    """
    rule = replace(rule, reasoning_field=ReasoningField.REASONING_CONTENT)
    events = _read_stream(recording)
    if events:
        return _join(_split_stream(events, rule))
    answer = _read_answer(recording)
    if answer is not None:
        return _join(_split_answer(answer, rule))
    return _join(_split_text(recording.decode(), rule))


def is_text(recording: bytes) -> bool:
    """Tell whether a recording is neither a stream nor a whole answer, so that it is split as text."""
    return not _read_stream(recording) and _read_answer(recording) is None


def find_model(recording: bytes) -> str | None:
    """Return the model that a recorded stream or answer names, None for plain text."""
    answers = [chat.read_object(event.data) for event in _read_stream(recording)]
    named = (answer.get("model") for answer in answers or [chat.read_object(recording)] if answer)
    return next((model for model in named if isinstance(model, str)), None)


def _read_stream(recording: bytes) -> list[sse.Event]:
    """Return the events of a recorded stream, none when it is something else.

    Plain text may begin like an event (`id: 7`); what a model server sends holds JSON, or says that it ends.
    """
    if not recording.lstrip(b"\xef\xbb\xbf\r\n").startswith(_STREAM_STARTS):
        return []
    decoder = sse.Decoder(max_event_bytes=len(recording) + 1)
    events = [*decoder.feed(recording), *decoder.finish()]
    if any(event.data == chat.DONE or chat.read_object(event.data) for event in events):
        return events
    return []


def _read_answer(recording: bytes) -> dict[str, Any] | None:
    answer = chat.read_object(recording)
    return answer if answer is not None and isinstance(answer.get("choices"), list) else None


def _split_stream(events: list[sse.Event], rule: Rule) -> Iterable[Piece]:
    rewriter = Rewriter(rule)
    made = [made for event in events for made in rewriter.feed(event)] + rewriter.finish()
    for event in made:
        yield from _read_fields(chat.read_object(event.data) or {}, "delta")


def _split_answer(answer: dict[str, Any], rule: Rule) -> Iterable[Piece]:
    """Split a whole answer as a stream of one event, which keeps the order of its spans."""
    whole = [choice for choice in answer["choices"] if isinstance(choice, dict)]
    messages = [choice.get("message") for choice in whole]
    arrays = any(
        isinstance(message, dict) and isinstance(message.get("content"), list) for message in messages
    )
    if arrays or chat.is_deep(answer):
        # Parts of an array are split one by one, and only on the way that whole answers go.
        Rewriter(rule).rewrite(answer)
        return _read_fields(answer, "message")
    told = [
        choice | {"delta": choice.get("message"), "finish_reason": choice.get("finish_reason") or "stop"}
        for choice in whole
    ]
    data = chat.write_json(answer | {"choices": told})
    return _split_stream([sse.encode(data)], rule)


def _split_text(text: str, rule: Rule) -> Iterable[Piece]:
    splitter = Splitter(rule)
    for span in [*splitter.feed(text), *splitter.finish()]:
        yield Piece(0, span.channel, span.text)


def _read_fields(answer: dict[str, Any], part: str) -> Iterable[Piece]:
    for number, choice in chat.choices(answer):
        message = choice.get(part)
        if not isinstance(message, dict):
            continue
        yield Piece(number, Channel.REASONING, chat.reasoning_text(message))
        content = message.get("content")
        for text in [content] if isinstance(content, str) else _texts(content):
            yield Piece(number, Channel.CONTENT, text)


def _texts(parts: object) -> list[str]:
    """The texts of a content array."""
    if not isinstance(parts, list):
        return []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return [text for text in texts if isinstance(text, str)]


def _join(pieces: Iterable[Piece]) -> list[Piece]:
    """Join neighbours of one channel, choice by choice."""
    choices: dict[int, list[Piece]] = {}
    for piece in pieces:
        runs = choices.setdefault(piece.choice, [])
        if runs and runs[-1].channel is piece.channel:
            runs[-1] = piece._replace(text=runs[-1].text + piece.text)
        elif piece.text:
            runs.append(piece)
    return [piece for index in sorted(choices) for piece in choices[index]]
