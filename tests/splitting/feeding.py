"""Ways to bring a text to a splitter, and what came out of it."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tests.splitting.oracle import Pieces, merge

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Sequence

    from proxy.splitter import Span, Splitter

    Cuts = Sequence[int]


def chunks(text: str, cuts: Cuts) -> Iterator[str]:
    """The text, cut at these places; equal places give empty chunks."""
    places = [0, *sorted(cuts), len(text)]
    for start, end in pairwise(places):
        yield text[start:end]


def cuts_of(parts: Sequence[str], seed: random.Random, *, every_two_cut: int) -> Iterator[list[list[int]]]:
    """Whole, per character, two-cuts and random cuts; for each part the places at which it is cut."""
    longest = max(len(part) for part in parts)
    yield [[] for _ in parts]
    yield [list(range(len(part))) for part in parts]
    places = list(range(longest + 1))
    if longest > every_two_cut:
        places = sorted(seed.sample(places, 4))
    for first in places:
        for second in places:
            if first <= second:
                yield [[min(first, len(part)), min(second, len(part))] for part in parts]
    for _ in range(6):
        yield [seed.choices(range(len(part) + 1), k=seed.randint(1, 8)) for part in parts]


def collect(
    splitter: Splitter, parts: Sequence[str], cuts: Sequence[Cuts], *, cut: bool = False
) -> list[list[Span]]:
    """Feed the parts with an interrupt between every two; the spans of each part as they came.

    Checks on the way that `end` of the spans never goes back and never runs ahead of the input.
    """
    fed = 0
    latest = 0
    collected: list[list[Span]] = []

    def take(spans: list[Span]) -> None:
        nonlocal latest
        for span in spans:
            assert latest <= span.end <= fed, span
            latest = span.end
        collected[-1].extend(spans)

    for number, part in enumerate(parts, start=1):
        collected.append([])
        for chunk in chunks(part, cuts[number - 1]):
            fed += len(chunk)
            take(splitter.feed(chunk))
        take(splitter.finish(cut=cut) if number == len(parts) else splitter.interrupt())
    return collected


def run(splitter: Splitter, parts: Sequence[str], cuts: Sequence[Cuts], *, cut: bool = False) -> list[Pieces]:
    """The same, with neighbours of one channel joined: what is said, not how it was chunked."""
    return [
        merge([(span.channel, span.text) for span in part])
        for part in collect(splitter, parts, cuts, cut=cut)
    ]
