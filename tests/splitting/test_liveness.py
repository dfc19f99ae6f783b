"""Text is held only while it must be: what has come out after each text fed, without any end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proxy.splitter import Channel, Splitter
from tests.examples import up_to
from tests.splitting import oracle
from tests.splitting.cases import (
    ANYWHERE,
    DEFAULT,
    EXACT,
    GIVE_BACK,
    IMPLICIT,
    IMPLICIT_EXACT,
    PLAIN,
    SINGLE,
    C,
    Piece,
    R,
    T,
)
from tests.splitting.texts import answers, limited_to, rules

if TYPE_CHECKING:
    from proxy.rules import Rule

ROWS: list[tuple[str, Rule, str, list[Piece]]] = [
    ("less-than", DEFAULT, T + "a <", [R("r"), C("a ")]),
    ("less-than, disproved", DEFAULT, T + "a < ", [R("r"), C("a < ")]),
    ("div", DEFAULT, T + "<d", [R("r"), C("<d")]),
    ("div, whole", DEFAULT, T + "<div>", [R("r"), C("<div>")]),
    ("thin ice", DEFAULT, T + "<thin", [R("r")]),
    ("thin ice, disproved", DEFAULT, T + "<thin ", [R("r"), C("<thin ")]),
    ("padded", DEFAULT, T + "<think" + " " * 64, [R("r")]),
    ("padded too much", DEFAULT, T + "<think" + " " * 65, [R("r"), C("<think" + " " * 65)]),
    ("kelvin sign", DEFAULT, T + "<thin\u212a", [R("r"), C("<thin\u212a")]),
    ("a second less-than keeps the first no longer", DEFAULT, T + "a <<", [R("r"), C("a <")]),
    ("first text that is no opener", DEFAULT, "S", [C("S")]),
    ("first text that is no opener, disproved late", DEFAULT, " <thinke", [C(" <thinke")]),
    ("first text that is no opener, held", DEFAULT, " <think", []),
    ("a closer first", DEFAULT, "</", [C("</")]),
    ("nothing is held once it passes", DEFAULT, "Sure.\n<think", [C("Sure.\n<think")]),
    ("leading white space", DEFAULT, " " * 4096, []),
    ("leading white space, limit", DEFAULT, " " * 4097, [C(" " * 4097)]),
    ("leading white space, exact", EXACT, " \n<think>r", [R("r")]),
    ("leading white space, exact, block closed", EXACT, " \n<think>r</think>", [R("r"), C(" \n")]),
    ("reasoning", DEFAULT, "<think>r", [R("r")]),
    ("reasoning, white space behind it", DEFAULT, "<think>r \n", [R("r \n")]),
    ("head of a block", DEFAULT, "<think> \n", []),
    ("head of a block, visible", DEFAULT, "<think> \nr", [R(" \nr")]),
    ("head of a block, exact", EXACT, "<think> ", [R(" ")]),
    ("head of a block, limit kept", DEFAULT, "<think>" + "\n" * 4096, []),
    ("head of a block, limit passed", DEFAULT, "<think>" + "\n" * 4097, [R("\n" * 4097)]),
    ("head of a block, behind the limit", DEFAULT, "<think>" + "\n" * 5000, [R("\n" * 5000)]),
    ("partial closer", DEFAULT, "<think>r</think", [R("r")]),
    ("partial closer, disproved", DEFAULT, "<think>r</thinks", [R("r</thinks")]),
    ("nested opener", DEFAULT, "<think>r<think>", [R("r<think>")]),
    ("partial nested opener", DEFAULT, "<think>r<th", [R("r<th")]),
    ("orphan that does not count", DEFAULT, T + "a</", [R("r"), C("a</")]),
    ("orphan that counts", DEFAULT, "<think>r<think></think>a</think", [R("r<think>"), C("a")]),
    (
        "orphan that counts, with one block only",
        SINGLE,
        "<think>r<think></think>a</",
        [R("r<think>"), C("a")],
    ),
    ("orphan in code", DEFAULT, "<think>r<think></think>`</", [R("r<think>"), C("`</")]),
    ("opener with one block only", SINGLE, T + "a\n<think>", [R("r"), C("a\n<think>")]),
    ("content", DEFAULT, T + "a\n", [R("r"), C("a\n")]),
    ("content, CR", DEFAULT, T + "a\r", [R("r"), C("a\r")]),
    ("backticks", DEFAULT, T + "a ``", [R("r"), C("a ``")]),
    ("a fence not closed yet", DEFAULT, T + "```\n```", [R("r"), C("```\n```")]),
    ("inline code", DEFAULT, T + "a `<th", [R("r"), C("a `<th")]),
    ("inline code, not code aware", PLAIN, T + "a `<th", [R("r"), C("a `")]),
    ("fence", DEFAULT, T + "```\n<think", [R("r"), C("```\n<think")]),
    ("closing line of a fence", DEFAULT, T + "```\n``` <", [R("r"), C("```\n``` <")]),
    ("indentation of the answer", DEFAULT, T + "\n  ", [R("r")]),
    ("indentation of the answer, visible", DEFAULT, T + "\n  x", [R("r"), C("  x")]),
    ("indentation of the answer, limit kept", DEFAULT, T + " " * 4096, [R("r")]),
    ("indentation of the answer, limit passed", DEFAULT, T + " " * 4097, [R("r"), C(" " * 4097)]),
    ("behind that limit", DEFAULT, T + " " * 4097 + "\n ", [R("r"), C(" " * 4097 + "\n ")]),
    ("indentation, exact", EXACT, T + "\n ", [R("r"), C("\n ")]),
    ("indentation of a later block's content", DEFAULT, T + "a" + T + " ", [R("r"), C("a"), R("r"), C(" ")]),
    ("later block", DEFAULT, T + "a\n<think>s", [R("r"), C("a\n"), R("s")]),
    ("later block, directly behind", DEFAULT, T + "a" + T + "<think>s", [R("r"), C("a"), R("rs")]),
    ("later block before a line break", DEFAULT, T + "a <think>\ns", [R("r"), C("a "), R("\ns")]),
    ("mid-line", DEFAULT, T + "a <think>s", [R("r"), C("a ")]),
    ("mid-line, closed", DEFAULT, T + "a <think>s</think>", [R("r"), C("a "), R("s")]),
    ("mid-line, a real opener", DEFAULT, T + "a <think>s\n<think>t", [R("r"), C("a <think>s\n"), R("t")]),
    ("mid-line, limit kept", DEFAULT, T + "a <think>" + "s" * 8184, [R("r"), C("a ")]),
    ("mid-line, limit passed", DEFAULT, T + "a <think>" + "s" * 8186, [R("r"), C("a <think>" + "s" * 8186)]),
    (
        "mid-line, the next candidate",
        DEFAULT,
        T + "a <think>" + "s" * 8100 + "<think>" + "t" * 100,
        [R("r"), C("a <think>" + "s" * 8100)],
    ),
    ("mid-line in code", DEFAULT, T + "a `<think>s", [R("r"), C("a `<think>s")]),
    ("given back", GIVE_BACK, "<think>rrr", []),
    ("given back, closed", GIVE_BACK, "<think>rrr</think>", [R("rrr")]),
    ("given back, content", GIVE_BACK, T + "x", [R("r"), C("x")]),
    ("implicit", IMPLICIT, "r", [R("r")]),
    ("implicit, white space", IMPLICIT, "\n ", []),
    ("implicit, white space, exact", IMPLICIT_EXACT, "\n ", [R("\n ")]),
    ("implicit, opener", IMPLICIT, "<thi", []),
    ("implicit, opener disproved", IMPLICIT, "<thie", [R("<thie")]),
    ("implicit, opener nested", IMPLICIT, "r<thi", [R("r<thi")]),
    ("implicit, white space limit", IMPLICIT, " " * 4097 + "<thi", [R(" " * 4097 + "<thi")]),
    ("anywhere, prose", ANYWHERE, "a\n b", [C("a\n b")]),
    ("anywhere, mid-line", ANYWHERE, "a <think>r", [C("a "), R("r")]),
    ("anywhere, closer", ANYWHERE, "a </", [C("a </")]),
    ("anywhere, code", ANYWHERE, "a `<", [C("a `<")]),
    ("anywhere, leading white space", ANYWHERE, " \n", []),
    ("anywhere, white space later", ANYWHERE, "a \n", [C("a \n")]),
    ("anywhere, white space behind the limit", ANYWHERE, " " * 5000, [C(" " * 5000)]),
]


def so_far(text: str, rule: Rule, *, by_character: bool) -> oracle.Pieces:
    splitter = Splitter(rule)
    spans = [span for chunk in (text if by_character else [text]) for span in splitter.feed(chunk)]
    return oracle.merge([(span.channel, span.text) for span in spans])


@pytest.mark.parametrize("by_character", [True, False], ids=["by character", "whole"])
@pytest.mark.parametrize(
    ("rule", "text", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_what_is_out_so_far(rule: Rule, text: str, expected: list[Piece], by_character: bool) -> None:
    assert so_far(text, rule, by_character=by_character) == expected


WORDS = ("think", "thinking", "reasoning", "thought")
COMPLETE = [f"<{word}>" for word in WORDS] + [f"</{word}>" for word in WORDS]
ENDINGS = [
    "",
    "x",
    "\n",
    "\nx",
    " x",
    " " * 9 + "x",
    "</think>",
    "</think>x",
    "x</think>y",
    "x</think>\ny",
    "<think>x</think>y",
    "\n<think>x</think>y",
    "`",
    "`<think>x",
    "\n\n</think>y",
    "\n``````\n</think>y",
    "\n~~~~~~\n</think>y",
    "\n\n<think>x</think>y",
    "<think>\nx</think>y",
    "</think><think>x</think>y",
]


def continuations(text: str) -> list[str]:
    """Ways to go on that decide what may be open: the marker begun last, and what it is good for."""
    completions = [""]
    if begun := re.search(r"<[^<]*\Z", text):
        completions += [
            marker[len(fits[0]) :]
            for marker in COMPLETE
            if (fits := re.match(re.escape(begun[0].rstrip(" \t")), marker, re.IGNORECASE | re.ASCII))
            and (not begun[0].endswith((" ", "\t")) or marker[fits.end() :] == ">")
        ]
    return [completion + ending for completion in completions for ending in ENDINGS]


@settings(max_examples=up_to(200))
@given(answers, rules, st.integers(1, 6))
@example(T + "<think ", DEFAULT, 3)
@example("a\n<think>" + " " * 4, ANYWHERE, 3)
def test_all_that_is_certain_is_out(text: str, rule: Rule, space: int) -> None:
    """What is common to every way the turn may go on must have been sent; nothing else may have been."""
    with limited_to(space, oracle.HOLD_LIMIT):
        certain: list[tuple[Channel, str]] | None = None
        for ending in continuations(text):
            for cut in (False, True):
                pieces = oracle.split(text + ending, rule, cut=cut)
                characters = [(channel, character) for channel, piece in pieces for character in piece]
                certain = characters if certain is None else common(certain, characters)
        for by_character in (True, False):
            assert so_far(text, rule, by_character=by_character) == oracle.merge(certain or [])


def common(one: list[tuple[Channel, str]], other: list[tuple[Channel, str]]) -> list[tuple[Channel, str]]:
    for position, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return one[:position]
    return one[: len(other)]
