"""The demo server's bodies against the recordings of vLLM 0.32: key order, nulls and chunking."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proxy.demo_answers import MODELS, cut_tokens
from proxy.demo_request import RefusalError, read_ask
from proxy.demo_wire import Step, play, play_choices, write_stream, write_whole

RECORDINGS = Path(__file__).parent.parent / "recordings" / "vllm-0.32"


def ask_body(model: str = "demo/thinker", **fields: Any) -> bytes:
    messages = [{"role": "user", "content": "why is the sky blue"}]
    return json.dumps({"model": model, "messages": messages, **fields}).encode()


def stream(body: bytes) -> bytes:
    ask = read_ask(body)
    beats = write_stream(ask, play_choices(ask), completion_id="chatcmpl-1", created=1_800_000_000)
    return b"".join(event for beat in beats for event in beat)


def whole(body: bytes) -> dict[str, Any]:
    ask = read_ask(body)
    answer = write_whole(ask, play_choices(ask), completion_id="chatcmpl-1", created=1_800_000_000)
    return dict(json.loads(answer))


def chunks_of(sse: bytes) -> list[dict[str, Any]]:
    *events, done, rest = sse.split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    assert all(event.startswith(b"data: ") for event in events)
    return [json.loads(event[6:]) for event in events]


def shape(value: Any) -> Any:
    """What a JSON value looks like, its keys in their order: values become the name of their type."""
    if isinstance(value, dict):
        return tuple((key, shape(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(shape(item) for item in value)
    return type(value).__name__


def shapes_of(sse: bytes) -> list[Any]:
    """The different shapes of a stream's chunks, by first appearance."""
    return list(dict.fromkeys(shape(chunk) for chunk in chunks_of(sse)))


CASES = [
    ("basic", {}),
    ("no-usage", {}),
    ("continuous-usage", {}),
    ("two-choices", {}),
    ("truncated-in-think", {}),
    ("stop-string-in-think", {"stop": ["pause"]}),
]


@pytest.mark.parametrize(("name", "changes"), CASES, ids=[name for name, _ in CASES])
def test_streams_have_the_recorded_shapes(name: str, changes: dict[str, Any]) -> None:
    request = json.loads((RECORDINGS / f"{name}.stream.meta.json").read_text())["request"]
    ours = stream(json.dumps(request | {"model": "demo/thinker"} | changes).encode())
    assert shapes_of(ours) == shapes_of((RECORDINGS / f"{name}.stream.sse").read_bytes())


@pytest.mark.parametrize(("name", "changes"), CASES, ids=[name for name, _ in CASES])
def test_whole_answers_have_the_recorded_shape(name: str, changes: dict[str, Any]) -> None:
    request = json.loads((RECORDINGS / f"{name}.whole.meta.json").read_text())["request"]
    ours = whole(json.dumps(request | {"model": "demo/thinker"} | changes).encode())
    assert shape(ours) == shape(json.loads((RECORDINGS / f"{name}.whole.json").read_text()))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"n": 3},
        {"max_tokens": 1},
        {"max_completion_tokens": 9, "max_tokens": 2},
        {"stop": " the"},
        {"stop": ["</t"]},
    ],
    ids=str,
)
def test_a_whole_answer_is_its_stream_folded(model: str, fields: dict[str, Any]) -> None:
    answer = whole(ask_body(model, **fields))
    options = {"include_usage": True, "continuous_usage_stats": True}
    *chunks, last = chunks_of(stream(ask_body(model, stream=True, stream_options=options, **fields)))
    folded: dict[int, dict[str, Any]] = {
        index: {"content": "", "tokens": 0} for index in range(fields.get("n", 1))
    }
    for chunk in chunks:
        (choice,) = chunk["choices"]
        state = folded[choice["index"]]
        assert "finish_reason" not in state, "a chunk after the finish"
        state["content"] += choice["delta"]["content"]
        state["tokens"] = chunk["usage"]["completion_tokens"]
        if choice["finish_reason"]:
            state |= {key: choice[key] for key in ("finish_reason", "stop_reason")}
    for index, choice in enumerate(answer["choices"]):
        assert choice["index"] == index
        assert choice["message"]["content"] == folded[index]["content"]
        assert choice["finish_reason"] == folded[index]["finish_reason"]
        assert choice["stop_reason"] == folded[index]["stop_reason"]
    assert answer["usage"]["completion_tokens"] == sum(state["tokens"] for state in folded.values())
    assert answer["usage"].items() >= last["usage"].items()


def test_choices_take_turns_token_by_token() -> None:
    indexes = [chunk["choices"][0]["index"] for chunk in chunks_of(stream(ask_body(stream=True, n=3)))]
    assert indexes[:12] == [0, 1, 2] * 4


def test_choices_and_questions_take_the_next_answer() -> None:
    first, second = MODELS["demo/thinker"].answers
    contents = [choice["message"]["content"] for choice in whole(ask_body(n=3))["choices"]]
    assert contents == [first, second, first]
    again = [{"role": role, "content": "go on"} for role in ("system", "user", "assistant", "user")]
    assert whole(ask_body(messages=again))["choices"][0]["message"]["content"] == second


def test_the_prompt_is_counted_text_parts_included() -> None:
    parts = [{"type": "text", "text": "why is the sky blue"}]
    plain = whole(ask_body())["usage"]["prompt_tokens"]
    assert plain == whole(ask_body(messages=[{"role": "user", "content": parts}]))["usage"]["prompt_tokens"]
    assert (
        plain
        < whole(ask_body(messages=[{"role": "user", "content": "a longer one " * 9}]))["usage"][
            "prompt_tokens"
        ]
    )


def texts(steps: list[Step]) -> list[str]:
    return [step.text for step in steps]


def test_a_step_per_token_and_one_for_the_end_of_text() -> None:
    steps = play(["a", "", "b"], max_tokens=None, stop=())
    assert texts(steps) == ["a", "", "b", ""]
    assert steps[-1] == Step("", "stop")


@pytest.mark.parametrize(
    ("max_tokens", "expected"),
    [
        (1, [Step("a", "length")]),
        (2, [Step("a"), Step("b", "length")]),
        (3, [Step("a"), Step("b"), Step("", "stop")]),
    ],
)
def test_max_tokens_rides_on_the_last_token(max_tokens: int, expected: list[Step]) -> None:
    assert play(["a", "b"], max_tokens=max_tokens, stop=()) == expected


@pytest.mark.parametrize(
    ("tokens", "stop", "expected"),
    [
        ("abzc", ["z"], ["a", "b", ""]),
        (["ab", "cd", "ef"], ["d"], ["ab", "c"]),
        (["a", "</", "think", ">", "b"], ["</think>"], ["", "", "a", ""]),
        # The earliest match counts, not the first of the list.
        (["axby"], ["y", "x"], ["a"]),
        (["ab", "ab"], ["abc"], ["", "ab", "ab"]),
    ],
)
def test_stop_strings_hold_back_what_may_become_one(
    tokens: list[str], stop: list[str], expected: list[str]
) -> None:
    steps = play(tokens, max_tokens=None, stop=stop)
    assert texts(steps) == expected
    assert steps[-1].finish_reason == "stop"
    found = [string for string in stop if string in "".join(tokens)]
    assert (steps[-1].stop_reason in found) if found else (steps[-1].stop_reason is None)


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.name)
def test_answers_are_short_and_cut_without_loss(model: Any) -> None:
    for number, text in enumerate(model.answers):
        tokens = model.answer(number, 0)
        assert "".join(tokens) == text
        assert 60 <= len(tokens) <= 150
        assert max(map(len, tokens)) <= 9


def test_tags_are_one_token_or_several() -> None:
    assert cut_tokens("<think>\nhi</think>\n\n") == ("<think>", "\n", "hi", "</think>", "\n\n")
    assert cut_tokens("<think>\nhi</think>\n\n", split_tags=True) == (
        "<",
        "think",
        ">\n",
        "hi",
        "</",
        "think",
        ">\n\n",
    )


def test_any_text_is_cut_without_loss() -> None:
    text = "\ttabs\r\n\u2028 <a href='x'>  naïve_1 思考 👩‍🚒 </th <think/>\x00 --- "
    assert "".join(cut_tokens(text)) == text
    assert cut_tokens("a 🌊") == ("a", "", " 🌊")


def refusal(body: bytes) -> RefusalError:
    with pytest.raises(RefusalError) as caught:
        read_ask(body)
    return caught.value


def test_bad_values_are_refused_in_the_recorded_words() -> None:
    fault = refusal(ask_body(temperature=-4))
    assert fault.status == 400
    assert fault.body == (RECORDINGS / "bad-request.whole.json").read_bytes()


def test_unknown_models_are_refused_in_the_recorded_words() -> None:
    fault = refusal(ask_body("nope"))
    recorded = (RECORDINGS / "wrong-model.whole.json").read_text()
    assert fault.status == 404
    assert fault.body.decode() == recorded.replace("tiny", ", ".join(MODELS))


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{", None),
        (b"[]", None),
        (b'{"messages": [{}]}', "model"),
        (b'{"model": "demo/coder"}', "messages"),
        (ask_body(messages=[]), "messages"),
        (ask_body(messages=["hello"]), "messages"),
        (ask_body(n=0), "n"),
        (ask_body(n=17), "n"),
        (ask_body(n=True), "n"),
        (ask_body(max_tokens=0), "max_tokens"),
        (ask_body(max_tokens="9"), "max_tokens"),
        (ask_body(stream="yes"), "stream"),
        (ask_body(stream_options={"include_usage": True}), "stream_options"),
        (ask_body(stop=[""]), "stop"),
        (ask_body(stop={"a": 1}), "stop"),
    ],
)
def test_bad_bodies_are_refused(body: bytes, param: str | None) -> None:
    fault = refusal(body)
    error = json.loads(fault.body)["error"]
    assert list(error) == ["message", "type", "param", "code"]
    assert (fault.status, error["type"], error["param"], error["code"]) == (
        400,
        "BadRequestError",
        param,
        400,
    )
