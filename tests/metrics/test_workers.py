"""The metrics of several processes add up, whichever of them is asked."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from proxy.demo import build_app
from tests.listener.processes import command, until
from tests.listener.test_processes import CHAT, CHAT_PATH, STREAM, configure, is_alive
from tests.metrics.reading import Told
from tests.servers import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    import httpx

    from tests.listener.processes import Command

pytestmark = pytest.mark.slow  # each starts a command

REQUESTS = "think_proxy_requests_total"
IN_FLIGHT = "think_proxy_requests_in_flight"
RELOADS = "think_proxy_reloads_total"


@pytest.fixture
def upstream() -> Iterator[str]:
    with serving(build_app(pace_s=0)) as url:
        yield url


def scrape(client: httpx.Client) -> Told:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    return Told(answer.text)


def find_folder(pid: int) -> Path | None:
    """Return the folder whose files a process has mapped."""
    found = re.search(r"(/\S*/think-proxy-metrics-\w+)/\w+\.db", Path(f"/proc/{pid}/maps").read_text())
    return Path(found[1]) if found else None


def find_share(pid: int) -> set[str]:
    """Return the numbers in the names of those files."""
    return {*re.findall(r"/think-proxy-metrics-\w+/\w+?_(\d+)\.db", Path(f"/proc/{pid}/maps").read_text())}


def ask_only(proxy: Command, asked: int, times: int) -> Told:
    """Send requests while no other worker takes any; return what the last one says of the metrics."""
    others = [pid for pid in proxy.workers() if pid != asked]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    try:
        for _ in range(times):
            with proxy.client() as client:
                assert client.post(CHAT_PATH, json=CHAT).status_code == 200
        with proxy.client() as client:
            return scrape(client)
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)


def test_workers_add_up_and_a_new_one_goes_on_where_the_old_one_ended(upstream: str, tmp_path: Path) -> None:
    file = configure(tmp_path, upstream)
    with command("--config", str(file), "--workers", "2", cwd=tmp_path) as proxy:
        first, second = proxy.workers()
        assert ask_only(proxy, first, 3).total(REQUESTS) == 3
        found = ask_only(proxy, second, 4)
        labels = {"upstream": "default", "entry": "demo/thinker"}
        assert found.value(REQUESTS, **labels, status="2xx", outcome="answered") == 7
        assert found.value("think_proxy_request_seconds_count", **labels) == 7
        assert found.value("think_proxy_request_seconds_bucket", **labels, le="+Inf") == 7
        assert found.value("think_proxy_upstream_up", upstream="default") == 1
        assert find_share(first) | find_share(second) == {"0", "1"}
        folder, share = find_folder(first), find_share(first)
        assert folder is not None
        assert folder.stat().st_mode & 0o777 == 0o700

        os.kill(first, signal.SIGKILL)
        proxy.logged("a worker has ended")
        until(lambda: len({*proxy.workers()} - {first}) == 2)
        assert ask_only(proxy, second, 0).total(REQUESTS) == 7
        (third,) = {*proxy.workers()} - {first, second}
        assert ask_only(proxy, third, 5).total(REQUESTS) == 12
        assert find_share(third) == share
        assert ask_only(proxy, second, 0).total(REQUESTS) == 12
        proxy.stop(signal.SIGTERM)
        assert not folder.exists()


def test_what_a_dead_worker_had_under_way_is_so_no_more(tmp_path: Path) -> None:
    with serving(build_app(pace_s=86_400)) as upstream:
        file = configure(tmp_path, upstream)
        with command("--config", str(file), "--workers", "2", cwd=tmp_path) as proxy:
            first, second = proxy.workers()
            os.kill(second, signal.SIGSTOP)
            with proxy.client() as client, client.stream("POST", CHAT_PATH, json=STREAM) as answer:
                pieces = answer.iter_raw()  # kept: with it, the connection would go
                next(pieces)
                os.kill(second, signal.SIGCONT)
                with proxy.client() as other:
                    assert scrape(other).value(IN_FLIGHT) == 1
                os.kill(first, signal.SIGKILL)
                proxy.logged("a worker has ended")
            with proxy.client() as client:
                assert scrape(client).value(IN_FLIGHT) == 0
            proxy.stop(signal.SIGTERM)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_reload_counts_once(workers: str, upstream: str, tmp_path: Path) -> None:
    file = configure(tmp_path, upstream)
    with command("--config", str(file), "--workers", workers, cwd=tmp_path) as proxy:
        for times in (1, 2):
            proxy.process.send_signal(signal.SIGHUP)
            proxy.logged("the configuration was read again", times * int(workers))
        file.write_text("faulty")
        proxy.process.send_signal(signal.SIGHUP)
        proxy.logged("the one before stays")
        with proxy.client() as client:
            until(lambda: scrape(client).value(RELOADS, result="failed") == 1)
            assert scrape(client).value(RELOADS, result="ok") == 2
        proxy.stop(signal.SIGTERM)


def test_one_process_keeps_no_files(upstream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path / "nowhere"))  # meant for another program
    file = configure(tmp_path, upstream)
    with command("--config", str(file), cwd=tmp_path) as proxy:
        with proxy.client() as client:
            assert client.post(CHAT_PATH, json=CHAT).status_code == 200
            assert scrape(client).total(REQUESTS) == 1
        assert find_folder(proxy.process.pid) is None
        proxy.stop(signal.SIGTERM)
    assert not (tmp_path / "nowhere").exists()


def test_what_a_killed_proxy_left_goes_with_the_next_start_and_nobody_elses(
    upstream: str, tmp_path: Path
) -> None:
    def start() -> AbstractContextManager[Command]:
        return command("--config", str(file), "--workers", "2", cwd=tmp_path)

    def use(proxy: Command) -> Path:
        worker = proxy.workers()[0]
        ask_only(proxy, worker, 1)
        folder = find_folder(worker)
        assert folder is not None
        return folder

    file = configure(tmp_path, upstream)
    with start() as killed, start() as living:
        left, used = use(killed), use(living)
        workers = killed.workers()
        killed.process.kill()
        until(lambda: not any(map(is_alive, workers)))
        assert left.exists()
        with start() as proxy:
            assert not left.exists()
            assert used.exists()
            proxy.stop(signal.SIGTERM)
        living.stop(signal.SIGTERM)
    assert not used.exists()
