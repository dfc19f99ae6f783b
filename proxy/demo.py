"""A model server without a model: it speaks vLLM's wire format and streams a few thinking answers.

It lets the proxy be seen at work without a GPU, and stands in for vLLM in the tests. Alone:

    python -m proxy.demo --port 8000 --pace 0.03
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import secrets
import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from proxy.demo_answers import MODELS
from proxy.demo_request import RefusalError, read_ask
from proxy.demo_wire import VERSION, play_choices, write_stream, write_whole

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from proxy.demo_request import Ask

PACE_S = 0.03
"""Seconds per token: about 33 tokens a second, a little faster than most people read."""


@dataclass(slots=True)
class Stats:
    """What the server has done so far; safe to read and to wait on from any thread."""

    requests: int = 0
    """Chat completions asked for, the refused ones included."""
    open_streams: int = 0
    """Answers being generated now, those that will be sent in one piece included."""
    aborted: int = 0
    """Answers given up before their end, because the client left or the server stopped."""
    _changed: threading.Condition = field(default_factory=threading.Condition, repr=False)

    def add(self, *, requests: int = 0, open_streams: int = 0, aborted: int = 0) -> None:
        """Add to the counters, all at once, and wake whoever waits for them."""
        with self._changed:
            self.requests += requests
            self.open_streams += open_streams
            self.aborted += aborted
            self._changed.notify_all()

    def wait_until(self, condition: Callable[[Stats], bool], timeout_s: float) -> bool:
        """Block this thread until `condition(self)` holds; False if it does not within `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(lambda: condition(self), timeout_s)


class _Generation(Response):
    """One answer: generated while it is sent, and given up as soon as the client leaves."""

    def __init__(self, ask: Ask, *, completion_id: str, created: int, pace_s: float, stats: Stats) -> None:
        super().__init__()
        self._ask = ask
        self._choices = play_choices(ask)
        self._completion_id = completion_id
        self._created = created
        self._pace_s = pace_s
        self._stats = stats

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        client = asyncio.ensure_future(_watch_client(receive))
        self._stats.add(open_streams=1)
        finished = False
        try:
            finished = await (self._stream if self._ask.stream else self._send_whole)(client, send)
        finally:
            client.cancel()
            self._stats.add(open_streams=-1, aborted=not finished)

    async def _stream(self, client: asyncio.Future[None], send: Send) -> bool:
        content_type = (b"content-type", b"text/event-stream; charset=utf-8")
        await send({"type": "http.response.start", "status": 200, "headers": [content_type]})
        beats = write_stream(
            self._ask,
            self._choices,
            completion_id=self._completion_id,
            created=self._created,
        )
        for number, beat in enumerate(beats):
            if number and await self._client_left(client):
                return False
            for event in beat:
                await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return True

    async def _send_whole(self, client: asyncio.Future[None], send: Send) -> bool:
        for _ in range(max(map(len, self._choices))):
            if await self._client_left(client):
                return False
        body = write_whole(
            self._ask,
            self._choices,
            completion_id=self._completion_id,
            created=self._created,
        )
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return True

    async def _client_left(self, client: asyncio.Future[None]) -> bool:
        """Wait for one token's time, or until the client leaves if that comes first."""
        await asyncio.wait([client], timeout=self._pace_s)
        return client.done()


async def _watch_client(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def build_app(
    *,
    pace_s: float = PACE_S,
    new_id: Callable[[], str] = lambda: f"chatcmpl-{secrets.token_hex(8)}",
    clock: Callable[[], float] = time.time,
) -> Starlette:
    """Build the server as an ASGI application; its `Stats` are `app.state.stats`.

    `pace_s` is the time per token in seconds, 0 for no pause at all; `new_id` makes the id of an
    answer, `clock` tells its creation time in seconds since the epoch. All else is the same every time.
    """
    stats = Stats()

    async def chat_completions(request: Request) -> Response:
        stats.add(requests=1)
        ask = read_ask(await request.body())
        return _Generation(ask, completion_id=new_id(), created=int(clock()), pace_s=pace_s, stats=stats)

    async def models(_: Request) -> Response:
        common = {"object": "model", "created": int(clock()), "owned_by": "vllm"}
        data = [{"id": name, **common, "root": name, "parent": None} for name in MODELS]
        return JSONResponse({"object": "list", "data": data})

    async def health(_: Request) -> Response:
        return Response()

    async def version(_: Request) -> Response:
        return JSONResponse({"version": VERSION})

    async def refuse(_: Request, exc: Exception) -> Response:
        # Only these two are registered below; the narrowing is for the type checker.
        if isinstance(exc, RefusalError):
            return Response(exc.body, exc.status, media_type="application/json")
        if isinstance(exc, HTTPException):
            return JSONResponse({"detail": exc.detail}, exc.status_code, exc.headers)
        raise exc

    app = Starlette(
        routes=[
            Route("/v1/chat/completions", chat_completions, methods=["POST"]),
            Route("/v1/models", models),
            Route("/health", health),
            Route("/version", version),
        ],
        # vLLM lets every origin in unless told otherwise, so a web page can ask it directly.
        middleware=[
            Middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])
        ],
        exception_handlers={RefusalError: refuse, HTTPException: refuse},
    )
    app.state.stats = stats
    return app


class _AnnouncedServer(uvicorn.Server):
    """A uvicorn server that prints one line with its address as soon as it accepts connections."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        sys.stdout.write(f"demo model server on http://{f'[{host}]' if ':' in host else host}:{port}\n")
        sys.stdout.flush()


def serve(host: str = "127.0.0.1", port: int = 8000, pace_s: float = PACE_S) -> None:
    """Serve the demo models until a signal comes; port 0 takes a free one.

    Prints one line with the address when ready. Raises `SystemExit` if the address can't be had.
    """
    config = uvicorn.Config(
        build_app(pace_s=pace_s),
        host=host,
        port=port,
        log_level="warning",
        lifespan="off",
        # Nobody waits for the rest of a demo answer.
        timeout_graceful_shutdown=1,
    )
    # uvicorn raises the signal again once it has shut down.
    with contextlib.suppress(KeyboardInterrupt):
        _AnnouncedServer(config).run()


def main() -> None:
    """Run the server with what the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m proxy.demo", description="A model server without a model."
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="0 for a free one (default: %(default)s)")
    parser.add_argument("--pace", type=float, default=PACE_S, help="seconds per token (default: %(default)s)")
    options = parser.parse_args()
    if not options.pace >= 0:
        parser.error("--pace must not be negative")
    serve(options.host, options.port, options.pace)


if __name__ == "__main__":
    main()
