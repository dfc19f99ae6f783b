"""What a request leaves to be written down: it waits, and is not lost."""

from __future__ import annotations

import asyncio
import json

import pytest

from proxy.backlog import MOST, Backlog
from proxy.report import RequestReport
from proxy.settings import Log, LogFormat
from proxy.shares import Share
from proxy.telemetry import configure, log_request
from tests.servers import WAIT_S, raw_server
from tests.transport import wire
from tests.transport.proxying import PLAIN, proxying
from tests.transport.test_logs import SECRET, log, misbehave

__all__ = ["log"]


async def test_work_is_done_soon_and_in_its_order() -> None:
    backlog, done, last = Backlog(), list[int](), asyncio.Event()
    for number in range(MOST - 1):
        backlog.add(lambda number=number: done.append(number))  # type: ignore[misc]
    backlog.add(last.set)
    assert not done
    async with asyncio.timeout(WAIT_S):
        await last.wait()
    assert done == [*range(MOST - 1)]


async def test_too_much_work_does_not_wait() -> None:
    backlog, done = Backlog(), list[int]()
    for number in range(MOST):
        backlog.add(lambda number=number: done.append(number))  # type: ignore[misc]
    assert not done
    backlog.add(lambda: done.append(MOST))
    assert done == [*range(MOST + 1)]


async def test_work_that_fails_takes_no_other_with_it(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise LookupError(SECRET)

    backlog, done = Backlog(), list[int]()
    backlog.add(fail)
    backlog.add(lambda: done.append(1))
    backlog.settle()
    assert done == [1]
    assert "LookupError" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.usefixtures("log")
def test_a_line_has_the_time_at_which_its_request_was_over(capfd: pytest.CaptureFixture[str]) -> None:
    configure(Log(format=LogFormat.JSON))
    log_request(RequestReport("r1", "GET", "/", None, 200, "answered", 0.25, ended_at=86_400.5))
    assert json.loads(capfd.readouterr().err)["time"] == "1970-01-02T00:00:00.500Z"


@pytest.mark.usefixtures("log")
async def test_nothing_is_lost_when_the_proxy_stops(capfd: pytest.CaptureFixture[str]) -> None:
    configure(Log(format=LogFormat.JSON))
    async with raw_server(misbehave) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.ask(wire.chat(PLAIN))
        proxy.server.stop_now()
        await proxy.ended()
        (line,) = capfd.readouterr().err.splitlines()
    assert json.loads(line)["outcome"] == "answered"


@pytest.mark.usefixtures("log")
async def test_lines_are_in_the_order_of_what_they_tell(capfd: pytest.CaptureFixture[str]) -> None:
    configure(Log(format=LogFormat.JSON))
    async with raw_server(misbehave) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        await client.ask(wire.chat(PLAIN))
        await client.ask(b"GARBAGE\r\n\r\n")  # what is no request is reported by the listener
        lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [line["outcome"] for line in lines] == ["answered", "refused"]
    assert lines[0]["time"] <= lines[1]["time"]


@pytest.mark.usefixtures("log")
async def test_nothing_waits_where_another_process_may_be_asked(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    configure(Log(format=LogFormat.JSON))
    async with raw_server(misbehave) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        assert proxy.app.metrics
        monkeypatch.setattr(proxy.app, "_share", Share("folder", "name"))
        await client.ask(wire.chat(PLAIN))
        (line,) = capfd.readouterr().err.splitlines()
    assert json.loads(line)["outcome"] == "answered"


async def test_metrics_are_up_to_date_when_they_are_asked_for() -> None:
    async with raw_server(misbehave) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        for number in range(1, 4):
            await client.ask(wire.chat(PLAIN))
            metrics = (await client.ask(wire.request("/metrics"))).body.decode()
            (count,) = [
                line for line in metrics.splitlines() if line.startswith("think_proxy_requests_total")
            ]
            assert float(count.rpartition(" ")[2]) == number
