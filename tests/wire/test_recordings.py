"""Recorded answers of vLLM and SGLang: the text is split, and nothing else in them changes."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from proxy.response import Rewriter
from proxy.rules import ReasoningField, Rule, Start
from tests.wire.golden import REFUSALS, STREAMS, UNTOUCHED, WHOLES
from tests.wire.streams import ENVELOPE, REASONING, fold, read, rewrite, rewrite_whole, said

RECORDINGS = Path(__file__).parent.parent / "recordings"
FIELDS = list(ReasoningField)


def rule_of(name: str, field: ReasoningField = ReasoningField.REASONING_CONTENT) -> Rule:
    start = Start.IMPLICIT if "implicit-start" in name else Start.LEADING
    return Rule(start=start, reasoning_field=field)


def load_stream(name: str) -> bytes:
    return (RECORDINGS / f"{name}.stream.sse").read_bytes()


def load_whole(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDINGS / f"{name}.whole.json").read_bytes())
    return found


def residue(value: Any) -> Any:
    """An event without its text: what has to be there afterwards, too."""
    if not isinstance(value, dict) or "choices" not in value:
        return value
    choices = [
        choice
        | {
            "delta": {
                key: part for key, part in choice["delta"].items() if key not in ("content", *REASONING)
            }
        }
        for choice in value["choices"]
    ]
    return value | {"choices": choices}


def is_bare(value: Any) -> bool:
    """Nothing but envelope, index and nulls: what may be dropped, and what made events look like."""
    if not isinstance(value, dict) or len(value.get("choices", ())) != 1:
        return False
    (choice,) = value["choices"]
    left = [value[key] for key in value if key not in (*ENVELOPE, "choices")]
    left += [choice[key] for key in choice if key not in ("index", "delta")]
    return all(part is None for part in [*left, *choice["delta"].values()])


def written(value: Any) -> str | bytes:
    """With the order of its keys."""
    return value if isinstance(value, bytes) else json.dumps(value)


def test_every_recording_is_named() -> None:
    streams = {
        f"{path.parent.name}/{path.name.removesuffix('.stream.sse')}"
        for path in RECORDINGS.glob("*/*.stream.sse")
    }
    wholes = {
        f"{path.parent.name}/{path.name.removesuffix('.whole.json')}"
        for path in RECORDINGS.glob("*/*.whole.json")
    }
    assert streams == STREAMS.keys()
    assert wholes == WHOLES.keys() | REFUSALS


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_split(name: str) -> None:
    assert said(fold(rewrite(load_stream(name), rule_of(name)))) == STREAMS[name]


@pytest.mark.parametrize("name", STREAMS)
def test_nothing_else_in_a_stream_changes(name: str) -> None:
    raw = load_stream(name)
    made = rewrite(raw, rule_of(name))
    left, right = ([residue(value) for value in read(stream)] for stream in (raw, made))
    assert [written(value) for value in left if not is_bare(value)] == [
        written(value) for value in right if not is_bare(value)
    ]
    heads = [{key: value[key] for key in ENVELOPE} for value in left if is_bare(value)]
    assert all({key: value[key] for key in ENVELOPE} in heads for value in right if is_bare(value))
    assert (made == raw) == (name in UNTOUCHED)


@pytest.mark.parametrize("name", STREAMS)
def test_lines_beside_the_data_stay(name: str) -> None:
    raw = load_stream(name)
    made = rewrite(raw, rule_of(name))
    assert [line for line in made.split(b"\n") if line and not line.startswith(b"data:")] == [
        line for line in raw.split(b"\n") if line and not line.startswith(b"data:")
    ]


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_the_same_however_it_is_cut(name: str) -> None:
    raw = load_stream(name)
    whole = rewrite(raw, rule_of(name))
    seed = random.Random(name)
    for _ in range(4):
        assert rewrite(raw, rule_of(name), seed.choices(range(len(raw)), k=30)) == whole


@pytest.mark.parametrize(
    "name",
    [
        "vllm-0.32/multibyte",
        "vllm-0.32/stop-string-in-think",
        "sglang-0.5/burst",
        "sglang-0.5/sglext-ids-framed",
    ],
)
@pytest.mark.parametrize("breaks", [b"\n", b"\r\n", b"\r"])
def test_a_stream_byte_by_byte(name: str, breaks: bytes) -> None:
    raw = load_stream(name).replace(b"\n", breaks)
    assert said(fold(rewrite(raw, rule_of(name), range(len(raw))))) == STREAMS[name]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("name", STREAMS)
def test_a_folded_stream_is_the_whole_answer(name: str, field: ReasoningField) -> None:
    raw, rule = load_stream(name), rule_of(name, field)
    assert fold(rewrite(raw, rule)) == rewrite_whole(fold(raw), rule)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("name", WHOLES)
def test_a_whole_answer_is_split(name: str, field: ReasoningField) -> None:
    raw = load_whole(name)
    made = rewrite_whole(raw, rule_of(name, field))
    names = {
        "reasoning_content": ["reasoning_content"],
        "reasoning": ["reasoning"],
        "both": [*REASONING],
        "none": [],
    }[field]
    for given, choice, (reasoning, content) in zip(
        raw["choices"], made["choices"], WHOLES[name], strict=True
    ):
        expected = (
            given["message"] | {"content": content} | dict.fromkeys(names if reasoning else [], reasoning)
        )
        assert choice["message"] == expected
        assert choice | {"message": given["message"]} == given
        assert [key for key in choice["message"] if key in given["message"]] == [*given["message"]]
    assert made | {"choices": raw["choices"]} == raw
    assert [*made] == [*raw]


@pytest.mark.parametrize("name", sorted(REFUSALS))
def test_refusals_stay(name: str) -> None:
    bodies = [
        json.loads(path.read_bytes())
        for path in (RECORDINGS / f"{name}.whole.json", RECORDINGS / f"{name}.stream.json")
        if path.exists()
    ]
    refused = [body for body in bodies if "choices" not in body]
    assert refused
    for body in refused:
        assert not Rewriter(rule_of(name)).rewrite(body)
