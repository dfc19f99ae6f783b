"""The limits as they are, and small: what holds for the ones is tried with the others in every run."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from proxy.calls import finder

if TYPE_CHECKING:
    from collections.abc import Iterator

at_both_scales = pytest.mark.parametrize(
    "share", [32, pytest.param(1, marks=pytest.mark.slow)], ids=["small", "full"]
)


@contextmanager
def scaled(share: int) -> Iterator[None]:
    """Set the limits of `finder` to a share of what they are."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("BLOCK_LIMIT", "RUN_LIMIT", "HEAD_LIMIT"):
            patch.setattr(finder, name, getattr(finder, name) // share)
        yield
