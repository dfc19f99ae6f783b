"""A streamed answer, bytes in and bytes out: decode the events, rewrite them, encode them again.

Most of a stream is a run of events that differ in their text and in nothing else. Around the text the
JSON is the same bytes each time, so it need not be parsed and written anew: a `Run` knows those bytes,
takes the texts from between them, and has the splitter skim them. Whatever is not such an event, or
holds text that the splitter has to look at, goes the full way. Both ways give the same bytes
(`tests/wire/test_stream_runs.py`).
"""

from __future__ import annotations

import re
from functools import lru_cache
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
    from proxy.spans import Lane
    from proxy.tally import Tally
    from proxy.turn import Turn

MAX_RUNS = 8
"""Runs known at a time: choices that alternate have one each."""

_KEY = b'"content":"'
_BLANK = b"\n\n"  # ends an event, as servers write it
_NOT_PLAIN = re.compile(rb'["\\\x00-\x1f]')
_WRITTEN_OTHERWISE = re.compile(rb"\\[u/]")  # escapes that orjson does not write
_INSIDE = re.compile(rb'(?:[^"\\\x00-\x1f]|\\["\\/bfnrtu])*')


class Run:
    """Events that differ only in their text: the bytes before and behind it, as they came and rewritten."""

    __slots__ = (
        "_before",
        "_behind",
        "_lane",
        "_origin",
        "_prefix",
        "_safe",
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
        thought: tuple[bytes, bytes] | None,
        turn: Turn,
        origin: tuple[Any, Any],
    ) -> None:
        """Take the bytes around a text, and those around it as reasoning (None: reasoning is left out)."""
        self.around = around
        """What stands before and behind the text, as it came."""
        self._prefix, self._suffix = around
        self._start, self._tail = len(self._prefix), -len(self._suffix)
        self._thought = thought is not None
        self._before, self._behind = thought or (b"", b"")
        self._thought_joint = self._behind + self._before
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
        inside = block[self._start : self._tail]
        channel = self._pass(inside) if inside else None
        if channel is None:
            return self._feed_many(block)
        if channel is Channel.CONTENT:
            return block
        return self._before + inside + self._behind if self._thought else b""

    def _feed_many(self, block: bytes) -> bytes | None:
        *events, rest = block.split(self._suffix)
        if len(events) == 1:
            return None  # `feed_one` reads more of it
        texts = [event[self._start :] for event in events if event.startswith(self._prefix)]
        if rest or b"" in texts or len(texts) < len(events):
            return None
        channel = self._pass(b"".join(texts)) or self._skim(_read_texts(texts))
        if channel is Channel.CONTENT:
            return block
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
            return None
        if channel is Channel.CONTENT:
            return raw
        return self._before + orjson.dumps(text)[1:-1] + self._behind if self._thought else b""

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
        turn.last = self._origin
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
        self._aligned = False  # what comes next begins an event
        self.overflow = False
        """An event was larger than allowed; nothing is read any more."""
        self._seen: dict[tuple[bytes, bytes], bool] = {}  # what stood around texts; True: no run came of it

    @property
    def done(self) -> bool:
        """Whether the stream has said that it is complete."""
        return self._rewriter.done

    @property
    def prompt_seen(self) -> bool | None:
        """Whether the server told the prompt that `Start.AUTO` asked for; None before it could."""
        return self._rewriter.prompt_seen

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes; return those that take their place."""
        if self._aligned and len(data) <= self._max_event_bytes:
            for run in self._runs:
                made = run.feed(data)
                if made is not None:
                    return made
        made = self._feed_mixed(data)
        self._aligned, self.overflow = self._decoder.at_boundary, self._decoder.overflow
        return made

    def _feed_mixed(self, data: bytes) -> bytes:
        """Take bytes of which some may belong to a run."""
        if len(data) > self._max_event_bytes:
            return self._feed_events(data)
        begun = b""
        if not self._decoder.at_boundary:
            first, blank, data = data.partition(_BLANK)
            begun = self._feed_events(first + blank)
            if not self._decoder.at_boundary:
                return begun + self._feed_events(data)
        end = data.rfind(_BLANK) + 2
        if end < len(_BLANK):
            return begun + self._feed_events(data)
        return b"%b%b%b" % (begun, self._feed_block(data[:end]), self._feed_events(data[end:]))

    def _feed_block(self, block: bytes) -> bytes:
        """Take whole events: all at once if they are of one run, else by halves."""
        # A line break too many at the end of the half before still waits for what comes behind it.
        for run in self._runs if self._decoder.at_boundary else ():
            made = run.feed(block)
            if made is not None:
                return made
        cut = block.find(_BLANK, len(block) // 2) + 2
        if cut == len(block):
            cut = block.rfind(_BLANK, 0, -2) + 2
        if cut < len(_BLANK):
            return self._feed_events(block)
        return self._feed_block(block[:cut]) + self._feed_block(block[cut:])

    def sum_up(self) -> None:
        """Bring the tally up to date: text that passes unread is counted there now and then only."""
        self._rewriter.sum_up()

    def finish(self) -> bytes:
        """End a stream that ended; return what is left of it."""
        return self._end(self._decoder.finish())

    def break_off(self, error: bytes) -> bytes:
        """End a stream that broke off: what was held goes out, then this error, and no end."""
        left = self.give_up()
        return left if self.done else left + sse.encode(error).raw

    def give_up(self) -> bytes:
        """End a stream that broke off; return what was held."""
        # An event cut in the middle is no JSON: a client would stumble over it before it saw the error.
        return self._end([event for event in self._decoder.finish() if _is_whole(event)])

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
