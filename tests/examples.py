"""How many examples a property is tried with: some in every run, all of them with `make test-slow`."""

from __future__ import annotations

import os

SHARE = 4
"""The part of the examples that `make test` makes."""


def up_to(count: int) -> int:
    """Return how many examples to make of `count`."""
    return count if os.environ.get("TEST_EXAMPLES") == "all" else max(count // SHARE, 10)
