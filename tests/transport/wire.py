"""A client that sees every byte, and the few messages that tests are made of."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.servers import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: header names are in lower case, in their order; the body is without its chunks."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes = b""

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)

    def json(self) -> Any:
        return json.loads(self.body)

    def error(self) -> tuple[int, str, str]:
        """Return status, type and code of an error envelope."""
        error = self.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["message"]
        assert self.header("content-type") == "application/json"
        return self.status, error["type"], error["code"]


class Wire:
    """A connection of a client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._method = "GET"

    async def send(self, raw: bytes) -> None:
        self._method = raw.partition(b" ")[0].decode("latin-1")
        self.writer.write(raw)
        async with asyncio.timeout(WAIT_S):
            await self.writer.drain()

    async def ask(self, raw: bytes) -> Reply:
        await self.send(raw)
        return await self.reply()

    async def head(self) -> Reply:
        raw = await self.until(b"\r\n\r\n")
        first, *lines = raw[:-4].decode("latin-1").split("\r\n")
        pairs = (line.partition(": ") for line in lines)
        return Reply(int(first.split(" ")[1]), tuple((name.lower(), value) for name, _, value in pairs))

    async def reply(self) -> Reply:
        """Read a whole answer, its body framed by a length or in chunks."""
        head = await self.head()
        if self._method == "HEAD" or head.status in (204, 304):
            return head
        if head.header("transfer-encoding") == "chunked":
            pieces = []
            while piece := await self.piece():
                pieces.append(piece)
            body = b"".join(pieces)
        else:
            length = int(head.header("content-length") or "0")
            async with asyncio.timeout(WAIT_S):
                body = await self.reader.readexactly(length)
        return Reply(head.status, head.headers, body)

    async def piece(self) -> bytes:
        """Read one chunk of a body; nothing for the last one."""
        async with asyncio.timeout(WAIT_S):
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            return (await self.reader.readexactly(size + 2))[:-2]

    async def until(self, text: bytes) -> bytes:
        """Read up to and including `text`."""
        async with asyncio.timeout(WAIT_S):
            return await self.reader.readuntil(text)

    async def rest(self) -> bytes:
        """Read all that comes until the connection ends."""
        async with asyncio.timeout(WAIT_S):
            return await self.reader.read()

    def abort(self) -> None:
        self.writer.transport.abort()


def request(
    target: str, body: bytes | None = None, *fields: str, method: str | None = None, host: str = "proxy.test"
) -> bytes:
    """Write a request: POST where there is a body, GET else; `fields` are header lines."""
    lines = [f"{method or ('GET' if body is None else 'POST')} {target} HTTP/1.1", f"host: {host}", *fields]
    if body is not None and not any(field.lower().startswith("transfer-encoding") for field in fields):
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


def chat(model: str, *fields: str, **members: Any) -> bytes:
    """Write a chat completion request."""
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], **members}
    return request(
        "/v1/chat/completions", json.dumps(body).encode(), "content-type: application/json", *fields
    )


def answer(
    body: bytes = b"", *fields: str, status: str = "200 OK", content_type: str | None = "application/json"
) -> bytes:
    """Write an answer with a length."""
    lines = [f"HTTP/1.1 {status}", *([f"content-type: {content_type}"] if content_type else []), *fields]
    lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
LAST_CHUNK = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def chunk(data: bytes) -> bytes:
    """Write one chunk of a body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(text: str, finish: str | None = None, **delta: Any) -> bytes:
    """Write an event of a stream, the way vLLM does."""
    choice = {"index": 0, "delta": {"content": text, **delta}, "finish_reason": finish}
    body = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def whole(text: str) -> bytes:
    """Write a whole answer."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return json.dumps({"id": "c1", "object": "chat.completion", "created": 1, "choices": [choice]}).encode()


def events(body: bytes) -> list[Any]:
    """Read the events of a stream; the last one's `[DONE]` stays text."""
    datas = [part[6:] for part in body.split(b"\n\n") if part.startswith(b"data: ")]
    return ["[DONE]" if data == b"[DONE]" else json.loads(data) for data in datas]


def texts(stream: Iterable[Any]) -> tuple[str, str]:
    """Return reasoning and content of a stream's events."""
    reasoning, content = "", ""
    for made in stream:
        for choice in made.get("choices", ()) if isinstance(made, dict) else ():
            reasoning += choice["delta"].get("reasoning_content") or ""
            content += choice["delta"].get("content") or ""
    return reasoning, content
