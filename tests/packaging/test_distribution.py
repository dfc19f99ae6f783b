"""The wheel and the source archive hold what they should, and the wheel installs and imports by itself."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from email import message_from_bytes
from typing import TYPE_CHECKING

import pytest

from tests.packaging.commands import output_of
from tests.packaging.files import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source archive, and the wheel built from it and not from the checkout, as distributors do."""
    out = tmp_path_factory.mktemp("dist")
    output_of(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", out, cwd=ROOT)
    (sdist,) = out.glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        tar.extractall(out, filter="data")
    (unpacked,) = (path for path in out.iterdir() if path.is_dir())
    output_of(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", out, cwd=unpacked)
    (wheel,) = out.glob("*.whl")
    return sdist, wheel


def sources() -> set[str]:
    return {str(path.relative_to(ROOT)) for path in (ROOT / "proxy").rglob("*") if path.is_file()} - {
        str(path.relative_to(ROOT)) for path in (ROOT / "proxy").rglob("__pycache__/*")
    }


def test_the_source_archive_has_the_documents_and_no_tests(archives: tuple[Path, Path]) -> None:
    with tarfile.open(archives[0]) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    assert sources() <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "config/proxy.yaml"} <= names
    assert {name.partition("/")[0] for name in names} <= {
        *("proxy", "config", "docs", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"),
        *("PKG-INFO", ".gitignore"),
    }


def test_the_wheel_has_the_package_and_nothing_else(archives: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(archives[1]) as wheel:
        names = set(wheel.namelist())
        info = next(name.partition("/")[0] for name in names if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(wheel.read(f"{info}/METADATA"))
        entry_points = wheel.read(f"{info}/entry_points.txt").decode()
        licence = wheel.read(f"{info}/licenses/LICENSE").decode()
    assert {name for name in names if not name.startswith(info)} == sources()
    # PEP 561: without this file the classifier "Typing :: Typed" promises what type checkers do not see.
    assert "proxy/py.typed" in names
    assert (metadata["Name"], metadata["Requires-Python"]) == ("think-proxy", ">=3.11")
    assert metadata["License-Expression"] == "MIT"
    assert licence == (ROOT / "LICENSE").read_text()
    assert "think-proxy = proxy.cli:main" in entry_points.splitlines()


def test_the_wheel_runs_without_the_checkout(archives: tuple[Path, Path], tmp_path: Path) -> None:
    target = tmp_path / "site"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target")
    output_of(*pip, target, archives[1], cwd=tmp_path)
    # Ahead of the editable install of this environment.
    script = output_of(target / "bin" / "think-proxy", "--help", cwd=tmp_path, PYTHONPATH=str(target))
    assert "serve" in script
    where = output_of(
        sys.executable, "-c", "import proxy; print(proxy.__file__)", cwd=tmp_path, PYTHONPATH=str(target)
    )
    assert where.strip() == str(target / "proxy" / "__init__.py")
