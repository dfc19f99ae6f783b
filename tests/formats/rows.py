"""What the rows of the table, and tag sets of users' own, are tested with."""

from __future__ import annotations

import random
import re
from itertools import product
from typing import TYPE_CHECKING

from proxy.markers import Kind, compile_markers
from proxy.rules import TAG_SETS, Rule, TagSet
from proxy.splitter import Channel, Splitter
from tests.examples import up_to_length
from tests.splitting.feeding import cuts_of, run

if TYPE_CHECKING:
    from tests.splitting.oracle import Pieces

ROWS = list(TAG_SETS.values())
CUSTOM = [
    TagSet("ends alike", ("<a>", "x<a>"), ("</a>", "x</a>")),
    TagSet("a letter", ("ab",), ("c",)),
    TagSet("a repeated start", ("[[[",), ("]]]",)),
    TagSet("half alike", ("aab",), ("aac",)),
    TagSet("line break inside", ("Thoughts:\n",), ("Answer:\n",)),
    TagSet("wide", ("《思考》",), ("《答》", "🏁")),
]
ALL = [*ROWS, *CUSTOM]
PAIRS = [(row, opener, closer) for row in ALL for opener, closer in product(row.openers, row.closers)]
EACH_ONCE = [
    (row, row.openers[number % len(row.openers)], row.closers[number % len(row.closers)])
    for row in ALL
    for number in range(max(len(row.openers), len(row.closers)))
]
"""Each opener and each closer of a row with one of the others."""

R, C = Channel.REASONING, Channel.CONTENT


def pair_id(value: object) -> str:
    return value.name if isinstance(value, TagSet) else repr(value)


def split(text: str, rule: Rule, *, cut: bool = False, every_two_cut: int = up_to_length(24)) -> Pieces:
    """The text whole, after it was seen that no way of cutting it makes another outcome."""
    whole = run(Splitter(rule), [text], [[]], cut=cut)
    for cuts in cuts_of([text], random.Random(len(text)), every_two_cut=every_two_cut):
        assert run(Splitter(rule), [text], cuts, cut=cut) == whole, cuts
    return whole[0]


def markers_of(row: TagSet) -> list[str]:
    pairs = [marker for pair in row.wrappers for marker in pair]
    return [*row.openers, *row.closers, *pairs, *row.trailers]


def near_misses(marker: str, row: TagSet) -> list[str]:
    """Texts that almost are this marker, and none of which is or ends in the beginning of one."""
    middle = len(marker) // 2
    nearly = [
        marker[:-1] + "_",
        marker[:middle] + "_" + marker[middle:],
        marker[:middle] + marker[middle + 1 :] + "_",
        marker[:middle] + "\n" + marker[middle:],
        marker[1:] + "_",
        marker[0] + " " + marker[1:] + "_",
        marker[:middle] + "\u200b" + marker[middle:],
        marker.swapcase() + "_",
    ]
    every = compile_markers(row)
    return [text for text in nearly if every.find(Kind.OPEN | Kind.CLOSE, text, 0) is None]


def pattern_of(row: TagSet) -> re.Pattern[str]:
    """Every marker of the row, longest first."""
    found = [re.escape(marker) for marker in sorted(markers_of(row), key=len, reverse=True)]
    if row.loose:
        tags = [re.escape(marker[:-1]) + "[ \t]{0,64}>" for marker in (*row.openers, *row.closers)]
        found += [f"(?ai:{tag})" for tag in tags]
    return re.compile("|".join(found))
