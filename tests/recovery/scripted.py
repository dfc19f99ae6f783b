"""A model server that answers one request after the other as scripted, and the proxy in front of it."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from proxy.rules import Rule, ToolCallRecovery
from proxy.settings import Entry
from tests.recovery.answers import Heard, hear, hear_whole, write_whole
from tests.servers import WAIT_S, raw_server, read_request
from tests.toolcalls.cases import TOOLS
from tests.transport import wire
from tests.transport.proxying import LISTED, proxying
from tests.wire.streams import DONE, JSON, choice, chunk, event, read

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from tests.recovery.answers import Form
    from tests.servers import RawRequest, RawServer
    from tests.transport.proxying import Proxy

    Act = Callable[[StreamReader, StreamWriter], Awaitable[None]]

ASKED = {"role": "user", "content": "hi"}
"""The message of `wire.chat`."""

TOOL_LIST = [
    {"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in TOOLS.items()
]


def usage(prompt: int, completion: int, reasoning: int | None = None) -> JSON:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "completion_tokens_details": None if reasoning is None else {"reasoning_tokens": reasoning},
    }


@dataclass(frozen=True)
class Said:
    """What a round says; written as a stream or whole, as the request asks."""

    parts: Sequence[tuple[str, str]]
    finish: str | None = "stop"
    number: int = 1
    """Of the round: part of its id, its time and its model's name."""
    usage: JSON | None = None
    message: JSON = field(default_factory=dict)
    """What is said beside text, as a message has it."""

    @property
    def named(self) -> JSON:
        return {"id": f"c-{self.number}", "created": self.number, "model": f"m{self.number}"}

    def stream(self, *, done: bool = True) -> bytes:
        """The events: the role, each character of what is said, the end, the usage."""
        deltas: list[JSON] = [{"role": "assistant", "content": ""}]
        deltas += [{name: char} for name, text in self.parts for char in text]
        for name, value in self.message.items():
            listed = name == "tool_calls"
            deltas.append(
                {name: [call | {"index": at} for at, call in enumerate(value)] if listed else value}
            )
        events = [event(chunk(choice(delta), **self.named)) for delta in deltas]
        if self.finish:
            events.append(event(chunk(choice({}, finish=self.finish), **self.named)))
        if self.usage is not None:
            events.append(event(chunk(**self.named, usage=self.usage)))
        return b"".join([*events, DONE if done else b""])

    def whole(self) -> bytes:
        made = write_whole(self.parts, self.finish or "", **self.message)
        return json.dumps({**made, **self.named, "usage": self.usage}).encode()

    def write(self, *, stream: bool) -> bytes:
        if stream:
            return wire.STREAM_HEAD + wire.chunk(self.stream()) + wire.LAST_CHUNK
        return wire.answer(self.whole())


def round_of(form: Form, number: int, thought: str, content: str = "", **fields: Any) -> Said:
    return Said(form.parts(thought, content), number=number, usage=usage(10 * number, number), **fields)


class Upstream:
    """Answers each request with the next of its replies: what is said, bytes, or what it does.

    The last one answers whatever else comes: a kept connection that closes is tried anew.
    """

    def __init__(self, *replies: Said | bytes | Act) -> None:
        self.replies = list(replies)
        self.documents: list[JSON] = []
        self.requests: list[RawRequest] = []
        self.asked = asyncio.Event()
        self.server: RawServer

    async def script(self, request: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        while True:
            self.requests.append(request)
            self.documents.append(request.json())
            reply = self.replies[min(len(self.requests), len(self.replies)) - 1]
            self.asked.set()
            if isinstance(reply, bytes):
                writer.write(reply)
                await writer.drain()
                return
            if isinstance(reply, Said):
                writer.write(reply.write(stream=bool(request.json().get("stream"))))
            else:
                await reply(reader, writer)
            request = await read_request(reader)

    async def wait(self, requests: int) -> None:
        """Wait until so many requests have come."""
        async with asyncio.timeout(WAIT_S):
            while len(self.requests) < requests:
                self.asked.clear()
                await self.asked.wait()

    @property
    def open(self) -> int:
        """Connections that stand."""
        return sum(not made.closed.is_set() for made in self.server.connections)


def retrying(form: Form, **fields: Any) -> Rule:
    return Rule(**{"start": form.rule.start, "tool_call_recovery": ToolCallRecovery.RETRY, **fields})


@asynccontextmanager
async def recovering(
    rule: Rule, *replies: Said | bytes | Act, **settings: Any
) -> AsyncIterator[tuple[Proxy, Upstream]]:
    """Run the proxy in front of a scripted server."""
    upstream = Upstream(*replies)
    async with raw_server(upstream.script) as server:
        upstream.server = server
        async with proxying(server.url, entries=(Entry(LISTED, rule),), **settings) as proxy:
            yield proxy, upstream


async def ask(proxy: Proxy, *, stream: bool, **members: Any) -> wire.Reply:
    async with proxy.connect() as client:
        return await client.ask(wire.chat(LISTED, stream=stream, **{"tools": TOOL_LIST, **members}))


@dataclass
class Answer(Heard):
    """What a client makes of an answer, and what holds it together."""

    named: JSON = field(default_factory=dict)
    usage: JSON | None = None


def hear_reply(reply: wire.Reply) -> Answer:
    """Read an answer; checks what is true of each: one id, one role, one end."""
    assert reply.status == 200
    if (reply.header("content-type") or "").startswith("text/event-stream"):
        events = [made for made in read(reply.body) if made]
        assert events.pop() == b"[DONE]"
        assert all("error" not in made for made in events)
        named = [{name: made[name] for name in ("id", "created", "model")} for made in events]
        assert all(name == named[0] for name in named)
        deltas = [made["choices"][0]["delta"] for made in events if made["choices"]]
        assert [delta["role"] for delta in deltas if "role" in delta] == ["assistant"]
        assert "role" in deltas[0]
        finishes = [made["choices"][0]["finish_reason"] for made in events if made["choices"]]
        assert sum(finish is not None for finish in finishes) <= 1
        told = [made["usage"] for made in events if made.get("usage")]
        assert len(told) <= 1
        return Answer(**vars(hear(reply.body)), named=named[0], usage=told[0] if told else None)
    document = reply.json()
    named = {name: document[name] for name in ("id", "created", "model")}
    return Answer(**vars(hear_whole(document)), named=named, usage=document["usage"])
