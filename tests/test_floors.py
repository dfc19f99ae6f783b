"""The package has four floors, and imports only go down (`docs/design.md`)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "proxy"

SPLITTING = {
    "rules",
    "presets",
    "markers",
    "lines",
    "hold",
    "spans",
    "block",
    "content",
    "wrapper",
    "splitter",
}
TEXT = SPLITTING | {"calls"}
WIRE = {"sse", "chat", "logprobs", "headers", "gate", "errors", "reply", "intake"}
TURN = {
    *("prompt", "history", "request", "tools", "reasoning", "promotion", "turn", "message", "response"),
    *("runs", "stream", "offline", "tally", "texts", "retries", "rounds", "joint", "whole"),
}
PURE = TEXT | WIRE | TURN
CONCLUSIONS = {f"doctor/{name}" for name in ("sample", "evidence", "questions", "verdict", "leaks")}
"""What `doctor` concludes, apart from how it asks and prints."""

ALLOWED_OUTSIDE = {
    *(
        "__future__",
        "typing",
        "collections",
        "dataclasses",
        "enum",
        "functools",
        "fnmatch",
        "itertools",
        "re",
    ),
    *("copy", "bisect", "math", "json", "orjson", "urllib", "zlib", "httptools"),
}
"""What a pure module may import: no clock, randomness, logging, network, files."""


def nodes(module: str) -> list[ast.AST]:
    """What a module, or each module of a package, is made of."""
    alone = PACKAGE / f"{module}.py"
    files = [alone] if alone.exists() else sorted((PACKAGE / module).glob("*.py"))
    assert files, f"there is no {module}"
    return [node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))]


def imported(module: str) -> set[str]:
    """The modules that a module imports, `proxy.x` as `.x`."""
    found: set[str] = set()
    for node in nodes(module):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names = [f"{base}.{alias.name}" for alias in node.names] if base == "proxy" else [base]
        else:
            continue
        for name in names:
            first, _, rest = name.partition(".")
            found.add(f".{rest.partition('.')[0]}" if first == "proxy" else first)
    return found


def documented() -> set[str]:
    """The modules in the table of floors; `demo…` stands for all that begin so."""
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    table = page.partition("| floor | modules | knows |")[2].partition("\n\n")[0]
    return {name for row in table.splitlines()[2:] for name in re.findall("`([^`]+)`", row.split("|")[2])}


def on_disk() -> set[str]:
    """The modules and packages there are, but for how the command is started."""
    return {path.stem for path in PACKAGE.iterdir() if path.name[0] not in "_." and path.name != "py.typed"}


def test_every_module_is_on_a_floor() -> None:
    families = tuple(name.removesuffix("…") for name in documented() if name.endswith("…"))
    assert families == ("demo",)
    alone = {name for name in on_disk() if not name.startswith(families)}
    assert alone == {name for name in documented() if not name.endswith("…")}
    assert documented() >= PURE


@pytest.mark.parametrize("module", sorted(PURE | CONCLUSIONS))
def test_pure_modules_import_nothing_that_acts(module: str) -> None:
    assert {name for name in imported(module) if not name.startswith(".")} <= ALLOWED_OUTSIDE


@pytest.mark.parametrize(
    ("floor", "below"),
    [(TEXT, TEXT), (WIRE, WIRE), (TURN, PURE), (CONCLUSIONS, PURE | {"doctor", "settings"})],
    ids=["text", "wire", "turn", "doctor"],
)
def test_imports_go_down(floor: set[str], below: set[str]) -> None:
    for module in sorted(floor):
        assert {name[1:] for name in imported(module) if name.startswith(".")} <= below, module


@pytest.mark.parametrize("module", sorted(PURE | CONCLUSIONS))
def test_pure_modules_are_not_async(module: str) -> None:
    assert not [node for node in nodes(module) if isinstance(node, (ast.AsyncFunctionDef, ast.Await))]


def test_pydantic_stays_in_config() -> None:
    for file in PACKAGE.rglob("*.py"):
        module = file.relative_to(PACKAGE).with_suffix("").as_posix()
        if not module.startswith("config/"):
            assert not imported(module) & {"pydantic", "pydantic_settings"}, module


MOST_LINES = 425
"""`splitter` is the largest, and stays one: its four states share what they hold, and are read together."""


def test_no_module_outgrows_its_floor() -> None:
    sizes = {file.name: len(file.read_text(encoding="utf-8").splitlines()) for file in PACKAGE.rglob("*.py")}
    assert {name: size for name, size in sizes.items() if size > MOST_LINES} == {}
