"""Rewrite an answer: text that is thinking moves from `content` to the reasoning field.

`Rewriter` takes the events of a stream one by one and returns the events that take their place: an
event that needs no change as it is, others with all that they carried beside the text. One `Turn`
follows each choice, by its index. A whole answer goes through the same splitter in one piece.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy import chat, sse
from proxy.message import find_left, rewrite_choice
from proxy.promotion import EMPTY, Toolbox
from proxy.prompt import PROMPT_TEXT, settle_start
from proxy.rules import Start, ToolCallRecovery
from proxy.tally import Tally
from proxy.turn import Turn

if TYPE_CHECKING:
    from proxy.calls.watch import Left
    from proxy.rules import Rule


class Rewriter:
    """The turns of one answer."""

    def __init__(
        self,
        rule: Rule,
        *,
        hides_prompt: bool = False,
        toolbox: Toolbox = EMPTY,
        tally: Tally | None = None,
        ahead: bool = False,
    ) -> None:
        """Begin an answer under a rule.

        Args:
            rule: that of the model.
            hides_prompt: the prompt's text is taken out of the answer: the proxy alone asked for it.
            toolbox: what tool calls left in the thinking are made with.
            tally: where is counted what is seen.
            ahead: make what the first choice of a stream takes now, rather than when it comes.
        """
        self._rule = rule
        self._tally = tally or Tally()
        self._toolbox = toolbox
        self._hides_prompt = hides_prompt
        self._turns: dict[int, Turn] = {}
        self._left: Left | None = None
        self._next: Turn | None = None
        if ahead and rule.start is not Start.AUTO:
            self._next = Turn(rule, toolbox, self._tally)
        self.done = False
        """The stream has said that it is complete."""
        self.prompt_seen: bool | None = None
        """Whether the server told the prompt that `Start.AUTO` asked for; None before it could."""

    def feed(self, event: sse.Event) -> list[sse.Event]:
        """Take the next event of a stream; return the events that take its place."""
        if chat.is_done(event.data):
            self.done = True
            return [*self._flush(cut=False), event]
        chunk = chat.read_chunk(event.data)
        if chunk is None:
            return [event]
        made = self._flush(cut=True) if chat.is_error(chunk) else []
        hidden = self._read_prompt(chunk)
        changed: dict[int, dict[str, Any]] = {}
        for index, choice in chat.choices(chunk):
            turn = self._turns.get(index)
            if turn is None:
                turn = self._turns[index] = self._next or Turn(self._rule, self._toolbox, self._tally)
                self._next = None
            *before, own = turn.feed(chunk, choice)
            made += [_encode(chat.excerpt(chunk, piece)) for piece in before]
            if own is not choice:
                changed[id(choice)] = own
        if not changed:
            return [*made, _encode(chunk, event) if hidden else event]
        whole = chunk | {"choices": [changed.get(id(choice), choice) for choice in chunk["choices"]]}
        if chat.is_bare(whole) and sse.is_bare(event):
            return made
        return [*made, _encode(whole, event)]

    @property
    def left(self) -> Left | None:
        """The calls that the only choice left in its thinking, where they are to be asked for again."""
        if len(self._turns) == 1:
            (turn,) = self._turns.values()
            return turn.left
        return self._left

    @property
    def stands(self) -> bool:
        """Whether the stream has said something that a client can use, or how it ends."""
        return any(turn.said or turn.ended for turn in self._turns.values())

    def turn(self, index: int) -> Turn | None:
        """Return the turn of a choice that was seen."""
        return self._turns.get(index)

    def sum_up(self) -> None:
        """Bring the tally up to date."""
        for turn in self._turns.values():
            turn.leave_lane()

    def finish(self, *, cut: bool = True) -> list[sse.Event]:
        """End a stream that broke off, or (`cut` too) that ended without saying so; return what was held."""
        return self._flush(cut=cut)

    def rewrite(self, answer: dict[str, Any]) -> bool:
        """Rewrite a whole answer in place; tell whether anything changed."""
        listed = answer.get("choices")
        if not isinstance(listed, list) or chat.is_deep(answer):
            return False
        changed = self._read_prompt(answer)
        retries = self._rule.tool_call_recovery is ToolCallRecovery.RETRY
        if retries and len(listed) == 1 and isinstance(listed[0], dict):
            self._left = find_left(listed[0], self._rule, self._toolbox)
        for at, choice in enumerate(listed):
            if not isinstance(choice, dict):
                continue
            made = rewrite_choice(choice, self._rule, self._toolbox, self._tally)
            if made is not choice:
                listed[at] = made
                changed = True
        return changed

    def _read_prompt(self, answer: dict[str, Any]) -> bool:
        """Let the prompt decide where the answer begins; tell whether its text was taken out."""
        prompt = answer.get(PROMPT_TEXT)
        if self._rule.start is Start.AUTO and answer.get("choices"):
            self.prompt_seen = isinstance(prompt, str)
            self._rule = settle_start(self._rule, prompt)
        if not self._hides_prompt or PROMPT_TEXT not in answer:
            return False
        del answer[PROMPT_TEXT]
        return True

    def _flush(self, *, cut: bool) -> list[sse.Event]:
        return [_encode(chunk) for turn in self._turns.values() for chunk in turn.finish(cut=cut)]


def _encode(chunk: dict[str, Any], origin: sse.Event | None = None) -> sse.Event:
    return sse.encode(chat.write_json(chunk), origin)
