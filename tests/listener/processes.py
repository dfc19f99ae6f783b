"""The proxy as a command, its signals and its workers."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from tests.commands import START_S, environment

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterator

TRIES_S = 0.02


class Command:
    """A command that runs; what it logs is read as it comes."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self.address = address
        self._lines: list[str] = []
        self._more = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as log:
            for line in log:
                with self._more:
                    self._lines.append(line)
                    self._more.notify_all()

    def logged(self, text: str, times: int = 1) -> None:
        """Wait until a text stands in so many lines of the log."""
        with self._more:
            assert self._more.wait_for(lambda: self.log.count(text) >= times, START_S), self.log

    @property
    def log(self) -> str:
        return "".join(self._lines)

    def workers(self) -> list[int]:
        """Return the process ids of the children."""
        pid = self.process.pid
        return [int(it) for it in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def client(self) -> httpx.Client:
        if not self.address.startswith("unix:"):
            return httpx.Client(base_url=self.address, timeout=START_S)
        transport = httpx.HTTPTransport(uds=self.address.removeprefix("unix:"))
        return httpx.Client(base_url="http://proxy.test", transport=transport, timeout=START_S)

    def stop(self, number: signal.Signals) -> None:
        """Send a signal, wait for the end, and check that it was a good one."""
        self.process.send_signal(number)
        self.ended()

    def ended(self) -> None:
        """Wait for the end, and check that it was a good one."""
        code = self.process.wait(START_S)
        self._reader.join(START_S)
        assert code == 0, self.log
        assert "Traceback" not in self.log, self.log
        assert self.process.stdout is not None
        assert self.process.stdout.read() == ""  # the address was printed once


@contextmanager
def command(*arguments: str, cwd: Path) -> Iterator[Command]:
    """Start `think-proxy serve` and wait until it is ready; kill what is left at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "proxy", "serve", *arguments],
        cwd=cwd,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line.startswith("think-proxy on "), process.stderr.read()
        yield Command(process, line.split()[2])
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(START_S)
        process.stdout.close()


def until(check: Callable[[], bool]) -> None:
    """Wait for something that nothing tells of: other processes, and files of the kernel."""
    end = time.monotonic() + START_S
    while not check():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(TRIES_S)
