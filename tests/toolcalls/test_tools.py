from __future__ import annotations

from typing import Any

import pytest

from proxy.tools import read_tools

A, B = {"type": "object"}, {"properties": {}}
TOOLS = [
    {"type": "function", "function": {"name": "a", "parameters": A}},
    {"type": "function", "function": {"name": "b", "parameters": B}},
    {"type": "function", "function": {"name": "c"}},
]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("auto", "abc"),
        ("required", "abc"),
        (None, "abc"),
        ("none", ""),
        ("other", ""),
        ({"type": "function", "function": {"name": "b"}}, "b"),
        ({"type": "function", "function": {"name": "z"}}, ""),
        ({"type": "function"}, ""),
        (
            {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [TOOLS[0], TOOLS[2], 1]}},
            "ac",
        ),
        ({"type": "allowed_tools", "tools": [TOOLS[1], {"function": {"name": ["a"]}}]}, "b"),
        (
            {"type": "allowed_tools", "tools": [{"tools": [TOOLS[0]]}, {"allowed_tools": {"tools": TOOLS}}]},
            "",
        ),
        ({"type": "allowed_tools", "allowed_tools": 1}, ""),
        ([], ""),
    ],
)
def test_the_choice_narrows_the_tools(wanted: Any, names: str) -> None:
    assert "".join(read_tools({"tools": TOOLS, "tool_choice": wanted})) == names


def test_a_choice_may_be_nested_as_deeply_as_it_likes() -> None:
    wanted: dict[str, Any] = {}
    for _ in range(10_000):
        wanted = {"tools": [wanted]}
    assert read_tools({"tools": TOOLS, "tool_choice": wanted}) == {}


def test_each_tool_has_its_schema() -> None:
    assert read_tools({"tools": TOOLS}) == {"a": A, "b": B, "c": None}


@pytest.mark.parametrize(
    "listed",
    [None, [], {}, "x", [1, None, {}, {"function": 1}, {"function": {"name": 1}}, {"type": "function"}]],
)
def test_what_is_not_a_tool_is_none(listed: Any) -> None:
    assert read_tools({"tools": listed}) == {}
    assert read_tools({}) == {}
