"""What `think-proxy check` prints: every value, as YAML that loads back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from proxy.config import ConfigError, describe, load, render
from proxy.rules import TAG_SETS, History, ReasoningField, Rule, Start, TagSet, Unterminated, Whitespace
from proxy.settings import Cors, Entry, Listen, Log, LogFormat, LogLevel, Server, Settings, Timeouts
from tests.examples import up_to

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
  uds: null
upstream: "http://h"
upstreams: {}
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
maxHeaderBytes: 65536
maxEventBytes: 16777216
maxConcurrentRequests: 0
apiKeys: []
apiKeysFile: null
publicMetrics: false
passthroughPaths: []
cors: null
keepAliveSeconds: 0
drainSeconds: 30
drainDelaySeconds: 0
watchConfig: false
page: true
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


def test_keys_are_printed_as_variables_and_the_text_does_not_load_without_them(tmp_path: Path) -> None:
    settings = Settings(
        upstreams=(Server("gpu-1", "http://h", api_key="sk-u"), Server("b", "http://h", uds="/run/x")),
        api_keys=("sk-1", "sk-2"),
    )
    file = tmp_path / "printed.yaml"
    file.write_text("\n".join(render(settings)))
    with pytest.raises(ConfigError) as caught:
        load(file, environ={})
    assert {problem.message for problem in caught.value.problems} == {
        f"the environment variable {name} is not set"
        for name in ("API_KEY_1", "API_KEY_2", "API_KEY_OF_GPU_1")
    }
    given = {"API_KEY_1": "sk-1", "API_KEY_2": "sk-2", "API_KEY_OF_GPU_1": "sk-u"}
    assert load(file, environ=given) == settings


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
servers = st.builds(
    Server,
    name=st.just("x"),
    url=st.sampled_from(["http://h:1/base", "https://h", "http+unix://%2Fx/base"]),
    models=st.lists(st.text(min_size=1).filter(printed), min_size=1, max_size=2).map(tuple),
    timeouts=st.builds(Timeouts, seconds, seconds, seconds, seconds),
)
everything = st.builds(
    Settings,
    listen=st.builds(
        Listen, st.text(min_size=1).filter(printed), st.integers(0, 65535), st.sampled_from([None, "/run/x"])
    ),
    upstreams=st.dictionaries(
        st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True), servers, max_size=3
    ).map(lambda rows: tuple(replace(server, name=name) for name, server in rows.items())),
    entries=st.dictionaries(st.text(min_size=1).filter(printed), rules, max_size=3).map(
        lambda rows: tuple(Entry(name, rule, "x") for name, rule in rows.items())
    ),
    timeouts=st.builds(Timeouts, seconds, seconds, seconds, seconds, seconds),
    max_body_bytes=st.integers(1),
    max_header_bytes=st.integers(1),
    max_concurrent_requests=st.integers(0),
    keep_alive_s=seconds,
    drain_s=seconds,
    drain_delay_s=seconds,
    watch_config=st.booleans(),
    public_metrics=st.booleans(),
    page=st.booleans(),
    passthrough_paths=st.lists(st.from_regex(r"/[a-z*/?]{0,9}", fullmatch=True), max_size=2).map(tuple),
    cors=st.sampled_from([None, Cors(("*",)), Cors(("https://a",), ("X-A",), allow_credentials=True)]),
    log=st.builds(Log, st.sampled_from(LogLevel), st.sampled_from(LogFormat)),
)


@hypothesis_settings(
    max_examples=up_to(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(everything)
def test_what_is_printed_loads_back(tmp_path: Path, settings: Settings) -> None:
    file = tmp_path / "printed.yaml"
    file.write_bytes("\n".join(render(settings)).encode("utf-8"))
    loaded = load(file, environ={})
    assert describe(loaded) == describe(settings)
    assert [entry.rule for entry in loaded.entries] == [entry.rule for entry in settings.entries]
