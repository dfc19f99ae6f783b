"""Which entry a model name gets."""

from __future__ import annotations

import pytest

from proxy.rules import Rule
from proxy.settings import MAX_CACHED_NAME_CHARS, MAX_CACHED_NAMES, Entry, RuleTable


def build(*names: str) -> RuleTable:
    return RuleTable(Entry(name, Rule()) for name in names)


def find(names: str, model: str) -> str | None:
    entry = build(*names.split()).find(model)
    return entry.name if entry else None


@pytest.mark.parametrize(
    ("names", "model", "found"),
    [
        ("a/b", "a/b", "a/b"),
        ("a/b", "A/b", None),
        ("a/b", "a/bc", None),
        ("a/b", "b", None),
        ("a/b", "", None),
        ("", "a/b", None),
        ("a/* a/b", "a/b", "a/b"),
        ("a/b* a/*", "a/bc", "a/b*"),
        ("a/* a/b*", "a/bc", "a/*"),
        ("Qwen/*", "qwen/x", None),
        ("Qwen/Qwen3-*", "Qwen/Qwen3-8B", "Qwen/Qwen3-*"),
        ("Qwen/Qwen3-*", "x/Qwen/Qwen3-8B", None),
        ("*", "a/b/c", "*"),
        ("*-thinking", "a/b-thinking", "*-thinking"),
        ("*-thinking", "a/b-thinking-x", None),
        ("a?b", "a/b", "a?b"),
        ("a[12]", "a2", "a[12]"),
        ("a[!12]", "a2", None),
        ("a[1", "a[1", "a[1"),
        ("a[12]", "a[12]", "a[12]"),
        ("a*", "a\nb", "a*"),
        ("a.b*", "axb", None),
        # variants
        ("a/b", "a/b:free", "a/b"),
        ("a/b:free", "a/b:free", "a/b:free"),
        ("a/b a/b:free", "a/b:free", "a/b:free"),
        ("a/b:free", "a/b", None),
        ("a/b:free", "a/b:paid", None),
        ("a/* a/b", "a/b:free", "a/b"),
        ("a/?", "a/b:free", "a/?"),
        ("a/*:free a/*", "a/b:free", "a/*:free"),
        ("a/? a/*:free", "a/b:free", "a/?"),
        ("host", "host:80/b", None),
        ("b", "b:", None),
        ("b", ":b", None),
    ],
)
def test_find(names: str, model: str, found: str | None) -> None:
    assert find(names, model) == found


def test_of_equal_names_the_first_counts() -> None:
    first, second = Entry("a", Rule()), Entry("a", Rule(max_retries=9))
    assert RuleTable([first, second]).find("a") is first


class CountingPattern:
    """A pattern that counts how often it is tried."""

    def __init__(self) -> None:
        self.tries = 0

    def match(self, _: str) -> None:
        self.tries += 1


def count_tries(table: RuleTable, models: list[str]) -> int:
    pattern = CountingPattern()
    entry = Entry("never", Rule())
    table._globs[:] = [(pattern, entry)]  # type: ignore[list-item]  # noqa: SLF001
    for model in models:
        assert table.find(model) is None
    return pattern.tries


def test_a_name_is_matched_once_however_often_it_comes() -> None:
    assert count_tries(build("x*"), ["m"] * 1000) == 1


def test_what_is_remembered_stays_small() -> None:
    table = build("x*")
    for number in range(3 * MAX_CACHED_NAMES):
        table.find(f"hostile-{number}")
    assert table._remembered.cache_info().currsize == MAX_CACHED_NAMES  # noqa: SLF001


def test_long_names_are_found_and_not_remembered() -> None:
    table = build("x*")
    for number in range(10):
        assert table.find("x" * (MAX_CACHED_NAME_CHARS + 1 + number)) is not None
    assert table._remembered.cache_info().currsize == 0  # noqa: SLF001
    assert table.find("x" * MAX_CACHED_NAME_CHARS) is not None
    assert table._remembered.cache_info().currsize == 1  # noqa: SLF001
