"""Figures of a comparison, and the table made of them."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from account import describe_machine

if TYPE_CHECKING:
    from pathlib import Path

    from peers import Running

NAN = float("nan")
DASH = "-"

# heading, figure, factor, digits; a figure is `scenario.what`, see `Samples`
COLUMNS = (
    ("full speed, µs/event", "full.cpu", 1.0, 1),
    ("vs nginx", "full.ratio", 1.0, 2),
    ("paced, µs/event", "paced.cpu", 1.0, 1),
    ("vs nginx", "paced.ratio", 1.0, 2),
    ("first event, ms", "first.first", 1.0, 2),
    ("gap p99 paced, ms", "paced.gap", 1.0, 1),
    ("400 tokens in one body, µs", "whole.cpu", 1.0, 0),
    ("1 MiB body, µs", "mib.cpu", 1.0, 0),
    ("20 MiB request, ms", "upload.cpu", 1e-3, 1),
    ("KiB a stream at 1000", "many.stream", 1.0, 0),
)


class Samples:
    """What was measured: one value per peer, figure and round, NaN in a round that failed."""

    def __init__(self) -> None:
        """Begin empty."""
        self._values: defaultdict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, peer: str, figure: str, value: float) -> None:
        """Add one round's value of a figure, named `scenario.what`."""
        self._values[peer, figure].append(value)

    def find_median(self, peer: str, figure: str) -> float:
        """Return the median over the rounds; for `scenario.ratio`, of CPU against nginx in the same round."""
        values = self._values[peer, figure]
        if figure.endswith(".ratio"):
            figure = figure.removesuffix("ratio") + "cpu"
            pairs = zip(self._values[peer, figure], self._values["nginx", figure], strict=False)
            values = [mine / theirs for mine, theirs in pairs if theirs]
        good = [value for value in values if not math.isnan(value)]
        return statistics.median(good) if good else NAN

    def find_spread(self, peer: str, figure: str) -> float:
        """Return half the range over the rounds as a share of the median: how noisy it was."""
        values = [value for value in self._values[peer, figure] if not math.isnan(value)]
        return (max(values) - min(values)) / 2 / statistics.median(values) if any(values) else NAN


def format_number(value: float, digits: int) -> str:
    """Return the number, or a dash where there is none."""
    return DASH if math.isnan(value) or not value else f"{value:.{digits}f}"


def format_table(running: list[Running], samples: Samples, idle_kib: dict[str, int]) -> list[str]:
    """Return the table's lines: a row per peer, a dash where nothing was measured or every round failed."""
    rows = [("peer", *(column[0] for column in COLUMNS), "RSS idle, MB", "ready, s")]
    rows.append(("---", *["---:"] * (len(COLUMNS) + 2)))
    for each in running:
        name = each.peer.name
        cells = [
            format_number(samples.find_median(name, figure) * factor, digits)
            for _, figure, factor, digits in COLUMNS
        ]
        idle_mb = idle_kib.get(name, 0) / 1024
        rows.append((name, *cells, format_number(idle_mb, 0), format_number(each.ready_s, 2)))
    return [f"| {' | '.join(row)} |" for row in rows]


def write_report(
    output: Path,
    *,
    running: list[Running],
    samples: Samples,
    idle_kib: dict[str, int],
    scenarios: list[str],
    rounds: int,
    faults: list[str],
) -> None:
    """Write the table, the machine it was measured on and what is to be known to read it; print it too."""
    spreads = ((name, samples.find_spread("nginx", f"{name}.cpu")) for name in scenarios)
    noise = ", ".join(f"{name} {spread:.0%}" for name, spread in spreads if not math.isnan(spread))
    versions = dict.fromkeys(each.peer.version for each in running if each.peer.version)
    partial = [each.peer for each in running if each.peer.load != 1]
    lines = [
        "# Benchmark",
        "",
        f"{datetime.now(UTC).date()}, {describe_machine()}. `make bench` writes this file.",
        "",
        *format_table(running, samples, idle_kib),
        "",
        f"{', '.join(versions)}.",
        "",
        f"Medians of {rounds} rounds. CPU is the proxy's alone, as the operating system accounts it.",
        "",
        "- Full speed: 16 connections, 400 tokens an answer, no pause, one write per event. How many events",
        "  a proxy finds in one read depends on how fast both sides are: compare within a table, not across.",
        "- Paced: 200 streams at 50 tokens a second, one write per event.",
        "- First event: one stream at a time, asked for as soon as the one before has ended.",
        "- Gap: between two reads of the client; the server's is 20 ms.",
        "- KiB a stream: peak of resident memory at 1000 streams of 10 tokens a second, above idle.",
        "- A peer is compared when it is installed: nginx, and from pip `vllm-router` and `litellm[proxy]`.",
        "  BENCH_VLLM_ROUTER and BENCH_LITELLM name their commands, where those are not on the path.",
        "- Every answer was compared with what the server sent.",
        *([f"- Half the range of nginx's CPU over the rounds: {noise}."] if noise else []),
        *[f"- {peer.name} carried {peer.load:.0%} of the load." for peer in partial],
        *[f"- Wrong: {fault}" for fault in faults],
    ]
    output.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
