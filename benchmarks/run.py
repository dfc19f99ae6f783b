"""Compare the proxy with its peers, side by side on the same work, and write the table.

Usage: python benchmarks/run.py [--rounds 5] [--only full,paced] [--peers nginx,ours] [--output FILE]

The proxies share one core, the model server and the client the other. A round runs every scenario on every
peer once, so that noise hits all of them; ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from account import read_cpu_s, read_memory_kib, reset_peak
from peers import HERE, Peer, Running, find_port, list_peers, start
from report import NAN, Samples, write_report

CLIENT = str(HERE / "client.py")
CLIENT_S = 600  # the longest a client may run


@dataclass(frozen=True)
class Scenario:
    """One kind of work. Numbers are per round, at full load."""

    name: str
    mode: str  # second half of the model name, see answers.py
    connections: int
    requests: int = 1
    options: tuple[str, ...] = ()

    def scale(self, load: float) -> tuple[int, int]:
        """Return connections and requests for a share of the load."""
        if self.requests > 1:
            return self.connections, max(1, round(self.requests * load))
        return max(1, round(self.connections * load)), 1


SCENARIOS = (
    Scenario("full", "full", 16, 20),
    Scenario("paced", "paced-50", 200, 1, ("--ramp", "1")),
    Scenario("first", "paced-500", 1, 100, ("--tokens", "16")),
    Scenario("whole", "whole", 16, 100, ("--whole",)),
    Scenario("mib", "mib", 4, 20, ("--whole",)),
    Scenario("upload", "whole", 1, 10, ("--whole", "--upload-mib", "20")),
    Scenario("many", "paced-10", 1000, 1, ("--ramp", "2", "--tokens", "100")),
)


def run_client(peer: Peer, scenario: Scenario, core: int) -> dict[str, Any]:
    """Run the client on `core` and return its figures, see client.py; raise RuntimeError when it fails."""
    connections, requests = scenario.scale(peer.load)
    command = [sys.executable, CLIENT, "--port", str(peer.port), "--model", f"{peer.kind}/{scenario.mode}"]
    command += ["--expect", peer.expect, "--connections", str(connections), "--requests", str(requests)]
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        done = subprocess.run(
            [*command, *scenario.options], capture_output=True, timeout=CLIENT_S, check=False, text=True
        )
    finally:
        os.sched_setaffinity(0, allowed)
    if done.returncode:
        raise RuntimeError(done.stderr)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def measure(running: Running, scenario: Scenario, core: int, idle_kib: int, samples: Samples) -> str | None:
    """Run one scenario on one peer, add its figures, return what went wrong."""
    peer, pid = running.peer, running.pid
    cpu_s = peak_kib = 0.0
    if pid is None:
        seen = run_client(peer, scenario, core)
    else:
        reset_peak(pid)
        before = read_cpu_s(pid)
        seen = run_client(peer, scenario, core)
        cpu_s, peak_kib = read_cpu_s(pid) - before, read_memory_kib(pid, "VmHWM")
    cpu_us = cpu_s * 1e6 / max(1, seen["events"])
    figures = {
        "cpu": cpu_us,
        "first": seen["first_ms_p50"],
        "gap": seen["gap_ms_p99"],
        "stream": max(0.0, peak_kib - idle_kib) / scenario.scale(peer.load)[0],
    }
    wrong = seen["failures"]
    for name, value in figures.items():
        samples.add(peer.name, f"{scenario.name}.{name}", NAN if wrong else value)
    print(f"  {scenario.name:7} {peer.name:18} {cpu_us:9.1f} µs  {seen['seconds']:6.2f} s", flush=True)
    return f"{peer.name}, {scenario.name}: {len(wrong)} times, {wrong[0][:300]}" if wrong else None


def compare(
    peers: list[Peer], scenarios: list[Scenario], rounds: int, output: Path, cores: tuple[int, int]
) -> int:
    """Start all peers, measure, write the report; return in how many runs an answer was wrong.

    Args:
        peers: whom to compare.
        scenarios: on what.
        rounds: how often.
        output: where the report goes.
        cores: the proxies' core and the client's.
    """
    samples = Samples()
    faults: list[str] = []
    with ExitStack() as stack:
        running = [stack.enter_context(start(peer, cores[0])) for peer in peers]
        for each in running:
            run_client(each.peer, Scenario("warm", "full", 1, 2), cores[1])
        idle_kib = {each.peer.name: read_memory_kib(each.pid) for each in running if each.pid is not None}
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}, load {os.getloadavg()[0]:.1f}", flush=True)
            for scenario in scenarios:
                for each in running:
                    idle = idle_kib.get(each.peer.name, 0)
                    fault = measure(each, scenario, cores[1], idle, samples)
                    faults += [fault] if fault else []
    write_report(
        output,
        running=running,
        samples=samples,
        idle_kib=idle_kib,
        scenarios=[each.name for each in scenarios],
        rounds=rounds,
        faults=faults,
    )
    return len(faults)


def select(names: str, available: list[Any]) -> list[Any]:
    """Return those whose name begins with one of the comma-separated `names`; all for an empty string."""
    wanted = tuple(name for name in names.split(",") if name)
    return [each for each in available if not wanted or each.name.startswith(wanted)]


def main() -> None:
    """Read the command line and compare; the exit status is 1 when an answer was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="scenarios, separated by commas")
    parser.add_argument("--peers", default="", help="beginnings of peers' names, separated by commas")
    parser.add_argument(
        "--output", type=Path, help="RESULTS.md beside this file, or in build/ when not all is measured"
    )
    given = parser.parse_args()
    folder = HERE.parent / "build" if given.only or given.peers else HERE
    output = given.output or folder / "RESULTS.md"
    output.parent.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leave through the blocks that end the peers
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        sys.exit("needs two cores: one for the proxies, one for server and client")
    with tempfile.TemporaryDirectory() as work:
        port = find_port()
        command = (sys.executable, str(HERE / "upstream.py"), "--port", str(port))
        with start(Peer("server", command, port, ready_path="/health"), cores[0]):
            wrong = compare(
                select(given.peers, list_peers(port, Path(work))),
                select(given.only, list(SCENARIOS)),
                given.rounds,
                output,
                (cores[1], cores[0]),
            )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
