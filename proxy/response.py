"""Rewrite an answer: text that is thinking moves from `content` to the reasoning field.

`Rewriter` takes the events of a stream one by one and returns the events that take their place. An
event that needs no change is returned as it is. One `Turn` follows each choice, by its index:

    delta        -> spans of text, in order
    last span    -> stays in the event, with all else that the event carries
    other spans  -> chunks of their own before it, made from the event's id and little more
    held text    -> chunks of its own before whatever else the choice has to say

A whole answer goes through the same turns, with one delta per choice.
"""

from __future__ import annotations

from typing import Any

from proxy import chat, sse
from proxy.logprobs import deal_out
from proxy.rules import ReasoningField, Rule
from proxy.splitter import Channel, Span, Splitter

_NAMES = {
    ReasoningField.REASONING_CONTENT: ("reasoning_content",),
    ReasoningField.REASONING: ("reasoning",),
    ReasoningField.BOTH: ("reasoning_content", "reasoning"),
    ReasoningField.NONE: (),
}


class Turn:
    """One choice of one answer."""

    __slots__ = ("_names", "_native", "_splitter", "consumed", "ended", "last")

    def __init__(self, rule: Rule) -> None:
        """Begin a choice under a rule."""
        self._names = _NAMES[rule.reasoning_field]
        self._native = False  # the server parses this choice's reasoning itself
        self._splitter = Splitter(rule)
        self.consumed = 0
        """Code points of the choice's text read so far."""
        self.ended = False
        self.last: tuple[dict[str, Any], dict[str, Any]] | None = None
        """The chunk and the choice seen last: what is made later for this choice is made from them."""

    def read(self, delta: dict[str, Any], choice: dict[str, Any]) -> list[Span]:
        """Read a delta or a message; return the text that goes out now, in order."""
        spans: list[Span] = []
        if not self._native and any(delta.get(name) for name in chat.REASONING_FIELDS):
            self._native = True
            spans += self._splitter.finish()
        text = delta.get("content")
        if isinstance(text, str) and text:
            self.consumed += len(text)
            spans += self._splitter.feed(text)
        if delta.get("tool_calls") or delta.get("function_call"):
            spans += self._splitter.interrupt()
        elif delta.get("refusal"):
            spans += self._splitter.interrupt(ends_block=False)
        if choice.get("finish_reason") is not None and not self.ended:
            spans += self.end(cut=chat.is_cut(choice))
        return self._merge(spans)

    def end(self, *, cut: bool) -> list[Span]:
        """End the choice, cut off or by itself; return what was held."""
        self.ended = True
        return self._merge(self._splitter.finish(cut=cut))

    def delta(self, span: Span) -> dict[str, Any]:
        """Make the delta that carries a span."""
        names = self._names if span.channel is Channel.REASONING else ("content",)
        return dict.fromkeys(names, span.text)

    def place(self, message: dict[str, Any], content: str | None, reasoning: str) -> dict[str, Any]:
        """Return the message with this content (None: without the key) and, unless empty, this reasoning.

        A reasoning field that the server itself sent (SGLang sends a null in every delta) is
        overwritten in place.
        """
        made: dict[str, Any] = {}
        for key, value in message.items():
            if key == "content":
                if content is not None:
                    made[key] = content
                if reasoning:
                    made |= {name: reasoning for name in self._names if name not in message}
            else:
                made[key] = reasoning if reasoning and key in self._names else value
        return made

    def rename(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the message with reasoning that the server parsed itself under the rule's names.

        `reasoning_details` may be signed: they stay, unless the rule wants no reasoning at all.
        """
        given = [name for name in chat.REASONING_FIELDS if message.get(name)]
        if not given:
            return message
        text = chat.reasoning_text(message)
        made: dict[str, Any] = {}
        for key, value in message.items():
            if key in given:
                if key in self._names or (key == "reasoning_details" and self._names):
                    made[key] = value
                made |= {name: text for name in self._names if text and name not in given}
            elif key not in made:
                made[key] = value
        return message if made == message else made

    def _merge(self, spans: list[Span]) -> list[Span]:
        merged: list[Span] = []
        for span in spans:
            if span.channel is Channel.REASONING and not self._names:
                continue
            if merged and merged[-1].channel is span.channel:
                merged[-1] = Span(span.channel, merged[-1].text + span.text, span.end)
            else:
                merged.append(span)
        return merged


class Rewriter:
    """The turns of one answer."""

    def __init__(self, rule: Rule) -> None:
        """Begin an answer under a rule."""
        self._rule = rule
        self._turns: dict[int, Turn] = {}
        self.done = False
        """The stream has said that it is complete."""

    def feed(self, event: sse.Event) -> list[sse.Event]:
        """Take the next event of a stream; return the events that take its place."""
        if event.data == chat.DONE:
            self.done = True
            return [*self._flush(cut=False), event]
        chunk = chat.read_object(event.data)
        if chunk is None:
            return [event]
        listed = chat.choices(chunk, "delta")
        if not listed:
            return [*self._flush(cut=True), event] if chunk.get("error") else [event]
        pieces: list[dict[str, Any]] = []
        changed = {}
        for index, choice, delta in listed:
            turn = self._turn(index)
            turn.last = (chunk, choice)
            before, own = self._feed_choice(turn, choice, delta)
            pieces += [chat.excerpt(chunk, piece) for piece in before]
            if own is not choice:
                changed[id(choice)] = own
        made = [sse.encode(chat.write_json(piece)) for piece in pieces]
        if not changed:
            return [*made, event]
        whole = chunk | {"choices": [changed.get(id(choice), choice) for choice in chunk["choices"]]}
        if chat.is_bare(whole) and sse.is_plain(event.raw):
            return made
        return [*made, sse.encode(chat.write_json(whole), event)]

    def finish(self) -> list[sse.Event]:
        """End a stream that broke off, or that ended without saying so; return what was held."""
        return self._flush(cut=True)

    def rewrite(self, answer: dict[str, Any]) -> bool:
        """Rewrite a whole answer in place; tell whether anything changed."""
        changed = False
        for index, choice, message in chat.choices(answer, "message"):
            made = self._rewrite_message(self._turn(index), choice, message)
            if made is not message:
                choice["message"] = made
                changed = True
        return changed

    def _turn(self, index: int) -> Turn:
        turn = self._turns.get(index)
        if turn is None:
            turn = self._turns[index] = Turn(self._rule)
        return turn

    def _feed_choice(
        self, turn: Turn, choice: dict[str, Any], delta: dict[str, Any]
    ) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return the choices to send before this one, and what takes its own place."""
        start = turn.consumed
        spans = turn.read(delta, choice)
        own = turn.rename(delta)
        text = delta.get("content")
        if not isinstance(text, str) or not text:
            before = [chat.piece(choice, turn.delta(span)) for span in spans]
            return before, choice if own is delta else choice | {"delta": own}
        if [(span.channel, span.text) for span in spans] == [(Channel.CONTENT, text)]:
            return [], choice if own is delta else choice | {"delta": own}
        last = spans.pop() if spans else Span(Channel.CONTENT, "", 0)
        *shares, rest = deal_out(choice, text, [span.end - start for span in spans])
        if last.channel is Channel.CONTENT:
            own = turn.place(own, last.text, "")
        else:
            own = turn.place(own, None, last.text)
        before = []
        for span, share in zip(spans, shares, strict=True):
            made = turn.delta(span)
            if "role" in own:
                # The role belongs to the first delta of a choice.
                made = {"role": own.pop("role"), **made}
            before.append(chat.piece(choice, made, share))
        return before, choice | {"delta": own} | rest

    def _rewrite_message(self, turn: Turn, choice: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
        content = message.get("content")
        spans = turn.read(message, choice)
        if not turn.ended:
            spans += turn.end(cut=False)
        made = turn.rename(message)
        if isinstance(content, str):
            reasoning = "".join(span.text for span in spans if span.channel is Channel.REASONING)
            answer = "".join(span.text for span in spans if span.channel is Channel.CONTENT)
            if answer != content:
                made = turn.place(made, answer, reasoning)
        return made

    def _flush(self, *, cut: bool) -> list[sse.Event]:
        made = []
        for turn in self._turns.values():
            if turn.last is None or turn.ended:
                continue
            chunk, choice = turn.last
            made += [chat.excerpt(chunk, chat.piece(choice, turn.delta(span))) for span in turn.end(cut=cut)]
        return [sse.encode(chat.write_json(chunk)) for chunk in made]
