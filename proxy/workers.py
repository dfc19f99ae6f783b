"""Several processes on the same sockets: starts them, replaces those that die, and passes signals on.

The sockets are bound once, here, and the workers inherit them. With a socket per worker (SO_REUSEPORT) the
system spreads connections by their hash, and those that wait at a worker that dies are lost; from a shared
one, whoever is free takes the next. A socket file can be had in no other way.

Workers are forks: they share the memory of what is imported. Nothing here may start a thread.
"""

from __future__ import annotations

import selectors
import signal
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from proxy.reload import POLL_S
from proxy.server import LAST_S
from proxy.telemetry import LOGGER, configure
from proxy.worker import RELOAD, STOP, STOP_NOW, Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.endpoint import Endpoint
    from proxy.reload import ConfigSource
    from proxy.settings import Settings
    from proxy.shares import Share, Shares

_GRACE_S = 5.0
"""Seconds beyond its own limits after which a worker that does not stop is killed."""


class Pauses:
    """How long to wait before a worker that died is replaced, so that dying at once does not spin."""

    STEADY_S = 10.0
    """Seconds of life after which a death says nothing about the next one."""
    MAX_S = 30.0

    def __init__(self) -> None:
        """Begin without any deaths."""
        self._pause_s = 0.0

    def next(self, lived_s: float) -> float:
        """Return the seconds to wait after a worker that lived for so many: 0, 1, 2, 4, and so on."""
        if lived_s >= self.STEADY_S:
            self._pause_s = 0.0
        pause_s = self._pause_s
        self._pause_s = min(max(1.0, pause_s * 2), self.MAX_S)
        return pause_s


class Workers:
    """The workers of one proxy, and the parent's loop."""

    def __init__(
        self,
        count: int,
        endpoint: Endpoint,
        source: ConfigSource,
        shares: Shares,
        serve: Callable[[Settings, Share, socket.socket], None],
    ) -> None:
        """`serve` is what a worker does with the settings in force, its metrics and its wire to here."""
        self._count = count
        self._endpoint = endpoint
        self._source = source
        self._shares = shares
        self._serve = serve
        self._running: list[Worker] = []
        self._due: list[float] = [0.0] * count
        """When the workers that are missing are to be started, on the monotonic clock."""
        self._pauses = Pauses()
        self._exit_code = 0
        self._is_announced = False
        self._end_s: float | None = None
        """When what still runs is killed; set once the workers are told to stop."""
        self._signals, self._wakeup = socket.socketpair()

    def run(self, on_ready: Callable[[], None]) -> int:
        """Run until told to stop, or until a worker cannot even start; returns the exit code."""
        self._catch_signals()
        while self._running or self._end_s is None:
            self._start_due()
            self._wait()
            self._bury()
            if not self._is_announced and self._is_complete():
                self._is_announced = True
                on_ready()
            if self._source.settings.watch_config and self._end_s is None and self._source.has_changed():
                self._reload()
            if self._end_s is not None and time.monotonic() >= self._end_s:
                self._end_s += _GRACE_S
                for worker in self._running:
                    worker.kill()
        return self._exit_code

    def _catch_signals(self) -> None:
        self._signals.setblocking(False)
        self._wakeup.setblocking(False)
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)  # the number comes out of `_signals`

    def _is_complete(self) -> bool:
        return len(self._running) == self._count and all(worker.is_ready for worker in self._running)

    def _start_due(self) -> None:
        if self._end_s is not None:
            return
        now = time.monotonic()
        for due in [due for due in self._due if due <= now]:
            self._due.remove(due)
            number = min({*range(self._count)} - {worker.number for worker in self._running})
            self._running.append(Worker(number, self._run_worker))

    def _run_worker(self, number: int, wire: socket.socket) -> None:
        """In the child: leave the parent's things alone, and serve."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the parent passes it on as a command
        for end in (self._signals, self._wakeup, *(worker.wire for worker in self._running)):
            end.close()
        self._serve(self._source.settings, self._shares.give(number), wire)

    def _wait(self) -> None:
        """Wait for a signal, a worker, or the next thing to do; then take in what there is."""
        moments = [*self._due] if self._end_s is None else [self._end_s]
        pauses = [max(0.0, moment - time.monotonic()) for moment in moments]
        if self._source.settings.watch_config:
            pauses.append(POLL_S)
        speaking = [worker for worker in self._running if not worker.is_ready]
        with selectors.DefaultSelector() as selector:
            selector.register(self._signals, selectors.EVENT_READ)
            for worker in speaking:
                selector.register(worker.wire, selectors.EVENT_READ, worker)
            for key, _ in selector.select(min(pauses, default=None)):
                if key.data is not None:
                    key.data.take_note()
        numbers = b""
        with suppress(BlockingIOError):
            numbers = self._signals.recv(4096)
        for number in numbers:
            if number in (signal.SIGTERM, signal.SIGINT):
                self._stop(is_now=self._end_s is not None)
            elif number == signal.SIGHUP and self._end_s is None:
                self._reload()

    def _bury(self) -> None:
        """Look for workers that have ended, and see to their replacement."""
        for worker in [*self._running]:
            code = worker.find_end()
            if code is None:
                continue
            self._running.remove(worker)
            self._shares.close(worker.number)
            if self._end_s is not None:
                continue
            LOGGER.warning("a worker has ended", extra={"fields": {"pid": worker.pid, "code": code}})
            if not self._is_announced:
                self._exit_code = 1
                self._stop(is_now=True)
                return
            now = time.monotonic()
            self._due.append(now + self._pauses.next(now - worker.began_s))

    def _reload(self) -> None:
        settings = self._source.read()
        self._shares.count_reload(ok=settings is not None)
        if settings is None:
            return
        self._source.settings = settings
        configure(settings.log)
        for worker in self._running:
            worker.tell(RELOAD, settings)

    def _stop(self, *, is_now: bool) -> None:
        """Tell the workers to stop. Here the sockets close at once, or connections would wait at them."""
        self._endpoint.close()
        settings = self._source.settings
        limit_s = 0.0 if is_now else settings.drain_delay_s + settings.drain_s + LAST_S
        self._end_s = time.monotonic() + limit_s + _GRACE_S
        for worker in self._running:
            worker.tell(STOP_NOW if is_now else STOP)
