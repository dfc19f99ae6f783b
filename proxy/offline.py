"""Split a recording on disk with the same machine that works on the wire.

A recording is a stream of events (`.sse`), a whole answer (`.json`) or plain text; its own first
characters tell which. It is how a bug report becomes a test.
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
    """Split a recording; pieces come in the order in which they would be sent, runs joined.

    Raises:
        ValueError: plain text that is not UTF-8.
    """
    rule = replace(rule, reasoning_field=ReasoningField.REASONING_CONTENT)
    if recording.lstrip(b"\xef\xbb\xbf\r\n").startswith(_STREAM_STARTS):
        return _join(_split_stream(recording, rule))
    answer = chat.read_object(recording)
    if answer is not None and isinstance(answer.get("choices"), list):
        return _join(_split_answer(answer, rule))
    return _join(_split_text(recording.decode(), rule))


def find_model(recording: bytes) -> str | None:
    """Return the model that a recorded stream or answer names, None for plain text."""
    answer = chat.read_object(recording)
    if answer is None:
        events = sse.Decoder(max_event_bytes=len(recording) + 1).feed(recording)
        answer = next((found for event in events if (found := chat.read_object(event.data))), None)
    model = answer.get("model") if answer else None
    return model if isinstance(model, str) else None


def _split_stream(recording: bytes, rule: Rule) -> Iterable[Piece]:
    decoder, rewriter = sse.Decoder(max_event_bytes=len(recording) + 1), Rewriter(rule)
    events = [*decoder.feed(recording), *decoder.finish()]
    made = [made for event in events for made in rewriter.feed(event)] + rewriter.finish()
    for event in made:
        yield from _read_fields(chat.read_object(event.data) or {}, "delta")


def _split_answer(answer: dict[str, Any], rule: Rule) -> Iterable[Piece]:
    Rewriter(rule).rewrite(answer)
    return _read_fields(answer, "message")


def _split_text(text: str, rule: Rule) -> Iterable[Piece]:
    splitter = Splitter(rule)
    for span in [*splitter.feed(text), *splitter.finish()]:
        yield Piece(0, span.channel, span.text)


def _read_fields(answer: dict[str, Any], part: str) -> Iterable[Piece]:
    listed = answer.get("choices")
    for choice in listed if isinstance(listed, list) else ():
        message = choice.get(part) if isinstance(choice, dict) else None
        if not isinstance(message, dict):
            continue
        index = choice.get("index")
        number = index if isinstance(index, int) else 0
        yield Piece(number, Channel.REASONING, chat.reasoning_text(message))
        if isinstance(message.get("content"), str):
            yield Piece(number, Channel.CONTENT, message["content"])


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
