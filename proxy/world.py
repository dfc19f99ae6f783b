"""What a request takes along when it begins: one configuration, and all that was built from it.

A reload makes a new world beside the old one. The old one lasts as long as a request that began in it,
and closes its connections then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.gate import Gate
from proxy.health import Health
from proxy.keys import Keys
from proxy.probe import Probe
from proxy.routes import Routes
from proxy.settings import RuleTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from proxy.settings import Settings


class World:
    """One configuration at work. Entered once for each request that runs in it."""

    def __init__(self, settings: Settings, on_over: Callable[[World], object]) -> None:
        """Build everything; `on_over` is called when it is retired and nothing runs in it any more.

        Raises:
            ValueError: the configuration names no upstream.
            OSError: a file of certificates cannot be read.
        """
        self.settings = settings
        self.rules = RuleTable(settings.entries)
        self.gate = Gate(settings.passthrough_paths)
        self.keys = Keys((*settings.api_keys, *settings.file_api_keys))
        self.routes = Routes(settings.servers)
        self.health = Health(settings.servers)
        self.probe = Probe()
        self._on_over = on_over
        self._users = 0
        self._retired = False

    def __enter__(self) -> Self:
        """Stay until the request is over."""
        self._users += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connections after the last request of a world that was replaced."""
        self._users -= 1
        self._end_if_over()

    def retire(self) -> None:
        """Take no new requests; called when another world has taken its place."""
        self._retired = True
        self._end_if_over()

    def _end_if_over(self) -> None:
        if self._retired and not self._users:
            self.routes.disconnect()
            self._on_over(self)
