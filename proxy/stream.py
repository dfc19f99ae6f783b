"""A streamed answer, bytes in and bytes out: decode the events, rewrite them, encode them again.

Events that differ only in their text go through `runs`, as many at a time as came; all others go the full
way, one by one. Both ways give the same bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy import chat, sse
from proxy.runs import Run, find_text

if TYPE_CHECKING:
    from proxy.response import Rewriter
    from proxy.rounds import Round

MAX_RUNS = 8
"""Runs known at a time: choices that alternate have one each."""

_BLANK = b"\n\n"  # ends an event, as servers write it


class Stream:
    """The straight line of a streamed answer."""

    __slots__ = ("_aligned", "_decoder", "_max_event_bytes", "_rewriter", "_runs", "_seen", "overflow")

    def __init__(self, rewriter: Rewriter | Round, max_event_bytes: int) -> None:
        """Begin an answer whose events go through a `Rewriter`; see `Decoder` for the limit."""
        self._max_event_bytes = max_event_bytes
        self._decoder = sse.Decoder(max_event_bytes)
        self._rewriter = rewriter
        self._runs: list[Run] = []
        self._aligned = False  # what comes next begins an event
        self.overflow = False
        """An event was larger than allowed; nothing is read any more."""
        self._seen: dict[tuple[bytes, bytes], bool] = {}  # what stood around texts; True: more than once

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
        event = self._decoder.take(data)
        if event is not None:
            self._aligned = True
            return self._rewrite(event)
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
        return b"%b%b%b" % (begun, self._feed_whole(data[:end]), self._feed_events(data[end:]))

    def _feed_whole(self, events: bytes) -> bytes:
        """Take whole events: all at once if they are of one run, else by halves."""
        # A line break too many at the end of the half before still waits for what comes behind it.
        for run in self._runs if self._decoder.at_boundary else ():
            made = run.feed(events)
            if made is not None:
                return made
        cut = events.find(_BLANK, len(events) // 2) + 2
        if cut == len(events):
            cut = events.rfind(_BLANK, 0, -2) + 2
        if cut < len(_BLANK):
            return self._feed_events(events)
        return self._feed_whole(events[:cut]) + self._feed_whole(events[cut:])

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
        around = find_text(event.raw)
        if around is None or self._seen.get(around):
            return
        seen_before = self._seen.pop(around, None) is not None
        self._seen[around] = seen_before
        if len(self._seen) > MAX_RUNS:
            del self._seen[next(iter(self._seen))]
        if seen_before and all(run.around != around for run in self._runs):
            run = Run.learn(event, around, self._rewriter)
            if run is not None:
                self._runs = [run, *self._runs[: MAX_RUNS - 1]]


def _is_whole(event: sse.Event) -> bool:
    return event.data == chat.DONE or chat.read_object(event.data) is not None
