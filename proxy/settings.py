"""What the product runs with, as frozen values: no parsing, no I/O, no pydantic.

`proxy.config` produces a `Settings`; everything else only reads it. A request keeps the `Settings` it
began with, so a reload never changes an answer half way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import translate
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from proxy.rules import Rule

MIB = 1024 * 1024

DEFAULT_NAME = "default"
"""What the only model server is called where the configuration gives no names."""


class LogLevel(StrEnum):
    """From which severity on a line is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How a log line looks."""

    JSON = "json"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Listen:
    """Where the proxy accepts connections: `uds` is a socket file, and wins over host and port."""

    host: str = "127.0.0.1"
    port: int = 8080
    uds: str | None = None


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits in seconds; 0 switches a limit off."""

    connect_s: float = 5.0
    """To open a connection to the upstream."""
    first_byte_s: float = 600.0
    """From the request sent to the first byte of the answer; a long prompt may wait in a queue."""
    idle_s: float = 120.0
    """Between two reads of one answer."""
    answer_s: float = 0.0
    """For the whole answer."""
    request_s: float = 60.0
    """For the client to send its whole request."""


@dataclass(frozen=True, slots=True)
class Server:
    """One model server."""

    name: str
    url: str
    """Base address, without a trailing `/` or `/v1`; `http+unix` for a socket file."""
    models: tuple[str, ...] = ("*",)
    """Names and globs of the models that it serves."""
    api_key: str | None = field(default=None, repr=False)
    """Sent to it in place of what the client sent."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    ca_file: str | None = None
    """A file of certificates to check its own against, instead of the system's."""
    uds: str | None = None
    """A socket file to connect to, instead of the host that `url` names."""


@dataclass(frozen=True, slots=True)
class Cors:
    """Cross-origin answers that the proxy gives itself, instead of passing `OPTIONS` on."""

    allow_origins: tuple[str, ...]
    """Origins as browsers send them (`https://chat.example`), or `*` alone."""
    allow_headers: tuple[str, ...] = ()
    """Request headers to allow; empty allows those that the browser asks for."""
    allow_credentials: bool = False
    max_age_s: int = 600
    """Seconds for which a browser may keep a preflight's answer."""


@dataclass(frozen=True, slots=True)
class Log:
    """What is logged, and how it looks."""

    level: LogLevel = LogLevel.INFO
    format: LogFormat = LogFormat.TEXT


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of `inlineThinkTagModels`: a model name or glob, and its rule in full."""

    name: str
    rule: Rule
    origin: str = "built in"
    """Where it was written, for people: `config/proxy.yaml:7`, a variable's name, the command line."""
    sources: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Where each value of the rule that is not a default came from."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything the proxy runs with."""

    listen: Listen = field(default_factory=Listen)
    upstream: str | None = None
    """Base address of the only model server, without a trailing `/` or `/v1`."""
    upstreams: tuple[Server, ...] = ()
    """Several model servers, in the order in which they are asked whether a model is theirs."""
    entries: tuple[Entry, ...] = ()
    timeouts: Timeouts = field(default_factory=Timeouts)
    max_body_bytes: int = 64 * MIB
    max_header_bytes: int = 64 * 1024
    """The largest head of a request: its first line and all its header fields."""
    max_event_bytes: int = 16 * MIB
    max_concurrent_requests: int = 0
    """Requests that are served at a time, in one process; 0 for any number."""
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    """What opens the proxy; without any it is open."""
    api_keys_file: str | None = None
    file_api_keys: tuple[str, ...] = field(default=(), repr=False)
    """The keys that stood in that file."""
    public_metrics: bool = False
    """`/metrics` needs no key."""
    passthrough_paths: tuple[str, ...] = ()
    """Globs of paths that are relayed besides the built-in ones."""
    cors: Cors | None = None
    keep_alive_s: float = 0.0
    """Silence of a stream after which it carries a comment; 0 for none."""
    drain_s: float = 30.0
    """For running requests to end when the proxy stops."""
    drain_delay_s: float = 0.0
    """From the signal to stop until no new connections are accepted."""
    watch_config: bool = False
    """The configuration is read again when its file changes."""
    log: Log = field(default_factory=Log)

    @property
    def servers(self) -> tuple[Server, ...]:
        """The model servers in force: `upstream` is the short form of one, `default`, for every model."""
        if self.upstream is None:
            return self.upstreams
        return (Server(DEFAULT_NAME, self.upstream, timeouts=self.timeouts),)


MAX_CACHED_NAMES = 1024
MAX_CACHED_NAME_CHARS = 256
"""Longer names are matched anew each time: a cache that a client can fill must stay small in bytes."""

_GLOB_CHARS = frozenset("*?[")


def strip_variant(model: str) -> str | None:
    """Return `vendor/name` of `vendor/name:variant`, or None where there is no variant."""
    base, colon, variant = model.rpartition(":")
    return base if colon and base and variant and "/" not in variant else None


class RuleTable:
    """Finds the entry for a request's model.

    A name that an entry spells out wins over every glob; among globs the first that matches wins. Each
    is tried on the name as it came and, after that, without its `:variant`. Case matters; `*` and `?`
    match a `/` too. Looking the same name up again costs the same whatever the number of entries.
    """

    __slots__ = ("_exact", "_globs", "_remembered")

    def __init__(self, entries: Iterable[Entry]) -> None:
        """Take the entries in the order of the configuration; of equal names the first one counts."""
        self._exact: dict[str, Entry] = {}
        self._globs: list[tuple[re.Pattern[str], Entry]] = []
        for entry in entries:
            self._exact.setdefault(entry.name, entry)
            if not _GLOB_CHARS.isdisjoint(entry.name):
                self._globs.append((re.compile(translate(entry.name)), entry))
        self._remembered = lru_cache(maxsize=MAX_CACHED_NAMES)(self._match)

    def find(self, model: str) -> Entry | None:
        """Return the entry for a model name, or None if none is listed for it."""
        base = strip_variant(model)
        entry = self._exact.get(model)
        if entry is None and base is not None:
            entry = self._exact.get(base)
        if entry is not None or not self._globs:
            return entry
        return self._remembered(model) if len(model) <= MAX_CACHED_NAME_CHARS else self._match(model)

    def _match(self, model: str) -> Entry | None:
        """Try every glob in order."""
        base = strip_variant(model)
        for pattern, entry in self._globs:
            if pattern.match(model) or (base is not None and pattern.match(base)):
                return entry
        return None
