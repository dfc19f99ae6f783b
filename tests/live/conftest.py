"""The proxy, as its command starts it, in front of a tap in front of the model server under test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.commands import ROOT, environment
from tests.live import answers
from tests.live.tap import CHAT, FORCE, TIMEOUT_S, Tap
from tests.servers import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.live.tap import Exchange


PLAIN = "live/plain"
"""A model that is not listed."""

ENTRIES: list[Any] = [
    "live/leading",
    {"model": "live/implicit", "start": "implicit"},
    {"model": "live/auto", "start": "auto"},
    {"model": "live/anywhere", "start": "anywhere"},
    {"model": "live/one-block", "interleaved": False},
    {"model": "live/exact", "whitespace": "exact"},
    {"model": "live/content", "unterminated": "content"},
    {"model": "live/reasoning", "reasoningField": "reasoning"},
    {"model": "live/none", "reasoningField": "none"},
    {"model": "live/kimi", "tags": "kimi"},
    {"model": "live/mistral", "tags": "mistral"},
    {"model": "live/custom", "tags": {"open": ["<<thoughts>>"], "close": ["<<answer>>"]}},
    {"model": "live/history-keep", "history": "keep"},
    {"model": "live/history-inline", "history": "inline"},
    {"model": "live/history-reasoning", "history": "reasoning"},
    {"model": "live/history-reasoning_content", "history": "reasoning_content"},
    {"model": "live/history-drop", "history": "drop"},
]
"""The models that the proxy lists. They are one model of the server: the tap puts its name in."""

REQUEST = {
    "messages": [{"role": "user", "content": "why is the sky blue"}],
    "max_tokens": 200,
    "temperature": 1.0,
    "seed": 7,
}

seen: list[str] = []
"""What the tests saw of the server, for the end of pytest's report."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if seen:
        terminalreporter.section("the model server")
        for line in seen:
            terminalreporter.write_line(line)


@dataclass
class Reply:
    """What the client got, and the exchange behind it."""

    status: int
    headers: httpx.Headers
    body: bytes
    exchange: Exchange
    stream: bool

    def choices(self, name: str = "reasoning_content") -> dict[int, answers.Choice]:
        """What the client was told."""
        return answers.read(self.body, stream=self.stream, name=name)

    def raw_choices(self) -> dict[int, answers.Choice]:
        """What the server said."""
        return answers.read(self.exchange.answer, stream=self.stream)


@dataclass
class Live:
    """The proxy in front of the tap, and the model server by itself."""

    upstream: str
    model: str
    tap: Tap
    log: Path
    _client: httpx.Client

    def ask(self, model: str, *, stream: bool, force: dict[str, Any] | None = None, **more: Any) -> Reply:
        """Ask the proxy; `force` is what the tap tells the server and the proxy does not know."""
        document = REQUEST | {"model": model, "stream": stream, FORCE: force or {}} | more
        answer = self._client.post(CHAT, json=document)
        return Reply(answer.status_code, answer.headers, answer.content, self.tap.exchanges[-1], stream)

    def ask_directly(self, path: str = CHAT, /, **more: Any) -> httpx.Response:
        """Ask the model server without a proxy."""
        document = (REQUEST if path == CHAT else {}) | {"model": self.model} | more
        return httpx.post(self.upstream + path, json=document, timeout=TIMEOUT_S, trust_env=False)


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """The proxy in front of the server that UPSTREAM names, with the model that MODEL names."""
    upstream, model = os.environ.get("UPSTREAM"), os.environ.get("MODEL")
    if not upstream or not model:
        pytest.skip("no model server: make test-upstream UPSTREAM=http://host:port MODEL=name")
    upstream = upstream.rstrip("/").removesuffix("/v1")
    try:
        httpx.get(f"{upstream}/v1/models", timeout=TIMEOUT_S, trust_env=False)
    except httpx.HTTPError as error:
        pytest.exit(f"no model server answers at {upstream}: {error}", 1)
    folder = tmp_path_factory.mktemp("live")
    tap = Tap(upstream, model)
    with serving(tap.app) as tap_url, (folder / "log").open("w") as log:
        # JSON is YAML, too.
        (folder / "proxy.yaml").write_text(json.dumps({"upstream": tap_url, "inlineThinkTagModels": ENTRIES}))
        command = [
            sys.executable,
            "-m",
            "proxy",
            "serve",
            "--config",
            str(folder / "proxy.yaml"),
            "--port",
            "0",
        ]
        with subprocess.Popen(
            command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=log, text=True
        ) as process:
            assert process.stdout is not None
            try:
                announced = process.stdout.readline()
                assert "http://" in announced, (folder / "log").read_text()
                with httpx.Client(
                    base_url=announced.split()[-1], timeout=TIMEOUT_S, trust_env=False
                ) as client:
                    yield Live(upstream, model, tap, folder / "log", client)
            finally:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(TIMEOUT_S)
                finally:
                    process.kill()
        assert process.returncode == 0, (folder / "log").read_text()


@pytest.fixture(scope="session")
def forcing(live: Live) -> Live:
    """The same, if the server lets the shape of its answers be forced."""
    answer = live.ask_directly(structured_outputs={"regex": "(red|green) sky"})
    if answer.status_code == httpx.codes.OK:
        text = answers.read(answer.content, stream=False)[0].content
        if text in ("red sky", "green sky"):
            return live
        said = f"it answered {text[:40]!r}…"
    else:
        said = f"{answer.status_code} {answer.text[:120]}"
    pytest.skip(f"the server does not keep to structured_outputs, so no shape can be forced: {said}")


@pytest.fixture(params=[True, False], ids=["stream", "whole"])
def stream(request: pytest.FixtureRequest) -> bool:
    """Both ways to ask."""
    return bool(request.param)
