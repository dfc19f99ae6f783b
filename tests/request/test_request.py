"""A request on its way: what is read from it, and which bytes leave."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from proxy.errors import RequestError
from proxy.request import ChatRequest, make_plan, peek_model, read_chat
from proxy.rules import History, Rule

PLAIN = b'{ "model" : "m",\n "messages":[{"role":"assistant","content":"\\u00e9"}], "temperature":1.0}'
NOT_REQUESTS = [
    b"",
    b"null",
    b"[]",
    b'"m"',
    b"{",
    b"\xff",
    b'{"model":"m"} x',
    b'{"a":' * 5000 + b"1" + b"}" * 5000,
]


def body_of(**fields: Any) -> bytes:
    return json.dumps({"model": "m", **fields}).encode()


@pytest.mark.parametrize("mode", History)
def test_a_request_without_reasoning_leaves_as_the_bytes_that_came(mode: History) -> None:
    request = read_chat(PLAIN)
    assert request.body is PLAIN
    assert make_plan(request, Rule(history=mode)).body is request.body


def test_keep_leaves_a_request_with_reasoning_as_it_came() -> None:
    request = read_chat(body_of(messages=[{"role": "assistant", "reasoning": "r"}]))
    assert make_plan(request, Rule()).body is request.body


def test_a_changed_request_keeps_all_else_in_its_order() -> None:
    body = (
        b'{"zeta": 1, "messages": [{"role": "system", "content": "s"}, '
        b'{"name": "n", "role": "assistant", "reasoning": "r", "content": "a", "x": {"b": [1, null]}}], '
        b'"model": "m", "unknown": {"deep": [true, {"k": ""}]}, "alpha": "\\u00e9\\u2028"}'
    )
    made = make_plan(read_chat(body), Rule(history=History.INLINE))
    assert (
        made.body
        == (
            '{"zeta":1,"messages":[{"role":"system","content":"s"},'
            '{"name":"n","role":"assistant","content":"<think>r</think>\\n\\na","x":{"b":[1,null]}}],'
            '"model":"m","unknown":{"deep":[true,{"k":""}]},"alpha":"\u00e9\u2028"}'
        ).encode()
    )


NUMBERS = [
    "0",
    "-1",
    "1.5",
    "0.1",
    "-0.0",
    "9007199254740993",
    str(2**63 - 1),
    str(2**64),
    str(-(10**30) - 7),
]


@pytest.mark.parametrize("number", NUMBERS)
def test_numbers_of_a_changed_request_are_the_same(number: str) -> None:
    body = f'{{"model":"m","seed":{number},"messages":[{{"role":"assistant","reasoning":"r"}}]}}'.encode()
    made = make_plan(read_chat(body), Rule(history=History.DROP)).body
    assert made == f'{{"model":"m","seed":{number},"messages":[{{"role":"assistant"}}]}}'.encode()


def test_lone_surrogates_of_a_changed_request_are_the_same() -> None:
    body = (
        b'{"model":"m","x":"\\ud83d","messages":[{"role":"assistant","reasoning":"\\ude00","content":"a"}]}'
    )
    made = json.loads(make_plan(read_chat(body), Rule(history=History.INLINE)).body)
    assert made["x"] == "\ud83d"
    assert made["messages"][0]["content"] == "<think>\ude00</think>\n\na"


def test_deep_nesting_survives_a_change() -> None:
    deep = b"[" * 300 + b"]" * 300
    body = b'{"model":"m","messages":[{"role":"assistant","reasoning":"r"}],"x":' + deep + b"}"
    made = make_plan(read_chat(body), Rule(history=History.DROP)).body
    assert made == b'{"model":"m","messages":[{"role":"assistant"}],"x":' + deep + b"}"


def test_what_cannot_be_written_anew_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(200_000):
        deep = [deep]
    document = {"model": "m", "messages": [{"role": "assistant", "reasoning": "r"}], "x": deep}
    with pytest.raises(RequestError, match="nested too deeply"):
        make_plan(ChatRequest("m", document, b""), Rule(history=History.DROP))


def test_a_request_shows_no_prompt() -> None:
    assert repr(read_chat(body_of(messages=["secret"]))) == "ChatRequest(model='m')"


def test_a_request_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        read_chat(PLAIN).model = "other"  # type: ignore[misc]


@pytest.mark.parametrize("body", NOT_REQUESTS, ids=lambda body: repr(body[:12]))
def test_what_is_no_json_object_is_refused(body: bytes) -> None:
    # How deep the standard library reads depends on its version: what it reads has no model.
    with pytest.raises(RequestError, match=r"JSON|no `model`"):
        read_chat(body)
    assert peek_model(body) is None


@pytest.mark.parametrize("model", [None, 5, ["m"], {}])
def test_a_model_that_is_no_string_is_refused(model: Any) -> None:
    body = json.dumps({"model": model}).encode()
    with pytest.raises(RequestError) as raised:
        read_chat(body)
    assert raised.value.param == "model"
    assert peek_model(body) is None


def test_a_request_without_a_model_is_refused() -> None:
    with pytest.raises(RequestError, match="no `model`"):
        read_chat(b"{}")
    assert peek_model(b"{}") is None


def test_the_model_is_read() -> None:
    assert read_chat(PLAIN).model == peek_model(PLAIN) == "m"
