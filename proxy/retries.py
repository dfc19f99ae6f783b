"""Ask again for a turn that left its tool calls in its thinking: what the next request says.

Nothing is sent here. `Retries.ask` returns the body of the next request, and `asking` sends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy import chat, history
from proxy.texts import NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.calls.call import CallBlock
    from proxy.calls.watch import Left
    from proxy.rules import Rule


def may_retry(document: dict[str, Any]) -> bool:
    """Tell whether a request is one that can be asked again: for one answer, which begins anew.

    With `continue_final_message` the last message would no longer be the one to go on from.
    """
    return (
        document.get("n") in (None, 1)
        and isinstance(document.get("messages"), list)
        and not document.get("continue_final_message")
    )


class Retries:
    """The further requests that one request of a client may take."""

    def __init__(self, body: bytes, rule: Rule) -> None:
        """Take the body as it is sent first, and the rule for its model."""
        self._body = body
        self._rule = rule
        self._added: list[dict[str, Any]] = []
        self._left = rule.max_retries

    def ask(self, left: Left) -> bytes | None:
        """Return the body that asks again for a turn which left calls; None when it may not be any more.

        What was added for earlier retries stays in it.
        """
        document = chat.read_object(self._body)
        if not self._left or document is None:
            return None
        self._left -= 1
        names = NAMES[self._rule.reasoning_field] or ("reasoning_content",)
        turn = {"role": "assistant", "content": left.content} | dict.fromkeys(names, left.thought)
        written = history.convert({"messages": [turn]}, self._rule)["messages"]
        self._added += [*written, {"role": "user", "content": write_question(left.blocks)}]
        try:
            return chat.write_json(document | {"messages": [*document["messages"], *self._added]})
        except RecursionError:
            return None


def write_question(blocks: Sequence[CallBlock]) -> str:
    """Return what a model is told that left these blocks in its thinking."""
    count = sum(len(block.calls) for block in blocks)
    calls, them = ("1 tool call", "it") if count == 1 else (f"{count} tool calls", "them")
    quoted = "\n\n".join(block.raw for block in blocks)
    return (
        f"Your last response had {calls} inside its thinking, where nothing is executed. "
        f"Execute {them} now, outside of the thinking:\n\n{quoted}"
    )
