"""Ways to bring a text to a finder or a recovery, and what came out of it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from proxy.calls.call import CallBlock
from proxy.calls.finder import Finder
from proxy.calls.recovery import Recovery
from proxy.calls.watch import Watch
from proxy.spans import Channel, Span
from tests.examples import share_of, up_to
from tests.splitting.feeding import chunks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from proxy.calls.finder import Piece

R, C = Channel.REASONING, Channel.CONTENT


def every_cut(text: str) -> Iterator[list[int]]:
    """Whole, per character, single cuts, and random cuts."""
    seed = random.Random(len(text))
    yield []
    yield list(range(len(text)))
    yield from ([place] for place in share_of(range(len(text))))
    yield from (seed.choices(range(len(text) + 1), k=seed.randint(2, 9)) for _ in range(up_to(20)))


def merge(pieces: Iterable[Piece]) -> list[Piece]:
    """Join neighbouring texts: what is said, not how it was chunked."""
    merged: list[Piece] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if isinstance(piece, str) and isinstance(last, str):
            merged[-1] = last + piece
        else:
            merged.append(piece)
    return merged


def find(text: str, cuts: Sequence[int] = ()) -> tuple[list[Piece], list[Piece]]:
    """What is certain, and the run that is left at the end."""
    finder = Finder()
    pieces = [piece for chunk in chunks(text, cuts) for piece in finder.feed(chunk)]
    pieces += finder.finish()
    return merge(pieces), merge(finder.run)


def raw(pieces: Iterable[Piece]) -> str:
    return "".join(piece.raw if isinstance(piece, CallBlock) else piece for piece in pieces)


def blocks(pieces: Iterable[Piece]) -> list[CallBlock]:
    return [piece for piece in pieces if isinstance(piece, CallBlock)]


def recover(
    spans: Sequence[tuple[Channel, str]],
    tools: Mapping[str, object],
    cuts: Sequence[int] = (),
    *,
    stopped: bool = True,
) -> tuple[list[tuple[Channel, str]], Recovery]:
    """Bring spans to a recovery, each cut at these places; what came out, joined, and the recovery."""
    recovery = Recovery(tools)
    return bring(recovery, spans, cuts, stopped=stopped), recovery


def watch(
    spans: Sequence[tuple[Channel, str]],
    tools: Mapping[str, object],
    cuts: Sequence[int] = (),
    *,
    stopped: bool = True,
) -> tuple[list[tuple[Channel, str]], Watch]:
    """Bring spans to a watch in the same way."""
    watching = Watch(tools)
    return bring(watching, spans, cuts, stopped=stopped), watching


def bring(
    recovery: Recovery | Watch, spans: Sequence[tuple[Channel, str]], cuts: Sequence[int], *, stopped: bool
) -> list[tuple[Channel, str]]:
    out: list[Span] = []
    read = 0
    for channel, text in spans:
        for chunk in chunks(text, [place for place in cuts if place <= len(text)]):
            read += len(chunk)
            out += recovery.feed([Span(channel, chunk, read)])
    out += recovery.finish(stopped=stopped)
    merged: list[tuple[Channel, str]] = []
    latest = 0
    for span in out:
        assert latest <= span.end <= read
        latest = span.end
        if merged and merged[-1][0] is span.channel:
            merged[-1] = span.channel, merged[-1][1] + span.text
        elif span.text:
            merged.append((span.channel, span.text))
    return merged
