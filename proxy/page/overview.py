"""The numbers of the page: what the metrics say, by entry and by model server.

Nothing here comes from a client: names are those of the configuration, all else is counted. With several
workers the metrics add theirs up.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

from proxy import __version__
from proxy.config import render_entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from proxy.world import World

UNLISTED = ""
"""The label `entry` of models that are not listed."""

_PREFIX = "think_proxy_"
_COUNTERS = {
    "reasoning_characters_total": "reasoningCharacters",
    "content_characters_total": "contentCharacters",
    "promoted_calls_total": "promotedCalls",
    "retries_total": "retries",
    "retries_used_up_total": "retriesUsedUp",
    "retry_failures_total": "retryFailures",
    "thinking_only_total": "thinkingOnly",
    "client_aborts_total": "clientAborts",
}
"""Counters of an entry, and what the page calls them."""

_HISTOGRAMS = {
    "first_event_seconds": "firstEvent",
    "first_content_seconds": "firstContent",
    "request_seconds": "request",
}


class Sample(Protocol):
    """One number of a metric, as prometheus-client has it."""

    @property
    def name(self) -> str:
        """The metric's name, with `_total`, `_bucket` or the like behind it."""

    @property
    def labels(self) -> Mapping[str, str]:
        """What it was counted for."""

    @property
    def value(self) -> float:
        """The number."""


class Family(Protocol):
    """One metric with all its samples, as prometheus-client has it."""

    @property
    def samples(self) -> Sequence[Sample]:
        """Its numbers."""


class _Row:
    """What was counted for one entry, whichever server answered."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = dict.fromkeys(
            (*_COUNTERS.values(), "requests", "engaged", "answers"), 0
        )
        self.outcomes: dict[str, int] = defaultdict(int)
        self.statuses: dict[str, int] = defaultdict(int)
        self.buckets: dict[str, dict[float, float]] = {
            name: defaultdict(float) for name in _HISTOGRAMS.values()
        }

    def take(self, name: str, labels: Mapping[str, str], value: float) -> None:
        """Take one number of a metric."""
        if name in _COUNTERS:
            self.counts[_COUNTERS[name]] += int(value)
        elif name == "requests_total":
            self.counts["requests"] += int(value)
            self.outcomes[labels["outcome"]] += int(value)
            self.statuses[labels["status"]] += int(value)
        elif name == "answers_total":
            self.counts["answers"] += int(value)
            self.counts["engaged"] += int(value) if labels["engaged"] == "true" else 0
        elif name.endswith("_bucket") and name.removesuffix("_bucket") in _HISTOGRAMS:
            self.buckets[_HISTOGRAMS[name.removesuffix("_bucket")]][float(labels["le"])] += value

    def describe(self) -> dict[str, Any]:
        """Return it for the page."""
        return {
            **self.counts,
            "outcomes": self.outcomes,
            "statuses": self.statuses,
            **{name: _describe_buckets(buckets) for name, buckets in self.buckets.items()},
        }


def _describe_buckets(cumulative: Mapping[float, float]) -> list[list[float | None]]:
    """Return upper bounds in seconds (None: no bound) with the observations since the bound before."""
    bounds = sorted(cumulative)
    steps = pairwise([0.0, *(cumulative[bound] for bound in bounds)])
    return [
        [None if bound == float("inf") else bound, after - before]
        for bound, (before, after) in zip(bounds, steps, strict=True)
    ]


async def describe_overview(world: World, families: Iterable[Family], *, draining: bool) -> dict[str, Any]:
    """Return what the page shows.

    Args:
        world: the configuration at work.
        families: the metrics.
        draining: the proxy is about to stop.
    """
    rows: dict[str, _Row] = defaultdict(_Row)
    errors: dict[str, dict[str, int]] = defaultdict(dict)
    in_flight = 0
    reloads: dict[str, int] = {}
    for sample in (sample for family in families for sample in family.samples):
        name, labels, value = sample.name.removeprefix(_PREFIX), sample.labels, sample.value
        if "entry" in labels:
            rows[labels["entry"]].take(name, labels, value)
        elif name == "upstream_errors_total":
            errors[labels["upstream"]][labels["kind"]] = int(value)
        elif name == "requests_in_flight":
            in_flight += int(value)
        elif name == "reloads_total":
            reloads[labels["result"]] = int(value)
    reachable = await world.health.ask()
    settings = world.settings
    entries = {entry.name: entry for entry in settings.entries}
    return {
        "version": __version__,
        "draining": draining,
        "inFlight": in_flight,
        "reloads": reloads,
        "upstreams": [
            {
                "name": server.name,
                "url": server.url,
                "models": server.models,
                "reachable": reachable.get(server.name, False),
                "errors": errors[server.name],
            }
            for server in settings.servers
        ],
        "entries": [
            {"entry": name, "origin": entry.origin, "rule": render_entry(entry), **rows[name].describe()}
            for name, entry in entries.items()
        ]
        + [
            {"entry": name, "origin": None, "rule": None, **row.describe()}
            for name, row in rows.items()
            # A reload may have taken an entry away of which something was counted.
            if name not in entries and name != UNLISTED
        ],
        "unlisted": rows[UNLISTED].describe(),
    }
