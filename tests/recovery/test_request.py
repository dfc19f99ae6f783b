"""What recovery asks of the server, and what it takes from the request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.request import make_plan, read_chat
from proxy.rules import Rule, ToolCallRecovery

PROMOTE = Rule(tool_call_recovery=ToolCallRecovery.PROMOTE)
SCHEMA = {"type": "object"}
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": SCHEMA}}]
NAMED = {"type": "function", "function": {"name": "read"}}


def body_of(**fields: Any) -> bytes:
    return json.dumps({"model": "m", "messages": [], **fields}).encode()


@pytest.mark.parametrize("tool_choice", [None, "auto", "required", NAMED])
def test_special_tokens_are_kept_for_a_request_with_tools(tool_choice: Any) -> None:
    given = {"tools": TOOLS, "tool_choice": tool_choice}
    plan = make_plan(read_chat(body_of(**given)), PROMOTE, iter("ab"))
    assert json.loads(plan.body) == {"model": "m", "messages": [], **given, "skip_special_tokens": False}
    assert plan.toolbox.tools == {"read": SCHEMA}
    assert list(plan.toolbox.ids) == ["a", "b"]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"tools": []},
        {"tools": TOOLS, "tool_choice": "none"},
        {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "write"}}},
    ],
)
def test_a_request_that_can_call_nothing_leaves_as_it_came(fields: dict[str, Any]) -> None:
    request = read_chat(body_of(**fields))
    plan = make_plan(request, PROMOTE, iter("ab"))
    assert plan.body is request.body
    assert not plan.toolbox.tools


@pytest.mark.parametrize(
    ("parallel", "single"),
    [({}, False), ({"parallel_tool_calls": None}, False)]
    + [({"parallel_tool_calls": value}, not value) for value in (True, False)],
)
def test_one_call_at_most(parallel: dict[str, Any], single: bool) -> None:
    plan = make_plan(read_chat(body_of(tools=TOOLS, **parallel)), PROMOTE, iter("ab"))
    assert plan.toolbox.single == single


@pytest.mark.parametrize("skip", [True, False])
def test_what_the_client_set_itself_stays(skip: bool) -> None:
    request = read_chat(body_of(tools=TOOLS, skip_special_tokens=skip))
    assert make_plan(request, PROMOTE, iter("ab")).body is request.body


def test_without_recovery_nothing_is_asked_for() -> None:
    request = read_chat(body_of(tools=TOOLS))
    for plan in (make_plan(request, Rule(), iter("ab")), make_plan(request, PROMOTE)):
        assert plan.body is request.body
        assert not plan.toolbox.tools
