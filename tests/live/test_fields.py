"""What comes along with the text: choices, token lists, usage, and all fields that nobody reads here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.live import answers
from tests.live.shapes import SHAPES

if TYPE_CHECKING:
    from tests.live.conftest import Live

pytestmark = [pytest.mark.live, pytest.mark.slow]

_NAMES = ("thinking", "interleaved-mid-line", "multi-byte", "truncated-in-hold", "closer-only", "near-miss")

EXTRAS: dict[str, dict[str, Any]] = {
    "logprobs": {"logprobs": True, "top_logprobs": 2},
    "n=2": {"n": 2},
    "token-ids": {"return_token_ids": True},
    "usage": {"stream_options": {"include_usage": True}},
    "continuous-usage": {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    "all": {
        "n": 2,
        "logprobs": True,
        "top_logprobs": 1,
        "return_token_ids": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    },
}


def strip_texts(document: dict[str, Any]) -> dict[str, Any]:
    """A whole answer without what splitting may change."""
    choices = [
        choice
        | {
            "message": {
                key: value
                for key, value in choice["message"].items()
                if key not in ("content", "reasoning", "reasoning_content")
            }
        }
        for choice in document["choices"]
    ]
    return document | {"choices": choices}


@pytest.mark.parametrize("extra", EXTRAS)
@pytest.mark.parametrize(
    "shape", [shape for shape in SHAPES if shape.name in _NAMES], ids=lambda shape: shape.name
)
def test_comes_along(forcing: Live, shape: Any, extra: str, stream: bool) -> None:
    more = shape.more | EXTRAS[extra]
    if not stream:
        more.pop("stream_options", None)
    reply = forcing.ask(
        shape.model, stream=stream, force={"structured_outputs": {"regex": shape.forced}}, **more
    )
    assert reply.status == 200, reply.body
    raw, told = reply.raw_choices(), reply.choices()
    assert list(told) == list(raw) == list(range(more.get("n", 1)))
    for index, choice in told.items():
        assert (choice.reasoning, choice.content) == shape.split(raw[index].content)
        assert choice.logprobs == raw[index].logprobs
        assert choice.token_ids == raw[index].token_ids
        assert choice.finish_reason == raw[index].finish_reason
    if "logprobs" in more:
        assert told[0].logprobs
    if "return_token_ids" in more:
        assert told[0].token_ids
    usage = answers.read_usage(reply.exchange.answer, stream=stream)
    assert answers.read_usage(reply.body, stream=stream) == usage
    if stream:
        assert bool(usage) == ("stream_options" in more)
        answers.check_stream(reply.body)
    else:
        assert strip_texts(json.loads(reply.body)) == strip_texts(json.loads(reply.exchange.answer))


@pytest.mark.parametrize("extra", ["logprobs", "all"])
def test_tokens_stay_with_their_text(forcing: Live, extra: str) -> None:
    """In a stream every event's tokens make up its text, as far as no character is cut by a token.

    Tokens of a tag, which is taken out, go with the piece that it stood before or behind.
    """
    shape = next(shape for shape in SHAPES if shape.name == "thinking")
    reply = forcing.ask(
        shape.model, stream=True, force={"structured_outputs": {"regex": shape.forced}}, **EXTRAS[extra]
    )
    for event in answers.read_events(reply.body):
        for choice in event["choices"]:
            delta = choice["delta"]
            text = (delta.get("content") or "") + (delta.get("reasoning_content") or "")
            entries = (choice.get("logprobs") or {}).get("content") or []
            written = "".join(entry["token"] for entry in entries)
            for marker in ("<think>", "</think>"):
                written = written.replace(marker, "")
            ids = choice.get("token_ids")
            assert ids is None or not entries or len(ids) == len(entries)
            if text and entries and not set("<>/") & set(written):
                assert written.strip() in text.strip() or text.strip() in written.strip()


def test_special_tokens_reach_the_proxy(live: Live, stream: bool) -> None:
    """A row of special tokens makes the server write them; without it they are dropped."""
    opener = "[THINK]"
    answer = live.ask_directly("/tokenize", prompt=opener, add_special_tokens=False)
    tokens = answer.json().get("tokens", []) if answer.status_code == 200 else []
    if len(tokens) != 1:
        pytest.skip(f"{opener} is no special token of this model, or there is no /tokenize")
    letter = live.ask_directly("/tokenize", prompt="a", add_special_tokens=False).json()["tokens"]
    request: dict[str, Any] = {"n": 8, "max_tokens": 8, "allowed_token_ids": tokens + letter}
    dropped = live.ask("live/leading", stream=stream, **request)
    assert opener not in "".join(choice.content for choice in dropped.raw_choices().values())
    reply = live.ask("live/mistral", stream=stream, **request)
    assert reply.exchange.document["skip_special_tokens"] is False
    begun = 0
    for index, raw in reply.raw_choices().items():
        told = reply.choices()[index]
        if raw.content.startswith(opener):
            begun += 1
            assert (told.reasoning, told.content) == (raw.content.removeprefix(opener) or None, "")
        else:
            assert (told.reasoning, told.content) == (None, raw.content)
    assert begun
