"""When the configuration is read again, and what becomes of it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from proxy import config
from proxy.app import App
from proxy.endpoint import Endpoint
from proxy.reload import ConfigSource, follow
from proxy.serve import reload
from proxy.server import Server
from proxy.settings import Listen, Settings
from tests.servers import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GOOD = "upstream: http://one.test\nmaxHeaderBytes: 1000\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "a.yaml"
    made.write_text(GOOD)
    return made


@pytest.fixture
def source(file: Path) -> ConfigSource:
    return ConfigSource(lambda: config.load(file, overrides={"listen": {"port": 0}}, environ={}), file)


def test_only_a_new_content_that_stays_is_a_change(source: ConfigSource, file: Path) -> None:
    def looks(times: int = 3) -> list[bool]:
        return [source.has_changed() for _ in range(times)]

    assert looks() == [False, False, False]
    file.write_text(GOOD)  # written anew, and the same
    assert looks() == [False, False, False]
    for text in ("a", "ab", "abc"):  # being written
        file.write_text(text)
        assert looks(1) == [False]
    assert looks() == [True, False, False]
    file.unlink()  # on its way
    assert looks() == [False, False, False]
    file.write_text("abc")
    assert looks() == [False, False, False]
    file.write_text(GOOD)
    assert looks() == [False, True, False]


def test_what_was_read_on_request_is_no_change_any_more(source: ConfigSource, file: Path) -> None:
    file.write_text(GOOD + "maxBodyBytes: 5\n")
    assert source.read() is not None
    assert [source.has_changed() for _ in range(3)] == [False, False, False]


def test_a_kubernetes_volume_that_swaps_its_link_has_changed(tmp_path: Path) -> None:
    """`kubectl` never writes a mounted file: it swaps the link `..data` to the folder that holds it."""
    for name, text in (("..1", GOOD), ("..2", "upstream: http://two.test\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.yaml").write_text(text)
    (tmp_path / "..data").symlink_to("..1")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    source = ConfigSource(lambda: config.load(tmp_path / "a.yaml", environ={}), tmp_path / "a.yaml")
    (tmp_path / "..new").symlink_to("..2")
    (tmp_path / "..new").replace(tmp_path / "..data")
    assert [source.has_changed() for _ in range(3)] == [False, True, False]
    found = source.read()
    assert found is not None
    assert found.upstream == "http://two.test"


def test_the_file_of_the_keys_is_watched_too(tmp_path: Path, file: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("one\n")
    source = ConfigSource(lambda: config.load(file, environ={}), file)
    file.write_text(GOOD + f"apiKeysFile: {keys}\n")
    found = source.read()
    assert found is not None
    source.settings = found
    assert [source.has_changed() for _ in range(3)] == [False, False, False]
    keys.write_text("two\n")
    assert [source.has_changed() for _ in range(3)] == [False, True, False]


@pytest.mark.parametrize("text", ["upstreem: x\n", "{", "log: {level: info}\n", None])
def test_a_faulty_file_is_reported(
    text: str | None, source: ConfigSource, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = source.settings
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    assert source.read() is None
    assert source.settings is before
    (record,) = caplog.records
    assert "the one before stays" in record.getMessage()


def test_the_address_stays(tmp_path: Path, file: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = ConfigSource(lambda: config.load(file, environ={}), file)
    file.write_text(GOOD + f"listen: {{port: 1, uds: {tmp_path}/a.sock}}\nmaxBodyBytes: 5\n")
    found = source.read()
    assert found is not None
    assert (found.listen, found.max_body_bytes) == (Listen(), 5)
    assert "listen cannot change" in caplog.text


async def test_following(source: ConfigSource, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.reload.POLL_S", 0.01)
    given: asyncio.Queue[Settings | None] = asyncio.Queue()
    answers = iter([False, True, True, False])

    def apply(settings: Settings | None) -> bool:
        given.put_nowait(settings)
        return next(answers)

    async def applied() -> int:
        return getattr(await asyncio.wait_for(given.get(), WAIT_S), "max_body_bytes", 0)

    def write(more: str) -> None:
        file.write_text(GOOD + more)

    first, is_asked = source.settings, asyncio.Event()
    task = asyncio.create_task(follow(source, is_asked, apply))
    write("maxBodyBytes: 1\n")  # nobody looks: it is not watched
    write("maxBodyBytes: 2\n")
    is_asked.set()
    assert await applied() == 2
    assert source.settings is first  # it was not taken
    write("maxBodyBytes: 3\nwatchConfig: true\n")
    is_asked.set()
    assert await applied() == 3
    write("maxBodyBytes: 4\n")  # and so watching ends
    assert await applied() == 4
    write("faulty\n")
    is_asked.set()
    assert await applied() == 0
    assert source.settings.max_body_bytes == 4
    assert given.empty()
    task.cancel()


async def test_a_configuration_is_put_into_force(source: ConfigSource) -> None:
    app, server, close = build(source.settings)
    new = Settings(upstream="http://two.test", max_header_bytes=7)
    assert reload(app, server, new)
    assert (app.world.settings, server.traffic.settings) == (new, new)
    close()


async def test_a_configuration_that_cannot_be_used_leaves_the_old_one(
    source: ConfigSource, caplog: pytest.LogCaptureFixture
) -> None:
    app, server, close = build(source.settings)
    caplog.set_level(logging.ERROR, "think_proxy")
    assert not reload(app, server, Settings())
    assert "cannot be used, the one before stays" in caplog.text
    assert app.world.settings is source.settings
    assert server.traffic.settings is source.settings
    close()


def build(settings: Settings) -> tuple[App, Server, Callable[[], None]]:
    endpoint = Endpoint(settings.listen)
    app = App(settings)
    return app, Server(app, endpoint.sockets, settings, app), endpoint.close
