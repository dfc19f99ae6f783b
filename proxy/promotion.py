"""Make the tool calls that a turn left in its thinking calls of the answer.

It stands between the splitter's spans and the wire: `recover` brings spans, and what a delta or a message
says beside them, to a `Recovery`; the others write the calls that came of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proxy import chat
from proxy.calls.recovery import Recovery, assign_ids

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from proxy.calls.recovery import Recovered
    from proxy.calls.watch import Watch
    from proxy.spans import Span


_SAYING = frozenset({"tool_calls", "function_call", "refusal"})


@dataclass(frozen=True, slots=True)
class Toolbox:
    """What calls are made with."""

    tools: Mapping[str, Any]
    """The tools that may be called, each with the schema of its parameters: see `tools.read_tools`."""
    ids: Iterator[str]
    """Ids that no other call has, without an end."""
    single: bool = False
    """One call at most may be made."""

    def begin(self) -> Recovery:
        """Return what recovers the calls of one turn."""
        return Recovery(self.tools, single=self.single)


EMPTY = Toolbox({}, iter(()))
"""Nothing may be called, so nothing is recovered."""


def recover(
    recovery: Recovery | Watch, spans: list[Span], message: dict[str, Any], choice: dict[str, Any]
) -> list[Span]:
    """Bring the text of a delta or a message to the recovery; return the text that goes out now, in order.

    What the message says beside text settles it, and the choice's `finish_reason` ends the turn.
    """
    out = recovery.feed(spans)
    if says_more(message):
        out += recovery.interrupt()
    if choice.get("finish_reason"):
        out += recovery.finish(stopped=chat.has_stopped(choice))
    return out


def says_more(message: dict[str, Any]) -> bool:
    """Tell whether a delta or a message says something beside text: a call, a refusal, content of parts."""
    if not _SAYING.isdisjoint(message) and any(message.get(name) for name in _SAYING):
        return True
    content = message.get("content")
    return bool(content) and not isinstance(content, str)


def write_deltas(calls: Sequence[Recovered], toolbox: Toolbox) -> list[dict[str, Any]]:
    """Return the deltas of a turn's calls: for each its name, then its arguments."""
    deltas: list[dict[str, Any]] = []
    for index, call in enumerate(write_calls(calls, toolbox)):
        function = call["function"]
        named = call | {"function": function | {"arguments": ""}}
        deltas.append({"tool_calls": [{"index": index} | named]})
        deltas.append({"tool_calls": [{"index": index, "function": {"arguments": function["arguments"]}}]})
    return deltas


def write_calls(calls: Sequence[Recovered], toolbox: Toolbox) -> list[dict[str, Any]]:
    """Return the `tool_calls` of a whole message."""
    return [
        {"id": id_, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call, id_ in zip(calls, assign_ids(calls, toolbox.ids), strict=True)
    ]
