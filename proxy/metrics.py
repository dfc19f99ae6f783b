"""The metrics of `docs/metrics.md`: what reports came to, added up.

Labels take their values from the configuration and from short lists, never from a request. With several
processes the values are kept in files (`shares`), and whichever process is asked adds up all of them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, values
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from proxy import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client import Metric

    from proxy.report import RequestReport
    from proxy.shares import Share

disable_created_metrics()  # type: ignore[no-untyped-call]  # with several processes there are none

_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_BY_MODEL = ("upstream", "entry")
_NONE = "none"
_OPEN_METRICS = "application/openmetrics-text"

_LONG_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
_GAP_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.25, 0.5, 1, 2.5)
_SHORT_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25)

_DURATIONS = {
    "duration_s": ("think_proxy_request_seconds", "The whole request.", _LONG_S),
    "first_event_s": (
        "think_proxy_first_event_seconds",
        "From the request read to the first bytes of a stream's body.",
        _LONG_S,
    ),
    "first_content_s": (
        "think_proxy_first_content_seconds",
        "From the request read to the first content of a rewritten stream.",
        _LONG_S,
    ),
    "gap_s": (
        "think_proxy_event_gap_seconds",
        "Between two parts of a stream, on average; one observation per stream.",
        _GAP_S,
    ),
    "overhead_s": (
        "think_proxy_overhead_seconds",
        "The proxy's own time: before a request is sent, and from an answer's first bytes to writing them.",
        _SHORT_S,
    ),
}
"""Histograms, by the field of the report that they take."""

_COUNTS = {
    "reasoning_chars": ("think_proxy_reasoning_characters_total", "Characters sent as reasoning."),
    "content_chars": ("think_proxy_content_characters_total", "Characters sent as content."),
    "promoted": ("think_proxy_promoted_calls_total", "Tool calls taken out of the thinking."),
    "retries": ("think_proxy_retries_total", "Times the model was asked again."),
    "retries_used_up": ("think_proxy_retries_used_up_total", "Answers whose last retry did not help either."),
    "retry_failures": ("think_proxy_retry_failures_total", "Retries that failed."),
    "thinking_only": ("think_proxy_thinking_only_total", "Choices that ended with reasoning alone."),
    "client_left": ("think_proxy_client_aborts_total", "Clients that left before the end of their answer."),
}
"""Counters, by the field of the report that they add up."""


class _Series(NamedTuple):
    """What is counted under one upstream and one entry: looking labels up costs more than counting."""

    durations: list[tuple[str, Histogram]]
    counts: list[tuple[str, Counter]]
    answers: tuple[Counter, Counter]
    """Those that did not engage, and those that did."""


class Metrics:
    """What one process counts."""

    def __init__(self, share: Share | None = None) -> None:
        """Begin with nothing counted, or with what the share holds. A process has no two with a share."""
        registry = CollectorRegistry()
        if share is None:
            values.ValueClass = values.MutexValue
            own = registry
        else:
            os.environ[_FOLDER] = share.folder
            values.ValueClass = values.MultiProcessValue(lambda: share.name)  # type: ignore[no-untyped-call]
            MultiProcessCollector(registry, share.folder)  # type: ignore[no-untyped-call]
            own = None
        self._collected = registry
        self._requests = Counter(
            "think_proxy_requests_total",
            "Requests that are over.",
            (*_BY_MODEL, "status", "outcome"),
            registry=own,
        )
        self._in_flight = Gauge(
            "think_proxy_requests_in_flight",
            "Requests under way.",
            multiprocess_mode="livesum",
            registry=own,
        )
        self._answers = Counter(
            "think_proxy_answers_total",
            "Answers that were read for thinking; engaged says whether they had any.",
            (*_BY_MODEL, "engaged"),
            registry=own,
        )
        self._faults = Counter(
            "think_proxy_upstream_errors_total",
            "Answers that the model server did not give, or that are errors.",
            ("upstream", "kind"),
            registry=own,
        )
        self._reloads = Counter(
            "think_proxy_reloads_total",
            "Times that the configuration was read again.",
            ("result",),
            registry=own,
        )
        self._durations = {
            field: Histogram(name, text, _BY_MODEL, buckets=buckets, registry=own)
            for field, (name, text, buckets) in _DURATIONS.items()
        }
        self._counts = {
            field: Counter(name, text, _BY_MODEL, registry=own) for field, (name, text) in _COUNTS.items()
        }
        self._series: dict[tuple[str, str], _Series] = {}
        self._results: dict[tuple[str, str, str, str], Counter] = {}
        for result in ("ok", "failed"):
            self._reloads.labels(result)

    def begin(self) -> None:
        """Count a request that is under way from now on."""
        self._in_flight.inc()

    def end(self) -> None:
        """Count that it is over."""
        self._in_flight.dec()

    def count(self, report: RequestReport) -> None:
        """Count a request that is over."""
        upstream, entry = report.upstream or _NONE, report.entry or ""
        result = (upstream, entry, f"{report.status // 100}xx" if report.status else _NONE, report.outcome)
        counter = self._results.get(result)
        if counter is None:
            counter = self._results[result] = self._requests.labels(*result)
        counter.inc()
        series = self._series.get((upstream, entry))
        if series is None:
            series = self._series[upstream, entry] = self._open(upstream, entry)
        for field, histogram in series.durations:
            if (seconds := getattr(report, field)) is not None:
                histogram.observe(seconds)
        for field, counter in series.counts:
            if number := getattr(report, field):
                counter.inc(number)
        if report.rewritten:
            series.answers[report.engaged].inc()
        if kind := report.upstream_fault:
            self._faults.labels(upstream, kind).inc()

    def count_reload(self, *, ok: bool) -> None:
        """Count that the configuration was read again, or could not be."""
        self._reloads.labels("ok" if ok else "failed").inc()

    def render(self, accept: str, is_up: Mapping[str, bool]) -> tuple[bytes, str]:
        """Return all metrics, those of the other processes too, in a form that a client takes.

        Args:
            accept: the client's `Accept`; whoever does not ask for OpenMetrics gets Prometheus' text.
            is_up: for each model server, whether it can be reached.

        Returns:
            The body, and its content type.
        """
        build = GaugeMetricFamily("think_proxy_build_info", "What runs.", labels=["version"])
        build.add_metric([__version__], 1)
        reached = GaugeMetricFamily(
            "think_proxy_upstream_up", "Whether the model server can be reached.", labels=["upstream"]
        )
        for name, is_reached in is_up.items():
            reached.add_metric([name], is_reached)
        # Versions and escapings make no difference here, and what a client makes up for them may be anything.
        encode, content_type = choose_encoder(_OPEN_METRICS if _OPEN_METRICS in accept.lower() else "")
        return encode(_Collected([*self._collected.collect(), reached, build])), content_type

    def _open(self, upstream: str, entry: str) -> _Series:
        return _Series(
            [(field, histogram.labels(upstream, entry)) for field, histogram in self._durations.items()],
            [(field, counter.labels(upstream, entry)) for field, counter in self._counts.items()],
            (
                self._answers.labels(upstream, entry, "false"),
                self._answers.labels(upstream, entry, "true"),
            ),
        )


class _Collected:
    """Families in a form that the encoders take."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def forget(share: Share) -> None:
    """Take out what only counts while the process of a share lives."""
    mark_process_dead(share.name, share.folder)  # type: ignore[no-untyped-call]
