"""Hypothesis strategies: texts as models and hostile users write them, and every rule that can be set."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest.mock import patch

from hypothesis import strategies as st

import proxy.splitter
from proxy.rules import Rule, Start, Unterminated, Whitespace
from tests.splitting import oracle

if TYPE_CHECKING:
    from collections.abc import Iterator

OPENERS = ["<think>", "<thinking>", "<THOUGHT>", "<Reasoning >", "<think\t >"]
CLOSERS = ["</think>", "</thinking>", "</Thought>", "</reasoning\t>"]
NEAR_MARKERS = [
    "<",
    "<<",
    "</",
    "<t",
    "<thi",
    "<think",
    "<think ",
    "</think",
    "</thin",
    "</ think>",
    "< think>",
    "<thinker>",
    "<think/>",
    "<think-tank>",
    "<thin\u212a>",
    "</thin\u212a>",
    "<think\n>",
    "<thinkin",
    "<reason>",
    "think>",
    "g>",
    "ing>",
    "/think>",
    ">",
    " >",
    "<think" + " " * 64 + ">",
    "<think" + " " * 65 + ">",
    "</think" + "\t" * 64 + ">",
    "</think" + "\t" * 65 + ">",
]
MARKDOWN = [
    "`",
    "``",
    "```",
    "````",
    "~",
    "~~",
    "~~~",
    "~~~~",
    "\n```",
    "\n~~~",
    "\n```\n",
    "\n  ```",
    "```py",
    "- ",
    "`x`",
]
BREAKS = ["\n", "\r", "\r\n", "\n\n", "\r\n\r\n", "\n\r"]
SPACES = [" ", "  ", "\t", "    ", "\u00a0", "\ufeff", "\u200b", "\x0b", "\u2028", "\x85", "\x1c"]
NOISE = [
    "a",
    "b c",
    "x",
    ".",
    "\u00e9",
    "\u200d",
    "\U0001f914",
    "\ud83d",
    "\x00",
    "\\",
    "*",
    "<div>",
    "a < b",
    "thirty characters of plain text",
]

_TOKEN = st.one_of(
    # An alternative named twice is twice as likely.
    st.sampled_from(OPENERS),
    st.sampled_from(OPENERS),
    st.sampled_from(CLOSERS),
    st.sampled_from(CLOSERS),
    st.sampled_from(NEAR_MARKERS),
    st.sampled_from(MARKDOWN),
    st.sampled_from(MARKDOWN),
    st.sampled_from(BREAKS),
    st.sampled_from(BREAKS),
    st.sampled_from(SPACES),
    st.sampled_from(SPACES),
    st.sampled_from(NOISE),
    st.sampled_from(NOISE),
)
_BEGINNING = st.sampled_from(
    ["", "<think>", "<think>", "\n <think>", "<think>r</think>", "<think>r</think>a ", "r</think>b "]
)

answers = st.builds(
    lambda beginning, tokens: beginning + "".join(tokens), _BEGINNING, st.lists(_TOKEN, max_size=30)
)
"""A beginning that mostly engages, and then tokens in which nearly every neighbourhood means something."""

noise = st.text(st.characters(), max_size=60)
"""Any code points at all, lone surrogates among them."""

texts = st.one_of(answers, answers, answers, noise, st.lists(_TOKEN, max_size=12).map("".join))

rules = st.builds(
    Rule,
    start=st.sampled_from([Start.LEADING, Start.LEADING, Start.IMPLICIT, Start.ANYWHERE]),
    interleaved=st.sampled_from([True, True, True, False]),
    code_aware=st.sampled_from([True, True, True, False]),
    whitespace=st.sampled_from(Whitespace),
    unterminated=st.sampled_from(Unterminated),
)

limits = st.tuples(st.integers(1, 6), st.integers(80, 120))
"""Small limits, so that short texts pass them: white space, mid-line hold. The longest opener has 75 code
points, and none may be longer than a hold."""


@contextmanager
def limited_to(space: int, hold: int) -> Iterator[None]:
    """Set both limits, in the machine and in the oracle."""
    with (
        patch.multiple(proxy.splitter, SPACE_LIMIT=space, HOLD_LIMIT=hold),
        patch.multiple(oracle, SPACE_LIMIT=space, HOLD_LIMIT=hold),
    ):
        yield
