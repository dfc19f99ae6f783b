"""Every row of the table, fed whole, per character, at every two-cut and at random cuts."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from proxy.splitter import Splitter
from tests.examples import up_to_length
from tests.splitting import oracle
from tests.splitting.cases import CASES, Case
from tests.splitting.feeding import cuts_of, run

EVERY_TWO_CUT = up_to_length(40)
"""Texts up to this length are cut at every pair of places; longer ones at a sample."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_oracle_agrees_with_the_table(case: Case) -> None:
    assert oracle.split_parts(case.parts, case.rule, cut=case.cut) == [list(part) for part in case.expected]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_machine_agrees_with_the_table_whole_and_per_character(case: Case) -> None:
    expected = [list(part) for part in case.expected]
    for cuts in ([[] for _ in case.parts], [range(len(part)) for part in case.parts]):
        assert run(Splitter(case.rule), case.parts, cuts, cut=case.cut) == expected


@pytest.mark.share
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_machine_agrees_with_the_table_under_every_cut(case: Case) -> None:
    expected = [list(part) for part in case.expected]
    seed = random.Random(case.name)
    for cuts in cuts_of(case.parts, seed, every_two_cut=EVERY_TWO_CUT):
        assert run(Splitter(case.rule), case.parts, cuts, cut=case.cut) == expected, cuts


def test_the_table_names_every_row_once() -> None:
    assert [name for name, count in Counter(case.name for case in CASES).items() if count > 1] == []
