"""Hostile inputs: work in proportion to the input, memory to the longest hold, and the end is reached.

Work is counted, not timed: the lines of `proxy` that run. What one line does inside C (slicing, joining,
searching a buffer again and again) is not counted, so each input also runs once at its full size, where work
that grows with the square would not come to an end.
"""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from proxy.rules import Unterminated
from proxy.splitter import Channel, Span, Splitter
from tests.counting import lines_run
from tests.splitting.cases import ANYWHERE, DEFAULT, EXACT, GIVE_BACK, GIVE_BACK_EXACT, IMPLICIT, T
from tests.splitting.texts import limited_to

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.rules import Rule

MIB = 1 << 20

LIMITS = (64, 200)
"""White space and hold, for counted work: a hold that fills up must not look like growth."""

LEAST = 500
"""Code points of the smallest text whose work is counted: past all `LIMITS`."""


@dataclass(frozen=True)
class Hostile:
    """A text of `begin`, `unit` repeated, `end`."""

    name: str
    rule: Rule
    begin: str
    unit: str
    full: int
    """Repetitions at full size."""
    end: str = ""
    by_character: bool = False

    def text(self, repetitions: int) -> str:
        return self.begin + self.unit * repetitions + self.end


HOSTILE = [
    Hostile("12,000 blocks", DEFAULT, "", T + "a\n", 12_000),
    Hostile("12,000 blocks back to back", DEFAULT, "", T, 12_000),
    Hostile("12,000 blocks in mid-line", DEFAULT, T, "a <think>r</think>", 12_000),
    Hostile("12,000 blocks, exact", EXACT, "", T + " ", 12_000),
    Hostile("spaces first", DEFAULT, "", " ", MIB, by_character=True),
    Hostile("spaces first, anywhere", ANYWHERE, "", " ", MIB),
    Hostile("spaces at the head of a block", DEFAULT, "<think>", " ", MIB // 32, by_character=True),
    Hostile("spaces before the answer", DEFAULT, T, " ", MIB // 16, by_character=True),
    Hostile("spaces in the answer", DEFAULT, T + "a", " ", MIB // 32, by_character=True),
    Hostile("blank lines before the answer", DEFAULT, T, " \n", MIB // 32, by_character=True),
    Hostile("spaces without an opener", IMPLICIT, "", " ", MIB),
    Hostile("spaces, exact", EXACT, T, " ", MIB),
    Hostile("angle brackets first", DEFAULT, "", "<", MIB),
    Hostile("angle brackets in a block", DEFAULT, "<think>", "<", MIB // 32, by_character=True),
    Hostile("angle brackets in the answer", DEFAULT, T, "<", MIB),
    Hostile("angle brackets in a hold", DEFAULT, T + "a <think>", "<", MIB),
    Hostile("almost openers", DEFAULT, T, "<think" + " " * 64, MIB // 70),
    Hostile("almost closers", DEFAULT, "<think>", "</think" + " " * 64, MIB // 71),
    Hostile("mid-line openers", DEFAULT, T + "a ", "<think> ", 40_000),
    Hostile(
        "mid-line openers, one character at a time", DEFAULT, T + "a ", "<think> ", 10_000, by_character=True
    ),
    Hostile("mid-line openers that expire one by one", DEFAULT, T + "a ", "<think> " + "s" * 500, 4_000),
    Hostile("mid-line openers and code", DEFAULT, T + "a ", "<think> `</think>` ", 40_000),
    Hostile(
        "mid-line openers, then one that counts", DEFAULT, T, "a <think> " * 10 + "\n<think>r</think>", 4_000
    ),
    Hostile("mid-line openers, then a closer", DEFAULT, T, "a <think> " * 10 + "</think>", 4_000),
    Hostile(
        "long blocks in mid-line",
        DEFAULT,
        T,
        "a <think>" + "`\n" * 40 + "\n</think>",
        1_000,
        by_character=True,
    ),
    Hostile("nested openers", DEFAULT, "", "<think>", 100_000),
    Hostile("orphan closers", DEFAULT, "<think>" * 60, "</think>", 40_000),
    Hostile("closers that do not count", DEFAULT, T, "</think>", 100_000),
    Hostile("a line in a fence", DEFAULT, T + "```\n", "x", 10 * MIB),
    Hostile("a line of backticks in a fence", DEFAULT, T + "~~~\n", "`", MIB),
    Hostile("a line of markers in a fence", DEFAULT, T + "```\n", T, 40_000),
    Hostile("backticks", DEFAULT, T + "a ", "`", MIB // 32, by_character=True),
    Hostile("runs of backticks", DEFAULT, T + "a ", "` `` ", MIB // 5),
    Hostile("a line of code that never closes", DEFAULT, T + "a `", "x <think>", 40_000),
    Hostile("line breaks", DEFAULT, T + "a", "\r\n", MIB // 32, by_character=True),
    Hostile("a block that is given back", GIVE_BACK, "<think>", "r", MIB // 32, by_character=True),
    Hostile("blocks that are held", GIVE_BACK_EXACT, "", "<think>rrrr</think>\n", 3_000, by_character=True),
]

each_input = pytest.mark.parametrize("hostile", HOSTILE, ids=lambda hostile: hostile.name)


def lines_of(chunks: Iterable[str], rule: Rule) -> int:
    """How many lines of `proxy` run for a text."""
    splitter = Splitter(rule)

    def split() -> None:
        for chunk in chunks:
            splitter.feed(chunk)
        splitter.finish()

    return lines_run(split)


@pytest.mark.parametrize("by_character", [True, False], ids=["by character", "whole"])
@each_input
def test_twice_the_input_is_twice_the_work(hostile: Hostile, by_character: bool) -> None:
    texts = [hostile.text(LEAST // len(hostile.unit) * times) for times in (1, 2, 4)]
    with limited_to(*LIMITS):
        once, twice, fourfold = (lines_of(text if by_character else [text], hostile.rule) for text in texts)
    assert once > 0
    assert fourfold - twice <= 2.2 * (twice - once)


@each_input
def test_the_full_size_comes_to_an_end(hostile: Hostile) -> None:
    lengths = dict.fromkeys(Channel, 0)

    def take(spans: list[Span]) -> None:
        for span in spans:
            lengths[span.channel] += len(span.text)

    text = hostile.text(hostile.full)
    splitter = Splitter(hostile.rule)
    for chunk in text if hostile.by_character else [text]:
        take(splitter.feed(chunk))
    take(splitter.finish())
    assert sum(lengths.values()) <= len(text)


def peak_of(hostile: Hostile, repetitions: int) -> int:
    """The most memory in bytes that was in use beyond the text itself."""
    text = hostile.text(repetitions)
    splitter = Splitter(hostile.rule)
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    for character in text:
        splitter.feed(character)
    splitter.finish()
    return tracemalloc.get_traced_memory()[1] - before


# A block that may be given back is held as long as it is.
@pytest.mark.parametrize(
    "hostile",
    [hostile for hostile in HOSTILE if hostile.rule.unterminated is Unterminated.REASONING],
    ids=lambda hostile: hostile.name,
)
def test_memory_is_the_longest_hold(hostile: Hostile) -> None:
    tracemalloc.start()
    try:
        with limited_to(*LIMITS):
            once, fourfold = (peak_of(hostile, LEAST // len(hostile.unit) * times) for times in (2, 8))
    finally:
        tracemalloc.stop()
    assert fourfold - once < 3 * LEAST
