"""Where an answer begins: one rule, `start: auto`, for prompts that open the thinking and for others."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.live import answers
from tests.live.conftest import seen
from tests.live.shapes import THINKING, A, B

if TYPE_CHECKING:
    from tests.live.conftest import Live, Reply

pytestmark = [pytest.mark.live, pytest.mark.slow]

QUESTION = "why is the sky blue"


def question(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


SWITCHES: dict[str, dict[str, Any]] = {
    "default": question(QUESTION),
    "on": question(QUESTION) | {"chat_template_kwargs": {"enable_thinking": True}},
    "off": question(QUESTION) | {"chat_template_kwargs": {"enable_thinking": False}},
    "off in words": question(f"{QUESTION} /no_think"),
}
"""Ways to switch thinking on and off. The last one only the template knows, if at all."""

CLOSER_ONLY = {"structured_outputs": {"regex": f"{A}</think>\n\n{B}"}}
WHOLE_BLOCK = {"structured_outputs": {"regex": THINKING.forced}}
NO_TAG = {"structured_outputs": {"regex": A}}


def opens(prompt: str | None) -> bool:
    return prompt is not None and re.search(r"<think>\s*$", prompt) is not None


def split_by_hand(text: str, *, inside: bool) -> tuple[str | None, str]:
    """What one block in front makes of a text."""
    text = text.removeprefix("<think>") if (explicit := text.startswith("<think>")) else text
    if not explicit and not inside:
        return None, text
    thought, closer, rest = text.partition("</think>")
    return thought or None, rest.lstrip("\n") if closer else ""


@pytest.mark.parametrize("switch", SWITCHES)
def test_the_prompt_decides(forcing: Live, switch: str, stream: bool) -> None:
    told_directly = forcing.ask_directly(**SWITCHES[switch], max_tokens=1, return_prompt_text=True)
    prompt = answers.read_prompt(told_directly.content, stream=False)
    if prompt is None:
        line = f"start, thinking {switch}: the prompt is not told, so auto has no effect"
    else:
        where = "inside" if opens(prompt) else "not inside"
        line = f"start, thinking {switch}: {where}, the prompt ends in {prompt[-26:]!r}"
    if line not in seen:
        seen.append(line)
    for force in (CLOSER_ONLY, WHOLE_BLOCK, NO_TAG):
        reply = forcing.ask("live/auto", stream=stream, force=force, **SWITCHES[switch])
        assert reply.exchange.document["return_prompt_text"] is True
        assert answers.read_prompt(reply.exchange.answer, stream=stream) == prompt
        (raw,), (told,) = reply.raw_choices().values(), reply.choices().values()
        assert (told.reasoning, told.content) == split_by_hand(raw.content, inside=opens(prompt))
        assert b"prompt_text" not in reply.body
        if stream:
            answers.check_stream(reply.body)


@pytest.mark.parametrize("switch", ["default", "on", "off"])
def test_implicit_goes_by_the_switch(forcing: Live, switch: str, stream: bool) -> None:
    for force in (CLOSER_ONLY, WHOLE_BLOCK, NO_TAG):
        reply = forcing.ask("live/implicit", stream=stream, force=force, **SWITCHES[switch])
        assert "return_prompt_text" not in reply.exchange.document
        (raw,), (told,) = reply.raw_choices().values(), reply.choices().values()
        assert (told.reasoning, told.content) == split_by_hand(raw.content, inside=switch != "off")


def test_prompt_is_kept_for_the_client_that_asks(forcing: Live, stream: bool) -> None:
    reply = forcing.ask("live/auto", stream=stream, force=CLOSER_ONLY, return_prompt_text=True)
    prompt = answers.read_prompt(reply.exchange.answer, stream=stream)
    if prompt is None:
        pytest.skip("the server does not tell the prompt's text")
    assert answers.read_prompt(reply.body, stream=stream) == prompt
    (raw,), (told,) = reply.raw_choices().values(), reply.choices().values()
    assert (told.reasoning, told.content) == split_by_hand(raw.content, inside=opens(prompt))


def test_answer_is_the_same_but_for_the_prompt(forcing: Live, stream: bool) -> None:
    """`auto` adds nothing to an answer and takes nothing else out."""
    auto, leading = (
        forcing.ask(model, stream=stream, force=WHOLE_BLOCK, n=2, logprobs=True)
        for model in ("live/auto", "live/leading")
    )
    keys = [
        {key for document in answers.read_documents(reply.body, stream=stream) for key in document}
        for reply in (auto, leading)
    ]
    assert keys[0] - {"prompt_text"} == keys[1] - {"prompt_text"}


def test_without_a_prompt_it_is_leading(forcing: Live, stream: bool) -> None:
    """As in front of a server that does not know the field."""
    for force in (CLOSER_ONLY, WHOLE_BLOCK, NO_TAG):
        reply = forcing.ask("live/auto", stream=stream, force=force | {"return_prompt_text": False})
        (raw,), (told,) = reply.raw_choices().values(), reply.choices().values()
        assert (told.reasoning, told.content) == split_by_hand(raw.content, inside=False)


@pytest.mark.parametrize("model", ["live/auto", "live/implicit"])
@pytest.mark.parametrize(
    "grammar",
    [
        {"structured_outputs": {"regex": "(red|blue) sky"}},
        {"structured_outputs": {"choice": ["red sky", "blue sky"]}},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {
                    "name": "colour",
                    "schema": {
                        "type": "object",
                        "properties": {"sky": {"enum": ["blue", "red"]}},
                        "required": ["sky"],
                        "additionalProperties": False,
                    },
                },
            }
        },
    ],
    ids=["regex", "choice", "json"],
)
def test_a_grammar_of_the_client_means_no_thinking(
    forcing: Live, model: str, grammar: dict[str, Any], stream: bool
) -> None:
    reply = forcing.ask(model, stream=stream, **grammar)
    assert reply.status == 200, reply.body
    assert "return_prompt_text" not in reply.exchange.document
    (raw,), (told,) = reply.raw_choices().values(), reply.choices().values()
    assert raw.content
    assert (told.reasoning, told.content) == (None, raw.content)


@pytest.mark.parametrize("model", ["live/auto", "live/implicit"])
def test_a_grammar_with_a_closer_describes_the_thinking_too(forcing: Live, model: str, stream: bool) -> None:
    reply = forcing.ask(model, stream=stream, return_prompt_text=True, **CLOSER_ONLY)
    prompt = answers.read_prompt(reply.exchange.answer, stream=stream)
    inside = model == "live/implicit" or opens(prompt)
    (raw,), (told,) = reply.raw_choices().values(), reply.choices().values()
    assert (told.reasoning, told.content) == split_by_hand(raw.content, inside=inside)


PREFILLS = {
    "open": ("<think>\nI was", True),
    "closed": ("<think>\nI was\n</think>\n\nThe sky", False),
    "answer": ("The sky", False),
}


@pytest.mark.parametrize("model", ["live/auto", "live/implicit", "live/leading"])
@pytest.mark.parametrize("prefill", PREFILLS)
def test_goes_on_from_the_clients_beginning(forcing: Live, model: str, prefill: str, stream: bool) -> None:
    text, inside = PREFILLS[prefill]
    reply: Reply = forcing.ask(
        model,
        stream=stream,
        force=CLOSER_ONLY,
        messages=[{"role": "user", "content": QUESTION}, {"role": "assistant", "content": text}],
        add_generation_prompt=False,
        continue_final_message=True,
        return_prompt_text=True,
    )
    if reply.status != 200:
        pytest.skip(f"the server does not go on from a message: {reply.body[:200]!r}")
    prompt = answers.read_prompt(reply.exchange.answer, stream=stream)
    assert prompt is None or prompt.endswith(text)
    (raw,), (told,) = reply.raw_choices().values(), reply.choices().values()
    assert (told.reasoning, told.content) == split_by_hand(raw.content, inside=inside)
