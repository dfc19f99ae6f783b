"""Recover the tool calls that a turn left in its thinking, and stopped.

`Recovery` stands behind the splitter, spans in and spans out. The calls that end the thinking are taken out
of it and become the turn's calls when the turn ends by itself, nothing visible was said outside the thinking,
and no call came the proper way. In every other case the spans come out as they went in, later at most.

    spans, in order      what happens
    reasoning            goes through a `Finder`; what ends the text so far is held
    blank content        is held behind what is held
    visible content      settles it: everything held goes out, and from here on spans pass
    something else       the same (`interrupt`)
    the end              the calls are taken out, or everything held goes out
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.calls.call import CallBlock
from proxy.calls.coercion import write_arguments
from proxy.calls.finder import Finder
from proxy.lines import VISIBLE
from proxy.spans import Channel, Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from proxy.calls.call import Call
    from proxy.calls.finder import Piece


class Recovered(NamedTuple):
    """A call ready to be made."""

    name: str
    arguments: str
    """JSON, typed by the tool's schema."""
    id: str
    """The model's own id, "" where it gave none."""


class _Draft(NamedTuple):
    """A block that may be a draft, and how much of the input had been read when it was complete."""

    block: CallBlock
    end: int


class Recovery:
    """The machine for one turn."""

    def __init__(self, tools: Mapping[str, Any], *, single: bool = False) -> None:
        """Begin a turn.

        Args:
            tools: those that may be called, each with the schema of its parameters.
            single: one call at most may be made. It is the first; where there are more, their blocks stay.
        """
        self._tools = tools
        self._single = single
        self._finder = Finder()
        self._held: list[Span | _Draft] = []
        self._out: list[Span] = []
        self._end = 0  # of the latest reasoning
        self._settled = not tools
        self._shown = False  # visible reasoning went out
        self._drafts: list[CallBlock] = []
        self.calls: list[Recovered] = []
        """The calls of the turn, once it has ended and was left with nothing but them."""
        self.blocks: list[CallBlock] = []
        """With the same conditions, every block that could be called, drafts too."""

    @property
    def settled(self) -> bool:
        """Whether all text passes from here on: no call can be recovered any more."""
        return self._settled

    def passes(self, text: str) -> bool:
        """Tell at a glance that text would come out as it is, whatever its channel."""
        return self._settled or (not self._held and self._finder.passes(text))

    def feed(self, spans: Sequence[Span]) -> list[Span]:
        """Take the next spans; return those that are certain."""
        for span in spans:
            if self._settled:
                self._out.append(span)
            elif span.channel is Channel.REASONING:
                self._end = span.end
                self._write(self._finder.feed(span.text))
            else:
                self._read_content(span)
        return self._take()

    def interrupt(self) -> list[Span]:
        """Something other than text comes, a call or a refusal: return what was held, and hold no more."""
        self._settle()
        return self._take()

    def finish(self, *, stopped: bool) -> list[Span]:
        """End the turn: return what was held and is no call; `calls` and `blocks` say what was found.

        Args:
            stopped: the turn ended by itself, and is over.
        """
        if stopped and not self._settled:
            self._end_text()
            run = [piece.block for piece in self._held if isinstance(piece, _Draft)]
            self.blocks = [block for block in (*self._drafts, *run) if _admits(self._tools, [block])]
            if run and _admits(self._tools, run):
                self.calls = [self._recover(call) for block in run for call in block.calls]
                stays = self._single and len(self.calls) > 1
                if stays:
                    del self.calls[1:]
                self._hold_rest(with_blocks=stays)
        return self.interrupt()

    def _hold_rest(self, *, with_blocks: bool) -> None:
        # White space goes out with the thinking it stands in, but is none by itself.
        shown = self._shown or with_blocks
        self._held = [
            piece
            for piece in self._held
            if (with_blocks if isinstance(piece, _Draft) else shown and piece.channel is Channel.REASONING)
        ]

    def _recover(self, call: Call) -> Recovered:
        return Recovered(call.name, write_arguments(call, self._tools[call.name]), call.id)

    def _read_content(self, span: Span) -> None:
        self._end_text()
        if VISIBLE.search(span.text):
            self._settle()
        if self._held:
            self._held.append(span)
        else:
            self._out.append(span)

    def _end_text(self) -> None:
        """End the reasoning text so far; what ends it is held here."""
        self._write(self._finder.finish())
        self._held += [
            self._span(piece) if isinstance(piece, str) else _Draft(piece, self._end)
            for piece in self._finder.run
        ]
        self._finder = Finder()

    def _settle(self) -> None:
        if not self._settled:
            self._end_text()
            self._release()
            self._settled = True

    def _write(self, pieces: list[Piece]) -> None:
        if not pieces:
            return
        self._release()
        for piece in pieces:
            if isinstance(piece, CallBlock):
                self._draft(_Draft(piece, self._end))
            else:
                self._out.append(self._span(piece))
            self._shown = self._shown or isinstance(piece, CallBlock) or VISIBLE.search(piece) is not None

    def _release(self) -> None:
        for piece in self._held:
            if isinstance(piece, _Draft):
                self._draft(piece)
            else:
                self._out.append(piece)
        self._held = []

    def _draft(self, draft: _Draft) -> None:
        self._drafts.append(draft.block)
        self._out.append(Span(Channel.REASONING, draft.block.raw, draft.end))

    def _span(self, text: str) -> Span:
        return Span(Channel.REASONING, text, self._end)

    def _take(self) -> list[Span]:
        out, self._out = self._out, []
        return out


def assign_ids(calls: Iterable[Recovered], ids: Iterator[str]) -> list[str]:
    """Return an id for each call: the model's own while it is the first of its kind, or the next of `ids`."""
    assigned: list[str] = []
    for call in calls:
        assigned.append(call.id if call.id and call.id not in assigned else next(ids))
    return assigned


def _admits(tools: Mapping[str, Any], blocks: Iterable[CallBlock]) -> bool:
    return all(call.name in tools for block in blocks for call in block.calls)
