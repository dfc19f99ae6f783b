"""A key is taken out of an answer however the network cut it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from proxy.mask import Masked, mask

SECRET = b"aab-aac"


class Parts:
    """A body that comes in these parts."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = [part for part in parts if part]

    async def read(self) -> bytes:
        return self._parts.pop(0) if self._parts else b""


pieces = st.lists(st.sampled_from([SECRET, b"a", b"b", b"-", b"aab", b"aac", b"\n", b"aab-aa"]), max_size=12)


@given(pieces, st.lists(st.integers(0, 80), max_size=6))
@example([SECRET, SECRET], [3, 7, 10])
@example([b"aab-aa"], [])
async def test_whatever_the_cuts_the_bytes_are_those_of_the_whole(
    parts: list[bytes], cuts: list[int]
) -> None:
    body = b"".join(parts)
    ends = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    cut = [body[start:end] for start, end in pairwise(ends)]
    masked, told = Masked(Parts(cut), SECRET), b""
    while data := await masked.read():
        told += data
    assert told == body.replace(SECRET, b"*" * len(SECRET))
    assert await masked.read() == b""


async def test_nothing_waits_that_cannot_be_the_beginning_of_a_key() -> None:
    masked = Masked(Parts([b"data: a\n\n", b"x"]), SECRET)
    assert await masked.read() == b"data: a\n\n"


def test_without_a_key_the_body_is_itself() -> None:
    body = Parts([])
    assert mask(body, None) is body
