"""An answer that goes on from a beginning that the client wrote, in which a block was closed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from proxy.rules import Rule, Start, Unterminated, Whitespace
from proxy.splitter import Channel, Splitter
from tests.splitting.feeding import cuts_of, run

C, R = Channel.CONTENT, Channel.REASONING
CLOSED = "<think>a</think>"

ROWS = [
    ("text goes on", "Hello", " there", [(C, " there")], {}),
    ("a later block", "Hello", " x\n<think>r</think>y", [(C, " x\n"), (R, "r"), (C, "y")], {}),
    ("a block at once", "", "<think>r</think>y", [(R, "r"), (C, "y")], {}),
    ("one leading block only", "", "<think>r</think>y", [(C, "<think>r</think>y")], {"interleaved": False}),
    ("blank lines before the answer", "", "\n\n  x", [(C, "  x")], {}),
    ("blank lines that are kept", "", "\n\n  x", [(C, "\n\n  x")], {"whitespace": Whitespace.EXACT}),
    ("blank lines behind those of the client", "\n\n", "\nx", [(C, "x")], {}),
    ("in the middle of a line", "Say ", "<think> is a tag", [(C, "<think> is a tag")], {}),
    ("in code", "\n```\n", "<think>\n```\nx", [(C, "<think>\n```\nx")], {}),
    ("a mentioned opener", "Hi <think>", " is a tag</think>", [(C, " is a tag</think>")], {}),
    ("a marker that was cut in two", "Hi\n<thi", "nk>r</think>", [(C, "nk>r</think>")], {}),
    ("nothing", "", "", [], {}),
    ("an orphan of the client's", "<think>b<think>c</think>", "</think>x", [(C, "x")], {}),
    (
        "an open block is given back alone",
        "",
        "x<think>r",
        [(C, "x<think>r")],
        {"unterminated": Unterminated.CONTENT},
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
@pytest.mark.parametrize("start", [Start.LEADING, Start.ANYWHERE], ids=lambda start: start.value)
def test_it_goes_on_where_the_client_stopped(
    start: Start, row: tuple[str, str, str, list[Any], dict[str, Any]]
) -> None:
    name, said, text, expected, fields = row
    prefill = said if said.startswith("<think>") else CLOSED + said
    rule = Rule(start=start, prefill=prefill, **fields)
    for cuts in cuts_of([text], random.Random(name), every_two_cut=40):
        assert run(Splitter(rule), [text], cuts, cut=False) == [expected], cuts


def test_what_the_client_wrote_is_no_news() -> None:
    splitter = Splitter(Rule(prefill=CLOSED))
    splitter.feed("Hello")
    assert not splitter.engaged
    splitter.feed("\n<think>r")
    assert splitter.engaged
