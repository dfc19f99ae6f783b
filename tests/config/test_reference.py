"""The configuration reference says what the models say."""

from __future__ import annotations

import re
import subprocess
import sys

from pydantic.alias_generators import to_camel

from proxy.config.environment import name_variable
from proxy.config.keys import list_keys
from tests.commands import ROOT

PAGE = ROOT / "docs" / "configuration-reference.md"


def test_the_page_in_the_repository_is_current() -> None:
    script = ROOT / "scripts" / "configuration_reference.py"
    done = subprocess.run([sys.executable, script], cwd=ROOT, capture_output=True, check=True, timeout=60)
    assert PAGE.read_text(encoding="utf-8") == done.stdout.decode(), (
        "run: python scripts/configuration_reference.py > docs/configuration-reference.md"
    )


def test_every_key_that_a_variable_sets_is_there_with_its_variable() -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^\| `(\w+)` .*<br>`(\w+)` \|$", text, re.MULTILINE)
    shown = {variable: key for key, variable in found}
    assert shown == {name_variable(path): to_camel(path[-1]) for path in list_keys()}


def test_links_inside_it_lead_somewhere() -> None:
    text = PAGE.read_text(encoding="utf-8")
    anchors = {
        re.sub(r"[^\w\- ]", "", title).lower() for title in re.findall(r"^## (.+)$", text, re.MULTILINE)
    }
    targets = set(re.findall(r"\(#([^)]+)\)", text))
    assert targets
    assert targets <= anchors
