"""Wrapped answers and stray closers, whole and per character; `test_rows` tries the same under every cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.rules import TAG_SETS, Rule
from proxy.splitter import Splitter
from tests.formats.rows import C, R
from tests.formats.test_rows import M3, WRAPPED
from tests.splitting.feeding import run

if TYPE_CHECKING:
    from tests.splitting.oracle import Pieces

ANSWERS = [
    (name, text, [piece for piece in ((R, thought), (C, content)) if piece[1]])
    for name, text, thought, content in WRAPPED
] + [("minimax-m3", text, pieces) for text, pieces in M3]


@pytest.mark.parametrize(("name", "text", "pieces"), ANSWERS)
def test_an_answer(name: str, text: str, pieces: Pieces) -> None:
    for cuts in ((), range(len(text))):
        assert run(Splitter(Rule(tags=TAG_SETS[name])), [text], [cuts]) == [pieces]
