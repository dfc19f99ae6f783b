"""The demo server over real sockets, read by the official client, by httpx and byte by byte."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import openai
import pytest

from proxy.demo import Stats, build_app
from proxy.demo_answers import MODELS
from tests.servers import WAIT_S, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.applications import Starlette

QUESTION: list[Any] = [{"role": "user", "content": "Hello?"}]

FOREVER_S = 86_400.0


@pytest.fixture
def app() -> Starlette:
    return build_app(pace_s=0, new_id=lambda: "chatcmpl-1", clock=lambda: 1_800_000_000.9)


@pytest.fixture
def url(app: Starlette) -> Iterator[str]:
    with serving(app) as base_url:
        yield base_url


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.mark.parametrize("model", MODELS)
def test_the_openai_client_reads_whole_answers(client: openai.OpenAI, model: str) -> None:
    answer = client.chat.completions.create(model=model, messages=QUESTION)
    assert answer.choices[0].message.content == MODELS[model].answers[0]
    assert answer.choices[0].finish_reason == "stop"
    assert (answer.id, answer.created, answer.model) == ("chatcmpl-1", 1_800_000_000, model)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == len(MODELS[model].answer(0, 0)) + 1


@pytest.mark.parametrize("model", MODELS)
def test_the_openai_client_reads_streams(client: openai.OpenAI, app: Starlette, model: str) -> None:
    texts = ["", ""]
    finishes = []
    with client.chat.completions.create(
        model=model, messages=QUESTION, stream=True, n=2, stream_options={"include_usage": True}
    ) as stream:
        *chunks, last = list(stream)
    for chunk in chunks:
        (choice,) = chunk.choices
        texts[choice.index] += choice.delta.content or ""
        finishes += [choice.finish_reason] if choice.finish_reason else []
    assert texts == ["".join(MODELS[model].answer(0, index)) for index in range(2)]
    assert finishes == ["stop", "stop"]
    assert last.usage is not None
    assert last.usage.completion_tokens == sum(len(MODELS[model].answer(0, i)) + 1 for i in range(2))
    stats = app.state.stats
    assert stats.wait_until(lambda s: s.open_streams == 0, WAIT_S)
    assert (stats.requests, stats.aborted) == (1, 0)


def test_the_openai_client_sees_the_refusals(client: openai.OpenAI, app: Starlette) -> None:
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.chat.completions.create(model="nope", messages=QUESTION)
    with pytest.raises(openai.BadRequestError, match="at least one message"):
        client.chat.completions.create(model="demo/coder", messages=[])
    assert (app.state.stats.requests, app.state.stats.open_streams) == (2, 0)


def test_the_openai_client_lists_the_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == list(MODELS)


def test_headers_are_those_of_vllm(url: str) -> None:
    body = {"model": "demo/coder", "messages": QUESTION}
    whole = httpx.post(f"{url}/v1/chat/completions", json=body)
    assert whole.headers["content-type"] == "application/json"
    assert int(whole.headers["content-length"]) == len(whole.content)
    stream = httpx.post(f"{url}/v1/chat/completions", json=body | {"stream": True})
    assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert stream.headers["transfer-encoding"] == "chunked"


def test_answers_are_the_same_every_time(url: str) -> None:
    body = {"model": "demo/thinker", "messages": QUESTION, "stream": True}
    first, second = (httpx.post(f"{url}/v1/chat/completions", json=body).content for _ in range(2))
    assert first == second
    assert first.endswith(b"data: [DONE]\n\n")


def test_the_small_paths(url: str) -> None:
    health = httpx.get(f"{url}/health")
    assert (health.status_code, health.content) == (200, b"")
    assert httpx.get(f"{url}/version").json() == {"version": "0.32.0"}
    unknown = httpx.get(f"{url}/v1/nothing")
    assert (unknown.status_code, unknown.json()) == (404, {"detail": "Not Found"})
    assert httpx.get(f"{url}/v1/chat/completions").status_code == 405


def test_a_web_page_may_ask(url: str) -> None:
    headers = {"origin": "http://localhost:3000", "access-control-request-method": "POST"}
    assert httpx.options(f"{url}/v1/chat/completions", headers=headers).status_code == 200


def test_a_client_that_leaves_mid_stream_stops_the_answer() -> None:
    app = build_app(pace_s=FOREVER_S)
    stats: Stats = app.state.stats
    with serving(app) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client:
        stream = client.chat.completions.create(model="demo/thinker", messages=QUESTION, stream=True)
        assert next(stream).choices[0].delta.role == "assistant"
        assert (stats.open_streams, stats.aborted) == (1, 0)
        stream.close()
        assert stats.wait_until(lambda s: s.aborted == 1, WAIT_S)
        assert stats.open_streams == 0


def test_a_client_that_leaves_before_a_whole_answer_stops_it() -> None:
    app = build_app(pace_s=FOREVER_S)
    stats: Stats = app.state.stats
    body = json.dumps({"model": "demo/thinker", "messages": QUESTION}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: demo\r\ncontent-length: %d\r\n\r\n" % len(body)
    with serving(app) as url:
        address = urlsplit(url)
        with socket.create_connection((address.hostname, address.port), WAIT_S) as connection:
            connection.sendall(head + body)
            assert stats.wait_until(lambda s: s.open_streams == 1, WAIT_S)
        assert stats.wait_until(lambda s: s.aborted == 1, WAIT_S)


def test_waiting_for_what_does_not_come_ends() -> None:
    assert not Stats().wait_until(lambda s: s.requests > 0, timeout_s=0)


def test_it_runs_alone_and_says_where() -> None:
    command = [sys.executable, "-m", "proxy.demo", "--port", "0", "--pace", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            url = line.split()[-1]
            assert line == f"demo model server on {url}\n"
            assert httpx.get(f"{url}/health").status_code == 200
        finally:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=WAIT_S)
    assert (out, err, process.returncode) == ("", "", 0)
