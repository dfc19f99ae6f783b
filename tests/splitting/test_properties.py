"""The master properties, over random texts, rules and cuts."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proxy.rules import Rule, Whitespace
from proxy.splitter import Channel, Splitter
from tests.examples import up_to
from tests.splitting import oracle
from tests.splitting.cases import C, R
from tests.splitting.conservation import is_conserved
from tests.splitting.feeding import collect, run
from tests.splitting.texts import answers, limited_to, limits, noise, rules, texts

many = settings(max_examples=up_to(300))
cuts_in = st.lists(st.integers(0, 400), max_size=12)
cut_off = st.booleans()


def within(cuts: list[int], text: str) -> list[int]:
    return [min(cut, len(text)) for cut in cuts]


def whole(text: str, rule: Rule, *, cut: bool) -> oracle.Pieces:
    """The non-streaming path: one feed and the end."""
    return run(Splitter(rule), [text], [[]], cut=cut)[0]


@many
@given(texts, rules, cuts_in, cut_off)
@example("\ud83d\udc00<think>\udfff</think>\ud800", Rule(), [1, 9], False)
def test_cuts_change_nothing(text: str, rule: Rule, cuts: list[int], cut: bool) -> None:
    expected = [whole(text, rule, cut=cut)]
    assert run(Splitter(rule), [text], [within(cuts, text)], cut=cut) == expected
    assert run(Splitter(rule), [text], [range(len(text))], cut=cut) == expected


@settings(max_examples=up_to(40))
@given(st.one_of(answers, noise).filter(lambda text: len(text) < 40), rules, cut_off)
def test_every_two_cut_changes_nothing(text: str, rule: Rule, cut: bool) -> None:
    expected = [whole(text, rule, cut=cut)]
    for second in range(len(text) + 1):
        for first in range(second + 1):
            assert run(Splitter(rule), [text], [[first, second]], cut=cut) == expected, (first, second)


@many
@given(texts, rules, cut_off)
def test_oracle_agrees(text: str, rule: Rule, cut: bool) -> None:
    assert whole(text, rule, cut=cut) == oracle.split(text, rule, cut=cut)


@many
@given(texts, rules, limits, cuts_in, cut_off)
def test_oracle_agrees_about_limits(
    text: str, rule: Rule, limit: tuple[int, int], cuts: list[int], cut: bool
) -> None:
    with limited_to(*limit):
        assert run(Splitter(rule), [text], [within(cuts, text)], cut=cut) == [
            oracle.split(text, rule, cut=cut)
        ]


@many
@given(st.lists(answers, min_size=2, max_size=4), rules, limits, cuts_in, cut_off)
def test_oracle_agrees_about_interrupts(
    parts: list[str], rule: Rule, limit: tuple[int, int], cuts: list[int], cut: bool
) -> None:
    with limited_to(*limit):
        got = run(Splitter(rule), parts, [within(cuts, part) for part in parts], cut=cut)
        assert got == oracle.split_parts(parts, rule, cut=cut)


@many
@given(texts, rules, limits, cut_off)
@example("\ud83d\udc00<think>\udfff</think>\ud800", Rule(), (6, 120), False)
@example("<think>r</think>\n <think>b</think> y", Rule(), (6, 120), False)
@example("<think><think></think></think> <think><</think></think>", Rule(), (1, 80), False)
def test_only_markers_and_the_named_white_space_go(
    text: str, rule: Rule, limit: tuple[int, int], cut: bool
) -> None:
    with limited_to(*limit):
        pieces = whole(text, rule, cut=cut)
    assert is_conserved(text, pieces, rule), pieces


EXACT = Rule(whitespace=Whitespace.EXACT)


@pytest.mark.parametrize(
    ("text", "pieces", "rule"),
    [
        ("<think>r</think>x", [R("r")], Rule()),
        ("<think>r</think>x", [C("x")], Rule()),
        ("<think>r</think>x", [C("x"), R("r")], Rule()),
        ("<think>r</think>x", [R("r</think"), C("x")], Rule()),
        ("<think>r</think>x</think>", [R("r"), C("x")], Rule()),
        ("<think> r</think>x", [R("r"), C("x")], Rule()),
        ("<think>r</think>x \n", [R("r"), C("x")], Rule()),
        ("<think>r</think> <think>b</think>y", [R("rb"), C("y")], Rule()),
        ("<think>r</think>\n <think>b</think>y", [R("rb"), C("\n y")], EXACT),
        ("<think>r</think> x", [R("r"), C("x")], EXACT),
        (" <think>r</think>x", [R("r"), C("x")], EXACT),
        ("<think> </think>x", [C("x")], EXACT),
        ("<thinker>x", [R("x")], Rule()),
    ],
)
def test_conservation_sees_what_is_lost(text: str, pieces: oracle.Pieces, rule: Rule) -> None:
    assert not is_conserved(text, pieces, rule)


@many
@given(texts, rules, limits, cuts_in, cut_off)
def test_what_a_span_ends_at_is_final(
    text: str, rule: Rule, limit: tuple[int, int], cuts: list[int], cut: bool
) -> None:
    with limited_to(*limit):
        spans = collect(Splitter(rule), [text], [within(cuts, text)], cut=cut)[0]
    went_out: Counter[str] = Counter()
    for span in spans:
        assert span.text
        assert isinstance(span.channel, Channel)
        went_out.update(span.text)
        assert went_out <= Counter(text[: span.end]), "a span holds what was not consumed when it ended"
    assert [span.end for span in spans] == sorted(span.end for span in spans)


@many
@given(texts, cuts_in)
def test_text_that_is_not_split_ends_where_it_stands(text: str, cuts: list[int]) -> None:
    prose = "x" + text
    end = 0
    for span in collect(Splitter(Rule()), [prose], [within(cuts, prose)])[0]:
        end += len(span.text)
        assert span.end == end
