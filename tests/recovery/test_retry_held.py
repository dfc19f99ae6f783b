"""A further round that fails while its splitter holds text: that text is part of what the round said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from proxy.rules import Unterminated
from tests.recovery.answers import CLOSED, hear
from tests.recovery.scripted import Answer, ask, hear_reply, recovering, retrying, round_of, usage
from tests.recovery.test_retry import FIRST
from tests.recovery.test_retry_faults import FAULT, THOUGHT, UNDELIMITED, streamed
from tests.wire.streams import DONE, choice, chunk, event, read

if TYPE_CHECKING:
    from tests.transport.wire import Reply


def say(text: str) -> bytes:
    return event(chunk(choice({"content": text}), id="c-2", created=2, model="m2"))


ENDS: dict[str, Any] = {
    "an error": lambda *said: streamed(*said, FAULT),
    "an error, all in one": lambda *said: streamed(b"".join([*said, FAULT])),
    "a cut": lambda *said: streamed(*said, end=b""),
    "a cut in an event": lambda *said: streamed(*said, b"data: {", end=b""),
    "an end that nothing tells": lambda *said: UNDELIMITED + b"".join(said),
    "an event that is too large": lambda *said: streamed(*said, b"data: " + b"x" * 3000),
    "the end of the body": streamed,
    "the end": lambda *said: streamed(*said, DONE),
}
BREAKS = list(ENDS)[:6]


async def retry(reply: bytes, **rule: Any) -> Reply:
    first = round_of(CLOSED, 1, THOUGHT)
    async with recovering(retrying(CLOSED, **rule), first, reply, max_event_bytes=2000) as (proxy, _):
        return await ask(proxy, stream=True)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize(
    ("said", "thought"),
    [
        (("<think>SECOND</thi",), "SECOND</thi"),
        (("<think>SEC", "OND</think>\n", "\n"), "SECOND"),
        (("<thi", "nk>SECOND</think", ">", "  "), "SECOND"),
    ],
    ids=["half a closer", "white space", "white space behind the closer"],
)
async def test_thinking_that_was_held_stays_and_the_answer_ends_as_the_round_before(
    end: str, said: tuple[str, ...], thought: str
) -> None:
    heard = hear_reply(await retry(ENDS[end](*map(say, said))))
    assert heard == Answer(THOUGHT + thought, "", [], [], "stop", FIRST, usage(10, 1))


HELD = [
    ("<think>SECOND</thi", {"unterminated": Unterminated.CONTENT}, "", "<think>SECOND</thi"),
    ("<think>SECOND</think>\n\n<thi", {}, "SECOND", "<thi"),
    ("<thi", {}, "", "<thi"),
]
each_held = pytest.mark.parametrize(("said", "rule", "thought", "content"), HELD)


@each_held
@pytest.mark.parametrize("end", BREAKS)
async def test_content_that_was_held_was_said_and_the_answer_breaks_off(
    end: str, said: str, rule: dict[str, Any], thought: str, content: str
) -> None:
    reply = await retry(ENDS[end](say(said)), **rule)
    *events, error = read(reply.body)
    assert "error" in error
    assert all(made["choices"][0]["finish_reason"] is None for made in events)
    heard = hear(reply.body)
    assert (heard.reasoning, heard.content) == (THOUGHT + thought, content)


@each_held
@pytest.mark.parametrize("is_told", [False, True], ids=["the end of the body", "the end"])
async def test_a_round_that_ends_behind_such_content_stands_as_it_is(
    is_told: bool, said: str, rule: dict[str, Any], thought: str, content: str
) -> None:
    reply = await retry(streamed(say(said), *([DONE] if is_told else [])), **rule)
    heard = hear(reply.body)
    assert (heard.reasoning, heard.content, heard.finish) == (THOUGHT + thought, content, None)
    assert reply.body.endswith(DONE) == is_told
