"""Recorded turns of vLLM and SGLang that stopped with a call in their thinking, from request to answer."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

import pytest

from proxy.request import Plan, make_plan, read_chat
from proxy.response import Rewriter
from proxy.rules import Rule, ToolCallRecovery
from proxy.stream import Stream
from tests.recovery.answers import Heard, hear, hear_whole
from tests.wire.streams import MAX_EVENT_BYTES, read
from tests.wire.test_recordings import RECORDINGS, load_stream, load_whole

PROMOTE = Rule(tool_call_recovery=ToolCallRecovery.PROMOTE)
SERVERS = {"vllm-0.32": "\nrow wc w\n", "sglang-0.5": "\nI should read the file first.\n"}
TURNS = ("tool-call-in-think", "tool-call-hermes-in-think")
EVERY_NAME = pytest.mark.parametrize("name", [f"{server}/{turn}" for server in SERVERS for turn in TURNS])


def thought_of(name: str) -> str:
    """What comes before the call."""
    return SERVERS[name.partition("/")[0]]


def plan_for(name: str, kind: str, rule: Rule = PROMOTE, **fields: Any) -> Plan:
    """What the proxy makes of the recorded request; the recorder ruled real calls out."""
    meta = json.loads((RECORDINGS / f"{name}.{kind}.meta.json").read_bytes())["request"]
    meta.pop("tool_choice", None)
    ids = (f"call_{number}" for number in count())
    return make_plan(read_chat(json.dumps(meta | fields).encode()), rule, ids)


def stream(name: str, plan: Plan) -> bytes:
    made = Stream(Rewriter(plan.rule, toolbox=plan.toolbox), MAX_EVENT_BYTES)
    return made.feed(load_stream(name)) + made.finish()


@EVERY_NAME
def test_the_call_is_made(name: str) -> None:
    answer = load_whole(name)
    plan = plan_for(name, "whole")
    assert Rewriter(plan.rule, toolbox=plan.toolbox).rewrite(answer)
    for heard in (hear(stream(name, plan_for(name, "stream"))), hear_whole(answer)):
        ((called, arguments),) = heard.calls
        assert (called, arguments.pop("path")) == ("read", "/etc/hosts")
        if "hermes" in name:
            assert arguments == {}
            behind = "\n"  # the closer of the thinking has a line of its own
        else:
            assert {key: type(value) for key, value in arguments.items()} == {"limit": int}
            behind = ""
        heard.calls = []
        assert heard == Heard(thought_of(name) + behind, "", [], ["call_0"], "tool_calls")


@EVERY_NAME
def test_usage_and_all_that_the_server_says_beside_stay(name: str) -> None:
    given, made = read(load_stream(name)), read(stream(name, plan_for(name, "stream")))
    for values in (given, made):
        for value in values[:-1]:
            value["choices"] = [
                {key: part for key, part in one.items() if key not in ("delta", "finish_reason")}
                for one in value["choices"]
            ]
    assert {json.dumps(value) for value in made[:-1]} >= {
        json.dumps(value) for value in given[:-1] if "usage" in value or "stop_reason" in value
    }
    assert made[-2:] == given[-2:]
    plan = plan_for(name, "whole")
    before, after = load_whole(name), load_whole(name)
    Rewriter(plan.rule, toolbox=plan.toolbox).rewrite(after)
    for answer in (before, after):
        (one,) = answer["choices"]
        assert one.pop("finish_reason") == ("stop" if answer is before else "tool_calls")
        message = one["message"]
        for key in ("content", "tool_calls", "reasoning_content"):
            message.pop(key, None)
    assert after == before


@EVERY_NAME
@pytest.mark.parametrize(
    ("rule", "fields"),
    [
        (Rule(), {}),
        (PROMOTE, {"tools": None}),
        (PROMOTE, {"tool_choice": "none"}),
        (PROMOTE, {"tools": [{"type": "function", "function": {"name": "write"}}]}),
    ],
    ids=["off", "no tools", "none", "unknown"],
)
def test_without_recovery_the_call_stays_thinking(name: str, rule: Rule, fields: dict[str, Any]) -> None:
    made = hear(stream(name, plan_for(name, "stream", rule, **fields)))
    assert made == hear(stream(name, plan_for(name, "stream", Rule())))
    assert (made.calls, made.finish) == ([], "stop")
    assert made.reasoning.startswith(thought_of(name) + "<tool_call>")
