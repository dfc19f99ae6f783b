"""What a report becomes in the metrics, and that the documentation names all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proxy import __version__
from proxy.course import Course
from proxy.metrics import Metrics
from proxy.report import RequestReport, measure
from proxy.tally import Tally
from tests.metrics.reading import Told

DOCUMENT = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
OPEN = "application/openmetrics-text"
OF = {"upstream": "gpu", "entry": "Qwen/*"}

TALLY = Tally(
    engaged=True,
    reasoning_chars=120,
    content_chars=30,
    promoted=2,
    thinking_only=1,
    retries=3,
    retries_used_up=True,
    retry_failures=4,
)


def finished() -> Course:
    """A stream whose request was read at 10 and sent at 11, and that came in 5 parts from 13 to 21."""
    course = Course()
    course.read, course.sent, course.elsewhere_s = 10.0, 11.0, 0.75
    course.arrived, course.handled, course.content, course.ended = 13.0, 13.5, 17.0, 21.0
    course.reads, course.stream, course.rewritten = 5, True, True
    return course


def report(course: Course | None = None, tally: Tally | None = None, **fields: object) -> RequestReport:
    given: dict[str, object] = {
        "request_id": "r",
        "method": "POST",
        "path": "/v1/chat/completions",
        "entry": "Qwen/*",
        "status": 200,
        "outcome": "answered",
        "duration_s": 12.0,
        "upstream": "gpu",
        **measure(course or Course(), tally or Tally()),
    }
    return RequestReport(**given | fields)  # type: ignore[arg-type]


def told(metrics: Metrics, **is_up: bool) -> Told:
    body, content_type = metrics.render("", is_up)
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    return Told(body.decode())


def test_a_report_is_counted_field_by_field() -> None:
    metrics = Metrics()
    for _ in range(2):
        metrics.count(report(finished(), TALLY))
    found = told(metrics, gpu=True, other=False)
    durations = {
        "request": 12.0,
        "first_event": 3.0,
        "first_content": 7.0,
        "event_gap": 2.0,
        "overhead": 0.25 + 0.5,
    }
    for name, seconds in durations.items():
        assert found.value(f"think_proxy_{name}_seconds_count", **OF) == 2, name
        assert found.value(f"think_proxy_{name}_seconds_sum", **OF) == 2 * seconds, name
    counts = {
        "reasoning_characters": 240,
        "content_characters": 60,
        "promoted_calls": 4,
        "retries": 6,
        "retries_used_up": 2,
        "retry_failures": 8,
        "thinking_only": 2,
        "client_aborts": 0,
    }
    for name, number in counts.items():
        assert found.value(f"think_proxy_{name}_total", **OF) == number, name
    assert found.value("think_proxy_requests_total", **OF, status="2xx", outcome="answered") == 2
    assert found.value("think_proxy_answers_total", **OF, engaged="true") == 2
    assert found.value("think_proxy_answers_total", **OF, engaged="false") == 0
    assert found.total("think_proxy_upstream_errors_total") == 0
    assert found.value("think_proxy_upstream_up", upstream="gpu") == 1
    assert found.value("think_proxy_upstream_up", upstream="other") == 0
    assert found.value("think_proxy_build_info", version=__version__) == 1


def test_what_was_not_measured_is_not_observed() -> None:
    metrics = Metrics()
    metrics.count(report(status=0, outcome="client_left", upstream=None, entry=None))
    found = told(metrics)
    nobody = {"upstream": "none", "entry": ""}
    assert found.value("think_proxy_requests_total", **nobody, status="none", outcome="client_left") == 1
    assert found.value("think_proxy_client_aborts_total", **nobody) == 1
    assert found.value("think_proxy_request_seconds_count", **nobody) == 1
    for name in ("first_event", "first_content", "event_gap", "overhead"):
        assert found.value(f"think_proxy_{name}_seconds_count", **nobody) == 0, name
    assert found.total("think_proxy_answers_total") == 0


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"error": "upstream_unreachable", "status": 502}, "unreachable"),
        ({"error": "upstream_timeout", "status": 504}, "timeout"),
        ({"error": "upstream_broken", "status": 200}, "broken"),
        ({"status": 429}, "http_4xx"),
        ({"status": 503}, "http_5xx"),
        ({"status": 503, "error": "shutting_down"}, None),
        ({"status": 404, "error": "model_not_found", "upstream": None}, None),
        ({"status": 500, "error": "internal_error"}, None),
        ({"status": 400, "upstream": None}, None),
        ({"status": 302}, None),
        ({}, None),
    ],
)
def test_what_counts_as_an_error_of_the_server(fields: dict[str, object], kind: str | None) -> None:
    metrics = Metrics()
    metrics.count(report(**fields))
    errors = "think_proxy_upstream_errors_total"
    assert told(metrics).total(errors) == (kind is not None)
    if kind is not None:
        assert told(metrics).value(errors, upstream="gpu", kind=kind) == 1


@pytest.mark.parametrize(
    ("change", "missing"),
    [
        ({"stream": False}, {"first_event_s", "gap_s"}),
        ({"reads": 1}, {"gap_s"}),
        ({"ended": None}, {"gap_s"}),
        ({"handled": None}, {"first_event_s", "overhead_s"}),
        ({"arrived": None}, {"first_event_s", "gap_s", "overhead_s"}),
        ({"content": None}, {"first_content_s"}),
        ({"sent": None}, {"overhead_s"}),
        ({"read": None}, {"first_event_s", "first_content_s", "overhead_s"}),
    ],
)
def test_a_moment_that_did_not_come_leaves_out_what_needs_it(
    change: dict[str, object], missing: set[str]
) -> None:
    course = finished()
    for name, value in change.items():
        setattr(course, name, value)
    measured = measure(course, Tally())
    assert {name for name, value in measured.items() if name.endswith("_s") and value is None} == missing


def test_the_documentation_has_every_metric_and_no_other() -> None:
    metrics = Metrics()
    metrics.count(report(finished(), TALLY, status=503))
    metrics.count_reload(ok=True)
    families = told(metrics, gpu=True).families
    rows = re.findall(r"^\| `(think_proxy_\w+)` \| (\w+) \| (.*?) \|", DOCUMENT, re.MULTILINE)
    assert len(rows) == len({name for name, *_ in rows})
    documented = {name: (kind, {*re.findall(r"`(\w+)`", labels)}) for name, kind, labels in rows}
    exported = {
        name: (family.type, {key for sample in family.samples for key in sample.labels} - {"le"})
        for name, family in families.items()
    }
    assert documented == exported


def test_the_documentation_has_every_field_of_the_log() -> None:
    section = DOCUMENT.partition("## The log")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} | {"ended_at"} == {
        *RequestReport.__slots__
    }


@pytest.mark.parametrize(
    ("accept", "content_type", "last"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8", ""),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8", ""),
        (OPEN, f"{OPEN}; version=1.0.0; charset=utf-8", "# EOF"),
        (f"{OPEN};version=1.0.0;q=0.6,*/*;q=0.1", f"{OPEN}; version=1.0.0; charset=utf-8", "# EOF"),
        (f"{OPEN}; version=x; escaping=\xff", f"{OPEN}; version=1.0.0; charset=utf-8", "# EOF"),
    ],
)
def test_the_form_is_the_one_asked_for(accept: str, content_type: str, last: str) -> None:
    metrics = Metrics()
    metrics.count(report())
    body, given = metrics.render(accept, {"gpu": True})
    assert given == content_type
    assert body.decode().rstrip("\n").endswith(last)
    assert b"think_proxy_requests_total" in body
    assert b"_created" not in body


def test_what_has_happened_never_is_there_as_zero() -> None:
    found = told(Metrics())
    assert found.value("think_proxy_reloads_total", result="ok") == 0
    assert found.value("think_proxy_reloads_total", result="failed") == 0
    assert found.value("think_proxy_requests_in_flight") == 0
