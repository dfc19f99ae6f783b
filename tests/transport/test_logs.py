"""What is logged, and what must not be."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING

import pytest

from proxy.settings import Log, LogFormat, LogLevel
from proxy.telemetry import configure
from tests.servers import raw_server
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Iterator

    from tests.servers import RawRequest

SECRET = "s3cret-planted"


@pytest.fixture
def log() -> Iterator[None]:
    """Give the loggers back as they were: `configure` is made for a process of its own."""
    loggers = [
        logging.getLogger(name)
        for name in ("think_proxy", "asyncio", "uvicorn", "uvicorn.error", "opentelemetry")
    ]
    kept = [(it, it.handlers[:], it.propagate, it.level, it.filters[:]) for it in loggers]
    yield
    for it, handlers, propagate, level, filters in kept:
        it.handlers, it.propagate, it.filters = handlers, propagate, filters
        it.setLevel(level)


async def misbehave(request: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
    """Do what the request's user asks for; every answer tells the secret."""
    event = wire.event(f"<think>{SECRET}</think>{SECRET}")
    how = request.json().get("user") if request.body else None
    if how == "garbage":
        writer.write(f"{SECRET} nonsense\r\n\r\n".encode())
    elif how == "bad header":
        writer.write(f"HTTP/1.1 200 OK\r\n{SECRET}\x01: {SECRET}\r\n\r\n".encode())
    elif how == "bad chunk":
        writer.write(wire.STREAM_HEAD + wire.chunk(event) + SECRET.encode() + b"\r\n")
    elif how == "break":
        writer.write(wire.STREAM_HEAD + wire.chunk(event))
    elif how == "silence":
        writer.write(wire.STREAM_HEAD + wire.chunk(event))
        await reader.read()
    elif how == "error":
        writer.write(wire.answer(json.dumps({"error": SECRET}).encode(), status="500 No"))
    elif how == "strange":
        writer.write(
            wire.STREAM_HEAD + wire.chunk(f"data: {{{SECRET}\n\ndata: [1]\n\n".encode()) + wire.LAST_CHUNK
        )
    else:
        writer.write(wire.answer(wire.whole(f"<think>{SECRET}</think>{SECRET}"), f"x-key: {SECRET}"))


@pytest.mark.usefixtures("log")
async def test_a_line_per_request_says_what_became_of_it(capfd: pytest.CaptureFixture[str]) -> None:
    configure(Log(LogLevel.INFO, LogFormat.JSON))
    async with raw_server(misbehave) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        requests = [
            wire.chat(LISTED, "x-request-id: r1"),
            wire.request("/v1/models/a%20b?x=1"),
            wire.request("/nothing"),
            wire.chat(PLAIN, user="garbage"),
            wire.chat(LISTED, user="break"),
        ]
        for number, request in enumerate(requests, 1):
            await client.ask(request)
            await proxy.served(number)  # the line is written after the answer
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [(line["level"], line["path"], line["status"], line["outcome"]) for line in lines] == [
        ("info", "/v1/chat/completions", 200, "answered"),
        ("info", "/v1/models/a%20b", 200, "answered"),
        ("info", "(refused)", 404, "refused"),
        ("warning", "/v1/chat/completions", 502, "failed"),
        ("warning", "/v1/chat/completions", 200, "broken"),
    ]
    assert [line.get("entry") for line in lines] == [LISTED, None, None, None, LISTED]
    assert [line.get("error") for line in lines] == [
        None,
        None,
        "not_found",
        "upstream_broken",
        "upstream_broken",
    ]
    assert lines[0]["request_id"] == "r1"
    assert all(line["duration_s"] >= 0 for line in lines)


@pytest.mark.usefixtures("log")
async def test_what_is_no_fault_is_not_logged_as_one(capfd: pytest.CaptureFixture[str]) -> None:
    configure(Log(LogLevel.WARNING, LogFormat.TEXT))
    async with raw_server(misbehave) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            await client.ask(wire.request("/v1/models", None, "upgrade: h2c", "connection: upgrade"))
            await client.send(wire.chat(PLAIN, user="break"))
            await client.rest()
        await proxy.served(2)
    (line,) = capfd.readouterr().err.splitlines()
    assert "outcome=broken" in line


@pytest.mark.usefixtures("log")
async def test_a_request_that_is_cancelled_with_the_proxy_leaves_no_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    configure(Log(LogLevel.INFO, LogFormat.TEXT))
    async with raw_server(misbehave) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.send(wire.chat(LISTED, user="silence"))
        await client.head()
        proxy.cancel()
        await client.rest()
        await (await upstream.connection()).wait_peer_closed()
        await asyncio.wait_for(proxy.served(1), 10)
    err = capfd.readouterr().err
    assert "outcome=stopped" in err
    assert "Traceback" not in err
