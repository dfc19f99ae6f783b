"""How much is tried: a share in every run, all with `make test-slow`, which sets TEST_EXAMPLES."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")

SHARE = 4
"""The part of the examples that `make test` makes."""

IS_FULL = os.environ.get("TEST_EXAMPLES") == "all"


def up_to(count: int) -> int:
    """Return how many examples to make of `count`."""
    return count if IS_FULL else max(count // SHARE, 10)


def share_of(each: Sequence[T]) -> Sequence[T]:
    """Return a share of them, from the first to the last."""
    return each if IS_FULL else each[::SHARE]


def up_to_length(length: int) -> int:
    """Return up to which length a text is cut at every pair of places: their number grows with its square."""
    return length if IS_FULL else length // 2
