"""Where the proxy listens."""

from __future__ import annotations

import asyncio
import socket
import stat
from pathlib import Path

import pytest

from proxy.endpoint import Endpoint
from proxy.settings import Listen
from tests.transport import wire
from tests.transport.proxying import proxying


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # paths of sockets are short
    return tmp_path / "a.sock"


def read_mode(path: Path) -> int | None:
    return path.stat().st_mode if path.exists() else None


async def test_a_socket_file(path: Path) -> None:
    listen = Listen(uds="a.sock")
    async with proxying("http://127.0.0.1:9", listen=listen) as proxy, proxy.connect() as client:
        assert proxy.url == "unix:a.sock"
        assert (await client.ask(wire.request("/healthz"))).status == 200
        assert read_mode(path) == stat.S_IFSOCK | 0o660
    assert read_mode(path) is None


async def test_a_client_that_leaves_a_socket_file_is_noticed(path: Path) -> None:
    assert read_mode(path) is None
    async with proxying("http://127.0.0.1:9", listen=Listen(uds="a.sock")) as proxy:
        async with proxy.connect() as client:
            await client.send(wire.request("/v1/models", None, "content-length: 5", method="POST"))
        async with asyncio.timeout(10):
            await proxy.traffic.quiet()


def test_a_socket_file_without_a_process_is_replaced(path: Path) -> None:
    dead = socket.socket(socket.AF_UNIX)
    dead.bind("a.sock")
    dead.close()
    assert path.exists()
    endpoint = Endpoint(Listen(uds="a.sock"))
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("a.sock")
    endpoint.close()
    endpoint.remove()
    assert not path.exists()


def test_a_socket_file_with_a_process_stays(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind("a.sock")
        other.listen()
        with pytest.raises(OSError, match=r"cannot listen on a\.sock: address already in use"):
            Endpoint(Listen(uds="a.sock"))
    assert path.exists()


def test_another_file_stays(path: Path) -> None:
    path.write_text("mine")
    with pytest.raises(OSError, match=r"a\.sock: there is a file that is no socket"):
        Endpoint(Listen(uds="a.sock"))
    assert path.read_text() == "mine"


def test_a_folder_that_is_not_there() -> None:
    with pytest.raises(OSError, match=r"/nowhere/a\.sock: no such file"):
        Endpoint(Listen(uds="/nowhere/a.sock"))


def test_the_file_of_a_successor_is_not_removed(path: Path) -> None:
    first = Endpoint(Listen(uds="a.sock"))
    second = Endpoint(Listen(uds="b.sock"))
    (path.parent / "b.sock").replace(path)
    first.close()
    first.remove()
    assert path.exists()
    second.close()


def test_a_free_port_is_the_same_for_every_address_of_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in ("127.0.0.1", "127.0.0.2")
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: rows)
    endpoint = Endpoint(Listen(host="both", port=0))
    (first, port), (second, other) = (sock.getsockname() for sock in endpoint.sockets)
    endpoint.close()
    assert (first, second, other) == ("127.0.0.1", "127.0.0.2", port)
    assert endpoint.url == f"http://127.0.0.1:{port}"


def test_an_address_that_this_machine_does_not_have() -> None:
    with pytest.raises(OSError, match=r"cannot listen on 192\.0\.2\.1:8080: cannot assign"):
        Endpoint(Listen(host="192.0.2.1"))
    with pytest.raises(OSError, match=r"cannot listen on no\.invalid:8080: "):
        Endpoint(Listen(host="no.invalid"))


def test_no_socket_is_left_open_by_a_failure() -> None:
    before = len([*Path("/proc/self/fd").iterdir()])
    with pytest.raises(OSError, match="cannot listen"):
        Endpoint(Listen(uds="/nowhere/a.sock"))
    assert len([*Path("/proc/self/fd").iterdir()]) == before
