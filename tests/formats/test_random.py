"""The master properties over all rows and all options at once."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.rules import Rule, Start, TagSet, Unterminated, Whitespace
from proxy.splitter import Channel, Splitter
from tests.examples import up_to
from tests.formats.rows import ALL, ROWS, markers_of, near_misses, pattern_of
from tests.splitting.feeding import collect, run
from tests.splitting.oracle import is_white
from tests.splitting.texts import BREAKS, MARKDOWN, NOISE, SPACES, limited_to, noise

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.splitting.oracle import Pieces

many = settings(max_examples=up_to(400))
cuts_in = st.lists(st.integers(0, 500), max_size=12)
limits = st.tuples(st.integers(1, 6), st.integers(90, 130))
"""No opener may be longer than a hold: the longest, padded, has 84 code points."""


@lru_cache
def tokens(row: TagSet) -> st.SearchStrategy[str]:
    """Pieces in which nearly every neighbourhood means something to this row."""
    own = [*row.openers, *row.closers]
    every = markers_of(row)
    nearly = [near for marker in every for near in near_misses(marker, row)]
    halves = [marker[:end] for marker in every for end in range(1, len(marker))]
    loose = [marker.swapcase()[:-1] + "\t >" for marker in own] if row.loose else own
    return st.one_of(
        *map(st.sampled_from, (own, own, own, every, every, loose, nearly, halves)),
        *map(st.sampled_from, (MARKDOWN, BREAKS, BREAKS, SPACES, NOISE)),
    )


@st.composite
def cases(
    draw: st.DrawFn, rows: list[TagSet] = ALL, spaces: Sequence[Whitespace] = tuple(Whitespace)
) -> tuple[Rule, str]:
    """A rule and a text for it."""
    # Few rows have wrappers, and those have the most to go wrong.
    row = draw(st.sampled_from([*rows, *[row for row in rows if row.wrappers] * 2]))
    rule = Rule(
        tags=row,
        start=draw(st.sampled_from([Start.LEADING, Start.LEADING, Start.IMPLICIT, Start.ANYWHERE])),
        interleaved=draw(st.sampled_from([True, True, True, False])),
        code_aware=draw(st.sampled_from([True, True, False])),
        whitespace=draw(st.sampled_from(spaces)),
        unterminated=draw(st.sampled_from([Unterminated.REASONING, *Unterminated])),
    )
    begin = row.openers[0]
    beginning = draw(st.sampled_from(["", begin, begin, f"\n {begin}", f"{begin}r{row.closers[-1]}"]))
    return rule, beginning + "".join(draw(st.lists(tokens(row), max_size=16)))


def within(cuts: list[int], text: str) -> list[int]:
    return [min(cut, len(text)) for cut in cuts]


def whole(text: str, rule: Rule, *, cut: bool) -> Pieces:
    return run(Splitter(rule), [text], [[]], cut=cut)[0]


@many
@given(cases(), limits, cuts_in, st.booleans())
def test_cuts_change_nothing(
    case: tuple[Rule, str], limit: tuple[int, int], cuts: list[int], cut: bool
) -> None:
    rule, text = case
    with limited_to(*limit):
        expected = [whole(text, rule, cut=cut)]
        assert run(Splitter(rule), [text], [within(cuts, text)], cut=cut) == expected
        assert run(Splitter(rule), [text], [range(len(text))], cut=cut) == expected


@many
@given(cases(), limits, cuts_in, st.booleans())
def test_spans_end_where_they_are_complete(
    case: tuple[Rule, str], limit: tuple[int, int], cuts: list[int], cut: bool
) -> None:
    rule, text = case
    with limited_to(*limit):
        spans = collect(Splitter(rule), [text], [within(cuts, text)], cut=cut)[0]
    went_out: Counter[str] = Counter()
    for span in spans:
        assert span.text
        went_out.update(span.text)
        assert went_out <= Counter(text[: span.end])


def visible(text: str) -> list[str]:
    return [character for character in text if not is_white(character)]


def is_part(inner: list[str], outer: list[str]) -> bool:
    """Whether `inner` is what is left of `outer` when some of it is left out."""
    rest = iter(outer)
    return all(character in rest for character in inner)


@many
@given(cases(ROWS), limits, st.booleans())
def test_nothing_visible_is_lost_but_markers(
    case: tuple[Rule, str], limit: tuple[int, int], cut: bool
) -> None:
    rule, text = case
    with limited_to(*limit):
        shown = visible("".join(piece for _, piece in whole(text, rule, cut=cut)))
    assert is_part(shown, visible(text))
    assert is_part(visible(pattern_of(rule.tags).sub("", text)), shown)


@many
@given(cases([row for row in ROWS if not row.wrappers], [Whitespace.EXACT]), st.booleans())
def test_with_exact_nothing_is_lost_but_markers(case: tuple[Rule, str], cut: bool) -> None:
    rule, text = case
    kept = Counter("".join(piece for _, piece in whole(text, rule, cut=cut)))
    assert Counter(pattern_of(rule.tags).sub("", text)) <= kept <= Counter(text)


@many
@given(noise, cases(), cuts_in, st.booleans())
def test_nothing_that_a_model_writes_raises(
    text: str, case: tuple[Rule, str], cuts: list[int], cut: bool
) -> None:
    rule, _ = case
    assert run(Splitter(rule), [text], [within(cuts, text)], cut=cut) == [whole(text, rule, cut=cut)]


BREAK = "(?:\r\n|\r|\n)?"
WHITE = r"[\s\ufeff\u200b]*"


def unwrap(answer: str, row: TagSet) -> str:
    """What is left of an answer without its wrapper: the rules once more, with the whole text in sight."""
    begins = "|".join(re.escape(begin) for begin, _ in row.wrappers)
    ends = "|".join(re.escape(end) for end in [*(end for _, end in row.wrappers), *row.trailers])
    if row.special:
        begun = re.match(f"((?:{WHITE}(?:{ends}))*{WHITE})(?:{begins})", answer)
        return re.sub(ends, "", begun[1] + answer[begun.end() :] if begun else answer)
    begun = re.match(f"({WHITE})(?:{begins}){BREAK}", answer)
    return begun[1] + re.sub(f"{BREAK}(?:{ends})", "", answer[begun.end() :], count=1) if begun else answer


@lru_cache
def answer_tokens(row: TagSet) -> st.SearchStrategy[str]:
    pairs = [marker for pair in row.wrappers for marker in pair]
    nearly = [near for marker in pairs for near in near_misses(marker, row)]
    halves = [marker[:end] for marker in pairs for end in range(1, len(marker))]
    pools = (
        pairs,
        pairs,
        pairs,
        [*row.trailers, *pairs],
        nearly,
        halves,
        BREAKS,
        BREAKS,
        SPACES,
        ["a", "é x"],
    )
    return st.one_of(*map(st.sampled_from, pools))


@st.composite
def wrapped(draw: st.DrawFn) -> tuple[TagSet, str]:
    """A row with wrappers, and an answer behind its block, without any Markdown or further block."""
    row = draw(st.sampled_from([row for row in ROWS if row.wrappers]))
    pieces = draw(st.lists(answer_tokens(row), max_size=10))
    return row, "".join(pieces)


@many
@given(wrapped(), st.sampled_from([Start.LEADING, Start.IMPLICIT, Start.ANYWHERE]), cuts_in, st.booleans())
def test_wrappers_go_as_the_whole_text_tells(
    case: tuple[TagSet, str], start: Start, cuts: list[int], cut: bool
) -> None:
    row, answer = case
    rule = Rule(tags=row, start=start, whitespace=Whitespace.EXACT, interleaved=False)
    text = f"{row.openers[0]}r{row.closers[0]}{answer}"
    content = unwrap(answer, row)
    expected = (
        [(Channel.REASONING, "r"), (Channel.CONTENT, content)] if content else [(Channel.REASONING, "r")]
    )
    assert run(Splitter(rule), [text], [within(cuts, text)], cut=cut) == [expected]
