"""`start: auto` through the proxy: SGLang is asked once for its prompt, vLLM tells it by itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from proxy.rules import Rule, Start
from proxy.settings import Entry
from tests.formats.test_probe import Server
from tests.servers import raw_server
from tests.transport.proxying import LISTED, proxying
from tests.transport.wire import chat, whole

if TYPE_CHECKING:
    from tests.servers import RawRequest

AUTO = (Entry(LISTED, Rule(start=Start.AUTO)),)
TEXT = "I think.</think>\n\nIt is."


class Sglang(Server):
    """Answers chats too, and knows no `return_prompt_text`."""

    def answer(self, request: RawRequest) -> bytes:
        return whole(TEXT) if request.target == "/v1/chat/completions" else super().answer(request)


class Vllm(Sglang):
    """Tells the prompt in the answer."""

    def answer(self, request: RawRequest) -> bytes:
        assert request.json()["return_prompt_text"] is True
        return json.dumps(json.loads(whole(TEXT)) | {"prompt_text": "<|user|>hi<think>\n"}).encode()


async def ask(server: Server, times: int = 1) -> list[Any]:
    async with (
        raw_server(server) as listening,
        proxying(listening.url, entries=AUTO) as proxy,
        proxy.connect() as wire,
    ):
        return [json.loads((await wire.ask(chat(LISTED))).body) for _ in range(times)]


async def test_sglang_is_asked_once() -> None:
    server = Sglang()
    for answer in await ask(server, times=3):
        message = answer["choices"][0]["message"]
        assert (message["reasoning_content"], message["content"]) == ("I think.", "It is.")
    assert server.paths == ["/v1/tokenize", "/v1/detokenize", *["/v1/chat/completions"] * 3]


@pytest.mark.parametrize("status", [404, 405])
async def test_vllm_tells_the_prompt_and_it_is_taken_out(status: int) -> None:
    server = Vllm()
    server.answers["/v1/tokenize"] = (status, b"{}")
    for answer in await ask(server, times=2):
        message = answer["choices"][0]["message"]
        assert (message["reasoning_content"], message["content"]) == ("I think.", "It is.")
        assert "prompt_text" not in answer
    assert server.paths == ["/v1/tokenize", *["/v1/chat/completions"] * 2]


async def test_a_server_that_does_not_tell_gets_leading() -> None:
    server = Sglang()
    server.answers["/v1/tokenize"] = (404, b"{}")
    (answer,) = await ask(server)
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": TEXT}
