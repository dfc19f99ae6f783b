"""Answers that think and may call, streamed and whole, and what a client makes of them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any

from proxy import sse
from proxy.promotion import EMPTY, Toolbox
from proxy.response import Rewriter
from proxy.rules import Rule, Start
from proxy.stream import Stream
from tests.splitting.feeding import chunks
from tests.toolcalls.cases import TOOLS
from tests.wire.streams import DONE, JSON, MAX_EVENT_BYTES, check, choice, chunk, event, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NATIVE = "reasoning"
"""The name under which the server of these answers writes reasoning that it parsed itself."""


@dataclass(frozen=True)
class Form:
    """How a server gives thinking, and what the rule has to be for it."""

    name: str
    before: str = ""
    behind: str = ""
    native: bool = False
    rule: Rule = field(default_factory=Rule)

    def parts(self, thought: str, content: str = "") -> list[tuple[str, str]]:
        """What is said, as names of fields and their texts, in order."""
        if self.native:
            return [(NATIVE, thought), ("content", content)]
        return [("content", self.before + thought + self.behind + content)]


OPEN = Form("inline, open", "<think>")
CLOSED = Form("inline, closed", "<think>", "</think>\n\n")
IMPLICIT = Form("inline, opened by the prompt", "", "</think>\n\n", rule=Rule(start=Start.IMPLICIT))
PARSED = Form("native", native=True)
FORMS = [OPEN, CLOSED, IMPLICIT, PARSED]


@dataclass
class Heard:
    """What a client makes of one choice."""

    reasoning: str = ""
    content: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    """Names and arguments, in order."""
    ids: list[str] = field(default_factory=list)
    finish: str | None = None


def write_stream(
    parts: Sequence[tuple[str, str]], cuts: Sequence[int] = (), finish: str = "stop", **fields: Any
) -> bytes:
    """The events of an answer with one choice, each part cut at these places."""
    events = [event(chunk(choice({"role": "assistant", "content": ""})))]
    for name, text in parts:
        places = [place for place in cuts if place <= len(text)]
        events += [event(chunk(choice({name: piece}))) for piece in chunks(text, places) if piece]
    return b"".join([*events, event(chunk(choice({}, finish=finish, **fields))), DONE])


def write_whole(parts: Sequence[tuple[str, str]], finish: str = "stop", **message: Any) -> JSON:
    """A whole answer with one choice."""
    said = {"role": "assistant", "content": "", **dict(parts), **message}
    return {"id": "c-1", "choices": [{"index": 0, "message": said, "finish_reason": finish}]}


class Single(dict[str, Any]):
    """Tools of a request that wants one call at most."""


def toolbox(tools: Mapping[str, Any] = TOOLS) -> Toolbox:
    return Toolbox(tools, (f"call_{number}" for number in count()), isinstance(tools, Single))


def streamed(
    raw: bytes, rule: Rule | None = None, tools: Mapping[str, Any] = TOOLS, cuts: Iterable[int] = ()
) -> bytes:
    """What the client gets for a stream; the shortcut for runs and the full way give the same."""
    rule = rule or Rule()
    stream = Stream(Rewriter(rule, toolbox=toolbox(tools)), MAX_EVENT_BYTES)
    places = [0, *sorted(cuts), len(raw)]
    short = b"".join([*(stream.feed(raw[start:end]) for start, end in pairwise(places)), stream.finish()])
    decoder = sse.Decoder(MAX_EVENT_BYTES)
    rewriter = Rewriter(rule, toolbox=toolbox(tools))
    events = [made for given in decoder.feed(raw) for made in rewriter.feed(given)] + rewriter.finish()
    for made in events:
        check(made.data, raw)
    assert short == b"".join(made.raw for made in events)
    return short


def whole(answer: JSON, rule: Rule | None = None, tools: Mapping[str, Any] = TOOLS) -> JSON:
    """What the client gets for a whole answer; a copy."""
    made: JSON = json.loads(json.dumps(answer))
    changed = Rewriter(rule or Rule(), toolbox=toolbox(tools) if tools else EMPTY).rewrite(made)
    assert changed == (made != answer)
    return made


def hear(raw: bytes, index: int = 0) -> Heard:
    """Read a stream as a client does: calls are put together by their index."""
    heard = Heard()
    calls: dict[int, JSON] = {}
    for value in read(raw):
        for made in value.get("choices", ()) if isinstance(value, dict) else ():
            if made["index"] != index:
                continue
            heard.finish = made.get("finish_reason") or heard.finish
            delta = made["delta"]
            heard.reasoning += delta.get("reasoning_content") or ""
            heard.content += delta.get("content") or ""
            for piece in delta.get("tool_calls") or ():
                call = calls.setdefault(piece["index"], {"name": "", "arguments": ""})
                call["id"] = piece.get("id", call.get("id"))
                for name, text in piece["function"].items():
                    call[name] += text
    assert list(calls) == list(range(len(calls)))
    heard.calls = [(call["name"], json.loads(call["arguments"])) for call in calls.values()]
    heard.ids = [call["id"] for call in calls.values()]
    return heard


def hear_whole(answer: JSON, index: int = 0) -> Heard:
    """Read one choice of a whole answer."""
    made = answer["choices"][index]
    message = made["message"]
    calls = message.get("tool_calls") or []
    assert not calls or not message["content"]
    assert all(call["type"] == "function" for call in calls)
    return Heard(
        message.get("reasoning_content") or "",
        message.get("content") or "",
        [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls],
        [call["id"] for call in calls],
        made["finish_reason"],
    )
