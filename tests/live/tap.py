"""A tap between the proxy and the model server: it forces the shape of an answer and keeps its bytes.

The proxy must not know that a shape is forced: a request that binds its output to a grammar is one that
`start` treats differently. So a test puts what forces the shape into a field of its own, `FORCE`, which
the proxy passes on like any field that it does not know, and the tap puts it where the server reads it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request
    from starlette.responses import Response

FORCE = "live_test"
"""The field of a request whose fields go to the model server, over those of the request itself."""

CHAT = "/v1/chat/completions"

TIMEOUT_S = 120.0
"""For one answer: a tiny model on a busy processor takes seconds, a large one may take a minute."""


@dataclass
class Exchange:
    """One request as the proxy sent it, and the answer as the model server gave it."""

    request: bytes
    answer: bytes = b""

    @property
    def document(self) -> dict[str, Any]:
        """The request, parsed."""
        document: dict[str, Any] = json.loads(self.request)
        return document


class Tap:
    """The application that stands in for the model server."""

    def __init__(self, upstream: str, model: str) -> None:
        """Pass requests on to the server at `upstream`, all of them for its model `model`."""
        self._upstream = upstream
        self._model = model
        self.exchanges: list[Exchange] = []
        """All exchanges so far, in order. One is complete when the client has its answer."""
        self.app = Starlette(routes=[Route(CHAT, self._complete, methods=["POST"])])

    async def _complete(self, request: Request) -> Response:
        exchange = Exchange(await request.body())
        self.exchanges.append(exchange)
        document = exchange.document
        document |= document.pop(FORCE, {}) | {"model": self._model}
        client = httpx.AsyncClient(timeout=TIMEOUT_S, trust_env=False)
        sent = client.build_request(
            "POST", self._upstream + CHAT, json=document, headers={"accept-encoding": "identity"}
        )
        answer = await client.send(sent, stream=True)

        async def relay() -> AsyncIterator[bytes]:
            try:
                async for piece in answer.aiter_raw():
                    exchange.answer += piece
                    yield piece
            finally:
                await answer.aclose()
                await client.aclose()

        return StreamingResponse(
            relay(), answer.status_code, {"content-type": answer.headers["content-type"]}
        )
