"""The schema and the documentation say what the models do."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import jsonschema
import pytest
import yaml

from proxy.config import describe
from proxy.config.schema import build_schema, render_schema
from proxy.rules import TAG_SETS, History, Rule, Start
from proxy.settings import Cors, Entry, Server, Settings
from tests.commands import ROOT

SCHEMA = ROOT / "config" / "schema.json"
DOCUMENT = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")


def accept(data: object) -> None:
    jsonschema.Draft202012Validator(build_schema()).validate(data)


def test_the_schema_in_the_repository_is_current() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == render_schema(), (
        "run: python -m proxy.config > config/schema.json"
    )


def test_the_module_prints_it() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "proxy.config"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    assert run.stdout == render_schema()


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(build_schema())


def test_it_accepts_the_shipped_file() -> None:
    accept(yaml.safe_load((ROOT / "config" / "proxy.yaml").read_text(encoding="utf-8")))


def test_it_accepts_every_key() -> None:
    server = Server("a", "http://h", api_key="sk-1", ca_file="/x", uds="/y")
    settings = Settings(
        entries=(Entry("a", Rule()),), cors=Cors(("*",)), upstreams=(server,), api_keys=("sk-1",)
    )
    data = describe(settings)
    data["inlineThinkTagModels"].append("b*")
    data["upstreams"]["b"] = "http://h"
    accept(data)
    accept({"listen": {"port": "${PORT}"}, "log": {"level": "${LEVEL}"}})


@pytest.mark.parametrize(
    "tags",
    [
        *TAG_SETS,
        "${TAGS}",
        {"open": ["<a>"], "close": ["</a>"]},
        {"open": ["${A}", "b"], "close": ["c", "d", "e"]},
    ],
    ids=str,
)
def test_it_accepts_tags(tags: object) -> None:
    accept({"inlineThinkTagModels": [{"model": "a", "tags": tags}]})


@pytest.mark.parametrize(
    "tags",
    [
        "thunk",
        "custom",
        5,
        None,
        [],
        ["<a>", "</a>"],
        {},
        {"open": ["<a>"]},
        {"close": ["</a>"]},
        {"open": [], "close": ["</a>"]},
        {"open": ["<a>"], "close": []},
        {"open": ["<a>"], "close": [""]},
        {"open": "<a>", "close": "</a>"},
        {"open": [1], "close": ["</a>"]},
        {"open": ["<a>"], "close": ["</a>"], "loose": True},
    ],
    ids=str,
)
def test_it_refuses_tags(tags: object) -> None:
    with pytest.raises(jsonschema.ValidationError):
        accept({"inlineThinkTagModels": [{"model": "a", "tags": tags}]})


def test_its_defaults_of_an_entry_are_those_of_a_rule() -> None:
    (entry,) = describe(Settings(entries=(Entry("a", Rule()),)))["inlineThinkTagModels"]
    rows = build_schema()["$defs"]["ModelSection"]["properties"]
    assert {key: row["default"] for key, row in rows.items() if key != "model"} == {
        key: value for key, value in entry.items() if key != "model"
    }


@pytest.mark.parametrize(
    "data",
    [
        {"upstreem": "x"},
        {"listen": {"port": 65536}},
        {"listen": {"port": "x"}},
        {"timeouts": {"idleSeconds": -1}},
        {"maxBodyBytes": 0},
        {"upstreams": {"a": {"urls": "http://h"}}},
        {"upstreams": {"a": 5}},
        {"upstreams": ["http://h"]},
        {"apiKeys": "sk-1"},
        {"apiKeys": [""]},
        {"watchConfig": "yes"},
        {"drainSeconds": -1},
        {"cors": {}},
        {"inlineThinkTagModels": [5]},
        {"inlineThinkTagModels": [{"start": "implicit"}]},
        {"inlineThinkTagModels": [{"model": "a", "codeaware": True}]},
    ],
    ids=str,
)
def test_it_refuses_what_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        accept(data)


def read_rows(heading: str) -> dict[str, list[str]]:
    section = re.split(r"\n##+ ", DOCUMENT.split(f"## {heading}\n")[1])[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    rows = [re.split(r"\s*(?<!\\)\|\s*", line)[1:-1] for line in lines]
    return {row[0].strip("`"): row[1:] for row in rows}


def test_the_documentation_lists_every_key_of_an_entry() -> None:
    (entry,) = describe(Settings(entries=(Entry("a", Rule()),)))["inlineThinkTagModels"]
    rows = read_rows("Models")
    assert list(rows) == list(entry)
    assert {key: json.loads(row[0].strip("`")) for key, row in rows.items() if key != "model"} == {
        key: value for key, value in entry.items() if key != "model"
    }


def test_the_documentation_lists_every_key_of_an_upstream() -> None:
    (server,) = describe(Settings(upstreams=(Server("a", "http://h"),)))["upstreams"].values()
    rows = read_rows("Several model servers")
    assert list(rows) == list(server)
    defaults = {key: json.loads(row[0].strip("`")) for key, row in rows.items() if row[0].startswith("`")}
    assert defaults == {"apiKey": None, "models": ["*"], "caFile": None, "uds": None}


def test_the_documentation_has_every_start() -> None:
    assert list(read_rows("`start`")) == list(Start)


def test_the_documentation_has_every_tag_set_with_its_first_markers() -> None:
    rows = read_rows("`tags`")
    assert list(rows) == list(TAG_SETS)
    for name, (markers,) in rows.items():
        told = re.findall(r"`([^`]+)`", markers.replace("\\|", "|"))
        assert told[:2] == [TAG_SETS[name].openers[0].strip(), TAG_SETS[name].closers[0]]


def test_the_documentation_has_every_history() -> None:
    told = re.findall(r"`([^`]+)`", read_rows("Models")["history"][1])
    assert told == list(History)
