"""The first request finds everything loaded: what is loaded later makes somebody wait."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ASK_TWICE = """
import http.client, json, sys
from proxy.app import App
from proxy.config.load import load
from proxy.demo import build_app
from proxy.serve import beside

def ask(url, stream):
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    chat = {"model": "demo/thinker", "messages": [{"role": "user", "content": "Hello?"}], "stream": stream}
    connection.request("POST", "/v1/chat/completions", json.dumps(chat | {"max_tokens": 20}))
    assert connection.getresponse().read()

stream = sys.argv[1] == "stream"
with beside(build_app(pace_s=0)) as upstream:
    ask(upstream, stream)
    app = App(load(None, overrides={"upstream": upstream, "inlineThinkTagModels": ["demo/*"]}, environ={}))
    with beside(app) as url:
        app.prepare()
        before = set(sys.modules)
        ask(url, stream)
        print(*sorted(set(sys.modules) - before))
"""


@pytest.mark.parametrize("mode", ["stream", "whole"])
def test_the_first_chat_loads_nothing(mode: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK_TWICE, mode],
        env={"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
