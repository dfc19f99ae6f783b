"""The configuration while the proxy runs: read again when asked to, or when its file changes."""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from proxy.config import ConfigError, find_file
from proxy.telemetry import LOGGER

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.settings import Settings

POLL_S = 1.0
"""Seconds between two looks at the files; a change is taken when it has outlasted one."""


class ConfigSource:
    """Where the settings come from, and the last ones that were good."""

    def __init__(self, load: Callable[[], Settings], path: Path | None = None) -> None:
        """Load for the first time.

        Args:
            load: reads the whole configuration.
            path: the file that was named for it; None means THINK_PROXY_CONFIG, or the default one.

        Raises:
            ConfigError: it is faulty.
        """
        self._load = load
        self._path, _ = find_file(path)
        self.settings = load()
        """Those in force."""
        self._taken = self._seen = self._look(self.settings)

    def read(self) -> Settings | None:
        """Load anew. What is faulty is reported, and None comes back."""
        before = self._look(self.settings)
        self._taken = self._seen = before
        try:
            found = self._load()
        except ConfigError as error:
            LOGGER.error("the configuration is faulty, the one before stays: %s", error)
            return None
        if not found.servers:
            LOGGER.error("the configuration names no upstream, the one before stays")
            return None
        if found.listen != self.settings.listen:
            LOGGER.warning("listen cannot change while the proxy runs: that takes a restart")
            found = replace(found, listen=self.settings.listen)
        if _list_files(found) != _list_files(self.settings):
            self._taken = self._seen = self._look(found)
        return found

    def has_changed(self) -> bool:
        """Look at the files; true once for every new content that was there the time before, too.

        So what is being written is not read. Where a file is missing, someone is about to put it there.
        """
        now = self._look(self.settings)
        is_new = now is not None and now == self._seen and now != self._taken
        self._seen = now
        if is_new:
            self._taken = now
        return is_new

    def _look(self, settings: Settings) -> bytes | None:
        """Return a digest of all files that count, or None where one of them is missing.

        Contents and not times: Kubernetes mounts a volume's files through links, and swaps those.
        """
        digest = hashlib.sha256()
        try:
            for file in (self._path, *_list_files(settings)):
                digest.update(hashlib.sha256(file.read_bytes()).digest())
        except OSError:
            return None
        return digest.digest()


def _list_files(settings: Settings) -> list[Path]:
    """Return the files that a configuration names, and that are read with it."""
    named = [settings.api_keys_file, *(server.ca_file for server in settings.servers)]
    return [Path(name) for name in named if name is not None]


async def follow(
    source: ConfigSource, is_asked: asyncio.Event, apply: Callable[[Settings | None], bool]
) -> None:
    """Read the configuration whenever asked to, or whenever its files change if that is switched on.

    Runs until it is cancelled. What was read, None where it is faulty, is given to `apply`, which tells
    whether it is in force now.
    """
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(POLL_S if source.settings.watch_config else None):
                await is_asked.wait()
        if is_asked.is_set() or await asyncio.to_thread(source.has_changed):
            is_asked.clear()
            settings = await asyncio.to_thread(source.read)
            if apply(settings) and settings is not None:
                source.settings = settings
