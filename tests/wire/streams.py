"""Streams as model servers write them, their way through the proxy, and what a client makes of them."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from proxy import sse
from proxy.response import Rewriter
from proxy.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

JSON = dict[str, Any]

MAX_EVENT_BYTES = 1 << 24
DONE = b"data: [DONE]\n\n"
ENVELOPE = {"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
REASONING = ("reasoning_content", "reasoning")


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"


def choice(delta: Any, index: Any = 0, finish: str | None = None, **fields: Any) -> JSON:
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish, **fields}


def chunk(*choices: Any, **fields: Any) -> JSON:
    return {**ENVELOPE, "choices": list(choices), **fields}


def say(text: str, index: int = 0, **fields: Any) -> bytes:
    """An event with a piece of text for one choice."""
    return event(chunk(choice({"content": text}, index, **fields)))


def feed(raw: bytes, rule: Rule, cuts: Iterable[int] = ()) -> list[list[sse.Event]]:
    """What comes out of each piece of a stream cut at these places, and at its end."""
    decoder, rewriter = sse.Decoder(MAX_EVENT_BYTES), Rewriter(rule)
    places = [0, *sorted(cuts), len(raw)]
    steps = [decoder.feed(raw[start:end]) for start, end in pairwise(places)]
    assert not decoder.overflow
    steps.append(decoder.finish())
    made = [[made for event in events for made in rewriter.feed(event)] for events in steps]
    return [*made, rewriter.finish()]


def rewrite(raw: bytes, rule: Rule | None = None, cuts: Iterable[int] = ()) -> bytes:
    """The stream that the client gets."""
    events = [event for step in feed(raw, rule or Rule(), cuts) for event in step]
    for made in events:
        check(made.data, raw)
    return b"".join(made.raw for made in events)


def check(data: bytes | None, raw: bytes) -> None:
    """Hold what is true of every event that was not there before."""
    if data is None or data in raw or not data.startswith(b"{"):
        return
    for made in json.loads(data)["choices"]:
        delta = (made.get("delta") if isinstance(made, dict) else None) or {}
        assert not (delta.get("content") and any(delta.get(name) for name in REASONING)), delta


def read(raw: bytes) -> list[Any]:
    """The data of each event: JSON where it is JSON, else its bytes."""
    decoder = sse.Decoder(MAX_EVENT_BYTES)
    events = [*decoder.feed(raw), *decoder.finish()]
    assert b"".join(event.raw for event in events) == raw
    return [parse(event.data) for event in events]


def lines(raw: bytes) -> list[bytes]:
    """The lines that say something. Of a CRLF cut in two, the LF may be left of an event that was dropped."""
    return [line for line in raw.splitlines() if line]


def parse(data: bytes | None) -> Any:
    try:
        return json.loads(data or b"")
    except ValueError:
        return data


def pieces(raw: bytes) -> list[JSON]:
    """The choices of all chunks, in order."""
    return [made for value in read(raw) if isinstance(value, dict) for made in value.get("choices", ())]


def deltas(raw: bytes) -> list[JSON]:
    return [made["delta"] for made in pieces(raw)]


def talk(*given: JSON, rule: Rule | None = None) -> list[JSON]:
    """The deltas that a client gets for these, one event each, in a stream that just ends."""
    return deltas(rewrite(b"".join(event(chunk(choice(delta))) for delta in given), rule))


def fold(raw: bytes) -> JSON:
    """The whole answer that the chunks of a stream add up to.

    Text, reasoning, refusal, tool calls and the token lists are joined; of all that has no meaning here
    every value is kept, in order. A null says nothing.
    """
    choices: dict[int, JSON] = {}
    rest: list[Any] = []
    for value in read(raw):
        if not isinstance(value, dict) or "choices" not in value:
            rest.append(value if isinstance(value, dict) else repr(value))
            continue
        rest += [
            [key, value[key]] for key in value if key not in (*ENVELOPE, "choices") and value[key] is not None
        ]
        for piece in value["choices"]:
            index = piece["index"]
            _fold_choice(
                piece, choices.setdefault(index, {"index": index, "message": {"content": ""}, "rest": []})
            )
    # A surrogate pair that came in two deltas is one character to a client.
    whole: JSON = json.loads(
        json.dumps({"choices": [choices[index] for index in sorted(choices)], "rest": rest})
    )
    return whole


def _fold_choice(piece: JSON, whole: JSON) -> None:
    message = whole["message"]
    for key, value in [*piece.items(), *piece["delta"].items()]:
        if key in ("index", "delta") or value is None:
            continue
        if key == "logprobs":
            logprobs = whole.setdefault(key, {})
            for name, entries in value.items():
                logprobs[name] = logprobs.get(name, []) + (entries or [])
        elif key == "token_ids":
            whole[key] = whole.get(key, []) + value
        elif key in ("finish_reason", "stop_reason", "matched_stop"):
            whole[key] = value
        elif key in ("content", "refusal", *REASONING):
            message[key] = message.get(key, "") + value
        elif key == "tool_calls":
            message[key] = message.get(key, []) + value
        else:
            whole["rest"].append([key, value])


def fold_spans(raw: bytes, index: int = 0) -> list[tuple[str, str]]:
    """The alternation of one choice: `(field, text)`, neighbours of one field joined."""
    spans: list[tuple[str, str]] = []
    for piece in pieces(raw):
        if piece.get("index", 0) == index:
            for key, text in piece["delta"].items():
                if key in ("content", "reasoning_content") and text:
                    joins = bool(spans) and spans[-1][0] == key
                    spans.append((key, spans.pop()[1] + text if joins else text))
    return spans


def rewrite_whole(answer: JSON, rule: Rule | None = None) -> JSON:
    """The answer after the proxy; a copy."""
    copied: JSON = json.loads(json.dumps(answer))
    changed = Rewriter(rule or Rule()).rewrite(copied)
    assert changed == (copied != json.loads(json.dumps(answer)))
    return copied


def said(answer: JSON) -> Sequence[tuple[str | None, str]]:
    """Reasoning and content of each choice of a whole answer."""
    return [
        (made["message"].get("reasoning_content"), made["message"]["content"]) for made in answer["choices"]
    ]
