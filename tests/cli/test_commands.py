"""The commands as processes: what they print, what they exit with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx
import pytest

from proxy import __version__
from proxy.demo import build_app
from tests import commands
from tests.commands import START_S, Run, run_process
from tests.servers import WAIT_S, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CHAT = {"model": "demo/thinker", "messages": [{"role": "user", "content": "Hello?"}], "max_tokens": 20}


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Run]:
    """Run a command that serves nothing, in this process and in an empty folder."""
    commands.isolate(tmp_path, monkeypatch)
    return lambda *arguments: Run(commands.run(*arguments), *capsys.readouterr())


@contextmanager
def running(*arguments: str, cwd: Path, **environ: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a command, yield it with the address that it prints; kill it if it is still there at the end."""
    command = [sys.executable, "-m", "proxy", *arguments]
    environ = commands.environment() | {"PYTHONUNBUFFERED": "1"} | environ
    process = subprocess.Popen(
        command, cwd=cwd, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("think-proxy on http://"), process.communicate(timeout=WAIT_S)[1]
        yield process, line.split()[2].rstrip(",")
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=WAIT_S)


def stop(process: subprocess.Popen[str], signum: int) -> tuple[int, str, str]:
    process.send_signal(signum)
    out, err = process.communicate(timeout=START_S)
    return process.returncode, out, err


def test_serve_runs_until_a_signal(tmp_path: Path) -> None:
    with serving(build_app(pace_s=0)) as upstream:
        options = (
            "--port",
            "0",
            "--upstream",
            f"{upstream}/v1/",
            "--inline-think-model",
            "demo/th*",
            "other",
        )
        with running("serve", *options, cwd=tmp_path) as (process, url):
            assert url.rpartition(":")[2] != "0"
            message = httpx.post(f"{url}/v1/chat/completions", json=CHAT).json()["choices"][0]["message"]
            assert message["reasoning_content"]
            assert httpx.get(f"{url}/readyz").status_code == 200
            code, out, err = stop(process, signal.SIGTERM)
    assert (code, out) == (0, "")
    assert "Traceback" not in err
    assert "entry=demo/th*" in err.splitlines()[0]


@pytest.mark.slow  # tests/listener has both without a process
def test_a_second_signal_does_not_wait_for_a_stream(tmp_path: Path) -> None:
    with serving(build_app(pace_s=86_400)) as upstream:
        options = ("serve", "--port", "0", "--upstream", upstream)
        with running(*options, cwd=tmp_path) as (process, url):
            body = CHAT | {"stream": True}
            with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=WAIT_S) as answer:
                pieces = answer.iter_raw()
                next(pieces)
                process.send_signal(signal.SIGTERM)
                process.send_signal(signal.SIGINT)
                # The answer that was under way is cut off, not ended.
                with pytest.raises(httpx.RemoteProtocolError):
                    list(pieces)
                _, err = process.communicate(timeout=START_S)
    assert process.returncode == 0
    assert "Traceback" not in err
    assert "outcome=stopped" in err


@pytest.mark.slow
def test_a_stream_is_finished_before_the_end(tmp_path: Path) -> None:
    with serving(build_app(pace_s=0.02)) as upstream:
        options = ("serve", "--port", "0", "--upstream", upstream)
        with running(*options, cwd=tmp_path) as (process, url):
            body = CHAT | {"stream": True}
            with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=WAIT_S) as answer:
                pieces = answer.iter_raw()
                first = next(pieces)
                process.send_signal(signal.SIGTERM)
                assert (first + b"".join(pieces)).endswith(b"data: [DONE]\n\n")
            _, err = process.communicate(timeout=START_S)
    assert process.returncode == 0
    assert "Traceback" not in err
    assert "outcome=answered" in err


@pytest.mark.parametrize("arguments", [("demo",), ()])
def test_demo_shows_both_sides(arguments: tuple[str, ...], tmp_path: Path) -> None:
    with running(*arguments, "--port", "0", cwd=tmp_path) as (process, url):
        thinker = httpx.post(f"{url}/v1/chat/completions", json=CHAT).json()["choices"][0]["message"]
        plain_chat = CHAT | {"model": "demo/plain-tags"}
        plain = httpx.post(f"{url}/v1/chat/completions", json=plain_chat).json()["choices"][0]["message"]
        code, out, err = stop(process, signal.SIGINT)
    assert thinker["reasoning_content"]
    assert "reasoning_content" not in plain
    assert plain["content"].startswith("<think>")
    assert (code, out) == (0, "")
    assert "Traceback" not in err


@pytest.mark.parametrize("where", ["file", "environment"])
def test_without_a_command_an_upstream_is_served(where: str, tmp_path: Path) -> None:
    arguments: tuple[str, ...] = ()
    environ: dict[str, str] = {}
    with serving(build_app(pace_s=0)) as upstream:
        if where == "file":
            file = tmp_path / "a.yaml"
            file.write_text(
                f"upstream: {upstream}\nlisten: {{port: 0}}\ninlineThinkTagModels: [demo/thinker]\n"
            )
            arguments = ("--config", str(file))
        else:
            environ["THINK_PROXY_UPSTREAM"] = upstream
            environ["THINK_PROXY_LISTEN__PORT"] = "0"
            environ["THINK_PROXY_INLINE_THINK_TAG_MODELS"] = '["demo/*"]'
        with running(*arguments, cwd=tmp_path, **environ) as (process, url):
            message = httpx.post(f"{url}/v1/chat/completions", json=CHAT).json()["choices"][0]["message"]
            code, _, err = stop(process, signal.SIGINT)
    assert message["reasoning_content"]
    assert code == 0
    assert "Traceback" not in err


def test_serve_without_an_upstream_says_what_to_do(run: Callable[..., Run]) -> None:
    done = run("serve")
    assert (done.code, done.out) == (1, "")
    (line,) = done.err.splitlines()
    for way in ("`upstream`", "THINK_PROXY_UPSTREAM", "--upstream", "demo"):
        assert way in line


@pytest.mark.parametrize("command", ["serve", "demo", "check", None])
@pytest.mark.parametrize("before", [True, False])
def test_a_missing_file(command: str | None, before: bool, run: Callable[..., Run]) -> None:
    parts = [["--config", "nowhere.yaml"], [command] if command else []]
    done = run(*[part for group in (parts if before else reversed(parts)) for part in group])
    assert (done.code, done.out) == (1, "")
    assert "nowhere.yaml" in done.err


def test_a_faulty_file(run: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("upstreem: http://a\n")
    for command in ("check", "serve", "demo"):
        done = run(command, "--config", "a.yaml")
        assert (done.code, done.out) == (1, "")
        assert "a.yaml:1" in done.err
        assert "upstream" in done.err


def test_check_prints_the_rules(run: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("inlineThinkTagModels: [one, {model: two, start: implicit}]\n")
    done = run("check", "--config", "a.yaml")
    assert (done.code, done.err) == (0, "")
    for text in ("one", "two", "implicit", "leading"):
        assert text in done.out


def test_check_takes_what_serve_takes(run: Callable[..., Run]) -> None:
    given = ("--port", "9", "--upstream", "http://a.test", "--inline-think-model", "one")
    for arguments in (("check", *given), (*given[:2], "check", *given[2:])):
        done = run(*arguments)
        assert (done.code, done.err) == (0, "")
        for text in ("port: 9", "http://a.test", "one"):
            assert text in done.out
        assert "# No " not in done.out


def test_check_notes_what_is_missing(run: Callable[..., Run], tmp_path: Path) -> None:
    done = run("check")
    assert (done.code, done.err) == (0, "")
    assert [line.split(":")[0] for line in done.out.splitlines()[:2]] == [
        "# No model server is configured",
        "# No model is listed",
    ]
    (tmp_path / "a.yaml").write_text(done.out)
    assert run("check", "--config", "a.yaml").code == 0


@pytest.mark.parametrize(
    "arguments",
    [("nonsense",), ("serve", "--port", "x"), ("serve", "--workers", "0"), ("split", "--port", "1")],
)
def test_faulty_command_lines(arguments: tuple[str, ...], run: Callable[..., Run]) -> None:
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err


def test_version_and_help(run: Callable[..., Run]) -> None:
    assert run("--version").out == f"think-proxy {__version__}\n"
    done = run("--help")
    assert done.code == 0
    for command in ("serve", "demo", "check", "split", "doctor"):
        assert command in done.out


def test_a_failing_command_exits_as_a_process(tmp_path: Path) -> None:
    done = run_process("-m", "proxy", "check", "--config", "nowhere", cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "Traceback" not in done.err


def test_an_address_that_is_taken(tmp_path: Path) -> None:
    with serving(build_app(pace_s=0)) as taken:
        options = ("--port", taken.rpartition(":")[2], "--upstream", taken)
        done = run_process("-m", "proxy", "serve", *options, cwd=tmp_path)
    assert (done.code, done.out) == (1, "")
    assert "address already in use" in done.err
    assert "Traceback" not in done.err


def test_a_reader_that_has_seen_enough(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "proxy", "check"],
            cwd=tmp_path,
            env=commands.environment(),
            stdout=write_end,
            stderr=subprocess.PIPE,
            timeout=START_S,
            check=False,
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_is_not_needed_is_not_loaded(tmp_path: Path) -> None:
    """Imports are most of a start; httpx alone would be an eighth of it."""
    code = "import sys, proxy.cli; print(*sys.modules); import proxy.serve; print(*sys.modules)"
    done = run_process("-c", code, cwd=tmp_path)
    by_any, by_serve = ({name.partition(".")[0] for name in line.split()} for line in done.out.splitlines())
    assert not by_any & {"httpx", "aiohttp", "fastapi", "uvicorn", "rich"}
    assert not by_serve & {"httpx", "aiohttp", "fastapi", "rich"}
