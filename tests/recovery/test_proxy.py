"""The official client, through the proxy on a real socket, in front of a server that replays recordings."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import openai
import pytest

from proxy.rules import Rule, ToolCallRecovery
from proxy.settings import Entry
from tests.servers import raw_server
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying
from tests.wire.test_recordings import RECORDINGS

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator

    from openai.types.chat.chat_completion import Choice

    from tests.servers import RawRequest, RawServer

NAME = "vllm-0.32/tool-call-in-think"
ENTRIES = (Entry(LISTED, Rule(tool_call_recovery=ToolCallRecovery.PROMOTE)),)
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": "read",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
            },
        },
    }
]
OPTIONS: dict[str, Any] = {"messages": [{"role": "user", "content": "Read it."}], "tools": TOOLS}


async def replay(request: RawRequest, _: StreamReader, writer: StreamWriter) -> None:
    """Answer with the recording of the kind that is asked for, in two writes."""
    if request.json().get("stream"):
        body = (RECORDINGS / f"{NAME}.stream.sse").read_bytes()
        writer.write(wire.STREAM_HEAD + wire.chunk(body[:2000]))
        await writer.drain()
        writer.write(wire.chunk(body[2000:]) + b"0\r\n\r\n")
    else:
        writer.write(wire.answer((RECORDINGS / f"{NAME}.whole.json").read_bytes()))
    await writer.drain()


@asynccontextmanager
async def connecting() -> AsyncIterator[tuple[openai.AsyncOpenAI, RawServer]]:
    """Run the proxy in front of the server; the client asks it."""
    async with (
        raw_server(replay) as server,
        proxying(server.url, entries=ENTRIES) as proxy,
        openai.AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key="k", max_retries=0) as client,
    ):
        yield client, server


async def ask(client: openai.AsyncOpenAI, model: str, *, stream: bool) -> Choice:
    """The one choice of an answer, put together by the client where it is streamed."""
    answer: Any
    if stream:
        async with client.chat.completions.stream(model=model, **OPTIONS) as events:
            answer = await events.get_final_completion()
    else:
        answer = await client.chat.completions.create(model=model, **OPTIONS)
    choice: Choice = answer.choices[0]
    return choice


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_gets_the_call(stream: bool) -> None:
    ids = []
    async with connecting() as (client, server):
        for _ in range(2):
            choice = await ask(client, LISTED, stream=stream)
            (call,) = choice.message.tool_calls or []
            assert call.type == "function"
            assert choice.finish_reason == "tool_calls"
            assert not choice.message.content
            assert call.function.name == "read"
            assert json.loads(call.function.arguments)["path"] == "/etc/hosts"
            ids.append(call.id)
        assert server.requests[0].json()["skip_special_tokens"] is False
    assert len(set(ids)) == 2
    assert all(id_.startswith("call_") for id_ in ids)


@pytest.mark.parametrize("stream", [True, False])
async def test_an_unlisted_model_is_left_alone(stream: bool) -> None:
    async with connecting() as (client, server):
        choice = await ask(client, PLAIN, stream=stream)
        assert "skip_special_tokens" not in server.requests[0].json()
    assert (choice.finish_reason, choice.message.tool_calls) == ("stop", None)
    assert (choice.message.content or "").startswith("<think>")
