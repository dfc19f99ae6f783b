"""Earlier thinking: what `history` makes of a message is what the chat template gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.live import answers
from tests.live.conftest import seen
from tests.live.shapes import THINKING

if TYPE_CHECKING:
    from tests.live.conftest import Live

pytestmark = [pytest.mark.live, pytest.mark.slow]

THOUGHT = "It scatters."
ANSWER = "Short waves scatter."

BY_HAND: dict[str, dict[str, str]] = {
    "inline": {"content": f"<think>{THOUGHT}</think>\n\n{ANSWER}"},
    "reasoning": {"content": ANSWER, "reasoning": THOUGHT},
    "reasoning_content": {"content": ANSWER, "reasoning_content": THOUGHT},
    "drop": {"content": ANSWER},
}
"""The message that each mode makes, written by hand."""


def talk(message: dict[str, str]) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": "why is the sky blue"},
        {"role": "assistant", **message},
        {"role": "user", "content": "and the sea"},
    ]


@pytest.mark.parametrize("sent", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("mode", BY_HAND)
def test_template_gets_what_a_client_could_have_written(live: Live, mode: str, sent: str) -> None:
    request: dict[str, Any] = {"max_tokens": 1, "return_prompt_text": True}
    by_hand = live.ask_directly(messages=talk(BY_HAND[mode]), **request)
    reply = live.ask(
        f"live/history-{mode}",
        stream=False,
        messages=talk({"content": ANSWER, sent: THOUGHT}),
        **request,
    )
    assert reply.status == by_hand.status_code == 200, reply.body
    assert reply.exchange.document["messages"] == talk(BY_HAND[mode])
    prompt = answers.read_prompt(by_hand.content, stream=False)
    assert answers.read_prompt(reply.body, stream=False) == prompt
    if prompt is not None:
        line = f"history: {mode}: the prompt {'has' if THOUGHT in prompt else 'lacks'} the thought"
        if line not in seen:
            seen.append(line)


def test_a_second_turn_shows_the_first_thought(forcing: Live) -> None:
    """From the answer of one turn into the prompt of the next, in the tags that the model wrote."""
    force = {"structured_outputs": {"regex": THINKING.forced}}
    first = forcing.ask("live/history-inline", stream=True, force=force)
    (raw,), (told,) = first.raw_choices().values(), first.choices().values()
    message = {"content": told.content, "reasoning_content": told.reasoning or ""}
    second = forcing.ask(
        "live/history-inline", stream=False, messages=talk(message), max_tokens=1, return_prompt_text=True
    )
    assert second.exchange.document["messages"][1] == {"role": "assistant", "content": raw.content}
    prompt = answers.read_prompt(second.body, stream=False)
    if prompt is not None and told.content in prompt and "<think>" in prompt:
        kept = "as the model wrote it" if raw.content in prompt else "in another form"
        seen.append(f"history: inline, second turn: the first answer is in the prompt {kept}")
