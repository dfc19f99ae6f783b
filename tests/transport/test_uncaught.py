"""What nobody caught is logged by its type and its place: its message may quote a prompt."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from typing import TYPE_CHECKING

import pytest

from proxy.serve import make_loop
from proxy.settings import Log, LogFormat
from proxy.telemetry import configure
from tests.transport.test_logs import SECRET, log

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["log"]

pytestmark = [pytest.mark.usefixtures("log"), pytest.mark.parametrize("form", list(LogFormat))]


def fail(_: str) -> None:
    raise LookupError(SECRET)


async def fail_in_a_callback() -> None:
    asyncio.get_running_loop().call_soon(fail, SECRET)


async def fail_in_a_task() -> None:
    async def work() -> None:
        fail(SECRET)

    task = asyncio.create_task(work(), name=SECRET)
    await asyncio.wait([task])
    del task
    gc.collect()


async def fail_in_a_protocol() -> None:
    class Faulty(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            lost.set()
            raise LookupError(SECRET, data)

    lost = asyncio.Event()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Faulty, "127.0.0.1", 0)
    async with server:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(SECRET.encode())
        await lost.wait()
        writer.close()


@pytest.mark.parametrize("way", [fail_in_a_callback, fail_in_a_task, fail_in_a_protocol])
def test_what_a_loop_is_left_with(
    way: Callable[[], Awaitable[None]], form: LogFormat, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        await way()
        await asyncio.sleep(0)

    configure(Log(format=form))
    with asyncio.Runner(loop_factory=make_loop) as runner:
        runner.run(main())
    out, err = capfd.readouterr()
    assert SECRET not in out + err
    assert err.count("outside of a request: LookupError") == 1
    assert "test_uncaught.py" in err


def test_what_a_loop_says_without_an_exception(form: LogFormat, capfd: pytest.CaptureFixture[str]) -> None:
    configure(Log(format=form))
    loop = make_loop()
    loop.call_exception_handler({"message": SECRET})
    loop.close()
    out, err = capfd.readouterr()
    assert SECRET not in out + err
    assert "fault" in err


@pytest.mark.parametrize("name", ["asyncio", "uvicorn.error", "opentelemetry.sdk", "think_proxy"])
def test_what_is_logged_with_its_exception(
    name: str, form: LogFormat, capfd: pytest.CaptureFixture[str]
) -> None:
    configure(Log(format=form))
    try:
        fail(SECRET)
    except LookupError:
        logging.getLogger(name).exception("said")
    out, err = capfd.readouterr()
    assert SECRET not in out + err
    assert err.count("said") == 1
    told = json.loads(err)["traceback"] if form is LogFormat.JSON else err
    assert "LookupError\n" in told
    assert "in fail\n" in told
    assert not told.endswith("\n\n")
