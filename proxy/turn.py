"""One choice of one answer: its text goes through the splitter, all else stays where it is.

delta        -> spans of text, in order
last span    -> stays in the choice, with all else that it carries
other spans  -> choices of their own before it, with little more than the index
held text    -> choices of its own before whatever else the choice has to say

Between the splitter and the wire stands a `Recovery`, which holds what may be tool calls in the thinking,
or a `Watch`, which only notes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy import chat, reasoning
from proxy.calls.recovery import Recovery
from proxy.calls.watch import Watch
from proxy.lines import VISIBLE
from proxy.logprobs import deal_out
from proxy.promotion import EMPTY, Toolbox, recover, says_more, write_deltas
from proxy.rules import Rule, ToolCallRecovery
from proxy.splitter import Channel, Span, Splitter
from proxy.tally import Tally
from proxy.texts import NAMES, native_texts, read, read_native

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.calls.watch import Left
    from proxy.spans import Lane


class Turn:
    """One choice of a streamed answer."""

    __slots__ = (
        *("_consumed", "_native", "_passes", "_recovery", "_splitter", "_tally", "_thought", "_toolbox"),
        *("ended", "heard", "lane", "last", "left", "names", "said"),
    )

    def __init__(self, rule: Rule, toolbox: Toolbox = EMPTY, tally: Tally | None = None) -> None:
        """Begin a choice under a rule; calls left in its thinking are made with the toolbox, or noted."""
        self._toolbox = toolbox
        self._tally = tally or Tally()
        watches = rule.tool_call_recovery is ToolCallRecovery.RETRY and toolbox.tools
        self._recovery = Watch(toolbox.tools) if watches else toolbox.begin()
        self._passes: Callable[[str], bool] = _never
        self._native = False  # the server parses the reasoning
        self._thought = False  # there was reasoning
        self.said = False
        """Something visible was said outside the thinking, or a call was made."""
        self.ended = False
        """The server has said that the choice is complete."""
        self.left: Left | None = None
        """The calls that it left in its thinking, where they are to be asked for again."""
        self.names = NAMES[rule.reasoning_field]
        """The names under which reasoning goes out."""
        self._splitter = Splitter(rule)
        self._consumed = 0  # code points brought to the splitter
        self.lane: Lane | None = None
        """Where text passes without being brought here; `enter_lane` looks for it anew."""
        self.last: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        """The chunk in which the choice was seen last, and the choice in it."""
        self.heard: list[Span] | None = None
        """What `hear` made of the text of the chunk that comes next, if it was read before."""

    def feed(self, chunk: dict[str, Any], choice: dict[str, Any]) -> list[dict[str, Any]]:
        """Read this choice in the next chunk; return the choices that take its place, in order.

        The last one carries what the choice carried beside its text. It is the same object when
        nothing about it changes.
        """
        self.leave_lane()
        self.last = chunk, choice
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            delta = {}
        text = delta.get("content")
        if self.heard is not None and isinstance(text, str):
            spans, self.heard = self.heard, None
            return self._place(choice, delta, text, spans)
        if reasoning.is_native(delta):
            return self._feed_native(choice, delta)
        if not text and not choice.get("finish_reason") and not says_more(delta):
            return [choice]
        spans = recover(self._recovery, read(self._splitter, delta, choice), delta, choice)
        if isinstance(text, str) and text and self._splitter.engaged and not self._native:
            self._tally.engaged = True
        self._note(spans, delta, choice)
        if self._recovery.calls:
            return self._promote(choice, delta, spans)
        spans = self._merge(spans)
        if not isinstance(text, str) or not text:
            return [*(chat.piece(choice, self._write(span)) for span in spans), choice]
        self._consumed += len(text)
        return self._place(choice, delta, text, spans)

    def hear(self, text: str, chunk: dict[str, Any], choice: dict[str, Any]) -> list[Span] | None:
        """Read the text of a chunk that carries nothing else, as `feed` would; return what goes out of it.

        Returns None, and reads nothing, when more than the text decides. `chunk` and `choice` are as in
        `skim`.
        """
        if self._native or self.ended:
            return None
        self.leave_lane()
        self.last = chunk, choice
        spans = self._recovery.feed(self._splitter.feed(text))
        self._tally.engaged = self._tally.engaged or self._splitter.engaged
        self._note(spans, {}, {})
        self._consumed += len(text)
        return self._merge(spans)

    def _place(
        self, choice: dict[str, Any], delta: dict[str, Any], text: str, spans: list[Span]
    ) -> list[dict[str, Any]]:
        """Return the choices that carry what came of a text, which was read."""
        if len(spans) == 1 and spans[0][:2] == (Channel.CONTENT, text):
            return [choice]
        last = spans.pop() if spans else Span(Channel.CONTENT, "", 0)
        if last.channel is Channel.REASONING:
            own = reasoning.place(delta, None, last.text, self.names)
        else:
            own = reasoning.place(delta, last.text, "", self.names)
        start = self._consumed - len(text)
        shares = deal_out(choice, text, [span.end - start for span in spans])
        return _replace(choice, [self._write(span) for span in spans], own, shares)

    def skim(self, text: str, chunk: dict[str, Any], choice: dict[str, Any]) -> Channel | None:
        """Read the text of a chunk that carries nothing else, if it goes out as it is; return its channel.

        Returns None, and reads nothing, when that is not sure at a glance. `chunk` and `choice` are one
        of the same answer and choice, with any text.
        """
        self.leave_lane()
        if not self._passes(text):
            return None
        channel = self._splitter.skim(text)
        if channel is not None:
            self._consumed += len(text)
            if channel is Channel.CONTENT:
                self._tally.content_chars += len(text)
            else:
                self._tally.reasoning_chars += len(text)
            if self._toolbox.tools:
                self._recovery.feed([Span(channel, text, self._consumed)])
            self.last = chunk, choice
        return channel

    def enter_lane(self) -> Lane | None:
        """Return the lane in which text passes now, if there is one: nothing is held there."""
        if self._passes is not _never and self._recovery.settled:
            self.lane = self._splitter.lane()
        return self.lane

    def leave_lane(self) -> None:
        """Count what passed in the lane."""
        lane, self.lane = self.lane, None
        if lane is None:
            return
        self._splitter.pass_by(lane.chars)
        self._consumed += lane.chars
        if lane.channel is Channel.CONTENT:
            self._tally.content_chars += lane.chars
        else:
            self._tally.reasoning_chars += lane.chars

    def finish(self, *, cut: bool) -> list[dict[str, Any]]:
        """End the choice, cut off or by itself; return chunks with what was held.

        They are made from the chunk in which the choice was seen last.
        """
        self.leave_lane()
        self._passes = _never  # should more come, it has to be noted: it would be content
        chunk, choice = self.last
        spans = self._recovery.feed(self._splitter.finish(cut=cut)) + self._recovery.finish(stopped=False)
        self._tally.count(spans)
        self.said = self.said or any(
            span.channel is Channel.CONTENT and VISIBLE.search(span.text) for span in spans
        )
        spans = self._merge(spans)
        return [chat.excerpt(chunk, chat.piece(choice, self._write(span))) for span in spans]

    def _feed_native(self, choice: dict[str, Any], delta: dict[str, Any]) -> list[dict[str, Any]]:
        """Read a delta whose reasoning the server parsed: from here on no text is split."""
        self._native = True
        left = self._splitter.finish()
        native = read_native(delta, self._consumed)
        if native is None:
            left = self._recovery.feed(left) + self._recovery.interrupt()
            self._note(left + native_texts(delta), delta, choice)
        else:
            spans = recover(self._recovery, left + native, delta, choice)
            self._note(spans, delta, choice)
            if self._recovery.calls:
                return self._promote(choice, delta, spans)
            if spans != left + native:
                return _replace_text(choice, delta, [self._write(span) for span in self._merge(spans)])
        before = [self._write(span) for span in self._merge(left)]
        own = reasoning.rename(delta, self.names)
        if own.get("content") and reasoning.is_native(own):
            # Reasoning and content never share a delta: there are clients that read one of them only.
            thought, own = reasoning.divide(own)
            before.append(thought)
        if own is delta:
            return [*(chat.piece(choice, made) for made in before), choice]
        return _replace(choice, before, own, [{} for _ in range(len(before) + 1)])

    def _promote(
        self, choice: dict[str, Any], delta: dict[str, Any], spans: list[Span]
    ) -> list[dict[str, Any]]:
        """End the choice with the calls that its thinking ended with."""
        calls, self._recovery = self._recovery.calls, Recovery({})
        self._tally.promoted += len(calls)
        before = [self._write(span) for span in self._merge(spans)] + write_deltas(calls, self._toolbox)
        return _replace_text(choice | {"finish_reason": "tool_calls"}, delta, before)

    def _note(self, spans: list[Span], delta: dict[str, Any], choice: dict[str, Any]) -> None:
        """Take note of what goes out and of how the choice ends."""
        self._tally.count(spans)
        for span in spans:
            if span.channel is Channel.REASONING:
                self._thought = True
            elif not self.said:
                self.said = VISIBLE.search(span.text) is not None
        self.said = self.said or bool(self._recovery.calls) or says_more(delta)
        if choice.get("finish_reason") and not self.ended:
            self.ended = True
            if chat.has_stopped(choice) and self._thought and not self.said:
                self._tally.thinking_only += 1
            if isinstance(self._recovery, Watch):
                self.left = self._recovery.left
        # White space is not skimmed unless something was said: it would look as if it had been.
        begun = self.said or self._splitter.inside
        self._passes = self._recovery.passes if begun and not self.left else _never

    def _merge(self, spans: list[Span]) -> list[Span]:
        """Join neighbours of one channel, and leave out what has no name on the wire."""
        merged: list[Span] = []
        for span in spans:
            if span.channel is Channel.REASONING and not self.names:
                continue
            if merged and merged[-1].channel is span.channel:
                merged[-1] = Span(span.channel, merged[-1].text + span.text, span.end)
            else:
                merged.append(span)
        return merged

    def _write(self, span: Span) -> dict[str, Any]:
        return dict.fromkeys(self.names if span.channel is Channel.REASONING else ("content",), span.text)


def _never(_text: str) -> bool:
    return False


def _replace_text(
    choice: dict[str, Any], delta: dict[str, Any], before: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return choices with the deltas `before`, and the choice itself without any text."""
    texts = ("content", *chat.REASONING_FIELDS)
    own = {key: value for key, value in delta.items() if key not in texts or not value}
    return _replace(choice, before, own, [{} for _ in range(len(before) + 1)])


def _replace(
    choice: dict[str, Any], before: list[dict[str, Any]], own: dict[str, Any], shares: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return choices with the deltas `before`, and the choice itself with the delta `own`."""
    if before and "role" in own:
        # The role belongs to the first delta of a choice.
        before[0] = {"role": own["role"], **before[0]}
        own = {key: value for key, value in own.items() if key != "role"}
    *others, last = shares
    made = [chat.piece(choice, delta, share) for delta, share in zip(before, others, strict=True)]
    return [*made, choice | {"delta": own} | last]
