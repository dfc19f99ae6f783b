"""Every shape of an answer: the client is told what the server's own text says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.live import answers
from tests.live.conftest import seen
from tests.live.shapes import SHAPES, THINKING, Shape

if TYPE_CHECKING:
    from tests.live.conftest import Live, Reply

pytestmark = [pytest.mark.live, pytest.mark.slow]


def ask(live: Live, shape: Shape, *, stream: bool) -> Reply:
    reply = live.ask(
        shape.model, stream=stream, force={"structured_outputs": {"regex": shape.forced}}, **shape.more
    )
    assert reply.status == 200, reply.body
    return reply


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_is_split_as_the_text_says(forcing: Live, shape: Shape, stream: bool) -> None:
    reply = ask(forcing, shape, stream=stream)
    (raw,), (told,) = reply.raw_choices().values(), reply.choices(shape.told_in).values()
    assert raw.reasoning is None, "the server has a reasoning parser: start it without"
    assert (told.reasoning, told.content) == shape.split(raw.content)
    assert told.finish_reason == raw.finish_reason == shape.finish_reason
    assert told.stop_reason == raw.stop_reason
    if stream:
        answers.check_stream(reply.body, shape.told_in)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_is_split_alike_in_a_stream_and_as_a_whole(forcing: Live, shape: Shape) -> None:
    streamed, whole = (ask(forcing, shape, stream=stream) for stream in (True, False))
    if streamed.raw_choices()[0].content != whole.raw_choices()[0].content:
        pytest.skip("the server answers the same seed differently in a stream")
    (first,), (second,) = (reply.choices(shape.told_in).values() for reply in (streamed, whole))
    assert (first.reasoning, first.content) == (second.reasoning, second.content)
    assert (first.finish_reason, first.stop_reason) == (second.finish_reason, second.stop_reason)


@pytest.mark.parametrize("tokens", range(1, 25))
def test_is_cut_off_anywhere(forcing: Live, tokens: int, stream: bool) -> None:
    """However few tokens an answer may have, and wherever the tags are cut."""
    text = "<think>\nno\n</think>\n\nyes"
    opener, closer, rest = "<think>", "<think>\nno\n</think>", "<think>\nno\n</think>\n\n"
    reply = forcing.ask(
        "live/leading", stream=stream, max_tokens=tokens, force={"structured_outputs": {"regex": text}}
    )
    said = reply.raw_choices()[0].content
    assert text.startswith(said)
    told = reply.choices()[0]
    if len(said) < len(opener):
        assert (told.reasoning, told.content) == (None, said)
    elif len(said) < len(closer):
        thought = said[len(opener) :]
        assert (told.reasoning, told.content) == (thought if thought.strip() else None, "")
    else:
        assert (told.reasoning, told.content) == ("\nno\n", said[len(rest) :])


def test_markers_come_in_pieces(forcing: Live) -> None:
    """What makes the other streams worth looking at; a model may have the tags as single tokens, too."""
    events = answers.read_events(ask(forcing, THINKING, stream=True).exchange.answer)
    texts = [choice["delta"].get("content") or "" for event in events for choice in event["choices"]]
    assert sum(map(bool, texts)) > 1, "the server sent the whole answer in one event"
    whole = [tag for tag in ("<think>", "</think>") if any(tag in text for text in texts)]
    seen.append(f"tags that come in one piece: {', '.join(whole) or 'none'}")
