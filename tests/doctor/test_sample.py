"""What is collected of an answer, from recorded ones and from odd ones, however they are cut."""

from __future__ import annotations

import json

import pytest

from proxy.doctor.evidence import Form, examine
from proxy.doctor.sample import MAX_BYTES, Sample, Sampler
from proxy.rules import ReasoningField, Start
from tests.doctor.scripted import RECORDINGS, event, parsed, recorded, spoken

NAMES = sorted(
    str(file.relative_to(RECORDINGS)).removesuffix(".stream.sse") for file in RECORDINGS.rglob("*.stream.sse")
)


def collect(body: bytes, size: int = 1000) -> Sample:
    sampler = Sampler()
    for start in range(0, len(body), size):
        sampler.feed(body[start : start + size], start / 1000)
    return sampler.finish(at_s=len(body) / 1000)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [7, 100_000])
def test_recordings_are_read_however_they_are_cut(name: str, size: int) -> None:
    sample, other = collect(recorded(name), size), collect(recorded(name), 333)
    assert (sample.content, sample.finish, sample.error) == (other.content, other.finish, other.error)
    assert sample.content
    assert (sample.reasoning, sample.fields) == ("", ())
    assert (sample.error is not None) is name.endswith("error-mid-stream")
    # Aborted and truncated ones, and those that ran into the limit of their request.
    assert sample.cut is (b'"finish_reason":"stop"' not in recorded(name))


@pytest.mark.parametrize("server", ["vllm-0.32", "sglang-0.5"])
@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("basic", Form.TAGS),
        ("interleaved", Form.TAGS),
        ("implicit-start", Form.CLOSER),
        ("truncated-in-think", Form.TAGS),
        ("multibyte", Form.TAGS),
    ],
)
def test_what_recordings_show(server: str, name: str, form: Form) -> None:
    assert examine(collect(recorded(f"{server}/{name}"))).form is form


@pytest.mark.parametrize(
    ("name", "field"),
    [("vllm-0.32/basic", ReasoningField.REASONING), ("sglang-0.5/basic", ReasoningField.REASONING_CONTENT)],
)
def test_fields_of_reasoning_parsers(name: str, field: ReasoningField) -> None:
    sample = collect(parsed(recorded(name), field))
    assert sample.fields == (str(field),)
    assert sample.reasoning.strip()
    assert examine(sample).form is Form.NATIVE
    implicit = recorded(name.replace("basic", "implicit-start"))
    assert examine(collect(parsed(implicit, field, Start.IMPLICIT))).form is Form.NATIVE


def test_several_names_are_kept_in_their_order() -> None:
    sample = collect(spoken("42", reasoning="so", reasoning_content="so"))
    assert set(sample.fields) == {"reasoning", "reasoning_content"}
    assert sample.reasoning == "so"


def test_a_whole_answer_in_place_of_a_stream() -> None:
    message = {"role": "assistant", "content": "42", "reasoning_content": "so"}
    body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
    for size in (5, 10_000):
        sample = collect(body, size)
        assert (sample.content, sample.reasoning, sample.finish) == ("42", "so", "stop")


def test_other_choices_and_the_end_of_the_prompt() -> None:
    body = event(
        {"choices": [{"index": 1, "delta": {"content": "no"}}], "prompt_text": "x" * 5000 + "<think>"}
    )
    sample = collect(body)
    assert sample.empty
    assert sample.prompt is not None
    assert sample.prompt.endswith("<think>")
    assert len(sample.prompt) < 2000


def test_what_is_no_answer() -> None:
    for body in (b"", b"<html>", b"{", b"data: 7\n\n", b'data: {"choices": 7}\n\n', b'{"choices": [7]}'):
        assert collect(body).empty


def test_too_much_is_noticed() -> None:
    sampler = Sampler()
    for _ in range(16):
        assert not sampler.full
        sampler.feed(b":" + b" " * (MAX_BYTES // 16) + b"\n", 0)
    assert sampler.full


@pytest.mark.parametrize(
    ("pieces", "thought_s", "end_s", "live"),
    [
        (3, 1, 9, None),
        (50, 1, 9, True),
        (50, 60, 60.5, True),
        (50, 60, 60.01, False),
        (50, 0.3, 0.32, None),
    ],
)
def test_what_is_live(pieces: int, thought_s: float, end_s: float, live: bool | None) -> None:
    assert Sample(pieces=pieces, thought_s=thought_s, end_s=end_s).live is live


def test_times_are_those_of_the_first_reasoning_and_the_last_text() -> None:
    sampler = Sampler()
    sampler.feed(event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}), 1)
    for at_s in (2, 3):
        sampler.feed(event({"choices": [{"index": 0, "delta": {"reasoning": "so"}}]}), at_s)
    sampler.feed(event({"choices": [{"index": 0, "delta": {"content": "42"}}]}), 4)
    sampler.feed(event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}), 5)
    sample = sampler.finish(at_s=6)
    assert (sample.pieces, sample.thought_s, sample.end_s) == (2, 2, 4)
