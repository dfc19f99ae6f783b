"""`auto` from the request to the client: what a recorded vLLM said, with prompts of every kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from proxy import sse
from proxy.request import Plan, make_plan, read_chat
from proxy.response import Rewriter
from proxy.rules import Rule, Start
from tests.wire import streams

RECORDINGS = Path(__file__).parents[1] / "recordings"
PROMPT = "<|user|>why is the sky blue<|assistant|>"
RULE = Rule(start=Start.AUTO)
THOUGHT = "\nrow w brown w lu aw isv"


def recorded(server: str, name: str, end: str) -> bytes:
    return (RECORDINGS / server / f"{name}.{end}").read_bytes()


def plan_for(server: str, name: str, way: str, **fields: Any) -> Plan:
    meta = json.loads(recorded(server, name, f"{way}.meta.json"))
    return make_plan(read_chat(json.dumps(meta["request"] | fields).encode()), RULE)


def stream(raw: bytes, plan: Plan) -> tuple[bytes, Rewriter]:
    decoder = sse.Decoder(streams.MAX_EVENT_BYTES)
    rewriter = Rewriter(plan.rule, hides_prompt=plan.hides_prompt)
    events = [*decoder.feed(raw), *decoder.finish()]
    made = [made for event in events for made in rewriter.feed(event)] + rewriter.finish()
    return b"".join(event.raw for event in made), rewriter


def whole(raw: bytes, plan: Plan) -> tuple[Any, Rewriter]:
    answer = json.loads(raw)
    rewriter = Rewriter(plan.rule, hides_prompt=plan.hides_prompt)
    rewriter.rewrite(answer)
    return answer, rewriter


def with_prompt(raw: bytes, ending: str) -> bytes:
    """The recording, had its prompt ended so."""
    assert raw.count(PROMPT.encode()) == 1
    return raw.replace(PROMPT.encode(), (PROMPT + json.dumps(ending)[1:-1]).encode())


def without_opener(raw: bytes) -> bytes:
    """The recording, had the model not written the opener: the template did."""
    assert raw.count(b"<think>") == 1
    return raw.replace(b"<think>", b"")


def test_a_prompt_that_does_not_open_leaves_it_to_the_model() -> None:
    for way, end in (("stream", "stream.sse"), ("whole", "whole.json")):
        raw = recorded("vllm-0.32", "prompt-text", end)
        plan = plan_for("vllm-0.32", "prompt-text", way)
        assert plan.rule.start is Start.AUTO
        assert not plan.hides_prompt, "the client of the recording asked for it"
        if way == "stream":
            out, rewriter = stream(raw, plan)
            assert streams.fold_spans(out) == [("reasoning_content", THOUGHT)]
            assert PROMPT.encode() in out
        else:
            answer, rewriter = whole(raw, plan)
            assert answer["choices"][0]["message"]["reasoning_content"] == THOUGHT
            assert answer["prompt_text"] == PROMPT
        assert rewriter.prompt_seen is True


@pytest.mark.parametrize("ending", ["<think>", "<think>\n", "<think>\n\n"])
@pytest.mark.parametrize("asks", [True, False])
def test_a_prompt_that_opens_begins_the_answer_inside(ending: str, asks: bool) -> None:
    raw = with_prompt(without_opener(recorded("vllm-0.32", "prompt-text", "stream.sse")), ending)
    out, _ = stream(raw, plan_for("vllm-0.32", "prompt-text", "stream", return_prompt_text=asks))
    assert streams.fold_spans(out) == [("reasoning_content", THOUGHT)]
    assert (b"prompt_text" in out) is asks
    raw = with_prompt(without_opener(recorded("vllm-0.32", "prompt-text", "whole.json")), ending)
    answer, _ = whole(raw, plan_for("vllm-0.32", "prompt-text", "whole", return_prompt_text=asks))
    assert answer["choices"][0]["message"]["reasoning_content"] == THOUGHT
    assert ("prompt_text" in answer) is asks


def test_a_prompt_with_thinking_off_leaves_the_answer_alone() -> None:
    ending = "<think>\n\n</think>\n\n"
    raw = with_prompt(without_opener(recorded("vllm-0.32", "prompt-text", "stream.sse")), ending)
    plan = plan_for("vllm-0.32", "prompt-text", "stream", chat_template_kwargs={"enable_thinking": False})
    out, _ = stream(raw, plan)
    assert streams.fold_spans(out) == [("content", THOUGHT)]
    raw = with_prompt(without_opener(recorded("vllm-0.32", "prompt-text", "whole.json")), ending)
    answer, _ = whole(raw, plan)
    assert answer["choices"][0]["message"]["content"] == THOUGHT


def test_json_from_a_prompt_that_opens_is_content() -> None:
    meta = json.loads(recorded("vllm-0.32", "json-mode", "stream.meta.json"))["request"]
    plan = make_plan(read_chat(json.dumps(meta).encode()), RULE)
    assert plan.rule.start is Start.LEADING
    raw = recorded("vllm-0.32", "json-mode", "stream.sse")
    first = raw.replace(b'"prompt_text":null', b'"prompt_text":"a<think>"', 1)
    assert first != raw
    out, _ = stream(first, plan)
    assert [field for field, _ in streams.fold_spans(out)] == ["content"]


@pytest.mark.parametrize("server", ["vllm-0.32", "sglang-0.5"])
def test_a_server_that_does_not_tell_gets_leading(server: str) -> None:
    """vLLM sends a null beside every answer for which nobody asked, SGLang nothing at all."""
    expected = recorded(server, "basic", "stream.sse")
    plan = Plan(b"", RULE, hides_prompt=True)
    out, rewriter = stream(expected, plan)
    leading = streams.rewrite(expected, Rule())
    assert streams.fold_spans(out) == streams.fold_spans(leading)
    assert rewriter.prompt_seen is False
    answer, rewriter = whole(recorded(server, "basic", "whole.json"), plan)
    assert answer["choices"][0]["message"]["reasoning_content"]
    assert rewriter.prompt_seen is False
    only_closer = recorded(server, "implicit-start", "stream.sse")
    assert [field for field, _ in streams.fold_spans(stream(only_closer, plan)[0])] == ["content"]


def with_prompt_per_choice(raw: bytes, prompt: str) -> bytes:
    """vLLM tells the prompt in the first chunk of each choice, the one with the role."""
    events = raw.split(b"\n\n")
    told = [
        event.replace(b'"prompt_text":null', b'"prompt_text":%b' % json.dumps(prompt).encode())
        for event in events
    ]
    assert sum(new != old for new, old in zip(told, events, strict=True)) == 2
    return b"\n\n".join(told)


@pytest.mark.parametrize("hides", [True, False])
def test_every_choice_begins_inside(hides: bool) -> None:
    raw = with_prompt_per_choice(recorded("vllm-0.32", "two-choices", "stream.sse"), PROMPT + "<think>\n")
    raw = raw.replace(b"<think>", b"").replace(PROMPT.encode(), (PROMPT + "<think>").encode())
    out, _ = stream(raw, Plan(b"", RULE, hides_prompt=hides))
    for index in (0, 1):
        assert [field for field, _ in streams.fold_spans(out, index)] == ["reasoning_content", "content"]
    assert out.count(b"prompt_text") == (0 if hides else 2)
    answer = json.loads(recorded("vllm-0.32", "two-choices", "whole.json").replace(b"<think>", b""))
    answer["prompt_text"] = PROMPT + "<think>\n"
    made, _ = whole(json.dumps(answer).encode(), Plan(b"", RULE, hides_prompt=hides))
    assert all(choice["message"]["reasoning_content"] for choice in made["choices"])
    assert ("prompt_text" in made) is not hides


def test_every_choice_is_leading_when_the_prompt_did_not_open() -> None:
    raw = with_prompt_per_choice(recorded("vllm-0.32", "two-choices", "stream.sse"), PROMPT)
    out, _ = stream(raw, Plan(b"", RULE, hides_prompt=True))
    for index in (0, 1):
        assert [field for field, _ in streams.fold_spans(out, index)] == ["reasoning_content", "content"]
