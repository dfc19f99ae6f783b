"""The documentation: README's links lead somewhere, and the site has every page. `make docs` builds it."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.packaging.files import ROOT

PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))


class Loader(yaml.SafeLoader):
    """Reads mkdocs.yml, where an object of Python's is named that only mkdocs has to make."""


Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def read_site() -> Any:
    return yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)  # noqa: S506 - a SafeLoader


def leaves(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    items = nav.values() if isinstance(nav, dict) else nav
    return [leaf for item in items for leaf in leaves(item)]


def anchors(text: str) -> set[str]:
    titles = re.findall(
        r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", title).lower().replace(" ", "-") for title in titles}


def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(leaves(read_site()["nav"])) == PAGES


def test_the_site_fails_on_what_leads_nowhere_and_loads_no_fonts() -> None:
    site = read_site()
    assert set(site["validation"].values()) == {"warn"}, "which --strict makes errors of"
    assert site["theme"]["font"] is False
    assert "--strict" in (ROOT / "scripts" / "docs.sh").read_text()


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md"])
def test_links_of_the_front_door_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", (ROOT / name).read_text(encoding="utf-8")):
        if re.match(r"https?:", target):
            continue
        path, _, anchor = target.partition("#")
        page = ROOT / (path or name)
        assert page.exists(), target
        assert not anchor or anchor in anchors(page.read_text(encoding="utf-8")), target


@pytest.mark.parametrize("name", PAGES)
def test_pages_name_only_files_that_there_are(name: str) -> None:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    for path in re.findall(r"`((?:deploy|scripts|config)/[\w./-]+)`", text):
        assert (ROOT / path).exists(), path
