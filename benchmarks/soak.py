"""Run the proxy under load while clients leave, the model server breaks off and the configuration changes.

Usage: python benchmarks/soak.py [--streams 1000] [--seconds 90] [--rate 20] [--workers 1] [--seed 7]

The proxy runs on one core, however many its workers; the model server and the clients share this process, on
the other. Every stream that nobody broke has to be complete and in order, of a broken one what came has to
be. In the end no connection may be left, the proxy has to stop at once, and its memory must not have grown
after the first minute (in a shorter run: after a third of it). Prints the figures; the exit status is 1 when
something was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import struct
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET
from time import monotonic
from typing import Any

import uvloop
from account import find_tree, read_cpu_s, read_memory_kib
from peers import Peer, find_port, start

MODELS = ("split/soak", "plain/soak")
ABORTS = 0.3  # shares of the streams
RESETS = 0.1
RELOAD_S = 1.0
LAST_S = 30.0  # for what runs to end, and for the proxy to stop
STILL_S = 1.0  # without a change, after which the proxy counts as started
WARM_S = 60.0
GROWTH = 1.05  # of memory, and so much on top:
GROWTH_KIB = 4096
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


LAST_CHUNK = b"0\r\n\r\n"


def make_tokens(count: int) -> tuple[list[str], str, str]:
    """Return the texts of a stream, and the reasoning and the content that are in them."""
    half = count // 2
    thought = [f"t{number} " for number in range(half)]
    said = [f"c{number} " for number in range(count - half)]
    return ["<think>", *thought, "</th", "ink>", *said], "".join(thought), "".join(said)


def make_event(text: str, finish: str | None = None) -> bytes:
    """Return one event, in a chunk of its own."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    body = {"id": "soak", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    event = b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)


LAST = make_event("", "stop") + b"e\r\ndata: [DONE]\n\n\r\n" + LAST_CHUNK


@dataclass
class Tally:
    """What happened."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    events: int = 0
    reloads: int = 0
    connections: int = 0
    open: set[asyncio.Task[None]] = field(default_factory=set)
    memory_kib: list[tuple[float, int]] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)


class ModelServer:
    """Sends tokens at a pace; the request says how many, and where to break off."""

    def __init__(self, rate: float, tally: Tally) -> None:
        """Send `rate` tokens a second."""
        self._period_s = 1 / rate
        self._tally = tally
        self._events: dict[str, bytes] = {}

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection."""
        self._tally.connections += 1
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tally.open.add(task)
        task.add_done_callback(self._tally.open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (line for line in head.lower().split(b"\r\n") if b"content-length" in line), b":0"
                )
                body = await reader.readexactly(int(length.partition(b":")[2]))
                if not body:
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                    continue
                await self._stream(json.loads(body), writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _stream(self, asked: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        sent = Stream(writer.transport, self._frames(asked["max_tokens"]), asked["reset_at"], self._period_s)
        await sent.over
        if writer.transport.is_closing():
            raise ConnectionResetError

    def _frames(self, tokens: int) -> list[bytes]:
        texts, _, _ = make_tokens(tokens)
        for text in texts:
            if text not in self._events:
                self._events[text] = make_event(text)
        return [*(self._events[text] for text in texts), LAST]


class Stream:
    """One stream on its way, by callbacks: a task that sleeps costs several times as much."""

    def __init__(
        self, transport: asyncio.WriteTransport, frames: list[bytes], reset_at: int, period_s: float
    ) -> None:
        """Begin to send; `over` is done at the end, or when the connection is gone."""
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._frames = frames
        self._reset_at = reset_at
        self._period_s = period_s
        self._next = 0
        self._due = self._loop.time()
        self.over = self._loop.create_future()
        self._send()

    def _send(self) -> None:
        if self._next == self._reset_at and not self._transport.is_closing():
            linger = struct.pack("ii", 1, 0)  # socket(7): closing sends a reset
            self._transport.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, linger)
            self._transport.abort()
        if self._transport.is_closing() or self._next == len(self._frames):
            if not self.over.done():
                self.over.set_result(None)
            return
        self._transport.write(self._frames[self._next])
        self._next += 1
        self._due += self._period_s
        self._loop.call_at(self._due, self._send)


class Clients:
    """Clients that ask for stream after stream, and check each."""

    def __init__(self, port: int, tally: Tally, *, until: float, rate: float, dice: random.Random) -> None:
        """Ask until the time `until`, of the monotonic clock."""
        self._port = port
        self._tally = tally
        self._until = until
        self._rate = rate
        self._dice = dice

    async def run(self) -> None:
        """Be one client."""
        await asyncio.sleep(self._dice.random() * 2)
        while monotonic() < self._until:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                while monotonic() < self._until and await self._ask(reader, writer):
                    pass
            except ConnectionError as error:
                self._tally.faults.append(f"{type(error).__name__} in an answer that nobody broke")
            finally:
                writer.transport.abort()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Ask once; tells whether the connection can be used again."""
        dice = self._dice
        model = dice.choice(MODELS)
        tokens = dice.randint(20, 200)
        reset_at = dice.randint(0, tokens - 1) if dice.random() < RESETS else -1
        leaves_s = dice.random() * (tokens / self._rate) if dice.random() < ABORTS else None
        asked = {"model": model, "stream": True, "max_tokens": tokens, "reset_at": reset_at}
        body = json.dumps(asked | {"messages": [{"role": "user", "content": "x"}]}).encode()
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: soak\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(body), body)
        )
        got = Received()
        began = monotonic()
        try:
            async with asyncio.timeout(leaves_s if leaves_s is not None else LAST_S) as limit:
                await got.read(reader, limit if leaves_s is None else None)
        except TimeoutError:
            if leaves_s is None:
                self._tally.outcomes["stalled"] += 1
                self._tally.faults.append(
                    f"a stream of {model} stalled: {tokens} tokens, reset at {reset_at}, {got.body[-300:]!r}"
                )
            else:
                self._check(model, tokens, got.body, "left")
            return False
        finally:
            if got.head_s:
                self._tally.waits_s.append(got.head_s - began)
        status, whole = got.status, got.whole
        broken = reset_at >= 0
        if status != 200:
            kind = "refused" if broken and status == 502 else f"status {status}"
            self._tally.outcomes[kind] += 1
            if kind != "refused":
                self._tally.faults.append(f"{kind}: {got.body[:200]!r}")
            return whole
        self._check(model, tokens, got.body, "broken" if broken else "complete")
        if not whole and not (broken and model == "plain/soak"):
            self._tally.faults.append(f"an answer of {model} has no end")
        return whole

    def _check(self, model: str, tokens: int, body: bytes, outcome: str) -> None:
        self._tally.outcomes[outcome] += 1
        texts, reasoning, content = make_tokens(tokens)
        if model == "plain/soak":
            reasoning, content = "", "".join(texts)
        events = [it[6:] for it in body.split(b"\n\n")[:-1]]
        self._tally.events += len(events)
        rows = [json.loads(it) for it in events if it != b"[DONE]"]
        deltas = [row["choices"][0]["delta"] for row in rows if "choices" in row]
        thought = "".join(delta.get("reasoning_content") or "" for delta in deltas)
        said = "".join(delta.get("content") or "" for delta in deltas)
        errors = [row["error"]["code"] for row in rows if "error" in row]
        if outcome == "complete":
            fine = (thought, said, errors, events[-1:]) == (reasoning, content, [], [b"[DONE]"])
        else:
            thought = thought.removesuffix("</th")  # what was held when it broke
            fine = reasoning.startswith(thought) and (content.startswith(said) or said.startswith("</th"))
            fine = fine and (not said or thought == reasoning or said.startswith("</th"))
            if outcome == "broken":
                fine = fine and errors == (["upstream_broken"] if model == "split/soak" else [])
        if not fine:
            tail = body[-300:]
            self._tally.faults.append(f"{outcome}, {model}, {tokens} tokens: {errors} …{tail!r}")


class Received:
    """An answer as far as it has come."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._raw = bytearray()
        self._head_bytes = 0
        self.status = 0
        self.head_s = 0.0
        self.whole = False

    async def read(self, reader: asyncio.StreamReader, limit: asyncio.Timeout | None) -> None:
        """Read to the end, `whole` or not; put off the limit whenever something comes."""
        loop = asyncio.get_running_loop()
        while not self.whole:
            try:
                data = await reader.read(65_536)
            except ConnectionError:
                data = b""
            if not data:
                if not self.status:
                    raise ConnectionResetError
                return
            if limit is not None:
                limit.reschedule(loop.time() + LAST_S)
            self._raw += data
            if not self.status and (end := self._raw.find(b"\r\n\r\n")) > 0:
                self.status, self._head_bytes = int(self._raw[9:12]), end + 4
                self.head_s = monotonic()
            self.whole = bool(self.status) and self._is_whole()

    def _is_whole(self) -> bool:
        head = self._raw[: self._head_bytes].lower()
        if b"chunked" in head:
            return self._raw.endswith(LAST_CHUNK)
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return len(self._raw) == self._head_bytes + length

    @property
    def body(self) -> bytes:
        """The body so far, without its framing."""
        raw = bytes(self._raw[self._head_bytes :])
        if b"chunked" not in self._raw[: self._head_bytes].lower():
            return raw
        parts, at = [], 0
        while (end := raw.find(b"\r\n", at)) >= 0 and (size := int(raw[at:end], 16)):
            parts.append(raw[end + 2 : end + 2 + size])
            at = end + 4 + size
        return b"".join(parts)


def write_config(path: Path, upstream: int, number: int) -> None:
    """Write the configuration, another one each time, that does the same to these streams."""
    settings = {
        "upstream": f"http://127.0.0.1:{upstream}",
        "inlineThinkTagModels": [{"model": "split/*", "maxRetries": number % 7}],
        "timeouts": {"idleSeconds": 60 + number % 5},
        "log": {"level": "error"},
    }
    new = path.with_suffix(".new")
    new.write_text(json.dumps(settings))
    new.replace(path)


async def watch(pid: int, tally: Tally, config: Path, upstream: int, until: float) -> None:
    """Reload again and again, and take samples, until the time `until`."""
    began = monotonic()
    while monotonic() < until:
        await asyncio.sleep(RELOAD_S)
        tally.reloads += 1
        write_config(config, upstream, tally.reloads)
        os.kill(pid, signal.SIGHUP)
        tally.memory_kib.append((monotonic() - began, read_memory_kib(pid)))
        tally.files.append(count_files(pid))


def count_files(pid: int) -> int:
    """Return how many files a process and its children have open, without those that hold metrics."""
    names: list[str] = []
    for each in find_tree(pid):
        for link in Path(f"/proc/{each}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                names.append(str(link.readlink()))
    return sum(not name.endswith(".db") for name in names)


async def count_files_at_rest(pid: int) -> int:
    """Wait until all workers have started, and return how many files are open then."""
    files, since = count_files(pid), monotonic()
    while monotonic() - since < STILL_S:
        await asyncio.sleep(0.1)
        if (now := count_files(pid)) != files:
            files, since = now, monotonic()
    return files


async def soak(given: argparse.Namespace, port: int, upstream: int, config: Path, pid: int) -> Tally:
    """Run it all; return what happened."""
    tally = Tally()
    server = ModelServer(given.rate, tally)
    listener = await asyncio.start_server(server.accept, "127.0.0.1", upstream, backlog=4096)
    before = await count_files_at_rest(pid)
    until = monotonic() + given.seconds
    clients = Clients(port, tally, until=until, rate=given.rate, dice=random.Random(given.seed))
    tasks = [asyncio.create_task(clients.run()) for _ in range(given.streams)]
    await watch(pid, tally, config, upstream, until)
    _, late = await asyncio.wait(tasks, timeout=LAST_S + 4 * 220 / given.rate)
    for task in late:
        task.cancel()
    tally.faults += [f"{len(late)} clients did not end"] if late else []
    tally.faults += [repr(it.exception()) for it in tasks if it not in late and it.exception()]
    # The last reload leaves no connection to be kept.
    os.kill(pid, signal.SIGHUP)
    ends = monotonic() + LAST_S
    while (tally.open or count_files(pid) > before) and monotonic() < ends:  # noqa: ASYNC110 - of another process
        await asyncio.sleep(0.1)
    left, files = len(tally.open), count_files(pid) - before
    tally.faults += [f"{left} connections to the model server are left"] if left else []
    tally.faults += [f"{files} files are left open"] if files > 0 else []
    listener.close()
    return tally


def find_growth(samples: list[tuple[float, int]]) -> tuple[int, int]:
    """Return the mean memory of the two halves of what comes after the warm-up, in KiB; 0 of none."""
    last = samples[-1][0] if samples else 0.0
    warm = [kib for at_s, kib in samples if at_s > min(WARM_S, last / 3)]
    half = len(warm) // 2
    return sum(warm[:half]) // max(half, 1), sum(warm[half:]) // max(len(warm) - half, 1)


def report(given: argparse.Namespace, tally: Tally, cpu_s: float, stop_s: float) -> int:
    """Print the figures; return the number of faults."""
    early, late = find_growth(tally.memory_kib)
    if early and late > early * GROWTH + GROWTH_KIB:
        tally.faults.append(f"memory grew from {early} to {late} KiB")
    if stop_s > LAST_S / 2:
        tally.faults.append(f"the proxy took {stop_s:.1f} s to stop with nothing to do")
    streams = sum(tally.outcomes.values())
    print(f"{given.streams} streams at a time, {given.rate:g} tokens/s each, for {given.seconds:g} s")
    print(f"streams       {streams}: {', '.join(f'{n} {what}' for what, n in tally.outcomes.most_common())}")
    lasted_s = tally.memory_kib[-1][0] if tally.memory_kib else given.seconds
    pace = tally.events / (given.streams * given.rate * lasted_s)
    print(
        f"pace          {pace:.0%} of {given.streams * given.rate:g} events/s (leaving and coming costs some)"
    )
    print(f"events        {tally.events}, {cpu_s * 1e6 / max(tally.events, 1):.1f} µs of CPU each")
    waits_s = sorted(tally.waits_s) or [float("nan")]  # a run may be too short for an answer
    print(
        f"first byte    after {waits_s[len(waits_s) // 2]:.3f} s at the median, {waits_s[-1]:.3f} s at most"
    )
    print(f"reloads       {tally.reloads}")
    files = max(tally.files, default=0)
    print(f"connections   {tally.connections} to the model server, {files} files open at most")
    print(f"memory        {early / 1024:.1f} MiB, then {late / 1024:.1f} MiB")
    print(f"stopped in    {stop_s:.2f} s")
    for fault, count in Counter(tally.faults).most_common(20):
        print(f"FAULT, {count} times: {fault}")
    return len(tally.faults)


def main() -> None:
    """Read the command line, run, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=90.0)
    parser.add_argument("--rate", type=float, default=20.0, help="tokens per second and stream")
    parser.add_argument("--workers", type=int, default=1, help="processes of the proxy")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as work:
        config, port, upstream = Path(work) / "proxy.yaml", find_port(), find_port()
        write_config(config, upstream, 0)
        command: tuple[str, ...]
        command = (sys.executable, "-m", "proxy", "serve", "--config", str(config), "--port", str(port))
        command += ("--workers", str(given.workers))
        with start(Peer("proxy", command, port), cores[-1]) as running:
            assert running.pid is not None  # noqa: S101 - for the type alone
            os.sched_setaffinity(0, {cores[0]})
            idle_s = read_cpu_s(running.pid)
            tally = uvloop.run(soak(given, port, upstream, config, running.pid))
            cpu_s = read_cpu_s(running.pid) - idle_s
            began = monotonic()
        faults = report(given, tally, cpu_s, monotonic() - began)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
