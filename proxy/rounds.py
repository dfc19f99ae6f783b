"""One answer made of several: the rounds of a request that is asked again.

`Rounds` is fed like a `Stream`, with one body after the other. The first round goes out as it is. A round
that left calls in its thinking is to be asked for again: how it ends (its finish, its usage, `[DONE]`) is
withheld until the next one has something to say, and goes out after all if that one fails.

    what a further round brings             what happens
    thinking                                goes out
    content, a call, a finish               this round stands: the end of the one before is dropped
    an error or its end before that         the answer ends as the round before would have
    an error after that                     the answer breaks off, as any other would

What it held counts: a round that ends or breaks off has said that too.

`joint` makes the chunks of a further round those of the first one's answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy import chat, sse
from proxy.joint import Joint, divide
from proxy.stream import Stream

if TYPE_CHECKING:
    from proxy.request import Plan
    from proxy.response import Rewriter
    from proxy.retries import Retries
    from proxy.tally import Tally
    from proxy.turn import Turn


class Round:
    """The events of one round: it stands before the `Rewriter` of its stream."""

    def __init__(
        self, rewriter: Rewriter, retries: Retries, tally: Tally, limit: int, joint: Joint | None
    ) -> None:
        """Begin a round.

        Args:
            rewriter: the turns of this round.
            retries: what asks again.
            tally: where is counted what was seen.
            limit: the bytes that may be withheld; a round that brings more ends as it is.
            joint: what ties this round to those before; None for the first.
        """
        self._rewriter = rewriter
        self._retries = retries
        self._tally = tally
        self._limit = limit
        self._joint = joint
        self._decided = False
        self._size = 0  # bytes withheld
        self.again: bytes | None = None
        """The request that asks again, once this round has left something to be asked for."""
        self.withheld: list[sse.Event] = []
        """How this round ends if it is not asked again."""
        self.failed = False
        """The server said that it failed or is done, and nothing before that."""

    @property
    def done(self) -> bool:
        """Whether the stream has said that it is complete."""
        return self._rewriter.done

    @property
    def prompt_seen(self) -> bool | None:
        """Whether the server told the prompt that `Start.AUTO` asked for; None before it could."""
        return self._rewriter.prompt_seen

    @property
    def stands(self) -> bool:
        """Whether this round has said something that a client can use, or how it ends."""
        return self._joint is None or self._rewriter.stands

    @property
    def joint(self) -> Joint:
        """What ties the next round to this one and those before."""
        chunks = [chat.read_chunk(event.data) for event in self.withheld]
        return (self._joint or Joint()).extend(chunk for chunk in chunks if chunk)

    def turn(self, index: int) -> Turn | None:
        """Return the turn of a choice whose events may take the shortcut: those that need no other change."""
        return self._rewriter.turn(index) if self._joint is None else None

    def feed(self, event: sse.Event) -> list[sse.Event]:
        """Take the next event; return the events that take its place."""
        held: list[sse.Event] = []
        if self._joint is not None:
            if self.failed:
                return []
            chunk = chat.read_chunk(event.data)
            if not self.stands and (chat.is_error(chunk) if chunk else chat.is_done(event.data)):
                held = self._flush(cut=chunk is not None)
                self.failed = not self.stands
            edited = None if self.failed else self._joint.edit(event, chunk)
            if edited is None:
                return held
            event = edited
        made = held + self._rewriter.feed(event)
        return made if self._decided and self.again is None else self._decide(event, made)

    def sum_up(self) -> None:
        """Bring the tally up to date."""
        self._rewriter.sum_up()

    def finish(self) -> list[sse.Event]:
        """End a stream that ended; return what was held."""
        made = self._flush(cut=True)
        return made if self.again is None else self._withhold(made)

    def release(self) -> list[sse.Event]:
        """Ask no more: return what was withheld."""
        withheld, self.withheld, self.again = self.withheld, [], None
        return withheld

    def _flush(self, *, cut: bool) -> list[sse.Event]:
        """Return what was held; of a round that fails for all that, no white space outside the thinking."""
        made = self._rewriter.finish(cut=cut)
        return made if self.stands else [said for said, _ in map(divide, made) if said is not None]

    def _decide(self, event: sse.Event, made: list[sse.Event]) -> list[sse.Event]:
        left = self._rewriter.left
        if self.again is not None:
            chunk = chat.read_chunk(event.data)
            if left is None or (chunk is not None and chat.is_error(chunk)):
                # It was not one choice that has ended, after all.
                return [*self.release(), *made]
            return self._withhold(made)
        if left is None:
            return made
        self._decided = True
        self.again = self._retries.ask(left)
        if self.again is None:
            self._tally.retries_used_up = True
            return made
        parts = [divide(one) for one in made]
        said = [part for part, _ in parts if part is not None]
        return said + self._withhold([part for _, part in parts if part is not None])

    def _withhold(self, events: list[sse.Event]) -> list[sse.Event]:
        self.withheld += events
        self._size += sum(len(event.raw) for event in events)
        return self.release() if self._size > self._limit else []


class Rounds:
    """A streamed answer in as many rounds as it takes."""

    def __init__(self, plan: Plan, retries: Retries, tally: Tally, *, max_event_bytes: int) -> None:
        """Begin an answer; see `Stream`."""
        self._plan = plan
        self._retries = retries
        self._tally = tally
        self._max_event_bytes = max_event_bytes
        self._ahead: list[bytes] = []  # what goes out next
        self._before: list[sse.Event] = []  # how the round before ends
        self.over = False
        """The answer is complete, whatever else may come."""
        self._begin(None)

    @property
    def round_done(self) -> bool:
        """Whether the stream of this round has said that it is complete."""
        return self._stream.done

    @property
    def done(self) -> bool:
        """Whether the answer is known to be complete."""
        return self.over or self._stream.done

    @property
    def overflow(self) -> bool:
        """Whether an event was larger than allowed, and the answer cannot go on."""
        return self._stream.overflow and not self.over

    @property
    def prompt_seen(self) -> bool | None:
        """Whether the server told the prompt that `Start.AUTO` asked for; None before it could."""
        return self._stream.prompt_seen

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes of this round's body; return those that take their place."""
        ahead = self._take()
        made = self._stream.feed(data)
        if self._round.failed or self._stream.overflow:
            self.fail()
        return b"".join([*ahead, made, *self._take()])

    def next(self) -> bytes | None:
        """End this round, whose body is complete: return the next request, None when the answer is over."""
        self._ahead.append(self._stream.finish())
        again = self._round.again
        if again is None:
            self.over = self._round.stands or self.fail()
            return None
        self._tally.retries += 1
        self._tally.thinking_only -= 1  # the turn goes on
        joint, self._before = self._round.joint, self._round.withheld
        self._begin(joint)
        return again

    def fail(self) -> bool:
        """Give this round up; tell whether the answer can end as the round before would have ended."""
        if not self.over and not self._round.stands:
            self._ahead.append(self._stream.give_up())  # which may be what makes it stand
        if self.over or self._round.stands:
            return self.over
        self._tally.retry_failures += 1
        self._tally.thinking_only += 1
        self._ahead += [event.raw for event in self._before]
        self.over = True
        return True

    def sum_up(self) -> None:
        """Bring the tally up to date, see `Stream`."""
        self._stream.sum_up()

    def finish(self) -> bytes:
        """End an answer whose last body was read; return what is left of it."""
        left = [] if self.over else [self._stream.finish()]
        return b"".join([*self._take(), *left])

    def break_off(self, error: bytes) -> bytes:
        """End an answer that broke off: what was held goes out, then this error, and no end."""
        withheld = [event.raw for event in self._round.release()]
        return b"".join([*self._take(), *withheld, self._stream.break_off(error)])

    def _begin(self, joint: Joint | None) -> None:
        limit = self._max_event_bytes
        self._round = Round(self._plan.begin(self._tally), self._retries, self._tally, limit, joint)
        self._stream = Stream(self._round, limit)

    def _take(self) -> list[bytes]:
        ahead, self._ahead = self._ahead, []
        return ahead
