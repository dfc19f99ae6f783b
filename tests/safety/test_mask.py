"""A key is taken out of an answer however the network cut it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from proxy.mask import Mask, cover

SECRET = b"aab-aac"


pieces = st.lists(st.sampled_from([SECRET, b"a", b"b", b"-", b"aab", b"aac", b"\n", b"aab-aa"]), max_size=12)


@given(pieces, st.lists(st.integers(0, 80), max_size=6))
@example([SECRET, SECRET], [3, 7, 10])
@example([b"aab-aa"], [])
def test_whatever_the_cuts_the_bytes_are_those_of_the_whole(parts: list[bytes], cuts: list[int]) -> None:
    body = b"".join(parts)
    ends = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    mask = Mask(SECRET.decode())
    told = b"".join(mask.feed(body[start:end]) for start, end in pairwise(ends)) + mask.finish()
    assert told == body.replace(SECRET, b"*" * len(SECRET)) == cover(body, SECRET.decode())
    assert mask.finish() == b""


def test_nothing_waits_that_cannot_be_the_beginning_of_a_key() -> None:
    mask = Mask(SECRET.decode())
    assert mask.feed(b"data: a\n\n") == b"data: a\n\n"
    assert mask.feed(b"x") == b"x"


def test_without_a_key_the_body_is_itself() -> None:
    assert cover(b"aab-aac", None) == b"aab-aac"
