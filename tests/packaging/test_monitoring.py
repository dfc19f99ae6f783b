"""The Grafana dashboard and the alert rules: well formed, and they ask for metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import promql_parser
import pytest
import yaml

from tests.packaging.commands import output_of
from tests.packaging.files import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

METRICS = ROOT / "docs" / "metrics.md"
RULES = ROOT / "deploy" / "prometheus" / "alerts.yaml"
COLUMNS = 24
"""The width of Grafana's grid."""

# `make promtool` unpacks it there; Debian's package would start a server along with it.
PROMTOOL = shutil.which("promtool") or shutil.which(ROOT / "build" / "promtool" / "usr" / "bin" / "promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed: make promtool")


def read_dashboard() -> dict[str, Any]:
    dashboard: dict[str, Any] = json.loads(
        (ROOT / "deploy" / "grafana" / "think-proxy.json").read_text(encoding="utf-8")
    )
    return dashboard


def dashboard_expressions() -> dict[str, str]:
    """The expressions by where they stand, Grafana's own variables replaced by what it puts there."""
    found = {}
    for panel in read_dashboard()["panels"]:
        for target in panel.get("targets", []):
            found[f"{panel['title']} {target['refId']}"] = target["expr"].replace("$__rate_interval", "5m")
    return found


def alert_rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


EXPRESSIONS = dashboard_expressions() | {rule["alert"]: rule["expr"] for rule in alert_rules()}


def selectors(expression: promql_parser.Expr) -> Iterator[promql_parser.VectorSelector]:
    """Every selector in an expression, found through whatever attributes the nodes of the tree have."""
    if isinstance(expression, promql_parser.VectorSelector):
        yield expression
    for name in ("expr", "lhs", "rhs", "vector_selector", "param"):
        inner = getattr(expression, name, None)
        if isinstance(inner, promql_parser.Expr):
            yield from selectors(inner)
    for inner in getattr(expression, "args", ()):
        yield from selectors(inner)


def metrics_of(text: str) -> set[str]:
    found = list(selectors(promql_parser.parse(text)))
    # Nothing was overlooked on the way through the tree.
    assert len(found) == len(re.findall(r"\bthink_proxy_\w+", text))
    return {str(selector.name) for selector in found}


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_expressions_are_promql_over_our_metrics_alone(where: str) -> None:
    names = metrics_of(EXPRESSIONS[where])
    assert names
    assert all(name.startswith("think_proxy_") for name in names)


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_every_metric_is_documented(where: str) -> None:
    documented = set(re.findall(r"\bthink_proxy_\w+", METRICS.read_text(encoding="utf-8")))
    for name in metrics_of(EXPRESSIONS[where]):
        assert name.removesuffix("_bucket") in documented


def test_variables_ask_for_our_metrics() -> None:
    for variable in read_dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert match
            assert metrics_of(match[1])
            assert match[2] == variable["name"]


def test_panels_have_ids_of_their_own() -> None:
    dashboard = read_dashboard()
    ids = [panel["id"] for panel in dashboard["panels"]]
    titles = [panel["title"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    assert len(set(titles)) == len(titles)
    assert dashboard["schemaVersion"] >= 30
    assert dashboard["uid"] == "think-proxy"


def test_panels_lie_side_by_side() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in read_dashboard()["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert all(0 <= x < COLUMNS for x, _ in cells), panel["title"]
        taken |= cells


def test_every_panel_says_what_it_shows_in_a_unit() -> None:
    panels = [panel for panel in read_dashboard()["panels"] if panel["type"] != "row"]
    assert len(panels) > 10
    for panel in panels:
        assert panel["type"] in {"stat", "timeseries"}
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"] in {"reqps", "percentunit", "s", "short"}
        names = [target["refId"] for target in panel["targets"]]
        assert len(set(names)) == len(names) > 0


def test_the_data_source_is_a_variable_everywhere() -> None:
    dashboard = read_dashboard()
    variable, *queries = dashboard["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", "prometheus")
    sources = [query["datasource"] for query in queries]
    for panel in dashboard["panels"]:
        if panel["type"] != "row":
            sources += [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
    assert all(source == {"type": "prometheus", "uid": f"${{{variable['name']}}}"} for source in sources)


def test_every_variable_that_is_used_is_defined() -> None:
    dashboard = read_dashboard()
    known = {variable["name"] for variable in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", " ".join(dashboard_expressions().values())))
    assert used
    assert used <= known


def test_alerts_say_how_bad_and_what_to_do() -> None:
    rules = alert_rules()
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["alert"].startswith("ThinkProxy")
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert set(rule["annotations"]) == {"summary", "description"}


@needs_promtool
def test_promtool_accepts_the_rules() -> None:
    assert f"{len(alert_rules())} rules found" in output_of(str(PROMTOOL), "check", "rules", RULES)


@needs_promtool
def test_rules_fire_when_they_should() -> None:
    tests = ROOT / "tests" / "packaging" / "alerts.test.yaml"
    tested = {
        case["alertname"]
        for test in yaml.safe_load(tests.read_text())["tests"]
        for case in test["alert_rule_test"]
        if case["exp_alerts"]
    }
    assert tested == {rule["alert"] for rule in alert_rules()}
    output_of(str(PROMTOOL), "test", "rules", tests)
