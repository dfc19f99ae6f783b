"""Configurations that load: values, precedence, environment, variables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from proxy.config import ConfigError, load
from proxy.config.environment import name_variable
from proxy.config.keys import list_keys
from proxy.rules import (
    TAG_SETS,
    History,
    ReasoningField,
    Rule,
    Start,
    TagSet,
    ToolCallRecovery,
    Unterminated,
    Whitespace,
)
from proxy.settings import Cors, Entry, Listen, Log, LogFormat, LogLevel, Server, Settings, Timeouts
from proxy.splitter import Channel, Splitter

SHIPPED = Path(__file__).parents[2] / "config" / "proxy.yaml"


def read(tmp_path: Path, text: str, environ: dict[str, str] | None = None, **overrides: object) -> Settings:
    file = tmp_path / "proxy.yaml"
    file.write_text(text, encoding="utf-8")
    return load(file, environ=environ or {}, overrides=overrides)


def names(settings: Settings) -> list[str]:
    return [entry.name for entry in settings.entries]


def test_nothing_gives_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(environ={}) == Settings()


def test_upstream_alone_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(overrides={"upstream": "http://h:8000"}, environ={}) == Settings(upstream="http://h:8000")


def test_the_shipped_file_loads_without_an_upstream() -> None:
    assert load(SHIPPED, environ={}) == Settings()


def test_the_shipped_file_loads_with_every_example_switched_on(tmp_path: Path) -> None:
    # A line that is switched off has no space behind its #, or the two of an indented line.
    text = re.sub(r"^#(?=\S|  )", "", SHIPPED.read_text(encoding="utf-8"), flags=re.MULTILINE)
    settings = read(tmp_path, text, {"PROXY_API_KEY": "sk-1"})
    assert settings.upstream == "http://127.0.0.1:8000"
    assert names(settings) == ["MiniMaxAI/MiniMax-M2.7", "Qwen/Qwen3-*", "deepseek-ai/DeepSeek-R1*"]
    assert settings.entries[2].rule == Rule(start=Start.IMPLICIT)
    # What is switched off without being called an example is the default.
    defaults = Settings()
    assert settings.timeouts == defaults.timeouts
    assert settings.max_body_bytes == defaults.max_body_bytes
    assert settings.max_header_bytes == defaults.max_header_bytes
    assert settings.max_event_bytes == defaults.max_event_bytes
    assert settings.max_concurrent_requests == defaults.max_concurrent_requests
    assert settings.api_keys == ("sk-1",)
    assert settings.public_metrics is defaults.public_metrics
    assert settings.page is defaults.page is True
    assert settings.keep_alive_s == defaults.keep_alive_s
    assert settings.drain_s == defaults.drain_s
    assert settings.drain_delay_s == defaults.drain_delay_s
    assert settings.watch_config is defaults.watch_config
    assert settings.log == defaults.log
    assert settings.cors == Cors(("https://chat.example",))


def test_every_value(tmp_path: Path) -> None:
    text = """
listen: {host: 0.0.0.0, port: 9, uds: /run/p.sock}
upstream: https://h/v1
inlineThinkTagModels:
  - a/b
  - model: c*
    start: anywhere
    tags: hy3
    interleaved: false
    codeAware: no
    whitespace: exact
    unterminated: content
    reasoningField: both
    history: inline
    toolCallRecovery: off
    maxRetries: 5
timeouts: {connectSeconds: 1, firstByteSeconds: 2, idleSeconds: 3.5, answerSeconds: 4, requestSeconds: 0}
maxBodyBytes: 10
maxHeaderBytes: 12
maxEventBytes: 11
maxConcurrentRequests: 13
apiKeys: [sk-1, sk-2]
publicMetrics: true
page: false
keepAliveSeconds: 14
drainSeconds: 15
drainDelaySeconds: 16
watchConfig: true
passthroughPaths: [/v1/x, /y/*]
cors:
  allowOrigins: ["https://a.example", "http://localhost:3000"]
  allowHeaders: [X-A]
  allowCredentials: true
  maxAgeSeconds: 1
log: {level: debug, format: json}
"""
    rule = Rule(
        start=Start.ANYWHERE,
        tags=TAG_SETS["hy3"],
        interleaved=False,
        code_aware=False,
        whitespace=Whitespace.EXACT,
        unterminated=Unterminated.CONTENT,
        reasoning_field=ReasoningField.BOTH,
        history=History.INLINE,
        max_retries=5,
    )
    sources = dict.fromkeys(rule.settings(), "set here")
    file = tmp_path / "proxy.yaml"
    assert read(tmp_path, text) == Settings(
        listen=Listen("0.0.0.0", 9, "/run/p.sock"),
        upstream="https://h",
        entries=(Entry("a/b", Rule(), f"{file}:5"), Entry("c*", rule, f"{file}:6", sources)),
        timeouts=Timeouts(1, 2, 3.5, 4, 0),
        max_body_bytes=10,
        max_header_bytes=12,
        max_event_bytes=11,
        max_concurrent_requests=13,
        api_keys=("sk-1", "sk-2"),
        public_metrics=True,
        page=False,
        keep_alive_s=14,
        drain_s=15,
        drain_delay_s=16,
        watch_config=True,
        passthrough_paths=("/v1/x", "/y/*"),
        cors=Cors(
            ("https://a.example", "http://localhost:3000"), ("X-A",), allow_credentials=True, max_age_s=1
        ),
        log=Log(LogLevel.DEBUG, LogFormat.JSON),
    )


def test_snake_case_is_the_same(tmp_path: Path) -> None:
    camel = read(
        tmp_path,
        "maxBodyBytes: 5\ntimeouts: {idleSeconds: 1}\ninlineThinkTagModels: [{model: a, codeAware: false}]",
    )
    snake = read(
        tmp_path,
        "max_body_bytes: 5\ntimeouts: {idle_seconds: 1}\n"
        "inline_think_tag_models: [{model: a, code_aware: false}]",
    )
    assert camel == snake
    assert camel.max_body_bytes == 5


@pytest.mark.parametrize("name", TAG_SETS)
def test_every_tag_set_by_its_name(tmp_path: Path, name: str) -> None:
    settings = read(tmp_path, f"inlineThinkTagModels: [{{model: a, tags: {name}}}]")
    assert settings.entries[0].rule == Rule(tags=TAG_SETS[name])


@pytest.mark.parametrize("start", Start)
@pytest.mark.parametrize("history", History)
def test_every_start_and_history(tmp_path: Path, start: Start, history: History) -> None:
    text = f"inlineThinkTagModels: [{{model: a, start: {start}, history: {history}}}]"
    assert read(tmp_path, text).entries[0].rule == Rule(start=start, history=history)


# What is refused about them: test_refusals.py.
@pytest.mark.parametrize(
    ("written", "openers", "closers"),
    [
        ("{open: [<a>], close: [</a>]}", ("<a>",), ("</a>",)),
        ("{close: [x, y], open: [b, '[c]']}", ("b", "[c]"), ("x", "y")),
        ("{open: [◁think▷], close: [◁/think▷]}", ("◁think▷",), ("◁/think▷",)),
        # The end of another marker is no fault, in either list.
        ("{open: ['[<a>', <a>], close: ['</a>', 'x</a>']}", ("[<a>", "<a>"), ("</a>", "x</a>")),
        ("{open: ['|a|'], close: ['/|a|']}", ("|a|",), ("/|a|",)),
        # Neither is what a marker may not begin with, further on.
        ('{open: ["a ~`\\n"], close: [b]}', ("a ~`\n",), ("b",)),
        # Case counts, and so do all the spaces.
        ("{open: [<T>, <t>, <t >], close: [b]}", ("<T>", "<t>", "<t >"), ("b",)),
        ("{open: [a, a], close: [b, c, b]}", ("a",), ("b", "c")),
        ("{open: ['${A}'], close: ['/${A}']}", ("<v>",), ("/<v>",)),
    ],
)
def test_tags_of_ones_own(
    tmp_path: Path, written: str, openers: tuple[str, ...], closers: tuple[str, ...]
) -> None:
    settings = read(tmp_path, f"inlineThinkTagModels: [{{model: m, tags: {written}}}]", {"A": "<v>"})
    assert settings.entries[0].rule == Rule(tags=TagSet("custom", openers, closers))


def test_the_longest_markers_of_ones_own_are_found(tmp_path: Path) -> None:
    opener, closer = f"<{'a' * 126}>", f"</{'é' * 125}>"
    (entry,) = read(
        tmp_path, f"inlineThinkTagModels: [{{model: m, tags: {{open: ['{opener}'], close: ['{closer}']}}}}]"
    ).entries
    splitter = Splitter(entry.rule)
    spans = [span for char in f"{opener}a{closer}b" for span in splitter.feed(char)] + splitter.finish()
    assert [(span.channel, span.text) for span in spans] == [(Channel.REASONING, "a"), (Channel.CONTENT, "b")]


def test_tags_of_ones_own_in_a_variable(tmp_path: Path) -> None:
    text = '[{"model": "m", "tags": {"open": ["a"], "close": ["b"]}}]'
    settings = read(tmp_path, "", {"THINK_PROXY_INLINE_THINK_TAG_MODELS": text})
    assert settings.entries[0].rule.tags == TagSet("custom", ("a",), ("b",))


@pytest.mark.parametrize("word", ["off", "'off'", "false"])
def test_off_is_off_however_yaml_reads_it(tmp_path: Path, word: str) -> None:
    settings = read(tmp_path, f"inlineThinkTagModels: [{{model: a, toolCallRecovery: {word}}}]")
    assert settings.entries[0].rule.tool_call_recovery is ToolCallRecovery.OFF


@pytest.mark.parametrize("name", ["off", "no", "on", "1:30", "2024-05-01", "0x", "1_000", "null-model"])
def test_names_that_yaml_1_1_would_not_leave_alone(tmp_path: Path, name: str) -> None:
    assert names(read(tmp_path, f"inlineThinkTagModels: [{name}]")) == [name]


def test_keys_without_a_value_count_as_not_written(tmp_path: Path) -> None:
    assert (
        read(tmp_path, "listen:\nupstream:\ninlineThinkTagModels:\ncors:\ntimeouts: {idleSeconds: }\n")
        == Settings()
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "{}", "\ufeff{}"])
def test_empty_files(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == Settings()


def test_merge_keys(tmp_path: Path) -> None:
    text = """
inlineThinkTagModels:
  - &base {model: a, start: implicit, maxRetries: 1}
  - {<<: *base, model: b}
  - {<<: [{model: z, maxRetries: 7}, *base], model: c}
"""
    rules = {entry.name: entry.rule for entry in read(tmp_path, text).entries}
    assert rules["b"] == rules["a"] == Rule(start=Start.IMPLICIT, max_retries=1)
    assert rules["c"] == Rule(start=Start.IMPLICIT, max_retries=7)


@pytest.mark.parametrize(
    ("written", "used"),
    [
        ("http://h", "http://h"),
        ("http://h/", "http://h"),
        ("http://h:1/v1", "http://h:1"),
        ("http://h/v1/", "http://h"),
        ("http://h/v1//", "http://h"),
        ("https://h/base/v1", "https://h/base"),
        ("https://h/base/", "https://h/base"),
        ("http://h/api-v1", "http://h/api-v1"),
        ("HTTP://h", "http://h"),
        ("http://[::1]:8000/v1", "http://[::1]:8000"),
        ("http+unix:///run/vllm.sock", "http+unix:///run/vllm.sock"),
        ("http+unix:///run/v1", "http+unix:///run/v1"),
        ("http+unix://%2Frun%2Fvllm.sock/base/v1/", "http+unix://%2Frun%2Fvllm.sock/base"),
    ],
)
def test_upstream_addresses(tmp_path: Path, written: str, used: str) -> None:
    assert read(tmp_path, f"upstream: '{written}'").upstream == used


# --- several model servers, and keys ---


def test_several_upstreams_in_their_order(tmp_path: Path) -> None:
    text = """
upstreams:
  second_1: http://b/v1
  a-first:
    url: https://a:1/v1
    apiKey: ${KEY}
    models: ["Qwen/*", vendor/model]
    timeouts: {connectSeconds: 1, first_byte_seconds: 0}
  c: {uds: /run/c.sock}
  d: {url: http://vllm/base, uds: /run/d.sock}
timeouts: {idleSeconds: 7}
"""
    shared = Timeouts(idle_s=7)
    settings = read(tmp_path, text, {"KEY": "sk-1"})
    assert settings.upstreams == (
        Server("second_1", "http://b", timeouts=shared),
        Server(
            "a-first",
            "https://a:1",
            models=("Qwen/*", "vendor/model"),
            api_key="sk-1",
            timeouts=Timeouts(connect_s=1, first_byte_s=0, idle_s=7),
        ),
        Server("c", "http://localhost", timeouts=shared, uds="/run/c.sock"),
        Server("d", "http://vllm/base", timeouts=shared, uds="/run/d.sock"),
    )
    assert settings.servers == settings.upstreams


def test_upstream_is_the_short_form_of_one_that_serves_every_model(tmp_path: Path) -> None:
    settings = read(tmp_path, "upstream: http://h\ntimeouts: {idleSeconds: 7}\n")
    assert settings.servers == (Server("default", "http://h", timeouts=Timeouts(idle_s=7)),)
    assert Settings().servers == ()


def test_upstreams_of_a_variable_and_of_the_file_are_merged(tmp_path: Path) -> None:
    environ = {"THINK_PROXY_UPSTREAMS": '{"a": {"apiKey": "sk-1"}, "b": "http://b"}'}
    settings = read(tmp_path, "upstreams: {a: {url: http://a, models: [m]}}\n", environ)
    assert settings.upstreams == (
        Server("a", "http://a", models=("m",), api_key="sk-1"),
        Server("b", "http://b"),
    )


@pytest.mark.parametrize("text", ["sk-1\nsk-2\n", "\n# mine\n  sk-1 \r\n\nsk-2", "\ufeffsk-1\nsk-2"])
def test_keys_from_a_file(tmp_path: Path, text: str) -> None:
    keys = tmp_path / "keys"
    keys.write_text(text, encoding="utf-8", newline="")
    settings = read(tmp_path, f"apiKeys: [sk-0]\napiKeysFile: {keys}\n")
    assert (settings.api_keys, settings.api_keys_file, settings.file_api_keys) == (
        ("sk-0",),
        str(keys),
        ("sk-1", "sk-2"),
    )


# --- precedence ---


def test_command_line_over_environment_over_file_over_default(tmp_path: Path) -> None:
    text = "listen: {host: file, port: 1}\nmaxBodyBytes: 1\n"
    environ = {"THINK_PROXY_LISTEN__PORT": "2", "THINK_PROXY_MAX_BODY_BYTES": "2"}
    settings = read(tmp_path, text, environ, max_body_bytes=3)
    assert settings == Settings(listen=Listen("file", 2), max_body_bytes=3)
    assert read(tmp_path, text, environ, listen={"port": 4}).listen == Listen("file", 4)


def test_overrides_that_say_nothing(tmp_path: Path) -> None:
    settings = read(
        tmp_path, "upstream: http://h\nlisten: {port: 1}", upstream=None, listen={"host": None, "port": None}
    )
    assert settings == Settings(upstream="http://h", listen=Listen(port=1))


def test_lists_are_replaced_whole(tmp_path: Path) -> None:
    text = "inlineThinkTagModels: [a, b]"
    name = "THINK_PROXY_INLINE_THINK_TAG_MODELS"
    variable = {name: '["c", {"model": "d", "start": "implicit"}]'}
    settings = read(tmp_path, text, variable)
    assert settings.entries == (
        Entry("c", Rule(), name),
        Entry("d", Rule(start=Start.IMPLICIT), name, {"start": "set here"}),
    )
    assert names(read(tmp_path, text, {"THINK_PROXY_INLINE_THINK_TAG_MODELS": "[]"})) == []
    assert names(read(tmp_path, text, variable, inlineThinkTagModels=["e"])) == ["e"]
    assert names(read(tmp_path, text, variable, inlineThinkTagModels=[])) == []


def test_a_bad_value_is_blamed_on_its_own_source(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(
            tmp_path,
            "listen: {port: 1}\ninlineThinkTagModels: [a, {model: b, start: implicit}]\nmaxBodyBytes: 0",
            {
                "THINK_PROXY_LISTEN__PORT": "x",
                "THINK_PROXY_INLINE_THINK_TAG_MODELS": '["a", {"model": "b", "start": "no"}]',
            },
            maxEventBytes=0,
        )
    assert [str(problem) for problem in caught.value.problems] == [
        f"{tmp_path}/proxy.yaml:3: maxBodyBytes: must be more than 0",
        (
            "THINK_PROXY_INLINE_THINK_TAG_MODELS: inlineThinkTagModels[1].start: "
            "must be one of leading, implicit, auto, anywhere"
        ),
        "THINK_PROXY_LISTEN__PORT: listen.port: must be a whole number",
        "command line: maxEventBytes: must be more than 0",
    ]


def test_which_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("config/proxy.yaml", "other.yaml", "named.yaml")):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"maxBodyBytes: {number + 1}")
    assert load(environ={}).max_body_bytes == 1
    assert load(environ={"THINK_PROXY_CONFIG": "other.yaml"}).max_body_bytes == 2
    assert load(Path("named.yaml"), environ={"THINK_PROXY_CONFIG": "other.yaml"}).max_body_bytes == 3
    assert load(environ={"THINK_PROXY_CONFIG": ""}).max_body_bytes == 1


# --- environment ---


def test_variables_of_every_kind(tmp_path: Path) -> None:
    environ = {
        "THINK_PROXY_LISTEN": '{"host": "h", "port": 1}',
        "THINK_PROXY_LISTEN__PORT": "2",
        "THINK_PROXY_UPSTREAM": "http://h/v1",
        "THINK_PROXY_TIMEOUTS__IDLE_SECONDS": "1.5",
        "THINK_PROXY_PASSTHROUGH_PATHS": '["/a"]',
        "THINK_PROXY_CORS__ALLOW_ORIGINS": '["https://a"]',
        "THINK_PROXY_CORS__ALLOW_CREDENTIALS": "true",
        "THINK_PROXY_LOG": '{"level": "error"}',
        "THINK_PROXY_WATCH_CONFIG": "false",
    }
    assert read(tmp_path, "", environ) == Settings(
        listen=Listen("h", 2),
        upstream="http://h",
        timeouts=Timeouts(idle_s=1.5),
        passthrough_paths=("/a",),
        cors=Cors(("https://a",), allow_credentials=True),
        log=Log(LogLevel.ERROR),
    )


def test_empty_variables_count_as_not_set(tmp_path: Path) -> None:
    environ = {name_variable(path): "" for path in list_keys()}
    assert read(tmp_path, "upstream: http://h", environ) == Settings(upstream="http://h")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("PASSTHROUGH_PATHS", "/a", "passthroughPaths: must be JSON"),
        ("PASSTHROUGH_PATHS", '"/a"', "passthroughPaths: must be a list"),
        ("CORS", "{", "cors: must be JSON"),
        ("CORS", "[" * 100_000, "cors: must be JSON"),
        ("CORS", '{"allowOrigin": []}', "cors.allowOrigin: unknown key; did you mean allowOrigins?"),
        ("LISTEN", "8080", "listen: must be a mapping of keys to values"),
        ("LISTEN__PORT", "tcp://10.0.0.1:80", "listen.port: must be a whole number"),
        ("UPSTREAM", "http://${NOT_SET}", "upstream: the environment variable NOT_SET is not set"),
        ("PAGE", "perhaps", "page: must be true or false"),
        ("API_KEYS", "sk-1", "apiKeys: must be JSON"),
        ("UPSTREAMS", '{"a": {"urls": "http://h"}}', "upstreams.a.urls: unknown key; did you mean url?"),
        ("WATCH_CONFIG", "perhaps", "watchConfig: must be true or false"),
    ],
)
def test_bad_variables(tmp_path: Path, name: str, value: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, "", {f"THINK_PROXY_{name}": value})
    assert str(caught.value) == f"THINK_PROXY_{name}: {problem}"


def test_a_variable_for_a_key_of_what_is_no_mapping(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, "", {"THINK_PROXY_LISTEN": "8080", "THINK_PROXY_LISTEN__PORT": "1"})
    assert str(caught.value) == "THINK_PROXY_LISTEN: listen: must be a mapping of keys to values"


def test_deep_json(tmp_path: Path) -> None:
    text = '[{"model": "a", "tags": ' + "[" * 200 + "]" * 200 + "}]"
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, "", {"THINK_PROXY_INLINE_THINK_TAG_MODELS": text})
    (problem,) = caught.value.problems
    assert problem.message == "is nested too deeply"


def test_unknown_variables_are_ignored(tmp_path: Path) -> None:
    environ = {
        "THINK_PROXY_X": "1",
        "THINK_PROXY_LISTEN__X": "1",
        "THINK_PROXY_LISTEN__PORT__X": "1",
        "THINK_PROXY_": "1",
    }
    assert read(tmp_path, "", environ) == Settings()


def inject_service(name: str) -> dict[str, str]:
    """Return what Kubernetes puts into the environment for a service with one named port."""
    prefix = name.upper().replace("-", "_")
    address = {f"_PORT_8080_TCP{end}": "10.0.0.1" for end in ("", "_PROTO", "_PORT", "_ADDR")}
    rest = {
        "_SERVICE_HOST": "10.0.0.1",
        "_SERVICE_PORT": "80",
        "_SERVICE_PORT_HTTP": "80",
        "_PORT": "tcp://10.0.0.1:80",
    }
    return {prefix + end: value for end, value in (address | rest).items()}


def test_no_key_can_be_set_by_kubernetes(tmp_path: Path) -> None:
    services = ["think-proxy", *("think-proxy-" + "-".join(path).replace("_", "-") for path in list_keys())]
    injected: dict[str, str] = {}
    for service in services:
        injected |= inject_service(service)
    assert "THINK_PROXY_PORT" in injected
    assert not injected.keys() & {name_variable(path) for path in list_keys()}
    assert read(tmp_path, "", injected) == Settings()


# --- ${NAME} ---


def test_variables_in_texts(tmp_path: Path) -> None:
    text = """
listen: {port: "${PORT}"}
upstream: "http://${HOST}:${PORT}/v1"
inlineThinkTagModels: ["${MODEL}", {model: "${MODEL}-*", start: "${START}"}]
passthroughPaths: ["/${HOST}/$HOST/$$"]
"""
    environ = {"PORT": "81", "HOST": "h", "MODEL": "${HOST}", "START": "implicit"}
    settings = read(tmp_path, text, environ)
    assert settings.listen.port == 81
    assert settings.upstream == "http://h:81"
    # What comes out of a variable is not read again.
    assert names(settings) == ["${HOST}", "${HOST}-*"]
    assert settings.entries[1].rule.start is Start.IMPLICIT
    assert settings.passthrough_paths == ("/h/$HOST/$$",)


def test_variables_in_variables_and_overrides(tmp_path: Path) -> None:
    environ = {
        "THINK_PROXY_UPSTREAM": "http://${HOST}",
        "THINK_PROXY_PASSTHROUGH_PATHS": '["/${HOST}"]',
        "HOST": "h",
    }
    assert read(tmp_path, "", environ) == Settings(upstream="http://h", passthrough_paths=("/h",))
    assert read(tmp_path, "", environ, upstream="http://x-${HOST}").upstream == "http://x-h"
