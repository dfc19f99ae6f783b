"""What `think-proxy check` prints: every value, as YAML that loads back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from proxy.config import describe, load, render
from proxy.rules import TAG_SETS, History, ReasoningField, Rule, Start, TagSet, Unterminated, Whitespace
from proxy.settings import Cors, Entry, Listen, Log, LogFormat, LogLevel, Settings, Timeouts

if TYPE_CHECKING:
    from pathlib import Path


def test_an_entry_is_written_out_in_full() -> None:
    settings = Settings(
        upstream="http://h",
        entries=(
            Entry("a/b-*", Rule(start=Start.IMPLICIT), "config/proxy.yaml:7"),
            Entry("c", Rule(), "command line"),
        ),
        timeouts=Timeouts(idle_s=1.5),
    )
    text = "\n".join(render(settings))
    assert text.startswith(
        """\
listen:
  host: "127.0.0.1"
  port: 8080
upstream: "http://h"
inlineThinkTagModels:
  # config/proxy.yaml:7
  - model: "a/b-*"
    start: "implicit"
    tags: "think"
    interleaved: true
    codeAware: true
    whitespace: "tidy"
    unterminated: "reasoning"
    reasoningField: "reasoning_content"
    history: "keep"
    toolCallRecovery: "off"
    maxRetries: 2
  # command line
  - model: "c"
"""
    )
    assert text.endswith(
        """\
timeouts:
  connectSeconds: 5
  firstByteSeconds: 600
  idleSeconds: 1.5
  answerSeconds: 0
  requestSeconds: 60
maxBodyBytes: 67108864
maxEventBytes: 16777216
passthroughPaths: []
cors: null
log:
  level: "info"
  format: "text"\
"""
    )
    assert yaml.safe_load(text) == describe(settings)


def test_a_value_that_is_no_default_says_where_it_came_from() -> None:
    rule = Rule(start=Start.AUTO, tags=TagSet("custom", ("<a>",), ("</a>", "b")))
    entry = Entry(
        "m", rule, "proxy.yaml:1", {"tags": "set here", "start": "preset for m*", "max_retries": "x"}
    )
    text = "\n".join(render(Settings(entries=(entry,))))
    assert (
        """\
  - model: "m"
    start: "auto"  # preset for m*
    tags:  # set here
      open: ["<a>"]
      close: ["</a>", "b"]
    interleaved: true
"""
        in text
    )
    assert "    maxRetries: 2  # x\n" in text
    assert yaml.safe_load(text) == describe(Settings(entries=(entry,)))


def printed(text: str) -> bool:
    return "${" not in text and text == text.strip()


seconds = st.floats(0, 1e9)
rules = st.builds(
    Rule,
    start=st.sampled_from(Start),
    tags=st.sampled_from(
        [*TAG_SETS.values(), TagSet("custom", ("<a>", "b: #'\"\n\x85"), ("</a>", "\u25c1 {x}"))]
    ),
    interleaved=st.booleans(),
    code_aware=st.booleans(),
    whitespace=st.sampled_from(Whitespace),
    unterminated=st.sampled_from(Unterminated),
    reasoning_field=st.sampled_from(ReasoningField),
    history=st.sampled_from(History),
    max_retries=st.integers(0, 9),
)
everything = st.builds(
    Settings,
    listen=st.builds(Listen, st.text(min_size=1).filter(printed), st.integers(0, 65535)),
    upstream=st.sampled_from([None, "http://h:1/base"]),
    entries=st.dictionaries(st.text(min_size=1).filter(printed), rules, max_size=3).map(
        lambda rows: tuple(Entry(name, rule, "x") for name, rule in rows.items())
    ),
    timeouts=st.builds(Timeouts, seconds, seconds, seconds, seconds, seconds),
    max_body_bytes=st.integers(1),
    passthrough_paths=st.lists(st.from_regex(r"/[a-z*/?]{0,9}", fullmatch=True), max_size=2).map(tuple),
    cors=st.sampled_from([None, Cors(("*",)), Cors(("https://a",), ("X-A",), allow_credentials=True)]),
    log=st.builds(Log, st.sampled_from(LogLevel), st.sampled_from(LogFormat)),
)


@hypothesis_settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(everything)
def test_what_is_printed_loads_back(tmp_path: Path, settings: Settings) -> None:
    file = tmp_path / "printed.yaml"
    file.write_bytes("\n".join(render(settings)).encode("utf-8"))
    loaded = load(file, environ={})
    assert describe(loaded) == describe(settings)
    assert [entry.rule for entry in loaded.entries] == [entry.rule for entry in settings.entries]
