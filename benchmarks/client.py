"""A client that costs little and believes nothing: every answer is checked after the clock stops.

Usage: python benchmarks/client.py --port P --model plain/full --connections 16 --requests 20 --expect raw
Prints one JSON object, the fields of `Figures`.

`--expect` says what the peer owes us: `raw` the very bytes of the server, `text` the server's text in
`content`, `split` reasoning and content apart.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import statistics
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any, cast

import httptools
import uvloop
from answers import MIB_TOKENS, TOKENS, make_answer, make_events, make_whole

STALL_S = 60.0  # a run that is quiet for so long is lost


@dataclass
class Figures:
    """What one run of the client saw. Times in milliseconds."""

    requests: int = 0
    events: int = 0  # as the server sent them: the work done, whatever the peer made of it
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    first_ms_p50: float = 0.0
    first_ms_p99: float = 0.0
    gap_ms_p50: float = 0.0
    gap_ms_p99: float = 0.0


class Connection(asyncio.Protocol):
    """One kept-alive connection, one request at a time."""

    def __init__(self) -> None:
        """Prepare for a connection that is not made yet."""
        self._done: asyncio.Future[None] | None = None
        self._lost: Exception | None = None
        self.body: list[bytes] = []
        self.gaps: list[float] = []
        self.first_s: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport to write to."""
        # A cast, not a check: uvloop's transport is no subclass of asyncio.Transport.
        self.transport = cast("asyncio.Transport", transport)

    async def ask(self, request: bytes) -> None:
        """Send the request, return when it is answered; raise `ConnectionError` when it breaks off."""
        if self._lost is not None:
            raise self._lost
        self._parser = httptools.HttpResponseParser(self)
        self._done = asyncio.get_running_loop().create_future()
        self.body, self.gaps, self.first_s = [], [], None
        self._sent = perf_counter()
        self._last = 0.0
        self.transport.write(request)
        await self._done

    def data_received(self, data: bytes) -> None:
        """Note the time once per read, then feed the parser."""
        self._now = perf_counter()
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        """Keep the bytes and, once per read, the time since the last ones."""
        self.body.append(body)
        if self.first_s is None:
            self.first_s = self._now - self._sent
        elif self._now != self._last:
            self.gaps.append(self._now - self._last)
        self._last = self._now

    def on_message_complete(self) -> None:
        """Wake `ask`."""
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request that was under way."""
        self._lost = exc or ConnectionError("the peer closed the connection")
        if self._done is not None and not self._done.done():
            self._done.set_exception(self._lost)


def make_request(options: argparse.Namespace) -> bytes:
    """Return the request, head and body, that `options` ask for."""
    content = "why is the sky blue" if not options.upload_mib else "A" * (options.upload_mib << 20)
    asked: dict[str, Any] = {"model": options.model}
    if options.stream:
        asked |= {"stream": True, "stream_options": {"include_usage": True}}
    asked |= {"max_tokens": options.tokens, "messages": [{"role": "user", "content": content}]}
    body = json.dumps(asked, separators=(",", ":")).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{options.port}\r\n"
        "Content-Type: application/json\r\nAuthorization: Bearer sk-bench\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Check:
    """Compares answers with what the peer owes. Equal bytes are read once."""

    def __init__(self, expect: str, *, model: str, tokens: int, stream: bool) -> None:
        """Take what is expected: `raw`, `text` or `split`, and the request's settings."""
        if model.endswith("/mib"):
            tokens = MIB_TOKENS
        self._expect, self._stream, self._answer = expect, stream, make_answer(tokens)
        self._raw = b"".join(make_events(model, tokens)) if stream else make_whole(model, tokens)
        self._seen: dict[bytes, str | None] = {}

    def find_fault(self, body: bytes) -> str | None:
        """Return what is wrong with the answer, or None."""
        if body not in self._seen:
            self._seen[body] = self._read(body)
        return self._seen[body]

    def _read(self, body: bytes) -> str | None:
        if self._expect == "raw":
            return None if body == self._raw else f"{len(body)} bytes differ from the {len(self._raw)} sent"
        try:
            payloads, ended = read_stream(body) if self._stream else ([json.loads(body)], True)
        except ValueError as error:
            return f"unreadable: {error}: {body[:200]!r}"
        parts: dict[str, list[str]] = {"content": [], "reasoning_content": []}
        finishes: list[str] = []
        for payload in payloads:
            for choice in payload.get("choices", ()):
                said = choice["delta" if self._stream else "message"]
                for name, texts in parts.items():
                    texts.append(said.get(name) or "")
                if choice.get("finish_reason"):
                    finishes.append(choice["finish_reason"])
        content, reasoning = "".join(parts["content"]), "".join(parts["reasoning_content"])
        answer = self._answer
        owed = (answer.content, answer.reasoning) if self._expect == "split" else (answer.text, "")
        faults = [] if content == owed[0] else [f"content is {content[:60]!r}…{content[-30:]!r}"]
        faults += [] if reasoning == owed[1] else [f"reasoning is {reasoning[:60]!r}…{reasoning[-30:]!r}"]
        faults += [] if finishes == ["stop"] else [f"finish_reason {finishes}"]
        faults += [] if ended else ["no [DONE]"]
        return "; ".join(faults) or None


def read_stream(body: bytes) -> tuple[list[Any], bool]:
    """Return the events' payloads and whether `[DONE]` came last; raise ValueError on any other line."""
    payloads: list[Any] = []
    ended = False
    for event in body.removesuffix(b"\n\n").split(b"\n\n"):
        if ended or not event.startswith(b"data: "):
            raise ValueError(f"unexpected event {event[:80]!r}")
        if event == b"data: [DONE]":
            ended = True
        else:
            payloads.append(json.loads(event[6:]))
    return payloads, ended


async def drive(options: argparse.Namespace) -> Figures:
    """Run all requests on all connections and check every answer."""
    figures = Figures()
    request = make_request(options)
    check = Check(options.expect, model=options.model, tokens=options.tokens, stream=options.stream)
    bodies: list[list[bytes]] = []
    firsts: list[float] = []
    gaps: list[float] = []
    loop = asyncio.get_running_loop()
    jitter = random.Random(7)

    async def run_connection() -> None:
        await asyncio.sleep(jitter.random() * options.ramp)
        try:
            _, connection = await loop.create_connection(Connection, "127.0.0.1", options.port)
            for _ in range(options.requests):
                await connection.ask(request)
                bodies.append(connection.body)
                firsts.append(connection.first_s or 0.0)
                gaps.extend(connection.gaps)
            connection.transport.close()
        except (OSError, httptools.HttpParserError) as error:
            figures.failures.append(f"{type(error).__name__}: {error}")

    gc.freeze()
    gc.disable()
    began = perf_counter()
    tasks = [asyncio.create_task(run_connection()) for _ in range(options.connections)]
    _, unfinished = await asyncio.wait(tasks, timeout=options.timeout)
    figures.seconds = perf_counter() - began
    for task in unfinished:
        task.cancel()
    lost = options.connections * options.requests - len(bodies)
    figures.failures += [f"{lost} answers lost"] if lost else []
    faults = (check.find_fault(b"".join(parts)) for parts in bodies)
    figures.failures += [fault for fault in faults if fault]
    figures.requests = len(bodies)
    figures.events = len(bodies) * (options.tokens + 4 if options.stream else 1)
    figures.first_ms_p50, figures.first_ms_p99 = find_quantiles(firsts)
    figures.gap_ms_p50, figures.gap_ms_p99 = find_quantiles(gaps)
    return figures


def find_quantiles(seconds: list[float]) -> tuple[float, float]:
    """Return median and 99th percentile in milliseconds, zeros without data."""
    if len(seconds) < 2:
        return (seconds[0] * 1e3, seconds[0] * 1e3) if seconds else (0.0, 0.0)
    return statistics.median(seconds) * 1e3, statistics.quantiles(seconds, n=100)[98] * 1e3


def main() -> None:
    """Read the command line, run, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", default="plain/full")
    parser.add_argument("--expect", choices=("raw", "text", "split"), default="raw")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--requests", type=int, default=1, help="per connection, one after the other")
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument(
        "--ramp", type=float, default=0.0, help="connections begin at random within so many seconds"
    )
    parser.add_argument("--whole", dest="stream", action="store_false", help="ask for an answer in one body")
    parser.add_argument("--upload-mib", type=int, default=0, help="size of the message sent")
    parser.add_argument("--timeout", type=float, default=STALL_S, help="seconds for the whole run")
    print(json.dumps(asdict(uvloop.run(drive(parser.parse_args())))))


if __name__ == "__main__":
    main()
