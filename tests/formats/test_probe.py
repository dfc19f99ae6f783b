"""`auto` on a server that does not tell its prompts, played as SGLang 0.5.23 answers."""

from __future__ import annotations

import json
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from proxy import probe as module
from proxy.probe import MAX_KEPT, Probe, write_question
from proxy.rules import TAG_SETS, Rule, Start
from proxy.settings import Timeouts
from proxy.telemetry import LOGGER, Notes
from proxy.upstream import Upstream
from tests.servers import RawRequest, raw_server, read_request

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator

    from proxy.headers import Headers

RULE = Rule(start=Start.AUTO)
USER = {"role": "user", "content": "a secret of the client"}
REQUEST = {"model": "m", "messages": [USER], "temperature": 0.5}
FIELDS: Headers = [
    (b"authorization", b"Bearer key"),
    (b"content-type", b"application/json"),
    (b"content-length", b"7"),
    (b"host", b"proxy.example"),
    (b"cookie", b"c=1"),
]


class Server:
    """A server with a chat template that opens thinking unless it is switched off."""

    def __init__(self) -> None:
        self.requests: list[RawRequest] = []
        self.ending = "<think>\n"
        self.answers: dict[str, tuple[int, bytes]] = {}
        """What is said on a path instead."""
        self.silent = False

    @property
    def paths(self) -> list[str]:
        return [request.target for request in self.requests]

    async def __call__(
        self, request: RawRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            self.requests.append(request)
            if self.silent:
                await reader.read()
                return
            status, body = self.answers.get(request.target) or (200, self.answer(request))
            writer.write(
                b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
                % (status, len(body), body)
            )
            request = await read_request(reader)

    def answer(self, request: RawRequest) -> bytes:
        body = request.json()
        if request.target == "/v1/tokenize":
            off = (body.get("chat_template_kwargs") or {}).get("enable_thinking") is False
            text = "<|user|>Hi<|assistant|>" + ("<think>\n\n</think>\n\n" if off else self.ending)
            tokens = [ord(character) for character in text]
            return json.dumps({"tokens": tokens, "count": len(tokens), "max_model_len": 4096}).encode()
        assert request.target == "/v1/detokenize"
        assert body["skip_special_tokens"] is False
        assert len(body["tokens"]) <= 32
        return json.dumps({"text": "".join(map(chr, body["tokens"]))}).encode()


class Asking:
    """A probe, and the server that it asks."""

    def __init__(self, upstream: Upstream, probe: Probe | None = None) -> None:
        self.upstream = upstream
        self.probe = probe or Probe()


@asynccontextmanager
async def probing(server: Server) -> AsyncIterator[Asking]:
    async with raw_server(server) as listening:
        upstream = Upstream(listening.url, Timeouts())
        try:
            yield Asking(upstream)
        finally:
            await upstream.close()


async def settle(
    asking: Asking, request: Any = REQUEST, rule: Rule = RULE, notes: Notes | None = None
) -> Start:
    settled = await asking.probe.settle(
        rule, request, asking.upstream, FIELDS, request_id=b"r-1", notes=notes or Notes()
    )
    return settled.start


async def test_a_prompt_that_opens_and_one_that_does_not() -> None:
    server = Server()
    async with probing(server) as asking:
        assert await settle(asking) is Start.IMPLICIT
        off = REQUEST | {"chat_template_kwargs": {"enable_thinking": False}}
        assert await settle(asking, off) is Start.LEADING
        assert await settle(asking) is Start.IMPLICIT
    assert server.paths == ["/v1/tokenize", "/v1/detokenize"] * 2


async def test_one_probe_serves_every_rule_and_conversation_of_a_shape() -> None:
    server = Server()
    server.ending = "<|START_THINKING|>"
    async with probing(server) as asking:
        assert await settle(asking) is Start.LEADING
        assert await settle(asking, rule=Rule(start=Start.AUTO, tags=TAG_SETS["cohere"])) is Start.IMPLICIT
        assert await settle(asking, REQUEST | {"messages": [USER] * 9, "seed": 7}) is Start.LEADING
    assert len(server.requests) == 2


async def test_what_one_server_says_holds_for_no_other() -> None:
    first, second = Server(), Server()
    second.ending = ""
    async with probing(first) as asking, probing(second) as other:
        assert await settle(asking) is Start.IMPLICIT
        assert await settle(Asking(other.upstream, asking.probe)) is Start.LEADING
        assert await settle(asking) is Start.IMPLICIT


async def test_the_upstreams_own_key_takes_the_place_of_the_clients() -> None:
    server = Server()
    async with probing(server) as asking:
        asking.upstream.api_key = "ours"
        assert await settle(asking) is Start.IMPLICIT
    assert {request.header("authorization") for request in server.requests} == {"Bearer ours"}


async def test_the_probe_goes_with_the_clients_key_and_none_of_its_words() -> None:
    server = Server()
    async with probing(server) as asking:
        await settle(asking)
    for request in server.requests:
        assert request.method == "POST"
        assert request.header("authorization") == "Bearer key"
        assert request.header("content-type") == "application/json"
        assert request.header("x-request-id") == "r-1"
        assert request.header("content-length") == str(len(request.body))
        assert request.header("cookie") is None
        assert b"secret" not in request.body
    assert server.requests[0].json()["model"] == server.requests[1].json()["model"] == "m"


@pytest.mark.parametrize("status", [404, 405])
async def test_a_server_without_the_path_is_not_asked_again(
    status: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LOGGER, "propagate", True)
    server = Server()
    server.answers["/v1/tokenize"] = status, b'{"detail":"Not Found"}'
    async with probing(server) as asking:
        for _ in range(3):
            assert await settle(asking) is Start.AUTO
    assert server.paths == ["/v1/tokenize"]
    assert not caplog.records


FAILURES = {
    "bad request": ("/v1/tokenize", 400, b'{"object":"error"}'),
    "server error": ("/v1/tokenize", 500, b"oops"),
    "no JSON": ("/v1/tokenize", 200, b"<html>"),
    "a list": ("/v1/tokenize", 200, b"[1]"),
    "no tokens": ("/v1/tokenize", 200, b'{"tokens":[]}'),
    "odd tokens": ("/v1/tokenize", 200, b'{"tokens":"abc"}'),
    "too much": ("/v1/tokenize", 200, b'{"tokens":[1],"x":"' + b"x" * 3_000_000 + b'"}'),
    "no text": ("/v1/detokenize", 200, b'{"text":null}'),
    "texts": ("/v1/detokenize", 200, b'{"text":["<think>"]}'),
    "no detokenizer": ("/v1/detokenize", 501, b"{}"),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failure_leaves_auto_and_is_said_once(
    failure: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LOGGER, "propagate", True)
    path, status, body = FAILURES[failure]
    server = Server()
    server.answers[path] = status, body
    notes = Notes()
    async with probing(server) as asking:
        for _ in range(3):
            assert await settle(asking, notes=notes) is Start.AUTO
        assert server.paths.count(path) == 1
        other = REQUEST | {"reasoning_effort": "low"}
        assert await settle(asking, other, notes=notes) is Start.AUTO
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


async def test_a_client_without_access_spoils_nothing_for_the_next() -> None:
    server = Server()
    async with probing(server) as asking:
        for status in (401, 403):
            server.answers["/v1/tokenize"] = status, b"{}"
            assert await settle(asking) is Start.AUTO
        server.answers.clear()
        assert await settle(asking) is Start.IMPLICIT


async def test_a_server_that_is_not_there_leaves_auto() -> None:
    async with raw_server(Server()) as listening:
        gone = listening.url
    upstream = Upstream(gone, Timeouts())
    assert await settle(Asking(upstream)) is Start.AUTO
    await upstream.close()


async def test_a_server_that_keeps_silent_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROBE_S", 0.05)
    server = Server()
    server.silent = True
    async with probing(server) as asking:
        for _ in range(3):
            assert await settle(asking) is Start.AUTO
    assert server.paths == ["/v1/tokenize"]


async def test_an_answer_that_is_too_old_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEP_S", 0.0)
    server = Server()
    async with probing(server) as asking:
        assert await settle(asking) is Start.IMPLICIT
        server.ending = ""
        assert await settle(asking) is Start.LEADING


async def test_what_clients_can_make_it_keep_is_bounded() -> None:
    server = Server()
    async with probing(server) as asking:
        for number in range(MAX_KEPT + 10):
            await settle(asking, REQUEST | {"model": f"m{number}"})
        kept = asking.probe._kept  # noqa: SLF001 - memory has no face
        assert len(kept) == MAX_KEPT
        asked = len(server.requests)
        await settle(asking, REQUEST | {"model": f"m{MAX_KEPT + 9}"})
        assert len(server.requests) == asked, "the newest is kept"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "fields",
    [{"model": "m" * 5000}, {"chat_template_kwargs": {"x": nested(200_000)}}, {"reasoning": ["x"] * 5000}],
    ids=["name", "depth", "length"],
)
async def test_a_question_that_is_too_large_is_not_asked(fields: dict[str, Any]) -> None:
    server = Server()
    async with probing(server) as asking:
        assert await settle(asking, REQUEST | fields) is Start.AUTO
    assert not server.requests


def roles(request: dict[str, Any]) -> list[str]:
    return [message["role"] for message in write_question(request)["messages"]]


def said(role: str, content: Any = "x") -> dict[str, Any]:
    return {"role": role, "content": content}


SHAPES = [
    ([USER], ["user"]),
    ([said("system"), USER], ["system", "user"]),
    ([said("developer"), USER], ["system", "user"]),
    ([USER, said("assistant"), USER], ["user"]),
    ([USER, said("assistant"), said("tool")], ["user", "assistant", "tool"]),
    ([USER, said("assistant"), said("tool"), USER], ["user"]),
    ([USER, said("assistant")], ["user", "assistant"]),
    ([], ["user"]),
    (None, ["user"]),
    ([7, None, "x"], ["user"]),
]


@pytest.mark.parametrize(("messages", "shape"), SHAPES, ids=str)
def test_the_question_has_the_shape_of_the_conversation(messages: Any, shape: list[str]) -> None:
    assert roles({"model": "m", "messages": messages}) == shape


def test_the_question_takes_along_what_reaches_the_template() -> None:
    fields = {"reasoning_effort": "low", "chat_template_kwargs": {"thinking": True}}
    question = write_question({"model": "m", "stream": True, "tools": [{"x": 1}], "thinking": None, **fields})
    assert {key: question[key] for key in fields} == fields
    assert question.keys() == {"model", "messages", "tools", *fields}
    assert len(question["tools"]) == 1
    assert "x" not in question["tools"][0]
    assert "tools" not in write_question({"model": "m", "tools": []})


@pytest.mark.parametrize(
    ("messages", "contents"),
    [
        ([said("system", "Be brief. /no_think"), USER], ["Hi /no_think", "Hi"]),
        ([said("user", "/think a"), said("user", "b /no_think c")], ["Hi /no_think"]),
        ([said("user", "/no_think a /think"), said("user", "b")], ["Hi /think"]),
        (
            [said("user", [{"type": "text", "text": "a /no_think"}, 7, {"type": "image_url"}])],
            ["Hi /no_think"],
        ),
        ([said("user", None)], ["Hi"]),
        ([said("assistant", "/no_think"), USER], ["Hi"]),
    ],
    ids=str,
)
def test_a_switch_in_a_message_is_the_one_word_that_goes_along(messages: Any, contents: list[str]) -> None:
    question = write_question({"model": "m", "messages": messages})
    assert [message["content"] for message in question["messages"]] == contents
