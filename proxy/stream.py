"""A streamed answer, bytes in and bytes out: decode the events, rewrite them, encode them again.

Most of a stream is a run of events that differ in their text and in nothing else. Around the text the
JSON is the same bytes each time, so it need not be parsed and written anew: a `Run` knows those bytes,
takes the texts from between them, and has the splitter skim them. Whatever is not such an event, or
holds text that the splitter has to look at, goes the full way. Both ways give the same bytes
(`tests/wire/test_stream_runs.py`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Self

import orjson

from proxy import chat, reasoning, sse
from proxy.promotion import EMPTY, Toolbox
from proxy.response import Rewriter
from proxy.splitter import Channel

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.rounds import Round
    from proxy.rules import Rule
    from proxy.tally import Tally
    from proxy.turn import Turn

MAX_RUNS = 8
"""Runs known at a time: choices that alternate have one each."""

_KEY = b'"content":"'
_NOT_PLAIN = re.compile(rb'["\\\x00-\x1f]')
_WRITTEN_OTHERWISE = re.compile(rb"\\[u/]")  # escapes that orjson does not write
_INSIDE = re.compile(rb'(?:[^"\\\x00-\x1f]|\\["\\/bfnrtu])*')


class Run:
    """Events that differ only in their text: the bytes before and behind it, as they came and rewritten."""

    __slots__ = ("_joint", "_origin", "_prefix", "_suffix", "_thought", "_turn", "around")

    def __init__(
        self,
        around: tuple[bytes, bytes],
        thought: tuple[bytes, bytes] | None,
        turn: Turn,
        origin: tuple[Any, Any],
    ) -> None:
        """Take the bytes around a text, and those around it as reasoning (None: reasoning is left out)."""
        self.around = around
        """What stands before and behind the text, as it came."""
        self._prefix, self._suffix = around
        self._joint = self._suffix + self._prefix
        self._thought = thought
        self._turn = turn
        self._origin = origin

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
        if not chat.is_bare(chunk | {"choices": [choice | {"delta": delta | {"content": ""}}]}):
            return None
        if not turn.names:
            return cls(around, None, turn, (chunk, choice))
        made = choice | {"delta": reasoning.place(delta, None, "@", turn.names)}
        written = sse.encode(chat.write_json(chunk | {"choices": [made]}), event).raw
        key = b'"%b":"' % turn.names[0].encode()
        before, found_key, behind = written.partition(key + b"@")
        if len(turn.names) > 1 or not found_key or key in behind:
            return None
        return cls(around, (before + key, behind), turn, (chunk, choice))

    def feed(self, block: bytes) -> bytes | None:
        """Rewrite a block of whole events of this run; None, with nothing read, if it is anything else."""
        if not block.startswith(self._prefix) or not block.endswith(self._suffix):
            return None
        parts = block[len(self._prefix) : -len(self._suffix)].split(self._joint)
        if not all(parts) or len(block) < len(self._joint):
            return None
        text = _read_texts(parts)
        if text is None:
            return None
        channel = self._skim(text)
        if channel is None:
            return None
        if channel is Channel.CONTENT:
            return block
        if self._thought is None:
            return b""
        before, behind = self._thought
        return b"%b%b%b" % (before, (behind + before).join(parts), behind)

    def feed_one(self, raw: bytes) -> bytes | None:
        """Rewrite one event of this run, whose text may be empty or hold escapes."""
        if not raw.startswith(self._prefix) or not raw.endswith(self._suffix) or len(raw) < len(self._joint):
            return None
        try:
            text = orjson.loads(b'"%b"' % raw[len(self._prefix) : -len(self._suffix)])
        except orjson.JSONDecodeError:
            return None
        channel = self._skim(text) if text else Channel.CONTENT
        if channel is None:
            return None
        if channel is Channel.CONTENT:
            return raw
        if self._thought is None:
            return b""
        before, behind = self._thought
        return b"%b%b%b" % (before, orjson.dumps(text)[1:-1], behind)

    def _skim(self, text: str) -> Channel | None:
        return self._turn.skim(text, *self._origin)


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


class Stream:
    """The straight line of a streamed answer."""

    def __init__(
        self,
        rule: Rule,
        *,
        hides_prompt: bool,
        max_event_bytes: int,
        toolbox: Toolbox = EMPTY,
        tally: Tally | None = None,
        before: Callable[[Rewriter], Round] | None = None,
    ) -> None:
        """Begin an answer under a rule; see `Decoder` for the limit and `Rewriter` for the rest.

        `before` makes what the events go through instead of the `Rewriter` alone.
        """
        self._max_event_bytes = max_event_bytes
        self._decoder = sse.Decoder(max_event_bytes)
        rewriter = Rewriter(rule, hides_prompt=hides_prompt, toolbox=toolbox, tally=tally)
        self._rewriter = before(rewriter) if before else rewriter
        self._runs: list[Run] = []
        self._seen: dict[tuple[bytes, bytes], bool] = {}  # what stood around texts; True: no run came of it

    @property
    def done(self) -> bool:
        """Whether the stream has said that it is complete."""
        return self._rewriter.done

    @property
    def overflow(self) -> bool:
        """Whether an event was larger than allowed; nothing is read any more."""
        return self._decoder.overflow

    @property
    def prompt_seen(self) -> bool | None:
        """Whether the server told the prompt that `Start.AUTO` asked for; None before it could."""
        return self._rewriter.prompt_seen

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes; return those that take their place."""
        if not self._runs or len(data) > self._max_event_bytes:
            return self._feed_events(data)
        begun = b""
        if not self._decoder.at_boundary:
            first, blank, data = data.partition(b"\n\n")
            begun = self._feed_events(first + blank)
            if not self._decoder.at_boundary:
                return begun + self._feed_events(data)
        end = data.rfind(b"\n\n") + 2
        block, rest = (data, b"") if end == len(data) else (data[:end], data[end:])
        for run in self._runs:
            made = run.feed(block)
            if made is not None:
                return b"%b%b%b" % (begun, made, self._feed_events(rest)) if begun or rest else made
        return begun + self._feed_events(data)

    def finish(self) -> bytes:
        """End a stream that ended; return what is left of it."""
        return self._end(self._decoder.finish())

    def break_off(self, error: bytes) -> bytes:
        """End a stream that broke off: what was held goes out, then this error, and no end."""
        # An event cut in the middle is no JSON: a client would stumble over it before it saw the error.
        whole = [event for event in self._decoder.finish() if _is_whole(event)]
        left = self._end(whole)
        return left if self.done else left + sse.encode(error).raw

    def _end(self, events: list[sse.Event]) -> bytes:
        made = [made for event in events for made in self._rewriter.feed(event)] + self._rewriter.finish()
        return b"".join([event.raw for event in made])

    def _feed_events(self, data: bytes) -> bytes:
        return b"".join([self._rewrite(event) for event in self._decoder.feed(data)])

    def _rewrite(self, event: sse.Event) -> bytes:
        for run in self._runs:
            made = run.feed_one(event.raw)
            if made is not None:
                return made
        rewritten = b"".join([made.raw for made in self._rewriter.feed(event)])
        self._watch(event)
        return rewritten

    def _watch(self, event: sse.Event) -> None:
        """Learn a run when the same bytes stand around a text for the second time."""
        raw = event.raw
        if raw.count(_KEY) != 1 or not raw.endswith(b"\n\n"):
            return
        start = raw.index(_KEY) + len(_KEY)
        text = _INSIDE.match(raw, start)
        around = raw[:start], raw[text.end() if text else start :]
        if any(run.around == around for run in self._runs):
            return
        tried = self._seen.pop(around, None)
        if tried is None:
            self._seen[around] = False
        elif not tried and (run := Run.learn(event, around, self._rewriter)):
            self._runs = [run, *self._runs[: MAX_RUNS - 1]]
        else:
            self._seen[around] = True
        if len(self._seen) > MAX_RUNS:
            del self._seen[next(iter(self._seen))]


def _is_whole(event: sse.Event) -> bool:
    return event.data == chat.DONE or chat.read_object(event.data) is not None
