"""Compare the proxy with its peers, side by side on the same work, and write the table.

Usage: python benchmarks/run.py [--rounds 5] [--only full,paced] [--peers nginx,ours] [--output FILE]

The proxies share one core, the model server and the client the other. CPU is what the operating system
accounts to the proxy's processes. A round runs every peer once, so that noise hits all of them; figures are
medians over the rounds, ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from account import describe_machine, read_cpu_s, read_memory_kib, reset_peak
from peers import HERE, Peer, Running, find_port, list_peers, start

CLIENT = str(HERE / "client.py")
Samples = dict[tuple[str, str], list[float]]  # (peer, figure) -> one value per round, NaN when it failed


@dataclass(frozen=True)
class Scenario:
    """One kind of work. Numbers are per round, at full load."""

    name: str
    mode: str  # second half of the model name, see answers.py
    connections: int
    requests: int = 1
    options: tuple[str, ...] = field(default=())

    def make_arguments(self, peer: Peer) -> list[str]:
        """Return the client's command line, with the peer's share of the load."""
        connections, requests = self.connections, self.requests
        if requests > 1:
            requests = max(1, round(requests * peer.load))
        else:
            connections = max(1, round(connections * peer.load))
        return [
            *("--port", str(peer.port), "--model", f"{peer.kind}/{self.mode}", "--expect", peer.expect),
            *("--connections", str(connections), "--requests", str(requests), *self.options),
        ]


SCENARIOS = (
    Scenario("full", "full", 16, 20),
    Scenario("paced", "paced-50", 200, 1, ("--ramp", "1")),
    Scenario("first", "full", 1, 200, ("--tokens", "16")),
    Scenario("whole", "whole", 16, 100, ("--whole",)),
    Scenario("mib", "mib", 4, 20, ("--whole",)),
    Scenario("upload", "whole", 1, 10, ("--whole", "--upload-mib", "20")),
    Scenario("many", "paced-10", 1000, 1, ("--ramp", "2", "--tokens", "100")),
)


def measure(running: Running, scenario: Scenario, core: int) -> tuple[dict[str, Any], float, int]:
    """Run the client on `core`; return its figures, the peer's CPU seconds and its memory peak in KiB."""
    pid = running.pid
    if pid is not None:
        reset_peak(pid)
    before = read_cpu_s(pid) if pid is not None else 0.0
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    command = [sys.executable, CLIENT, *scenario.make_arguments(running.peer)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=600, check=False)
    finally:
        os.sched_setaffinity(0, allowed)
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace"))
    used = read_cpu_s(pid) - before if pid is not None else 0.0
    return json.loads(done.stdout), used, read_memory_kib(pid, "VmHWM") if pid is not None else 0


def run_round(running: list[Running], scenarios: list[Scenario], core: int, samples: Samples) -> list[str]:
    """Run every scenario on every peer once, add to `samples`, return what went wrong."""
    faults: list[str] = []
    for scenario in scenarios:
        for each in running:
            name = each.peer.name
            seen, cpu_s, peak_kib = measure(each, scenario, core)
            if seen["failures"]:
                faults.append(
                    f"{name}, {scenario.name}: {len(seen['failures'])} wrong, {seen['failures'][0][:300]}"
                )
            cpu_us = cpu_s * 1e6 / max(1, seen["events"])
            figures = {
                "cpu": cpu_us,
                "peak": peak_kib,
                "first": seen["first_ms_p50"],
                "gap": seen["gap_ms_p99"],
            }
            for figure, value in figures.items():
                samples[name, f"{scenario.name}.{figure}"].append(float("nan") if seen["failures"] else value)
            print(f"  {scenario.name:7} {name:18} {cpu_us:9.1f} us  {seen['seconds']:6.2f} s", flush=True)
    return faults


def find_ratio(samples: Samples, name: str, figure: str) -> float:
    """Return the median over the rounds of peer against nginx; NaN when there is no nginx."""
    pairs = zip(samples[name, figure], samples["nginx", figure], strict=False)
    return statistics.median([mine / theirs for mine, theirs in pairs if theirs] or [float("nan")])


def find_spread(samples: Samples, name: str, figure: str) -> float:
    """Return half the range over the rounds, as a share of the median: how noisy it was."""
    values = samples[name, figure]
    return (max(values) - min(values)) / 2 / statistics.median(values)


def format_table(
    running: list[Running], samples: Samples, idle_kib: dict[str, int], streams: int
) -> list[str]:
    """Return the table's lines: a row per peer, a dash where it was not measured or failed."""

    def show(name: str, figure: str, scale: float = 1.0, digits: int = 1) -> str:
        value = statistics.median(samples[name, figure]) * scale if samples[name, figure] else float("nan")
        return "–" if value != value or not value else f"{value:.{digits}f}"  # noqa: PLR0124 - NaN

    def show_ratio(name: str, figure: str) -> str:
        ratio = find_ratio(samples, name, figure)
        return "–" if ratio != ratio or not ratio else f"{ratio:.2f}×"  # noqa: PLR0124 - NaN

    head = ("peer", "full speed, µs/event", "vs nginx", "paced, µs/event", "vs nginx", "first event, ms")
    head += ("gap p99 paced, ms", "400 tokens in one body, µs", "1 MiB body, µs", "20 MiB request, ms")
    head += (f"KiB per stream at {streams}", "RSS idle, MB", "ready, s")
    rows = [head, tuple("---" if not i else "---:" for i in range(len(head)))]
    for each in running:
        name = each.peer.name
        peaks = samples[name, "many.peak"]
        streamed = streams * each.peer.load
        per_stream = (
            "–" if each.pid is None or not peaks else f"{(max(peaks) - idle_kib[name]) / streamed:.0f}"
        )
        row = (name, show(name, "full.cpu"), show_ratio(name, "full.cpu"), show(name, "paced.cpu"))
        row += (show_ratio(name, "paced.cpu"), show(name, "first.first", digits=2), show(name, "paced.gap"))
        row += (
            show(name, "whole.cpu", digits=0),
            show(name, "mib.cpu", digits=0),
            show(name, "upload.cpu", 1e-3),
        )
        row += (per_stream, "–" if each.pid is None else f"{idle_kib[name] / 1024:.0f}")
        rows.append((*row, f"{each.ready_s:.2f}" if each.pid is not None else "–"))
    return [f"| {' | '.join(row)} |" for row in rows]


def write_report(lines: list[str], notes: list[str], output: Path) -> None:
    """Write the table with the machine it was measured on."""
    today = datetime.datetime.now(datetime.UTC).date()
    text = [
        "# Benchmark",
        "",
        f"{today}, {describe_machine()}. `make bench` writes this file.",
        "",
        *lines,
        "",
        *notes,
    ]
    output.write_text("\n".join(text) + "\n")
    print("\n".join(text))


def select(names: str, available: list[Any]) -> list[Any]:
    """Return those whose name begins with one of the comma-separated `names`; all for an empty string."""
    wanted = tuple(name for name in names.split(",") if name)
    return [each for each in available if not wanted or each.name.startswith(wanted)]


def compare(
    peers: list[Peer], scenarios: list[Scenario], rounds: int, output: Path, cores: tuple[int, int]
) -> int:
    """Start all peers, measure, write the report; return how many answers were wrong."""
    samples: Samples = defaultdict(list)
    faults: list[str] = []
    with ExitStack() as stack:
        running = [stack.enter_context(start(peer, cores[0])) for peer in peers]
        warm = Scenario("warm", "full", 1, 2)
        for each in running:
            measure(each, warm, cores[1])
        idle_kib = {each.peer.name: read_memory_kib(each.pid) for each in running if each.pid is not None}
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}, load {os.getloadavg()[0]:.1f}", flush=True)
            faults += run_round(running, scenarios, cores[1], samples)
    noisy = [
        f"{scenario.name} {find_spread(samples, 'nginx', f'{scenario.name}.cpu'):.0%}"
        for scenario in scenarios
        if samples["nginx", f"{scenario.name}.cpu"]
        and statistics.median(samples["nginx", f"{scenario.name}.cpu"])
    ]
    notes = [
        f"Medians of {rounds} rounds; CPU is the proxy's alone. Full speed: 16 connections, 400 tokens each, no pause, "
        "one write per event. Paced: 200 streams at 50 tokens a second. First event: one stream at a time. "
        "Every answer was compared with what the server sent.",
        *([f"Half the range of nginx's CPU over the rounds: {', '.join(noisy)}."] if noisy else []),
        *[f"{peer.name} carried {peer.load:.0%} of the load." for peer in peers if peer.load != 1],
        *[f"Wrong: {fault}" for fault in faults],
    ]
    many = next(scenario for scenario in SCENARIOS if scenario.name == "many")
    write_report(format_table(running, samples, idle_kib, many.connections), notes, output)
    return len(faults)


def main() -> None:
    """Read the command line and compare; the exit status is 1 when an answer was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="scenarios, separated by commas")
    parser.add_argument("--peers", default="", help="beginnings of peers' names, separated by commas")
    parser.add_argument("--output", type=Path, default=HERE / "RESULTS.md")
    given = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        sys.exit("needs two cores: one for the proxies, one for server and client")
    with tempfile.TemporaryDirectory() as work:
        port = find_port()
        server = Peer(
            "server",
            (sys.executable, str(HERE / "upstream.py"), "--port", str(port)),
            port,
            ready_path="/health",
        )
        peers = select(given.peers, list_peers(port, Path(work)))
        scenarios = select(given.only, list(SCENARIOS))
        with start(server, cores[0]):
            wrong = compare(peers, scenarios, given.rounds, given.output, (cores[1], cores[0]))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
