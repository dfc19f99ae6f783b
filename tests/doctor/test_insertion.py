"""Entries into configuration files as people write them: what stood there stays, byte for byte."""

from __future__ import annotations

from difflib import ndiff

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.config import ConfigError, yamlfile
from proxy.doctor.insertion import InsertionError, insert, render
from proxy.doctor.verdict import NewEntry
from proxy.rules import Start

URL = "http://127.0.0.1:8000"
ENTRIES = [NewEntry("a/b"), NewEntry("c:d", Start.IMPLICIT, "kimi")]

FILES = {
    "empty": "",
    "comments alone": "# mine\n\n# yours\n",
    "other keys": "# mine\nlisten:\n  port: 1 # one\n# end\n",
    "no line break at the end": "log: {level: debug}",
    "carriage returns": "# mine\r\nlisten: {port: 1}\r\ninlineThinkTagModels:\r\n- x # y\r\n# end\r\n",
    "upstream": "upstream: http://other/ # mine\n",
    "upstream without a value": "upstream: # soon\nlisten: {port: 1}\n",
    "upstreams": "upstreams:\n  one: http://one\n",
    "list": "inlineThinkTagModels:\n  - one # 1\n\n  # two\n  - two # 2\n\n# end\nlisten: {port: 1}\n",
    "list without indentation": "inlineThinkTagModels:\n- one # 1\n# end\n",
    "list with much indentation": "inlineThinkTagModels:\n        -   one # 1\n# end\n",
    "list at the end, no line break": "inlineThinkTagModels:\n  - one",
    "list of mappings": (
        "inlineThinkTagModels:\n  - model: one\n    tags:\n      open:\n        - '[a]'\n"
        "      close: # here\n        - '[/a]' # last\n    # end of one\n# end\n"
    ),
    "list with a flow mapping": "inlineThinkTagModels:\n  - {model: one, start: auto} # 1\nupstream: http://x\n",
    "list with a value in quotes": 'inlineThinkTagModels:\n  - model: one\n    start: "auto" # 1\n',
    "list with a folded value": "inlineThinkTagModels:\n  - model: >-\n      one\n# end\n",
    "list in snake case": "inline_think_tag_models:\n  - one\n",
    "list without a value": "inlineThinkTagModels: # none yet\nlisten: {port: 1}\n",
    "list without a value at the end": "inlineThinkTagModels:",
    "empty flow list": "inlineThinkTagModels: [] # none\n",
    "flow list": "inlineThinkTagModels: [one, {model: two}] # both\n",
    "flow list over lines": "inlineThinkTagModels: [\n  one, # 1\n  two, # 2\n] # both\n",
    "byte order mark": "\ufefflisten: {port: 1}\n",
    "document start": "---\nlisten: {port: 1}\n",
    "indented": "  listen: {port: 1}\n  inlineThinkTagModels:\n    - one\n",
}


@pytest.mark.parametrize("name", FILES)
def test_everything_stays_and_everything_is_added(name: str) -> None:
    text = FILES[name]
    made = insert(text, URL, ENTRIES)
    # Nothing is taken away, not even a comment or a blank line; a line may only get longer.
    before, after = text.splitlines(), made.splitlines()
    if "flow list" not in name and name != "upstream without a value":
        assert [line for line in ndiff(before, after) if line.startswith("- ")] == []
    rest = iter(made)
    assert all(char in rest for char in text)
    old, new = yamlfile.parse(text.removeprefix("\ufeff"), "old").data, yamlfile.parse(made, "new").data
    key = "inline_think_tag_models" if "snake" in name else "inlineThinkTagModels"
    added = ["a/b", {"model": "c:d", "start": "implicit", "tags": "kimi"}]
    assert new[key] == [*(old.get(key) or []), *added]
    assert {k: v for k, v in new.items() if k not in (key, "upstream")} == {
        k: v for k, v in old.items() if k not in (key, "upstream")
    }
    assert new.get("upstream") == (old.get("upstream") or (None if "upstreams" in old else URL))
    if "\r\n" in text:
        assert made.count("\n") == made.count("\r\n")


@pytest.mark.parametrize(
    "text",
    [
        "{listen: {port: 1}}\n",
        "inlineThinkTagModels: null\n",
        "inlineThinkTagModels: one\n",
        "listen: {port: 1}\n...\n",
        "listen: {port: 1}\n---\n",
    ],
)
def test_what_leaves_no_safe_place(text: str) -> None:
    with pytest.raises((InsertionError, ConfigError)):
        insert(text, URL, ENTRIES)


def test_nothing_to_add_changes_nothing() -> None:
    text = "upstream: http://x # mine\n"
    assert insert(text, URL, []) == text
    assert insert("# mine\n", None, []) == "# mine\n"


def test_what_is_printed() -> None:
    assert render(URL, ENTRIES) == (
        "upstream: http://127.0.0.1:8000\ninlineThinkTagModels:\n  - a/b\n  - model: c:d\n"
        "    start: implicit\n    tags: kimi\n"
    )
    assert render(None, ENTRIES[:1]) == "inlineThinkTagModels:\n  - a/b\n"
    assert render(URL, []) == "upstream: http://127.0.0.1:8000\n"


@given(st.lists(st.text(min_size=1), min_size=1, max_size=3), st.sampled_from(sorted(FILES)))
def test_any_name_of_a_model_is_read_back(names: list[str], file: str) -> None:
    entries = [NewEntry(name, Start.AUTO if index % 2 else None) for index, name in enumerate(names)]
    made = yamlfile.parse(insert(FILES[file], None, entries), "new").data
    listed = made.get("inlineThinkTagModels") or made["inline_think_tag_models"]
    read = [item if isinstance(item, str) else item["model"] for item in listed]
    assert read[-len(names) :] == names
