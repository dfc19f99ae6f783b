"""Each client in front of a running proxy: what it shows of an answer, and what it sends back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from proxy.app import App
from proxy.config import load
from proxy.serve import beside
from tests.clients import model_server
from tests.clients.clients import BOTH, CLIENTS, CONTENT, REASONING, Client, locked_version, run_script
from tests.clients.model_server import ModelServer
from tests.servers import serving

pytestmark = [pytest.mark.clients, pytest.mark.slow]

FIELDS = (CONTENT, REASONING, BOTH)

MODELS = {f"weather-{field}": {"reasoningField": field} for field in FIELDS} | {
    "weather-sglang": {},
    "weather-inline": {"history": "inline"},
    "weather-exact": {"history": "inline", "whitespace": "exact"},
    "weather-renamed": {"history": "reasoning"},
}
"""The model names, and the rule of each. The first ones have their history kept: what reaches the model
server is what the client sent."""

USES = [pytest.param(client, way, id=f"{client.title}-{way}") for client in CLIENTS for way in client.ways]


@dataclass(frozen=True)
class Observation:
    """What a script reported, and the requests that reached the model server meanwhile."""

    report: dict[str, Any]
    requests: dict[tuple[str, bool], list[dict[str, Any]]]

    def turns(self, client: Client, model: str, way: str) -> list[dict[str, str]]:
        turns: list[dict[str, str]] = self.report["conversations"][client.use][model][way]
        return turns

    def exchanges(self, client: Client, model: str, way: str) -> list[dict[str, Any]]:
        """The requests of one conversation."""
        uses = list(self.report["conversations"])
        begin = 2 * uses.index(client.use)
        return self.requests[model, way == "stream"][begin : begin + 2]


@cache
def observe(script: str) -> Observation:
    """Let a script hold all of its conversations, once for all tests."""
    server = ModelServer()
    listed = [{"model": model} | rule for model, rule in MODELS.items()]
    with serving(server.app) as upstream:
        app = App(load(overrides={"upstream": upstream, "inlineThinkTagModels": listed}))
        with beside(app) as url:
            report = json.loads(run_script(script, f"{url}/v1", *MODELS))
    return Observation(report, server.requests)


def assistant_message(request: dict[str, Any]) -> dict[str, Any]:
    (message,) = [message for message in request["messages"] if message["role"] == "assistant"]
    return dict(message)


def reasoning_sent(message: dict[str, Any]) -> dict[str, str]:
    return {name: message[name] for name in ("reasoning_content", "reasoning") if message.get(name)}


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.title)
def test_is_the_version_of_the_lock(client: Client) -> None:
    assert observe(client.script).report["version"] == locked_version(client)


@pytest.mark.parametrize("model", [*(f"weather-{field}" for field in FIELDS), "weather-sglang"])
@pytest.mark.parametrize(("client", "way"), USES)
def test_shows_reasoning_as_reasoning_and_a_clean_answer(client: Client, way: str, model: str) -> None:
    turns = observe(client.script).turns(client, model, way)
    assert [turn["content"].strip() for turn in turns] == ["", model_server.ANSWER]
    shown = [turn["reasoning"] for turn in turns]
    thoughts = [f"\n{model_server.FIRST_THOUGHT}\n", f"\n{model_server.SECOND_THOUGHT}\n"]
    if client.shows_all:
        assert shown == thoughts
    elif model == "weather-sglang":
        # The null of the events after the thinking counts as its last piece.
        assert shown == ["", ""]
    else:
        assert shown == ["\n", "\n"]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(("client", "way"), USES)
def test_brings_the_call_and_its_result_back(client: Client, way: str, field: str) -> None:
    first, second = observe(client.script).exchanges(client, f"weather-{field}", way)
    assert second["messages"][: len(first["messages"])] == first["messages"]
    asked, told = second["messages"][-2:]
    (call,) = asked["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == json.loads(
        model_server.CALLS[call["function"]["name"]]
    )
    assert told["tool_call_id"] == call["id"]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(("client", "way"), USES)
def test_sends_back_what_the_table_says(client: Client, way: str, field: str) -> None:
    observation = observe(client.script)
    _, second = observation.exchanges(client, f"weather-{field}", way)
    shown = observation.turns(client, f"weather-{field}", way)[0]["reasoning"]
    assert reasoning_sent(assistant_message(second)) == dict.fromkeys(client.sends[field], shown)


@pytest.mark.parametrize(("client", "way"), USES)
def test_history_inline_gives_the_model_its_block_back(client: Client, way: str) -> None:
    observation = observe(client.script)
    _, second = observation.exchanges(client, "weather-inline", way)
    shown = observation.turns(client, "weather-inline", way)[0]["reasoning"]
    message = assistant_message(second)
    assert reasoning_sent(message) == {}
    assert (message["content"] or "").strip() == (f"<think>{shown}</think>" if client.sends[CONTENT] else "")


@pytest.mark.parametrize(("client", "way"), USES)
def test_history_reasoning_gives_it_back_under_that_name(client: Client, way: str) -> None:
    observation = observe(client.script)
    _, second = observation.exchanges(client, "weather-renamed", way)
    shown = observation.turns(client, "weather-renamed", way)[0]["reasoning"]
    assert reasoning_sent(assistant_message(second)) == ({REASONING: shown} if client.sends[CONTENT] else {})


@pytest.mark.parametrize(("client", "way"), [use for use in USES if use.values[1] in use.values[0].exact])
def test_exact_whitespace_gives_the_model_its_own_bytes_back(client: Client, way: str) -> None:
    _, second = observe(client.script).exchanges(client, "weather-exact", way)
    assert assistant_message(second)["content"] == model_server.THINKING_TURN


def test_pydantic_ai_takes_whitespace_in_a_stream_for_the_answer() -> None:
    (client,) = [client for client in CLIENTS if client.script == "pydantic_agent.py"]
    assert len(observe(client.script).exchanges(client, "weather-exact", "stream")) == 1


def test_pi_leaves_out_text_that_is_whitespace() -> None:
    (client,) = [client for client in CLIENTS if client.script == "pi_agent.py"]
    _, second = observe(client.script).exchanges(client, "weather-exact", "stream")
    assert assistant_message(second)["content"] == model_server.THINKING_TURN.rstrip()


def test_litellm_sends_a_field_of_its_own_back() -> None:
    (client,) = [client for client in CLIENTS if client.script == "litellm_sdk.py"]
    _, second = observe(client.script).exchanges(client, "weather-reasoning_content", "whole")
    assert assistant_message(second)["provider_specific_fields"] == {"reasoning": None}
