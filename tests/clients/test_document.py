"""docs/clients.md says what was seen, and its examples run."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

import pytest

from proxy.app import App
from proxy.config import load
from proxy.demo import build_app
from proxy.serve import beside
from tests.clients.clients import (
    BOTH,
    CLIENTS,
    CONTENT,
    HERE,
    PI,
    REASONING,
    ROOT,
    Client,
    find_node,
    find_python,
    locked_version,
    run_client,
)
from tests.servers import serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEXT = (ROOT / "docs" / "clients.md").read_text()
ADDRESS = "http://127.0.0.1:8080"

EXAMPLES = re.findall(
    r"^## ([^\n]+)\n(?:(?!^## ).)*?^```(python|js)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL
)


def write_row(client: Client) -> str:
    exact = [way in client.exact for way in client.ways]
    cells = [
        client.title,
        locked_version(client),
        "either name" if client.shows_all else "either name, the last piece",
        *(
            " and ".join(f"`{name}`" for name in client.sends[field]) or "nothing"
            for field in (CONTENT, REASONING, BOTH)
        ),
        "yes" if all(exact) else "not from a stream" if any(exact) else "no",
    ]
    return f"| {' | '.join(cells)} |"


def test_the_table_is_what_the_clients_are_held_to() -> None:
    (table,) = re.findall(r"^\|---.*\n((?:\|.*\n)*)", TEXT, re.MULTILINE)
    assert table.splitlines() == [write_row(client) for client in CLIENTS]


def test_there_is_an_example_for_each_client() -> None:
    headings = [heading for heading, _, _ in EXAMPLES]
    assert headings == [
        *("`openai` for Python", "`openai` for Node", "AI SDK", "LangChain", "Pydantic AI", "LiteLLM's SDK"),
    ]
    assert "\n## pi coding agent\n" in TEXT


def test_the_class_is_the_one_that_was_seen() -> None:
    script = (HERE / "scripts" / "langchain_chat.py").read_text()
    (source,) = re.findall(r"^class ThinkingChat.*?(?=\n\n\n)", script, re.MULTILINE | re.DOTALL)
    assert source in TEXT


def test_the_lock_of_the_node_clients_names_no_host() -> None:
    assert not re.search(r'"resolved"|://', (HERE / "package-lock.json").read_text())


@pytest.fixture
def proxy_url() -> Iterator[str]:
    """What `think-proxy demo` runs, without its pauses."""
    with serving(build_app(pace_s=0)) as upstream:
        app = App(load(overrides={"upstream": upstream, "inlineThinkTagModels": ["demo/thinker"]}))
        with beside(app) as url:
            yield url


def check_answer(answer: str) -> None:
    assert "Hello! This is the half of my answer that was meant for you." in answer
    assert "A greeting, then." not in answer
    assert "think>" not in answer


@pytest.mark.clients
@pytest.mark.slow
@pytest.mark.parametrize(
    ("language", "source"), [pytest.param(*rest, id=heading) for heading, *rest in EXAMPLES]
)
def test_the_example_runs(language: str, source: str, proxy_url: str) -> None:
    assert source.count(ADDRESS) == 1
    command = [find_python(), "-"] if language == "python" else [find_node(), "--input-type=module"]
    printed = run_client(command, source.replace(ADDRESS, proxy_url))
    thinking, answer = printed.split("Answer:")
    assert thinking.startswith("Thinking:")
    assert "A greeting, then." in thinking
    check_answer(answer)


@pytest.mark.clients
@pytest.mark.slow
def test_the_example_of_pi_runs(proxy_url: str, tmp_path: Path) -> None:
    section = TEXT.split("\n## pi coding agent\n")[1].split("\n## ")[0]
    (models,) = re.findall(r"^```json\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    (line,) = re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    assert models.count(ADDRESS) == 1
    folder = tmp_path / ".pi" / "agent"
    folder.mkdir(parents=True)
    (folder / "models.json").write_text(models.replace(ADDRESS, proxy_url))
    name, *arguments = shlex.split(line)
    assert name == "pi"
    check_answer(run_client([find_node(), str(PI), *arguments], home=tmp_path))
