"""What becomes of a configuration file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy import config
from proxy.config import ConfigError
from proxy.doctor.evidence import Form
from proxy.doctor.insertion import InsertionError
from proxy.doctor.verdict import NewEntry, Verdict
from proxy.doctor.writing import write
from proxy.rules import Start

if TYPE_CHECKING:
    from pathlib import Path

URL = "http://127.0.0.1:8000"
TAGS = Verdict("a/b", Form.TAGS, ("think",), Start.LEADING, entry=NewEntry("a/b"))
CLOSER = Verdict("c/d", Form.CLOSER, ("think",), Start.IMPLICIT, entry=NewEntry("c/d", Start.IMPLICIT))
NATIVE = Verdict("e/f", Form.NATIVE)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a.yaml"


def test_a_new_file_in_a_new_folder(tmp_path: Path) -> None:
    file = tmp_path / "config" / "proxy.yaml"
    written = write(file, URL, [TAGS, CLOSER, NATIVE])
    assert (written.created, written.added, written.left) == (True, ("upstream", "a/b", "c/d"), ())
    settings = config.load(file, environ={})
    assert settings.upstream == URL
    assert [(entry.name, entry.rule.start) for entry in settings.entries] == [
        ("a/b", Start.LEADING),
        ("c/d", Start.IMPLICIT),
    ]
    assert [it.name for it in file.parent.iterdir()] == [file.name]
    assert file.stat().st_mode & 0o400


def test_what_is_there_stays_and_is_told(file: Path) -> None:
    text = "upstream: http://other # mine\ninlineThinkTagModels:\n  - a/b # mine\n  - c/*\n"
    file.write_text(text)
    written = write(file, URL, [TAGS, CLOSER])
    assert (written.created, written.added) == (False, ())
    assert file.read_text() == text
    upstream, exact, covered = written.left
    assert URL in upstream
    assert "a/b" in exact
    assert "as it should be" in exact
    for word in ("c/d", "c/*", "start leading", "need start implicit"):
        assert word in covered


def test_what_lacks_is_added(file: Path) -> None:
    file.write_text(f"upstream: {URL}/v1\ninlineThinkTagModels:\n  - a/b # mine\n")
    file.chmod(0o640)
    written = write(file, URL, [TAGS, CLOSER])
    assert written.added == ("c/d",)
    assert len(written.left) == 1
    assert file.read_text() == (
        f"upstream: {URL}/v1\ninlineThinkTagModels:\n  - a/b # mine\n  - model: c/d\n    start: implicit\n"
    )
    assert file.stat().st_mode & 0o777 == 0o640


def test_a_second_time_changes_nothing(file: Path) -> None:
    write(file, URL, [TAGS, CLOSER])
    text = file.read_text()
    assert write(file, URL, [TAGS, CLOSER]).added == ()
    assert file.read_text() == text


def test_a_link_stays_one(file: Path, tmp_path: Path) -> None:
    file.write_text("log: {level: debug} # mine\n")
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    write(link, URL, [TAGS])
    assert link.is_symlink()
    assert file.read_text().startswith("log: {level: debug} # mine\nupstream: ")


def test_keys_of_this_shell_are_no_part_of_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THINK_PROXY_UPSTREAM", "http://elsewhere")
    monkeypatch.setenv("THINK_PROXY_INLINE_THINK_TAG_MODELS", '["*"]')
    file.write_text("log: {level: debug}\n")
    assert write(file, URL, [TAGS]).added == ("upstream", "a/b")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("upstreem: http://x\n", ConfigError),
        ("apiKeys: ['${NOT_SET_HERE}']\n", ConfigError),
        ("{log: {level: debug}}\n", InsertionError),
    ],
)
def test_a_file_that_nothing_can_be_added_to_stays(
    text: str, error: type[Exception], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_SET_HERE", raising=False)
    file.write_text(text)
    with pytest.raises(error):
        write(file, URL, [TAGS])
    assert file.read_text() == text
    assert [it.name for it in file.parent.iterdir()] == [file.name]


def test_a_result_that_does_not_load_is_not_put_in_place(file: Path) -> None:
    # A name with a variable in it is text to YAML, and none to the configuration.
    text = "log: {level: debug}\n"
    file.write_text(text)
    odd = Verdict("${NOT_SET_HERE}", Form.TAGS, ("think",), Start.LEADING, entry=NewEntry("${NOT_SET_HERE}"))
    with pytest.raises(ConfigError):
        write(file, URL, [odd])
    assert file.read_text() == text
    assert [it.name for it in file.parent.iterdir()] == [file.name]
