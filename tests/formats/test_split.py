"""`think-proxy split`: a recording in, reasoning and content apart out."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from proxy import offline
from proxy.config import ConfigError
from proxy.rules import TAG_SETS, ReasoningField, Rule, Start
from proxy.split_command import STDIN, run
from proxy.splitter import Channel

RECORDINGS = Path(__file__).parents[1] / "recordings"
R, C = Channel.REASONING, Channel.CONTENT
T = "<think>r</think>"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration but the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("THINK_PROXY_CONFIG", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)


def write(name: str, data: str | bytes) -> Path:
    path = Path(name)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def told(capsys: pytest.CaptureFixture[str], path: Path, **options: Any) -> dict[str, Any]:
    run(path, as_json=True, **options)
    out, err = capsys.readouterr()
    assert not err
    assert out.endswith("}\n")
    answer: dict[str, Any] = json.loads(out)
    return answer


def shown(capsys: pytest.CaptureFixture[str], path: Path, **options: Any) -> str:
    run(path, **options)
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], path: Path) -> str:
    with pytest.raises(SystemExit) as exit_:
        run(path)
    assert exit_.value.code == 1
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1
    return err


WHOLE = {"model": "m", "choices": [{"index": 0, "message": {"content": T + "x\n" + T + "y"}}]}


def test_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    path = write("a.txt", f"{T}\n\nx\n{T}y")
    assert shown(capsys, path) == "[reasoning]\nr\n[content]\nx\n\n[reasoning]\nr\n[content]\ny\n"
    answer = told(capsys, path)
    assert answer["model"] is None
    assert answer["rule"]["start"] == "leading"
    assert answer["rule"]["tags"] == "think"
    assert answer["choices"] == [
        {
            "index": 0,
            "reasoning": "rr",
            "content": "x\ny",
            "spans": [
                {"channel": "reasoning", "text": "r"},
                {"channel": "content", "text": "x\n"},
                {"channel": "reasoning", "text": "r"},
                {"channel": "content", "text": "y"},
            ],
        }
    ]


def test_a_whole_answer_keeps_the_order(capsys: pytest.CaptureFixture[str]) -> None:
    answer = told(capsys, write("a.json", json.dumps(WHOLE)))
    assert answer["model"] == "m"
    assert [span["text"] for span in answer["choices"][0]["spans"]] == ["r", "x\n", "r", "y"]


PAIRS = sorted(
    path.name.removesuffix(".stream.sse") + " " + path.parent.name
    for path in RECORDINGS.glob("*/*.stream.sse")
    if path.with_name(path.name.replace(".stream.sse", ".whole.json")).exists()
)


@pytest.mark.parametrize("case", [case for case in PAIRS if not case.startswith(("abort", "error", "wrong"))])
def test_a_recorded_stream_and_the_whole_answer_agree(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    name, server = case.split()
    streamed = told(capsys, RECORDINGS / server / f"{name}.stream.sse")
    whole = told(capsys, RECORDINGS / server / f"{name}.whole.json")
    assert streamed["choices"]
    assert streamed["model"] == whole["model"] == "tiny"
    assert streamed["rule"] == whole["rule"]
    assert streamed["choices"] == whole["choices"]


def test_several_choices_are_labelled(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, RECORDINGS / "vllm-0.32" / "two-choices.stream.sse")
    assert out.startswith("choice 0\n[reasoning]\n")
    assert out.count("\nchoice 1\n[reasoning]\n") == 1
    assert "choice" not in shown(capsys, RECORDINGS / "vllm-0.32" / "basic.stream.sse")


@pytest.mark.parametrize(
    ("finish", "fields", "spans"),
    [
        ("stop", {}, ["r", "a <think>b"]),
        ("length", {}, ["r", "a ", "b"]),
        ("stop", {"stop_reason": "END"}, ["r", "a ", "b"]),
        ("stop", {"matched_stop": "END"}, ["r", "a ", "b"]),
        ("stop", {"matched_stop": 7}, ["r", "a <think>b"]),
        (None, {}, ["r", "a <think>b"]),
    ],
)
def test_how_a_turn_ended_counts(
    finish: str | None, fields: dict[str, Any], spans: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{T}a <think>b"
    choice = {"index": 0, "finish_reason": finish, **fields}
    whole = write("a.json", json.dumps({"choices": [choice | {"message": {"content": text}}]}))
    assert [span["text"] for span in told(capsys, whole)["choices"][0]["spans"]] == spans
    if finish:
        event = json.dumps({"choices": [choice | {"delta": {"content": text}}]})
        stream = write("a.sse", f"data: {event}\n\ndata: [DONE]\n\n")
        assert [span["text"] for span in told(capsys, stream)["choices"][0]["spans"]] == spans


def test_what_is_neither_thought_nor_said_is_an_empty_choice(capsys: pytest.CaptureFixture[str]) -> None:
    path = write("a.txt", "")
    assert told(capsys, path)["choices"] == [{"index": 0, "reasoning": "", "content": "", "spans": []}]
    assert shown(capsys, path) == ""


CONFIG = """
inlineThinkTagModels:
  - model: "acme/*"
    tags: kimi
    start: anywhere
  - model: deepseek-ai/DeepSeek-R1
    start: leading
"""


def test_the_rule_is_the_configurations_else_the_presets_else_the_defaults(
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = write("c.yaml", CONFIG)
    path = write("a.txt", "a ◁think▷r◁/think▷x")
    asked = {
        "acme/one": ("kimi", "anywhere"),
        "acme/one:free": ("kimi", "anywhere"),
        "deepseek-ai/DeepSeek-R1": ("think", "leading"),
        "deepseek-ai/DeepSeek-R1-0528": ("think", "implicit"),
        "deepseek-ai/DeepSeek-R1-0528:free": ("think", "implicit"),
        "ByteDance-Seed/Seed-OSS-36B-Instruct": ("seed-oss", "leading"),
        "other": ("think", "leading"),
    }
    for model, (tags, start) in asked.items():
        answer = told(capsys, path, model=model, config_file=config)
        assert (answer["rule"]["tags"], answer["rule"]["start"]) == (tags, start), model
        assert answer["model"] == model
    assert told(capsys, path, model="acme/one", config_file=config)["choices"][0]["reasoning"] == "r"


def test_the_recordings_own_model_counts_unless_another_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    whole = WHOLE | {"model": "deepseek-ai/DeepSeek-R1"}
    event = f"data: {json.dumps(whole)}\n\n"
    for path in (write("a.json", json.dumps(whole)), write("a.sse", event), write("b.sse", event.strip())):
        assert told(capsys, path)["rule"]["start"] == "implicit"
        assert told(capsys, path, model="m")["rule"]["start"] == "leading"


def test_the_default_configuration_is_read_where_there_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    path = write("a.txt", "x")
    assert told(capsys, path, model="acme/one")["rule"]["tags"] == "think"
    Path("config").mkdir()
    write("config/proxy.yaml", CONFIG)
    assert told(capsys, path, model="acme/one")["rule"]["tags"] == "kimi"


def test_a_faulty_configuration_is_told_as_ever() -> None:
    with pytest.raises(ConfigError):
        run(write("a.txt", "x"), config_file=Path("missing.yaml"))


def test_a_tag_set_of_ones_own_is_written_out(capsys: pytest.CaptureFixture[str]) -> None:
    text = 'inlineThinkTagModels: [{model: m, tags: {open: ["<a>"], close: ["</a>"]}}]'
    answer = told(capsys, write("a.txt", "<a>r</a>x"), model="m", config_file=write("c.yaml", text))
    assert answer["rule"]["tags"] == {"open": ["<a>"], "close": ["</a>"]}
    assert answer["choices"][0]["reasoning"] == "r"


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("a.json", json.dumps(WHOLE)[:-9], "no answer in JSON"),
        ("a.JSON", '{"error": {"message": "no"}}', "no answer in JSON"),
        ("a.sse", "<think>r</think>x", "no stream of events"),
        ("a.sse", "data: {", "no stream of events"),
        ("a.sse", b"\xff", "no stream of events"),
    ],
)
def test_a_name_that_promises_something_else(
    name: str, data: str | bytes, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A recording that was cut off is not to look like an answer that says all this."""
    assert f"{name}: this is {told}" in refused(capsys, write(name, data))


def test_what_is_in_a_recording_comes_before_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    stream = b"data: " + json.dumps(WHOLE).encode() + b"\n\n"
    for name in ("a.json", "a.txt", "a.sse"):
        assert told(capsys, write(name, stream))["model"] == "m"
        assert told(capsys, write(name, json.dumps(WHOLE)))["choices"][0]["content"] == "x\ny"


def test_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(T.encode() + "é".encode())))
    assert shown(capsys, STDIN) == "[reasoning]\nr\n[content]\né\n"


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert "missing.sse: No such file" in refused(capsys, Path("missing.sse"))
    assert ".: Is a directory" in refused(capsys, Path())


@pytest.mark.parametrize("data", [b"\xff\xfe<think>", b"a\x80", b'{"choices":\xff}'])
def test_a_text_that_is_not_utf8(data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    assert "a.txt: this is no stream, no answer in JSON, and no UTF-8 text" in refused(
        capsys, write("a.txt", data)
    )


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def on_terminal(path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    run(path)
    return out.getvalue()


def test_colour_is_for_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("a.txt", f"{T}x")
    assert on_terminal(path, monkeypatch) == (
        "\x1b[1m[reasoning]\x1b[0m\n\x1b[2mr\x1b[0m\n\x1b[1m[content]\x1b[0m\nx\n"
    )
    monkeypatch.setenv("NO_COLOR", "1")
    assert on_terminal(path, monkeypatch) == "[reasoning]\nr\n[content]\nx\n"


def test_a_recording_cannot_drive_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write("a.txt", "a\tb\x1b[2Jc\r\x9b\u202ed\ne\u200d🤔")
    assert shown(capsys, path) == "[content]\na\tb\x1b[2Jc\r\x9b\u202ed\ne\u200d🤔\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert on_terminal(path, monkeypatch) == ("[content]\na\tb\\x1b[2Jc\\r\\x9b\\u202ed\ne\u200d🤔\n")


def test_what_utf8_cannot_write_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    path = write("a.json", '{"choices":[{"message":{"content":"a\\ud83d"}}]}')
    assert shown(capsys, path) == "[content]\na\\ud83d\n"
    assert told(capsys, path)["choices"][0]["content"] == "a\ud83d"


@pytest.mark.parametrize(
    "text", ["id: 7", ": a", "data: <think>", "event: x\n\ndata: y\n\n", "{}", "[1]", '{"a":1}']
)
def test_a_text_that_looks_like_something_else_is_a_text(text: str) -> None:
    assert offline.split(text.encode(), Rule()) == [(0, C, text)]
    assert offline.find_model(text.encode()) is None


def test_streams_with_a_byte_order_mark_comments_and_no_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    event = json.dumps({"model": "m", "choices": [{"index": 0, "delta": {"content": T + "x"}}]})
    for before in ("\ufeff", "\r\n", ": ping\n\n", "event: message\n", "id: 1\n"):
        assert told(capsys, write("a.sse", f"{before}data: {event}"))["choices"][0]["content"] == "x"


def test_the_recordings_prompt_settles_auto() -> None:
    answer = {"choices": [{"message": {"content": "r</think>x"}}]}
    auto = Rule(start=Start.AUTO)
    for prompt, spans in (("a<think>\n", [(0, R, "r"), (0, C, "x")]), ("a", [(0, C, "r</think>x")])):
        assert offline.split(json.dumps(answer | {"prompt_text": prompt}).encode(), auto) == spans
    assert offline.split(json.dumps(answer).encode(), auto) == [(0, C, "r</think>x")]


def test_parsed_reasoning_and_content_arrays() -> None:
    native = {"choices": [{"message": {"reasoning_content": "r", "content": T}}]}
    assert offline.split(json.dumps(native).encode(), Rule()) == [(0, R, "r"), (0, C, T)]
    array = {"choices": [{"message": {"content": [{"type": "text", "text": T + "x"}, {"type": "other"}]}}]}
    assert offline.split(json.dumps(array).encode(), Rule()) == [(0, R, "r"), (0, C, "x")]


@pytest.mark.parametrize("field", ReasoningField)
def test_the_wire_name_of_reasoning_does_not_matter(field: ReasoningField) -> None:
    for data in (f"{T}x", json.dumps({"choices": [{"message": {"content": T + "x"}}]})):
        made = offline.split(data.encode(), Rule(reasoning_field=field))
        assert made == [(0, R, "r"), (0, C, "x")]


@pytest.mark.parametrize(
    "answer",
    [
        {"choices": []},
        {"choices": [7, None, "x", {}]},
        {"choices": [{"message": None}, {"message": []}, {"message": {"content": 7}}]},
        {"choices": [{"index": "0", "message": {"content": "x"}}]},
    ],
    ids=str,
)
def test_odd_shapes_hold_no_text(answer: dict[str, Any]) -> None:
    assert offline.split(json.dumps(answer).encode(), Rule(tags=TAG_SETS["think"])) == []
