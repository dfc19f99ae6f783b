"""Runs of events that differ in their text and in nothing else: most of a stream is one.

Around the text the JSON is the same bytes each time, so it need not be parsed and written anew: a `Run`
knows those bytes, takes the texts from between them, lets them pass or has the splitter read them, and puts
what goes out between known bytes. What is not such an event, or comes to more than one piece, it leaves
alone: then the event goes the full way. Both ways give the same bytes (`tests/wire/test_stream_runs.py`).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import orjson

from proxy import chat, reasoning, sse
from proxy.prompt import PROMPT_TEXT
from proxy.splitter import Channel

if TYPE_CHECKING:
    from proxy.response import Rewriter
    from proxy.rounds import Round
    from proxy.spans import Lane
    from proxy.turn import Turn

_KEY = b'"content":"'
_NOT_PLAIN = re.compile(rb'["\\\x00-\x1f]')
_WRITTEN_OTHERWISE = re.compile(rb"\\[u/]")  # escapes that orjson does not write
_INSIDE = re.compile(rb'(?:[^"\\\x00-\x1f]|\\["\\/bfnrtu])*')


def find_text(raw: bytes, key: bytes = _KEY) -> tuple[bytes, bytes] | None:
    """Return what stands before and behind the only text of an event; None where it has none, or several."""
    if raw.count(key) != 1 or not raw.endswith(b"\n\n"):
        return None
    start = raw.index(key) + len(key)
    text = _INSIDE.match(raw, start)
    return raw[:start], raw[text.end() if text else start :]


class Run:
    """Events that differ only in their text: the bytes before and behind it, as they came and rewritten."""

    __slots__ = (
        "_before",
        "_behind",
        "_lane",
        "_origin",
        "_prefix",
        "_safe",
        "_said",
        "_start",
        "_suffix",
        "_tail",
        "_thought",
        "_thought_joint",
        "_turn",
        "around",
    )

    def __init__(
        self,
        around: tuple[bytes, bytes],
        thought: tuple[bytes, bytes],
        said: tuple[bytes, bytes],
        turn: Turn,
        origin: tuple[Any, Any],
    ) -> None:
        """Take the bytes around a text as it came, as it is written as reasoning, and as content."""
        self.around = around
        """What stands before and behind the text, as it came."""
        self._prefix, self._suffix = around
        self._start, self._tail = len(self._prefix), -len(self._suffix)
        self._thought = bool(turn.names)  # else reasoning is left out
        self._before, self._behind = thought
        self._thought_joint = self._behind + self._before
        self._said = said
        self._turn = turn
        self._origin = origin
        self._lane: Lane | None = None
        self._safe = b""

    @classmethod
    def learn(cls, event: sse.Event, around: tuple[bytes, bytes], rewriter: Rewriter | Round) -> Self | None:
        """Return the run that an event belongs to; None when it carries more than one text."""
        chunk = chat.read_chunk(event.data)
        found = chat.choices(chunk) if chunk else []
        if chunk is None or len(found) != 1 or len(chunk["choices"]) != 1 or not sse.is_bare(event):
            return None
        index, choice = found[0]
        delta, turn = choice.get("delta"), rewriter.turn(index)
        if turn is None or not isinstance(delta, dict) or not isinstance(delta.get("content"), str):
            return None
        if PROMPT_TEXT in chunk or len(turn.names) > 1:
            return None
        if not chat.is_bare(chunk | {"choices": [choice | {"delta": delta | {"content": ""}}]}):
            return None

        def write(delta: dict[str, Any], name: str) -> tuple[bytes, bytes] | None:
            made = chunk | {"choices": [choice | {"delta": delta}]}
            return find_text(sse.encode(chat.write_json(made), event).raw, b'"%b":"' % name.encode())

        said = write(reasoning.place(delta, "@", "", turn.names), "content")
        name = next(iter(turn.names), "")
        thought = write(reasoning.place(delta, None, "@", turn.names), name) if name else (b"", b"")
        if said is None or thought is None:
            return None
        return cls(around, thought, said, turn, (chunk, choice))

    def feed(self, events: bytes) -> bytes | None:
        """Rewrite whole events of this run; None, with nothing read, if they are anything else."""
        if not events.startswith(self._prefix) or not events.endswith(self._suffix):
            return None
        inside = events[self._start : self._tail]
        lane = self._turn.lane
        if lane and lane is self._lane and inside and inside.isascii() and not inside.strip(self._safe):
            # As `_pass` has it, without a call: here comes most of a stream.
            lane.chars += len(inside)
            channel = lane.channel
        elif not inside or (found := self._pass(inside)) is None:
            return self._feed_many(events)
        else:
            channel = found
        if channel is Channel.CONTENT:
            return events
        return self._before + inside + self._behind if self._thought else b""

    def _feed_many(self, events: bytes) -> bytes | None:
        *parts, rest = events.split(self._suffix)
        if len(parts) == 1:
            return None  # `feed_one` reads more of it
        texts = [part[self._start :] for part in parts if part.startswith(self._prefix)]
        if rest or b"" in texts or len(texts) < len(parts):
            return None
        channel = self._pass(b"".join(texts)) or self._skim(_read_texts(texts))
        if channel is Channel.CONTENT:
            return events
        if channel is None:
            return None
        return self._before + self._thought_joint.join(texts) + self._behind if self._thought else b""

    def feed_one(self, raw: bytes) -> bytes | None:
        """Rewrite one event of this run, whose text may be empty or hold escapes."""
        shortest = len(self._prefix) + len(self._suffix)
        if not raw.startswith(self._prefix) or not raw.endswith(self._suffix) or len(raw) < shortest:
            return None
        try:
            text = orjson.loads(b'"%b"' % raw[self._start : self._tail])
        except orjson.JSONDecodeError:
            return None
        if not text:
            self._turn.last = self._origin
            return raw
        channel = self._skim(text)
        if channel is None:
            return self._hear(raw, text)
        if channel is Channel.CONTENT:
            return raw
        return self._before + orjson.dumps(text)[1:-1] + self._behind if self._thought else b""

    def _hear(self, raw: bytes, text: str) -> bytes | None:
        """Have the splitter read the text of an event; what can't be written here is left to the full way."""
        spans = self._turn.hear(text, *self._origin)
        if not spans:
            return spans if spans is None else b""
        channel, made, _ = spans[0]
        if len(spans) == 1 and channel is Channel.CONTENT and made == text:
            return raw
        try:
            if len(spans) == 1:
                before, behind = self._said if channel is Channel.CONTENT else (self._before, self._behind)
                return before + orjson.dumps(made)[1:-1] + behind
        except orjson.JSONEncodeError:
            pass  # half a character, from an event before
        self._turn.heard = spans
        return None

    def _pass(self, inside: bytes) -> Channel | None:
        """Let the inside of a JSON string pass without reading it, and return its channel."""
        turn = self._turn
        lane = turn.lane or turn.enter_lane()
        if lane is not self._lane:
            self._lane, self._safe = lane, _find_safe(lane.stops if lane else "")
        if lane is None or inside.strip(self._safe):
            return None
        if inside.isascii():
            lane.chars += len(inside)
        else:
            try:
                lane.chars += len(inside.decode())
            except UnicodeDecodeError:
                return None
        return lane.channel

    def _skim(self, text: str | None) -> Channel | None:
        return None if text is None else self._turn.skim(text, *self._origin)


@lru_cache(maxsize=256)
def _find_safe(stops: str) -> bytes:
    """Return the bytes of which the inside of a JSON string may be made if its text is to pass unread."""
    others = range(0x80 if stops.isascii() else 0x100, 0x100)
    letters = (byte for byte in range(0x20, 0x80) if chr(byte) not in '"\\' + stops)
    # What is asked for most comes first: they are looked through one by one.
    return bytes([*sorted(letters, key=lambda byte: not chr(byte).isalpha()), *others])


def _read_texts(parts: list[bytes]) -> str | None:
    """Return the text in the insides of JSON strings; None where one is no such thing."""
    joined = b"".join(parts)
    if joined.isascii() and not _NOT_PLAIN.search(joined):
        return joined.decode("ascii")
    if _WRITTEN_OTHERWISE.search(joined) or not all(map(_INSIDE.fullmatch, parts)):
        return None
    try:
        return "".join(orjson.loads(b'["%b"]' % b'","'.join(parts)))
    except orjson.JSONDecodeError:
        return None
