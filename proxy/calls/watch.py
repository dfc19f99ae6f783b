"""Watch a turn for tool calls that it leaves in its thinking, without touching them.

`Watch` stands where a `Recovery` does. Everything passes at once, but for white space outside the thinking:
whoever asks again for a turn that said nothing there does not want it in the answer, so it waits until
something follows it. What the turn said is kept for as long as it may have to be asked for again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.calls.finder import HEAD_LIMIT
from proxy.calls.recovery import Recovery
from proxy.lines import VISIBLE
from proxy.spans import Channel, Span

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proxy.calls.call import CallBlock
    from proxy.calls.recovery import Recovered

THOUGHT_LIMIT = 4 * 1024 * 1024
"""Code points of thinking that are kept; a turn that thought more is not asked for again."""


class Left(NamedTuple):
    """What a turn came to that left calls in its thinking."""

    blocks: list[CallBlock]
    """The calls that could be made, in order, drafts too; at least one."""
    thought: str
    content: str
    """White space."""


class Watch:
    """The watch over one turn."""

    def __init__(self, tools: Mapping[str, Any]) -> None:
        """Begin a turn; `tools` are those that may be called."""
        self._recovery = Recovery(tools)
        self._waiting: list[Span] = []
        self._thought: list[str] = []
        self._content: list[str] = []
        self._thought_size = self._content_size = 0
        self._said = False
        self.calls: tuple[Recovered, ...] = ()
        """None: nothing is taken out of the text."""
        self.left: Left | None = None
        """What the turn left, once it has ended."""

    @property
    def settled(self) -> bool:
        """Whether all text passes from here on: nothing waits, and nothing will be asked for again."""
        return self._said and not self._waiting and self._recovery.settled

    def passes(self, text: str) -> bool:
        """Tell at a glance that text would come out as it is, whatever its channel."""
        return not self._waiting and self._recovery.passes(text)

    def feed(self, spans: Sequence[Span]) -> list[Span]:
        """Take the next spans; return them, less white space that waits."""
        self._recovery.feed(spans)
        out: list[Span] = []
        for span in spans:
            if span.channel is Channel.REASONING:
                self._keep_thought(span.text)
            elif self._may_wait(span.text):
                self._waiting.append(span)
                continue
            out += self._release()
            out.append(span)
        return out

    def interrupt(self) -> list[Span]:
        """Something other than text comes, a call or a refusal: nothing waits any more."""
        self._recovery.interrupt()
        self._said = True
        return self._release()

    def finish(self, *, stopped: bool) -> list[Span]:
        """End the turn: return what waited; `left` says what was found.

        Args:
            stopped: the turn ended by itself, and is over.
        """
        self._recovery.finish(stopped=stopped)
        if self._recovery.blocks and self.left is None:
            self.left = Left(self._recovery.blocks, "".join(self._thought), "".join(self._content))
        self._said = True
        return self._release()

    def _may_wait(self, text: str) -> bool:
        """Tell whether text outside the thinking is white space that may say nothing in the end."""
        if self._said:
            return False
        self._content.append(text)
        self._content_size += len(text)
        if VISIBLE.search(text) or self._content_size > HEAD_LIMIT:
            self._give_up()
            self._said = True
        return not self._said

    def _keep_thought(self, text: str) -> None:
        if not self._said:
            self._thought.append(text)
            self._thought_size += len(text)
            if self._thought_size > THOUGHT_LIMIT:
                self._give_up()

    def _give_up(self) -> None:
        self._recovery.interrupt()
        self._thought.clear()
        self._content.clear()

    def _release(self) -> list[Span]:
        waiting, self._waiting = self._waiting, []
        return waiting
