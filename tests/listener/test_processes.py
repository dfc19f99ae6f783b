"""Several processes on one port, and the signals that a proxy takes."""

from __future__ import annotations

import os
import resource
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from proxy.demo import build_app
from tests.commands import START_S
from tests.listener.processes import command, until
from tests.servers import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow  # each starts a command

CHAT = {"model": "demo/thinker", "messages": [{"role": "user", "content": "Hello?"}], "max_tokens": 20}
STREAM = CHAT | {"stream": True}
CHAT_PATH = "/v1/chat/completions"
NO_PORT = "http://127.0.0.1:9"


@pytest.fixture
def upstream() -> Iterator[str]:
    with serving(build_app(pace_s=0)) as url:
        yield url


@pytest.fixture
def slow() -> Iterator[str]:
    with serving(build_app(pace_s=86_400)) as url:
        yield url


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def configure(folder: Path, upstream: str, *lines: str, models: str = "[demo/thinker]") -> Path:
    file = folder / "a.yaml"
    text = [f"upstream: {upstream}", f"inlineThinkTagModels: {models}", *lines]
    if not any(line.startswith("listen") for line in lines):
        text.append("listen: {port: 0}")
    file.write_text("\n".join(text) + "\n")
    return file


def has_reasoning(client: httpx.Client) -> bool:
    return "reasoning_content" in client.post(CHAT_PATH, json=CHAT).json()["choices"][0]["message"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_workers_share_a_port_and_stop_together(
    number: signal.Signals, upstream: str, tmp_path: Path
) -> None:
    file = configure(tmp_path, upstream)
    with command("--config", str(file), "--workers", "3", cwd=tmp_path) as proxy:
        workers = proxy.workers()
        assert len(workers) == 3
        for _ in range(10):
            with proxy.client() as client:
                assert has_reasoning(client)
        proxy.stop(number)
        assert not any(map(is_alive, workers))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_dies_is_replaced(number: signal.Signals, upstream: str, tmp_path: Path) -> None:
    file = configure(tmp_path, upstream, "listen: {uds: a.sock}")
    with command("--config", str(file), "--workers", "2", cwd=tmp_path) as proxy:
        for ends in (1, 2):
            first, second = proxy.workers()
            proxy.address = f"unix:{tmp_path / 'a.sock'}"
            os.kill(first, number)
            proxy.logged("a worker has ended", ends)
            until(
                lambda kept=second, gone=first: (
                    len({*proxy.workers()} - {gone}) == 2 and kept in proxy.workers()
                )
            )
        os.kill(second, signal.SIGSTOP)  # so that it is one of the new ones that answers
        try:
            with proxy.client() as client:
                assert has_reasoning(client)
        finally:
            os.kill(second, signal.SIGCONT)
        proxy.stop(signal.SIGTERM)
    assert not (tmp_path / "a.sock").exists()


def test_workers_end_with_their_parent(upstream: str, tmp_path: Path) -> None:
    file = configure(tmp_path, upstream)
    with command("--config", str(file), "--workers", "2", cwd=tmp_path) as proxy:
        workers = proxy.workers()
        proxy.process.kill()
        until(lambda: not any(map(is_alive, workers)))


def test_a_signal_to_all_processes_at_once_is_one_signal(tmp_path: Path) -> None:
    with serving(build_app(pace_s=0.02)) as upstream:
        file = configure(tmp_path, upstream)
        with command("--config", str(file), "--workers", "2", cwd=tmp_path) as proxy:
            with proxy.client() as client, client.stream("POST", CHAT_PATH, json=STREAM) as answer:
                pieces = answer.iter_raw()
                first = next(pieces)
                os.killpg(proxy.process.pid, signal.SIGTERM)
                assert (first + b"".join(pieces)).endswith(b"data: [DONE]\n\n")
            proxy.ended()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_streams_are_told_of_the_end_and_a_second_signal_does_not_wait(
    workers: str, slow: str, tmp_path: Path
) -> None:
    file = configure(tmp_path, slow, "drainSeconds: 0.05")
    with command("--config", str(file), "--workers", workers, cwd=tmp_path) as proxy:
        with proxy.client() as client, client.stream("POST", CHAT_PATH, json=STREAM) as answer:
            pieces = answer.iter_raw()
            next(pieces)
            proxy.process.send_signal(signal.SIGTERM)
            assert b"shutting_down" in b"".join(pieces)
        proxy.ended()
    file = configure(tmp_path, slow, "drainSeconds: 86400")
    with command("--config", str(file), "--workers", workers, cwd=tmp_path) as proxy:
        with proxy.client() as client, client.stream("POST", CHAT_PATH, json=STREAM) as answer:
            pieces = answer.iter_raw()
            next(pieces)
            proxy.process.send_signal(signal.SIGTERM)
            until(lambda: not can_connect(proxy.address))
            proxy.process.send_signal(signal.SIGINT)
            with pytest.raises(httpx.RemoteProtocolError):
                list(pieces)
        proxy.ended()


def can_connect(address: str) -> bool:
    host, _, port = address.removeprefix("http://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=START_S).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_delay_keeps_the_port_open_and_says_so(workers: str, upstream: str, tmp_path: Path) -> None:
    file = configure(tmp_path, upstream, "drainDelaySeconds: 86400")
    with command("--config", str(file), "--workers", workers, cwd=tmp_path) as proxy:
        proxy.process.send_signal(signal.SIGTERM)

        def is_draining() -> bool:
            with proxy.client() as client:
                return client.get("/readyz").status_code == 503

        until(is_draining)
        with proxy.client() as client:
            assert has_reasoning(client)
        proxy.stop(signal.SIGTERM)


@pytest.mark.parametrize("workers", ["1", "3"])
def test_hangup_reloads_every_worker_and_restarts_none(workers: str, upstream: str, tmp_path: Path) -> None:
    file = configure(tmp_path, upstream)
    with command("--config", str(file), "--workers", workers, cwd=tmp_path) as proxy:
        before = proxy.workers()
        with proxy.client() as client:
            assert has_reasoning(client)
            configure(tmp_path, upstream, models="[]")
            proxy.process.send_signal(signal.SIGHUP)
            proxy.logged("the configuration was read again", int(workers))
            assert not has_reasoning(client)  # on the connection of before
        for _ in range(12):
            with proxy.client() as client:
                assert not has_reasoning(client)
        assert proxy.workers() == before
        proxy.stop(signal.SIGTERM)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_faulty_configuration_is_reported_once_and_the_old_one_stays(
    workers: str, upstream: str, tmp_path: Path
) -> None:
    file = configure(tmp_path, upstream)
    with command("--config", str(file), "--workers", workers, cwd=tmp_path) as proxy:
        faults = {"upstreem": "upstreem: x\n", "names no upstream": "log: {level: info}\n", "a.yaml": "{"}
        for number, (said, text) in enumerate(faults.items(), 1):
            file.write_text(text)
            proxy.process.send_signal(signal.SIGHUP)
            proxy.logged("the one before stays", number)
            assert said in proxy.log
            with proxy.client() as client:
                assert has_reasoning(client)
        assert proxy.log.count("the one before stays") == 3
        proxy.stop(signal.SIGTERM)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_running_stream_keeps_its_configuration(workers: str, tmp_path: Path) -> None:
    with serving(build_app(pace_s=0.05)) as upstream:
        file = configure(tmp_path, upstream)
        with command("--config", str(file), "--workers", workers, cwd=tmp_path) as proxy:
            with proxy.client() as client, client.stream("POST", CHAT_PATH, json=STREAM) as answer:
                pieces = answer.iter_raw()
                seen = next(pieces)
                configure(tmp_path, upstream, models="[]")
                proxy.process.send_signal(signal.SIGHUP)
                proxy.logged("the configuration was read again", int(workers))
                seen += b"".join(pieces)
            assert b"reasoning_content" in seen
            assert b"think>" not in seen
            assert seen.endswith(b"data: [DONE]\n\n")
            proxy.stop(signal.SIGTERM)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_watched_file_is_read_when_its_content_changes(workers: str, upstream: str, tmp_path: Path) -> None:
    file = configure(tmp_path, upstream, "watchConfig: true")
    with command("--config", str(file), "--workers", workers, cwd=tmp_path) as proxy:
        configure(tmp_path, upstream, "watchConfig: true", models="[]")
        proxy.logged("the configuration was read again", int(workers))
        with proxy.client() as client:
            assert not has_reasoning(client)
        proxy.stop(signal.SIGTERM)


def test_what_cannot_change_is_reported(upstream: str, tmp_path: Path) -> None:
    file = configure(tmp_path, upstream)
    with command("--config", str(file), cwd=tmp_path) as proxy:
        configure(tmp_path, upstream, "listen: {host: 127.0.0.2}", models="[]")
        proxy.process.send_signal(signal.SIGHUP)
        proxy.logged("the configuration was read again")
        assert "listen cannot change" in proxy.log
        with proxy.client() as client:
            assert not has_reasoning(client)
        proxy.stop(signal.SIGTERM)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_socket_file_as_a_command(workers: str, upstream: str, tmp_path: Path) -> None:
    file = configure(tmp_path, upstream, "listen: {uds: a.sock}")
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "a.sock"))
    dead.close()
    with command("--config", str(file), "--workers", workers, cwd=tmp_path) as proxy:
        assert proxy.address == "unix:a.sock"
        proxy.address = f"unix:{tmp_path / 'a.sock'}"
        with proxy.client() as client:
            assert has_reasoning(client)
        proxy.stop(signal.SIGTERM)
    assert not (tmp_path / "a.sock").exists()


def test_as_many_files_as_the_system_allows(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
    try:
        with command("--upstream", NO_PORT, "--port", "0", cwd=tmp_path) as proxy:
            assert resource.prlimit(proxy.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
            proxy.stop(signal.SIGTERM)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
