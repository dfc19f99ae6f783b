"""Model servers that answer by a script: recorded answers of vLLM and SGLang, and imitations of others."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from proxy.response import Rewriter
from proxy.rules import ReasoningField, Rule, Start
from proxy.stream import Stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    Asked = dict[str, Any]
    Script = Callable[[Asked], Response]

RECORDINGS = Path(__file__).parent.parent / "recordings"


def recorded(name: str) -> bytes:
    """A recorded stream, such as `vllm-0.32/basic`."""
    return (RECORDINGS / f"{name}.stream.sse").read_bytes()


def parsed(stream: bytes, reasoning_field: ReasoningField, start: Start = Start.LEADING) -> bytes:
    """The stream as a server with a reasoning parser would have sent it."""
    line = Stream(Rewriter(Rule(start=start, reasoning_field=reasoning_field)), 1 << 20)
    return line.feed(stream) + line.finish()


def told(stream: bytes, asked: Asked, prompt: str) -> bytes:
    """The stream with the prompt's text in it, if it was asked for."""
    if not asked.get("return_prompt_text"):
        return stream
    return stream.replace(b'"prompt_text":null', b'"prompt_text":' + json.dumps(prompt).encode(), 1)


def spoken(*texts: str, finish: str = "stop", **delta: Any) -> bytes:
    """A stream of these texts, one per event, as plainly as servers write it."""
    chunks: list[Any] = [{"delta": {"content": text}} for text in texts]
    if delta:
        chunks.append({"delta": delta})
    chunks.append({"delta": {}, "finish_reason": finish})
    return b"".join(event({"choices": [{"index": 0} | chunk]}) for chunk in chunks) + b"data: [DONE]\n\n"


def event(data: Any) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def stream(body: bytes) -> Response:
    """A body as an event stream, in pieces."""

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 1000):
            yield body[start : start + 1000]

    return StreamingResponse(pieces(), media_type="text/event-stream")


def says(body: bytes) -> Script:
    """Answer the same, whatever is asked."""
    return lambda _: stream(body)


def by_switch(plain: bytes, off: bytes, on: bytes | None = None) -> Script:
    """Answer by the switch in the request."""

    def answer(asked: Asked) -> Response:
        switch = asked.get("chat_template_kwargs", {}).get("enable_thinking")
        return stream({None: plain, False: off, True: on or plain}[switch])

    return answer


def refuses(status: int, message: str) -> Script:
    return lambda _: JSONResponse({"error": {"message": message, "type": "BadRequestError"}}, status)


def hangs(begun: bytes = b"") -> Script:
    """Send this, and then nothing more."""

    async def pieces() -> AsyncIterator[bytes]:
        if begun:
            yield begun
        await asyncio.Event().wait()

    return lambda _: StreamingResponse(pieces(), media_type="text/event-stream")


@dataclass
class Scripted:
    """A model server; `asked` holds what came to its chat path."""

    models: dict[str, Script]
    owner: str = "vllm"
    version: str | None = "0.32.0"
    roots: dict[str, str] = field(default_factory=dict)
    key: str | None = None
    prompt: str | None = None
    """What `/v1/tokenize` and `/v1/detokenize` come to, as SGLang has them."""
    listing: Callable[[], Response] | None = None
    """What `/v1/models` answers, if not the list."""
    asked: list[Asked] = field(default_factory=list)

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/models", self._list),
                Route("/v1/chat/completions", self._chat, methods=["POST"]),
                Route("/v1/tokenize", self._tokenize, methods=["POST"]),
                Route("/v1/detokenize", self._detokenize, methods=["POST"]),
                Route("/version", self._version),
            ]
        )

    def _refused(self, request: Request) -> Response | None:
        given = request.headers.get("authorization", "")
        if self.key is None or given == f"Bearer {self.key}":
            return None
        return JSONResponse({"error": {"message": f"Incorrect API key provided: {given}"}}, 401)

    async def _list(self, request: Request) -> Response:
        if self.listing is not None:
            return self.listing()
        rows = [
            {"id": name, "owned_by": self.owner, "root": self.roots.get(name, name)} for name in self.models
        ]
        return self._refused(request) or JSONResponse({"object": "list", "data": rows})

    async def _chat(self, request: Request) -> Response:
        asked = json.loads(await request.body())
        self.asked.append(asked)
        script = self.models.get(asked["model"], refuses(404, "The model does not exist."))
        return self._refused(request) or script(asked)

    async def _tokenize(self, _: Request) -> Response:
        return Response(status_code=404) if self.prompt is None else JSONResponse({"tokens": [1, 2]})

    async def _detokenize(self, _: Request) -> Response:
        return JSONResponse({"text": self.prompt})

    async def _version(self, _: Request) -> Response:
        return Response(status_code=404) if self.version is None else JSONResponse({"version": self.version})
