"""The command against model servers, real and imitated, and against a proxy that runs."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse

from proxy.app import App
from proxy.cli import main
from proxy.config import load
from proxy.demo import build_app
from proxy.doctor import modelserver
from proxy.doctor.command import MAX_MODELS
from proxy.doctor.questions import FIRST_TOKENS, RAISED_TOKENS
from proxy.rules import ReasoningField, Rule, Start
from proxy.serve import beside
from proxy.settings import Entry, Settings
from tests import commands
from tests.doctor.scripted import (
    Scripted,
    by_switch,
    event,
    hangs,
    parsed,
    recorded,
    refuses,
    says,
    spoken,
    stream,
    told,
)
from tests.servers import serving

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response

    from tests.doctor.scripted import Asked

VLLM, SGLANG = "vllm-0.32", "sglang-0.5"
PLAIN = spoken("4", "2")
CLOSED = recorded(f"{VLLM}/implicit-start")
OPEN_PROMPT = "<|user|>Hi<|assistant|><think>\n"


class Run(commands.Run):
    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def model(self) -> Any:
        (model,) = self.json["models"]
        return model


@pytest.fixture
def doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Run]:
    """Run the command in this process and in an empty folder; servers are given as they are."""
    commands.isolate(tmp_path, monkeypatch)

    def run(server: Any, *arguments: str) -> Run:
        app = server.app() if isinstance(server, Scripted) else server
        with beside(app) if isinstance(app, App) else serving(app, lifespan="off") as url:
            code = commands.run("doctor", "--upstream", f"{url}/v1", *arguments)
        printed = capsys.readouterr()
        return Run(code, printed.out.replace(url, "URL"), printed.err.replace(url, "URL"))

    return run


def test_the_demo_server(doctor: Callable[..., Run]) -> None:
    done = doctor(build_app(pace_s=0))
    assert done.code == 0
    assert done.out.startswith("vLLM 0.32.0 at URL, 4 models asked\n")
    assert done.out.endswith(
        "\nupstream: URL\ninlineThinkTagModels:\n  - demo/thinker\n  - demo/coder\n  - demo/plain-tags\n"
        "  - model: demo/implicit\n    start: implicit\n"
    )
    assert "in the text, between <think> and </think>" in done.out
    assert "in the text up to </think>, the opener being in the prompt" in done.out
    assert "\x1b" not in done.out + done.err
    assert done.err.splitlines() == [
        f"{number}/4 demo/{name}"
        for number, name in enumerate(("thinker", "coder", "plain-tags", "implicit"), 1)
    ]
    assert not [line for line in done.out.splitlines() if line != line.rstrip()]


def test_one_object_for_scripts(doctor: Callable[..., Run]) -> None:
    done = doctor(build_app(pace_s=0), "--json", "--model", "demo/implicit")
    assert done.code == 0
    assert done.json == {
        "url": "URL",
        "server": {"kind": "vLLM", "version": "0.32.0"},
        "models": [
            {
                "model": "demo/implicit",
                "thinking": "closer",
                "fields": [],
                "tags": "think",
                "start": "implicit",
                "onRequest": False,
                "switch": False,
                "reasoningParser": False,
                "toolParser": None,
                "entry": {"model": "demo/implicit", "start": "implicit"},
                "notes": [],
                "refusal": None,
            }
        ],
        "leftOut": 0,
        "inlineThinkTagModels": [{"model": "demo/implicit", "start": "implicit"}],
        "yaml": "upstream: URL\ninlineThinkTagModels:\n  - model: demo/implicit\n    start: implicit\n",
        "written": None,
        "error": None,
        "exitCode": 0,
    }


def strict(asked: Asked) -> Response:
    """Refuse what OpenAI's own API does not know, as hosted servers do."""
    known = {"model", "messages", "stream", "max_tokens", "tools"}
    if odd := asked.keys() - known:
        return refuses(400, f"Unknown parameter: {min(odd)}")(asked)
    return stream(recorded(f"{VLLM}/basic"))


def long(asked: Asked) -> Response:
    """Think for longer than the first question allows."""
    if asked["max_tokens"] < RAISED_TOKENS:
        return stream(spoken("so ", "I think", finish="length"))
    return stream(spoken("so ", "I think\n</think>\n\n", "42"))


def endless(_: Asked) -> Response:
    return stream(spoken("so ", "I think", finish="length"))


def hidden(asked: Asked) -> Response:
    kept = asked.get("skip_special_tokens") is False
    return stream(spoken(*(["[THINK]", "so", "[/THINK]"] if kept else ["so "]), "42"))


def hybrid(asked: Asked) -> Response:
    """vLLM with a template that opens the thinking unless it is switched off, and tells its prompts."""
    if asked.get("chat_template_kwargs", {}).get("enable_thinking") is False:
        return stream(told(PLAIN, asked, "<think>\n\n</think>\n\n"))
    return stream(told(CLOSED, asked, OPEN_PROMPT))


NATIVE = parsed(recorded(f"{VLLM}/basic"), ReasoningField.REASONING)
NATIVE_SGLANG = parsed(recorded(f"{SGLANG}/basic"), ReasoningField.REASONING_CONTENT)

LLAMA = b"".join(
    event(
        {"choices": [{"index": 0, "finish_reason": None, "delta": delta}], "object": "chat.completion.chunk"}
    )
    for delta in ({"role": "assistant", "content": None}, {"reasoning_content": "so"}, {"content": "42"})
) + event({"choices": [{"index": 0, "finish_reason": "stop", "delta": {}}], "timings": {"prompt_n": 4}})


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (says(recorded(f"{VLLM}/basic")), {"thinking": "tags", "switch": False, "entry": {}}),
        (by_switch(recorded(f"{VLLM}/basic"), PLAIN), {"thinking": "tags", "switch": True, "entry": {}}),
        (says(recorded(f"{SGLANG}/basic")), {"thinking": "tags", "reasoningParser": False, "entry": {}}),
        (says(recorded(f"{SGLANG}/interleaved")), {"thinking": "tags", "entry": {}}),
        (says(recorded(f"{SGLANG}/truncated-in-think")), {"thinking": "tags", "entry": {}}),
        (says(recorded(f"{SGLANG}/error-mid-stream")), {"thinking": "tags"}),
        (says(CLOSED), {"thinking": "closer", "switch": False, "entry": {"start": "implicit"}}),
        (by_switch(CLOSED, PLAIN), {"thinking": "closer", "switch": True, "entry": {"start": "implicit"}}),
        (hybrid, {"thinking": "closer", "switch": True, "entry": {"start": "auto"}}),
        (by_switch(PLAIN, PLAIN, CLOSED), {"thinking": "closer", "onRequest": True, "start": "auto"}),
        (says(recorded(f"{SGLANG}/implicit-start-split-tag")), {"thinking": "closer"}),
        (says(NATIVE), {"thinking": "native", "fields": ["reasoning"], "reasoningParser": True}),
        (says(NATIVE_SGLANG), {"thinking": "native", "fields": ["reasoning_content"], "entry": None}),
        (by_switch(NATIVE, PLAIN), {"thinking": "native", "switch": True, "entry": None}),
        (says(LLAMA), {"thinking": "native", "fields": ["reasoning_content"], "entry": None, "notes": []}),
        (says(PLAIN), {"thinking": "none", "reasoningParser": None, "entry": None}),
        (strict, {"thinking": "tags", "switch": None, "entry": {}}),
        (long, {"thinking": "closer", "entry": {"start": "implicit"}}),
        (endless, {"thinking": "unclear", "entry": None}),
        (hidden, {"thinking": "tags", "tags": "mistral", "entry": {"tags": "mistral"}}),
        (says(spoken(calls=None, tool_calls=[{"index": 0}], finish="tool_calls")), {"toolParser": True}),
        (says(recorded(f"{VLLM}/tool-call-in-think")), {"toolParser": False}),
    ],
)  # fmt: skip
def test_models(script: Any, expected: dict[str, Any], doctor: Callable[..., Run]) -> None:
    done = doctor(Scripted({"a/b": script}), "--json")
    assert done.code == 0
    if expected.get("entry") is not None:
        expected = expected | {"entry": {"model": "a/b"} | expected["entry"]}
    assert {key: done.model[key] for key in expected} == expected


def test_sglang_is_asked_for_its_prompt(doctor: Callable[..., Run]) -> None:
    closed = recorded(f"{SGLANG}/implicit-start")
    server = Scripted({"a/b": by_switch(closed, PLAIN)}, owner="sglang", version=None, prompt=OPEN_PROMPT)
    done = doctor(server, "--json")
    assert done.json["server"] == {"kind": "SGLang", "version": None}
    assert done.model["entry"] == {"model": "a/b", "start": "auto"}


def test_the_name_it_was_loaded_under(doctor: Callable[..., Run]) -> None:
    server = Scripted({"mine": endless}, roots={"mine": "/models/Qwen/QwQ-32B"})
    assert doctor(server, "--json").model["entry"] == {"model": "mine", "start": "implicit", "tags": "think"}


def test_questions_are_few_short_and_streamed(doctor: Callable[..., Run]) -> None:
    server = Scripted({"a/b": says(recorded(f"{VLLM}/basic"))})
    doctor(server, "--json")
    assert [asked["max_tokens"] for asked in server.asked] == [FIRST_TOKENS] * 3
    assert all(asked["stream"] for asked in server.asked)
    plain, off, tool = server.asked
    assert "chat_template_kwargs" not in plain
    assert off["chat_template_kwargs"]["enable_thinking"] is False
    assert tool["tools"]

    server = Scripted({"a/b": endless})
    doctor(server, "--json")
    # Raised once, and no more.
    assert [asked["max_tokens"] for asked in server.asked].count(RAISED_TOKENS) == 1


def test_several_models_one_of_which_takes_no_chats(doctor: Callable[..., Run]) -> None:
    server = Scripted(
        {
            "embed": refuses(400, "The model does not support Chat Completions API"),
            "a/b": says(recorded(f"{VLLM}/basic")),
            "native": says(NATIVE_SGLANG),
        }
    )
    done = doctor(server)
    assert done.code == 0
    assert "The model does not support Chat Completions API (400)" in done.out
    assert done.out.endswith("\nupstream: URL\ninlineThinkTagModels:\n  - a/b\n")
    done = doctor(server, "--model", "native")
    assert done.code == 0
    assert done.out.endswith("\nNo model needs an entry: there is nothing to configure.\n")
    done = doctor(server, "--model", "embed")
    assert done.code == 1


def test_a_server_of_many_models(doctor: Callable[..., Run]) -> None:
    server = Scripted({f"m{number}": refuses(400, "no") for number in range(MAX_MODELS + 3)})
    done = doctor(server)
    assert (done.code, len(server.asked)) == (1, 2 * MAX_MODELS)
    assert "3 more not asked" in done.out
    done = doctor(server, "--json", "--model", f"m{MAX_MODELS}", "--model", f"m{MAX_MODELS}")
    assert (len(done.json["models"]), done.json["leftOut"]) == (1, 0)


def test_a_parser_that_leaves_tags(doctor: Callable[..., Run]) -> None:
    done = doctor(Scripted({"a/b": says(spoken("on</think>", "42", reasoning="so"))}))
    assert done.code == 1
    assert "leaves tags in the answer" in " ".join(done.out.split())
    assert done.out.endswith("No entry can help here, see above.\n")


@pytest.mark.parametrize(
    ("timeout", "begun", "thinking", "said"),
    [
        ("0.1", b"", "refused", "no answer within 0.1 seconds; --timeout allows for more"),
        ("1", event({"choices": [{"index": 0, "delta": {"content": "<think>so"}}]}), "tags", None),
        ("1", event({"choices": [{"index": 0, "delta": {"content": "so"}}]}), "unclear", None),
    ],
)
def test_slow_servers(
    timeout: str, begun: bytes, thinking: str, said: str | None, doctor: Callable[..., Run]
) -> None:
    done = doctor(Scripted({"a/b": hangs(begun)}), "--json", "--timeout", timeout)
    assert done.model["thinking"] == thinking
    assert (done.model["refusal"] or {}).get("message") == said
    assert done.code == (1 if said else 0)


@pytest.mark.parametrize(
    ("listing", "words"),
    [
        (lambda: HTMLResponse("<h1>Hello</h1>"), "no OpenAI-compatible server"),
        (lambda: HTMLResponse("no", 404), "(404)"),
        (lambda: JSONResponse({"error": {"message": "Loading model"}}, 503), "wait until it has loaded"),
        (
            lambda: RedirectResponse("https://other.test/v1/models"),
            "redirects to https://other.test/v1/models",
        ),
        (lambda: JSONResponse({"data": []}), "lists no models"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_what_is_no_model_server(
    listing: Callable[[], Response], words: str, as_json: bool, doctor: Callable[..., Run]
) -> None:
    done = doctor(Scripted({}, listing=listing), *(["--json"] if as_json else []))
    assert done.code == 1
    if as_json:
        assert words in done.json["error"]
        assert (done.json["exitCode"], done.err) == (1, "")
    else:
        assert done.out == ""
        (line,) = done.err.splitlines()
        assert words in line


def test_a_model_that_is_named_needs_no_list(doctor: Callable[..., Run]) -> None:
    server = Scripted({"a/b": says(PLAIN)}, listing=lambda: HTMLResponse("no", 404))
    assert doctor(server, "--model", "a/b").code == 0


def test_keys(doctor: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    server = Scripted({"a/b": says(recorded(f"{VLLM}/basic"))}, key="sk-right")
    done = doctor(server)
    assert done.code == 1
    assert "wants an API key (401)" in done.err
    monkeypatch.setenv("OUR_KEY", "sk-wrong")
    done = doctor(server, "--api-key-env", "OUR_KEY")
    assert done.code == 1
    assert "refuses the key (401)" in done.err
    monkeypatch.setenv("OUR_KEY", "sk-right")
    done = doctor(server, "--api-key-env", "OUR_KEY", "--write", "a.yaml")
    assert done.code == 0
    assert "sk-" not in done.out + done.err + Path("a.yaml").read_text()
    # A server that repeats the key in an error.
    server.models = {"a/b": refuses(400, "sk-right is a nice\nkey")}
    done = doctor(server, "--api-key-env", "OUR_KEY", "--json")
    assert done.model["refusal"]["message"] == "*** is a nice key"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--upstream", "nowhere"),
        ("--upstream", "http://user:secret@127.0.0.1"),
        ("--upstream", "http://127.0.0.1:1", "--timeout", "0"),
        ("--upstream", "http://127.0.0.1:1", "--timeout", "secret"),
        ("--upstream", "http://127.0.0.1:1", "--api-key-env", "sk-secret"),
        ("--upstream", "http://127.0.0.1:1", "--api-key-env", "UNSETsecret"),
    ],
)
def test_faulty_command_lines(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["doctor", *arguments])
    printed = capsys.readouterr()
    assert (end.value.code, printed.out) == (2, "")
    assert "secret" not in printed.err


def test_nothing_listens(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        with pytest.raises(SystemExit) as end:
            main(["doctor", "--upstream", f"http://127.0.0.1:{taken.getsockname()[1]}"])
    assert end.value.code == 1
    assert "Nothing listens at http://127.0.0.1:" in capsys.readouterr().err


def test_tls_where_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(build_app(pace_s=0)) as url, pytest.raises(SystemExit) as end:
        main(["doctor", "--upstream", url.replace("http:", "https:")])
    assert end.value.code == 1
    assert "does not speak TLS: try it with http://" in capsys.readouterr().err


def test_writing(doctor: Callable[..., Run]) -> None:
    demo = build_app(pace_s=0)
    options = ("--model", "demo/implicit", "--write", "config/proxy.yaml")
    done = doctor(demo, *options)
    assert done.code == 0
    assert done.out.endswith("Made config/proxy.yaml: added upstream, demo/implicit.\n")
    file = Path("config/proxy.yaml")
    (entry,) = load(file, environ={}).entries
    assert (entry.name, entry.rule.start) == ("demo/implicit", Start.IMPLICIT)
    text = file.read_text() + "# mine\n"
    file.write_text(text)
    done = doctor(demo, "--model", "demo/coder", "--json", *options)
    assert done.json["written"]["added"] == ["demo/coder"]
    assert len(done.json["written"]["left"]) == 2
    assert file.read_text().startswith(text.removesuffix("# mine\n"))
    assert file.read_text().endswith("# mine\n")


def test_files_that_cannot_be_written(doctor: Callable[..., Run]) -> None:
    demo = build_app(pace_s=0)
    Path("bad.yaml").write_text("upstreem: x\n")
    Path("odd.yaml").write_text("{log: {level: debug}}\n")
    for file, words in (("bad.yaml", "bad.yaml:1"), ("odd.yaml", "  - demo/coder"), (".", "directory")):
        done = doctor(demo, "--model", "demo/coder", "--write", file)
        assert (done.code, done.out) == (1, "")
        assert words in done.err


def proxy(url: str, *entries: Entry) -> App:
    return App(Settings(upstream=url, entries=entries))


def test_a_proxy_that_leaks_nothing(doctor: Callable[..., Run]) -> None:
    # Slow enough for liveness to be seen.
    with serving(build_app(pace_s=0.002)) as url:
        entries = [Entry("demo/*", Rule()), Entry("demo/implicit", Rule(start=Start.IMPLICIT))]
        names = ("--model", "demo/implicit", "--model", "demo/coder")
        done = doctor(proxy(url, *entries), "--json", *names)
        assert done.code == 0
        assert done.json["server"]["kind"] == "think-proxy"
        for model, notes in zip(done.json["models"], (1, 0), strict=True):
            assert (model["fields"], model["live"], model["entry"]) == (["reasoning_content"], True, None)
            # The demo server knows no switch: what is `implicit` leaks when it is used all the same.
            assert (len(model["notes"]), model["problems"]) == (notes, [])
        done = doctor(proxy(url, *entries), *names)
    assert done.code == 0
    assert done.out.count("thinking as reasoning_content, live") == 2
    assert done.out.endswith("Nothing leaks.\n")


def test_a_proxy_that_leaks(doctor: Callable[..., Run]) -> None:
    with serving(build_app(pace_s=0)) as url:
        app = proxy(url, Entry("demo/thinker", Rule()))
        done = doctor(app)
        assert done.code == 1
        assert done.out.startswith("think-proxy ")
        assert done.out.count("tags in the answer (tag set think)") == 3
        assert done.out.endswith(
            "Add to the proxy's configuration:\n\ninlineThinkTagModels:\n  - demo/coder\n"
            "  - demo/plain-tags\n  - model: demo/implicit\n    start: implicit\n"
        )
        done = doctor(app, "--write", "a.yaml")
        assert done.code == 1
        assert "--write takes the model server's own address" in done.err
        assert not Path("a.yaml").exists()


def test_a_proxy_in_front_of_a_small_context(doctor: Callable[..., Run]) -> None:
    def small(asked: Asked) -> Response:
        if asked["max_tokens"] > FIRST_TOKENS:
            return refuses(400, "max_tokens is too large")(asked)
        return stream(recorded(f"{VLLM}/basic"))

    with serving(Scripted({"a/b": small}).app()) as url:
        done = doctor(proxy(url, Entry("a/b", Rule())))
        assert done.code == 0
        assert "thinking as reasoning_content" in done.out
    # Asked directly, it is refused only what would be more.
    assert doctor(Scripted({"a/b": small}), "--json").model["thinking"] == "tags"


def test_a_proxy_that_takes_everything_for_thinking(doctor: Callable[..., Run]) -> None:
    with serving(Scripted({"a/b": says(PLAIN)}).app()) as url:
        done = doctor(proxy(url, Entry("a/b", Rule(start=Start.IMPLICIT))))
    assert done.code == 1
    assert "the whole answer is reasoning" in done.out
    assert done.out.endswith("Something is wrong, see above.\n")


def test_a_proxy_whose_every_setting_is_found_by_doctor(doctor: Callable[..., Run]) -> None:
    """What is printed for a server makes a proxy in front of it tight."""
    scripts = {
        "tags": by_switch(recorded(f"{VLLM}/basic"), PLAIN),
        "told": hybrid,
        "closer": by_switch(CLOSED, PLAIN),
        "asked": by_switch(PLAIN, PLAIN, recorded(f"{SGLANG}/basic")),
        "hidden": hidden,
        "native": says(NATIVE),
        "none": says(PLAIN),
    }
    with serving(Scripted(scripts).app()) as url:
        assert doctor(Scripted(scripts), "--write", "a.yaml").code == 0
        settings = replace(load(Path("a.yaml"), environ={}), upstream=url)
        assert {entry.name for entry in settings.entries} == {"tags", "told", "closer", "asked", "hidden"}
        done = doctor(App(settings), "--json")
    assert done.code == 0
    seen = {model["model"]: model["fields"] for model in done.json["models"]}
    ours = {name: ["reasoning_content"] for name in ("tags", "told", "closer", "hidden")}
    assert seen == ours | {"native": ["reasoning"], "asked": [], "none": []}


def test_a_proxy_is_known_by_a_field() -> None:
    with beside(proxy("http://127.0.0.1:1")) as url:
        field = modelserver.PROXY_FIELD.decode()
        assert re.fullmatch(r"\d+\.\d+.*", httpx.get(f"{url}/healthz").headers[field])


def test_as_a_process(tmp_path: Path) -> None:
    with serving(build_app(pace_s=0)) as url:
        options = ("--upstream", url, "--model", "demo/coder")
        done = commands.run_process("-m", "proxy", "doctor", *options, cwd=tmp_path)
    assert (done.code, done.err) == (0, "1/1 demo/coder\n")
    assert done.out.endswith("inlineThinkTagModels:\n  - demo/coder\n")
