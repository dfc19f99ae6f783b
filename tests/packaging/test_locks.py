"""The locks pin everything, say nothing about where it was downloaded, and belong to pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.files import ROOT

LOCKS = ["runtime", "dev", "build", "clients", "docs", "lock", "page"]


@cache
def read_lock(name: str) -> dict[str, tuple[Requirement, list[str]]]:
    """The requirements of a lock by name, each with its further lines: hashes, and comments."""
    entries: dict[str, tuple[Requirement, list[str]]] = {}
    details: list[str] = []
    for line in (ROOT / "requirements" / f"{name}.txt").read_text().splitlines():
        if line.startswith(" "):
            details.append(line.strip(" \\"))
        else:
            requirement = Requirement(line.strip(" \\"))
            details = []
            entries[canonicalize_name(requirement.name)] = (requirement, details)
    return entries


def read_pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize("name", LOCKS)
def test_every_requirement_is_one_version_with_hashes(name: str) -> None:
    lock = read_lock(name)
    assert lock
    for requirement, details in lock.values():
        assert [specifier.operator for specifier in requirement.specifier] == ["=="]
        hashes = [line for line in details if not line.startswith("#")]
        assert hashes, requirement
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line) for line in hashes), requirement


@pytest.mark.parametrize("name", LOCKS)
def test_no_lock_names_an_index_a_host_or_a_path(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    assert not re.search(
        r"https?:|file:|[\w-]+\.(?:com|org|net|io)\b|(?<![\w.])/\w|index|find-links|trusted", text
    )


@pytest.mark.parametrize(
    ("lock", "key"),
    [
        ("runtime", ("project", "dependencies")),
        ("dev", ("dependency-groups", "dev")),
        ("build", ("build-system", "requires")),
    ],
)
def test_locks_satisfy_pyproject(lock: str, key: tuple[str, str]) -> None:
    table, name = key
    for line in read_pyproject()[table][name]:
        wanted = Requirement(line)
        (specifier,) = read_lock(lock)[canonicalize_name(wanted.name)][0].specifier
        assert wanted.specifier.contains(specifier.version, prereleases=True), line


@pytest.mark.parametrize("other", ["runtime", "build"])
def test_tests_run_on_the_versions_that_are_shipped(other: str) -> None:
    dev = {name: entry[0].specifier for name, entry in read_lock("dev").items()}
    pinned = {name: entry[0].specifier for name, entry in read_lock(other).items()}
    assert pinned.items() <= dev.items()
