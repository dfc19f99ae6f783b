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
    """The entry of a token of the thinking comes with thinking, that of one of the answer with the answer.

    No letter of the one is in the other, and none of either is in a tag. There is no opener in mid-line:
    text that is held comes behind its tokens.
    """
    letters = {"reasoning_content": "abcdef", "content": "uvwxyz"}
    block = "<think>[a-f]{3,12}</think>[u-z]{3,12}"
    short = "<think>[a-f]{2}</think>[u-z]{2}"  # a last event may hold all of it, and the end of the turn
    forced = {"regex": f"{block}\n{block}\n{short}"}
    known = set("".join(letters.values()))
    more = EXTRAS[extra] | {"n": 8}
    reply = forcing.ask("live/leading", stream=True, force={"structured_outputs": forced}, **more)
    told = reply.choices()
    placed: dict[tuple[int, str], list[str]] = {(index, name): [] for index in told for name in letters}
    for event in answers.read_events(reply.body):
        for choice in event["choices"]:
            entries = (choice.get("logprobs") or {}).get("content") or []
            assert choice.get("token_ids") is None or len(choice["token_ids"]) == len(entries)
            for name in letters:
                if choice["delta"].get(name):
                    # Tokens of tags, and the one that ends the turn, hold other letters.
                    words = [entry["token"] for entry in entries if set(entry["token"]) <= known]
                    placed[choice["index"], name] += words
    for (index, name), tokens in placed.items():
        assert "".join(tokens) == keep(letters[name], getattr(told[index], name.removesuffix("_content")))


def keep(letters: str, text: str) -> str:
    return "".join(letter for letter in text if letter in letters)


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
