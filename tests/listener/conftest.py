from __future__ import annotations

from typing import TYPE_CHECKING

import uvloop

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    # The loop that production runs on: how a connection ends differs between the two.
    return {"uvloop": uvloop.new_event_loop}
