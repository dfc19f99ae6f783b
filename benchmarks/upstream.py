"""A model server that costs as little as Python can: every event is bytes made before the first request.

Usage: python benchmarks/upstream.py --port P. Model names choose what is sent, see `answers`.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import re
from typing import cast

import httptools
import uvloop
from answers import MIB_TOKENS, TOKENS, make_events, make_whole

_MODEL = re.compile(rb'"model"\s*:\s*"([^"]*)"')
_STREAM = re.compile(rb'"stream"\s*:\s*true')
_MAX_TOKENS = re.compile(rb'"max_tokens"\s*:\s*(\d+)')
_SCANNED = 4096  # the client of the benchmark sends its settings first, the messages last
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 10:00:00 GMT\r\nserver: uvicorn\r\n"
    b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
_JSON_HEAD = (
    b"HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 10:00:00 GMT\r\nserver: uvicorn\r\n"
    b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
)


@functools.cache
def frame_events(model: str, count: int) -> list[bytes]:
    """Return the stream's events, each in its own HTTP chunk; the last one ends the body."""
    frames = [b"%x\r\n%b\r\n" % (len(event), event) for event in make_events(model, count)]
    frames[-1] += b"0\r\n\r\n"
    return frames


@functools.cache
def frame_whole(model: str, count: int) -> bytes:
    """Return the response, head and body, of an answer that is not streamed."""
    body = make_whole(model, count)
    return _JSON_HEAD % len(body) + body


class ModelServer(asyncio.Protocol):
    """One client's connection: a request in, an answer out, again."""

    def __init__(self) -> None:
        """Prepare for a connection that is not made yet."""
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._body: list[bytes] = []
        self._url = b""
        self._frames: list[bytes] = []
        self._next = 0
        self._period_s = 0.0
        self._due = 0.0
        self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport to write to."""
        # A cast, not a check: uvloop's transport is no subclass of asyncio.Transport.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Feed the parser, which calls the methods below."""
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Stop the stream."""
        self._frames = []

    def pause_writing(self) -> None:
        """Hold the stream until the peer has read."""
        self._paused = True

    def resume_writing(self) -> None:
        """Go on where `pause_writing` stopped."""
        self._paused = False
        if self._next < len(self._frames):
            self._loop.call_soon(self._write_fast)

    def on_url(self, url: bytes) -> None:
        """Begin a request."""
        self._url = url
        self._body = []

    def on_body(self, body: bytes) -> None:
        """Collect the request."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Answer the request."""
        if self._url.endswith(b"/models"):
            body = b'{"object":"list","data":[{"id":"plain/full","object":"model","owned_by":"bench"}]}'
            self._transport.write(_JSON_HEAD % len(body) + body)
            return
        settings = (
            b"".join(self._body)[:_SCANNED] if len(self._body) < 4 else b"".join(self._body[:4])[:_SCANNED]
        )
        named = _MODEL.search(settings)
        if named is None:
            self._transport.write(_JSON_HEAD % 2 + b"{}")
            return
        model = named[1].decode()
        mode = model.rpartition("/")[2]
        limit = _MAX_TOKENS.search(settings)
        count = int(limit[1]) if limit else TOKENS
        if not _STREAM.search(settings):
            self._transport.write(frame_whole(model, MIB_TOKENS if mode == "mib" else count))
            return
        self._frames, self._next = frame_events(model, count), 0
        self._transport.write(_STREAM_HEAD)
        if mode.startswith("paced-"):
            self._period_s = 1 / float(mode.removeprefix("paced-"))
            self._due = self._loop.time()
            self._write_paced()
        else:
            self._write_fast()

    def _write_fast(self) -> None:
        if self._paused or self._next >= len(self._frames):
            return
        self._transport.write(self._frames[self._next])
        self._next += 1
        if self._next < len(self._frames):
            # One event per turn of the loop: as a server does that yields after every token.
            self._loop.call_soon(self._write_fast)

    def _write_paced(self) -> None:
        if self._next >= len(self._frames):
            return
        self._transport.write(self._frames[self._next])
        self._next += 1
        self._due += self._period_s
        self._loop.call_at(self._due, self._write_paced)


async def serve(port: int) -> None:
    """Serve on the loopback address until the process is ended."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(ModelServer, "127.0.0.1", port, backlog=4096)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, required=True)
    uvloop.run(serve(options.parse_args().port))
