"""A whole answer, in as many rounds as it takes; see `rounds`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy import chat
from proxy.joint import Joint
from proxy.texts import NAMES

if TYPE_CHECKING:
    from proxy.request import Plan
    from proxy.tally import Tally


class Whole:
    """The answer that the client is to get; it is given the body of one round after the other."""

    def __init__(self, plan: Plan, tally: Tally) -> None:
        """Begin before the first body."""
        self._plan = plan
        self._tally = tally
        self._joint: Joint | None = None
        self._thought: dict[str, str] = {}  # of the rounds before, under each name
        self.body = b""
        """The answer as it stands."""
        self.prompt_seen: bool | None = None
        """Whether the server told the prompt that `Start.AUTO` asked for; None before it could."""

    def take(self, body: bytes) -> bytes | None:
        """Take the body of the next round; return the request of another one, None when that was the last."""
        plan = self._plan
        document = chat.read_object(body)
        if self._joint is not None and not _stands(document):
            self.fail()
            return None
        if document is None:
            self.body = body
            return None
        rewriter = plan.begin(self._tally)
        changed = rewriter.rewrite(document)
        self.prompt_seen = rewriter.prompt_seen
        if self._joint is not None:
            document = self._add(self._joint, document)
            changed = True
        self.body = chat.write_json(document) if changed else body
        if plan.retries is None or rewriter.left is None:
            return None
        again = plan.retries.ask(rewriter.left)
        if again is None:
            self._tally.retries_used_up = True
            return None
        self._tally.retries += 1
        self._tally.thinking_only -= 1  # the turn goes on
        self._joint = (self._joint or Joint()).extend([document])
        message = document["choices"][0]["message"]
        self._thought = {
            name: message[name]
            for name in NAMES[plan.rule.reasoning_field]
            if isinstance(message.get(name), str)
        }
        return again

    def fail(self) -> None:
        """The next round failed: the answer stands as it is."""
        self._tally.retry_failures += 1
        self._tally.thinking_only += 1

    def _add(self, joint: Joint, document: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of a further round as that of the whole."""
        (choice,) = document["choices"]
        message = dict(choice["message"])
        for name, thought in self._thought.items():
            message[name] = thought + (message.get(name) or "")
        return joint.join(document) | {"choices": [choice | {"message": message}]}


def _stands(document: dict[str, Any] | None) -> bool:
    """Tell whether the answer of a further round says something that a client can use, or how it ends."""
    listed = document.get("choices") if document and not chat.is_error(document) else None
    if not isinstance(listed, list) or len(listed) != 1 or not isinstance(listed[0], dict):
        return False
    if chat.is_deep(document):
        return False
    return isinstance(listed[0].get("message"), dict) and bool(listed[0].get("finish_reason"))
