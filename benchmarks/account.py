"""What the operating system says a process used, children included (Linux, /proc)."""

from __future__ import annotations

import os
import platform
from pathlib import Path

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def find_tree(pid: int) -> list[int]:
    """Return the process and its living descendants."""
    pids = [pid]
    for parent in pids:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            pids += [int(child) for child in children.read_text().split()]
    return pids


def read_cpu_s(pid: int) -> float:
    """Return CPU seconds, user and system, of the process, its living and its reaped descendants."""
    ticks = 0
    for each in find_tree(pid):
        # proc(5): the name in parentheses may hold spaces; utime, stime, cutime, cstime follow from field 14.
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(int(field) for field in fields[11:15])
    return ticks * _TICK_S


def read_memory_kib(pid: int, field: str = "VmRSS") -> int:
    """Return resident memory of the tree: `VmRSS` now, `VmHWM` at its highest since `reset_peak`."""
    total = 0
    for each in find_tree(pid):
        for line in Path(f"/proc/{each}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                total += int(line.split()[1])
    return total


def reset_peak(pid: int) -> None:
    """Let `VmHWM` of the tree begin anew at what is resident now, see proc(5), clear_refs."""
    for each in find_tree(pid):
        Path(f"/proc/{each}/clear_refs").write_text("5")


def describe_machine() -> str:
    """Return processor, cores, kernel and Python in one line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown"
    )
    release = platform.release().partition("-")[0]  # what follows is the builder's
    return f"{model}, {os.cpu_count()} cores, Linux {release}, Python {platform.python_version()}"
