"""What holds for all tests: the loop is that of production, and how fast the machine is decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import uvloop
from hypothesis import HealthCheck, settings

from tests.examples import up_to

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

settings.register_profile(
    "patient", max_examples=up_to(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    # How a connection ends differs between uvloop and asyncio's own loop.
    return {"uvloop": uvloop.new_event_loop}


@pytest.hookimpl(trylast=True)  # Hypothesis marks its tests in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # They run the same lines thousands of times, and to trace them is the larger part of what they cost.
    # Tests with written cases reach all of those lines but a handful.
    for item in items:
        if item.get_closest_marker("hypothesis") or item.get_closest_marker("share"):
            item.add_marker(pytest.mark.no_cover)
