"""Make the parts of several answers parts of one: which answer they belong to, their role, their usage.

id, created, model    those of the first round
role                  that of the first round, once
usage                 the sum of the rounds so far, wherever a further round tells its own
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from proxy import chat, sse

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAMED = ("id", "created", "model")
_WITH_TEXT = ("logprobs", "token_ids")
"""What a choice carries that belongs to its text."""


@dataclass(frozen=True, slots=True)
class Joint:
    """What ties a further round to those before it."""

    named: dict[str, Any] = field(default_factory=dict)
    """The fields that name the answer."""
    usage: dict[str, Any] | None = None
    """The sum of the rounds so far; None if none has told any."""

    def extend(self, answers: Iterable[dict[str, Any]]) -> Joint:
        """Take the end of a round, which `join` made part of the whole."""
        named, usage = self.named, self.usage
        for answer in answers:
            named = named or {name: answer[name] for name in _NAMED if name in answer}
            usage = answer["usage"] if isinstance(answer.get("usage"), dict) else usage
        return Joint(named, usage)

    def join(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Return a chunk or an answer of a further round with the fields of the whole."""
        made = answer | {name: value for name, value in self.named.items() if name in answer}
        if self.usage is not None and isinstance(answer.get("usage"), dict):
            made["usage"] = add(self.usage, answer["usage"])
        return made

    def edit(self, event: sse.Event, chunk: dict[str, Any] | None) -> sse.Event | None:
        """Return an event of a further round as one of the whole; None where nothing is left of it."""
        if event.raw == sse.BOM:
            return None
        if chunk is None:
            return event
        made = self.join(chunk)
        if isinstance(chunk.get("choices"), list):
            made["choices"] = [_without_role(choice) for choice in chunk["choices"]]
        if made == chunk:
            return event
        if made.get("choices") != chunk.get("choices") and chat.is_bare(made) and sse.is_bare(event):
            return None
        return sse.encode(chat.write_json(made), event)


def divide(event: sse.Event) -> tuple[sse.Event | None, sse.Event | None]:
    """Divide an event with which a choice ends into role and reasoning, and all else; None for nothing."""
    chunk = chat.read_chunk(event.data)
    found = chat.choices(chunk) if chunk else []
    if chunk is None or len(found) != 1 or not isinstance(found[0][1].get("delta"), dict):
        return None, event
    choice = found[0][1]
    delta = choice["delta"]
    said = {name: delta[name] for name in ("role", *chat.REASONING_FIELDS) if delta.get(name)}
    rest = {name: value for name, value in delta.items() if name not in said}
    if not said:
        return None, event
    share = {name: choice[name] for name in _WITH_TEXT if name in choice}
    other = choice | dict.fromkeys(share) | {"delta": rest}
    first = chat.excerpt(chunk, chat.piece(choice, said, share))
    second = chunk | {"choices": [other]}
    if chat.is_bare(second) and sse.is_bare(event):
        return event, None
    return sse.encode(chat.write_json(first)), sse.encode(chat.write_json(second), event)


def add(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return the sum of two usages, part by part; what is no number stays as the later one has it."""
    made = {name: value for name, value in one.items() if _is_number(value) or isinstance(value, dict)}
    for name, value in other.items():
        before = made.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            made[name] = add(before, value)
        elif _is_number(value) and _is_number(before):
            made[name] = value + before
        elif value is not None or name not in made:
            made[name] = value
    return made


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _without_role(choice: Any) -> Any:
    delta = choice.get("delta") if isinstance(choice, dict) else None
    if not isinstance(delta, dict) or "role" not in delta:
        return choice
    return choice | {"delta": {name: value for name, value in delta.items() if name != "role"}}
