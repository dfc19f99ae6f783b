"""Split one choice's text into reasoning and content, as it arrives.

House rules: text in, spans out; no input makes it raise; a character is looked at a bounded number
of times; nothing is held that `docs/splitting.md` does not name.

Theory of operation. Four states:

    state     what is read                             ends with
    HEAD      white space before the first text        an opener -> BLOCK; other text -> CONTENT or PASS
    BLOCK     reasoning                                a closer -> CONTENT
    CONTENT   the answer, with its lines and code      an opener that counts -> BLOCK
    PASS      the rest, untouched                      never

`_READERS` names the reader of each state. A reader consumes `_text` from `_at` on and returns True
when a reader should go on, False when more text has to come first; what then remains is the
beginning of a marker, or an opener whose next character decides about it.

What can stand between what is read and what goes out: `_lead`, white space before the leading block,
until it is known whether a block follows (and, with `exact`, until that block ends); a `Block`'s own
head, and all of it with `unterminated: content`; in `Content` the indentation before the answer, and
mid-line openers until they prove to be openers.

Some families wrap the answer in a pair of its own: a `Wrapper` knows what of it can still come.
"""

from __future__ import annotations

from enum import IntEnum, auto
from typing import TYPE_CHECKING

from proxy.block import Block
from proxy.content import Content
from proxy.lines import STOPS, VISIBLE
from proxy.markers import Kind, compile_markers
from proxy.rules import Rule, Start, Unterminated, Whitespace
from proxy.spans import Channel, Lane, Span, Spans
from proxy.wrapper import Wrapper

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.markers import Found

__all__ = ["HOLD_LIMIT", "SPACE_LIMIT", "Channel", "Span", "Splitter"]

SPACE_LIMIT = 4096
"""Code points of white space held before an opener, at a block's head, on a line before the answer."""

HOLD_LIMIT = 8192
"""Code points within which a mid-line opener has to find its closer, both markers included."""


class _State(IntEnum):
    HEAD = auto()
    BLOCK = auto()
    CONTENT = auto()
    PASS = auto()


_IN_BLOCK = Kind.OPEN | Kind.CLOSE


class Splitter:
    """The machine for one choice of one answer."""

    def __init__(self, rule: Rule) -> None:
        """Begin a choice. `Start.AUTO` has to be decided before: here it is read as `LEADING`."""
        self._rule = rule
        self._exact = rule.whitespace is Whitespace.EXACT
        self._markers = compile_markers(rule.tags)
        self._state = _State.HEAD
        self._spans = Spans()
        self._text = ""  # what came and is not consumed
        self._at = 0  # where in it reading goes on
        self._base = 0  # the code points that came before it
        self._sent = 0  # how much behind _at went out already, watched because it may open a nested block
        self._lead = ""
        self._block = Block("", 0, exact=False, keeps=False)  # the one being read, or the last one
        self._content = Content(SPACE_LIMIT, HOLD_LIMIT, code_aware=rule.code_aware)
        self._begun = False  # there was a block, here or in the beginning that the client wrote
        self._opens = rule.start is Start.ANYWHERE  # an opener in content can count
        self._after_closer = False  # a closer that counted stands directly before _at
        self._orphans = 0  # closers that still belong to nested openers
        self._wrapper = Wrapper(rule.tags)
        self.engaged = False
        """Whether a block has been read, or is being read."""
        self._may_repeat = rule.start is Start.IMPLICIT  # the model may write the prompt's opener once more
        if self._may_repeat:
            self._enter("")
        if rule.prefill:
            self._pass_over(rule.prefill)

    @property
    def inside(self) -> bool:
        """Whether a block is being read."""
        return self._state is _State.BLOCK

    def feed(self, text: str) -> list[Span]:
        """Take the next piece of text; return what is now certain."""
        self._text += text
        self._read(final=False)
        if self._content.hold:
            self._put(self._content.expire(self._base + len(self._text) + 1))
        return self._spans.take()

    def lane(self) -> Lane | None:
        """Return how text passes from here on; None as long as every text has to be looked at.

        What passed in the lane has to be told to `pass_by` before anything else is called.
        """
        passing = self._passing()
        if passing is None or self._state is not _State.CONTENT:
            return Lane(passing[0], self._markers.firsts(passing[1])) if passing else None
        if self._after_closer or not self._content.lines.settled:
            return None
        return Lane(passing[0], STOPS + self._markers.firsts(passing[1]))

    def pass_by(self, chars: int) -> None:
        """Text of so many code points went past, as `lane` allows."""
        self._base += chars

    def skim(self, text: str) -> Channel | None:
        """Read text that goes out at once, unchanged and on one channel; return that channel.

        Returns None, and reads nothing, when that is not sure at a glance: then `feed` has to look.
        """
        passing = self._passing()
        if passing is None or self._markers.begins_in(passing[1], text):
            return None
        if self._state is _State.CONTENT:
            self._after_closer = False
            self._content.lines.read(text)
        self._base += len(text)
        return passing[0]

    def _passing(self) -> tuple[Channel, int] | None:
        """Return the channel that text goes to at once and unchanged, and the kinds of marker that end it."""
        if self._text or self._state is _State.HEAD:
            return None
        if self._state is _State.BLOCK:
            return None if self._block.at_head or self._block.keeps else (Channel.REASONING, _IN_BLOCK)
        if self._state is _State.PASS:
            return None if self._content.indent.open else (Channel.CONTENT, 0)
        if self._wrapper.breaks or not self._content.is_plain:
            return None
        return Channel.CONTENT, self._counting()

    def interrupt(self, *, ends_block: bool = True) -> list[Span]:
        """Something other than text comes for this choice: return what was held.

        A `tool_calls` delta ends a block, and white space alone before it was a blank line; with
        `ends_block=False` (a refusal) a block stays open.
        """
        self._read(final=True)
        if self._state is _State.BLOCK:
            if ends_block:
                self._orphans += 1
                self._close()
            elif self._block.keeps:
                self._end_block()
        self._put(self._content.release_hold())
        self._content.indent.drop()
        self._after_closer = False
        return self._spans.take()

    def finish(self, *, cut: bool = False) -> list[Span]:
        """End the choice: return what was held. From here on text passes untouched.

        Args:
            cut: the turn did not end by itself: length, a stop string, an error, a broken connection.
        """
        self._read(final=True)
        if cut and self._content.hold and self._rule.unterminated is Unterminated.REASONING:
            self._enter_held()
        if self._state is _State.BLOCK:
            self._end_block()
        self._put(self._content.release_hold())
        self._content.indent.close()
        self._state = _State.PASS
        return self._spans.take()

    # Reading

    def _read(self, *, final: bool) -> None:
        while _READERS[self._state](self, final):
            pass
        if self._at:
            self._base += self._at
            self._text = self._text[self._at :]
            self._at = 0

    def _pass_over(self, text: str) -> None:
        """Read the beginning of the answer, which the client wrote itself: nothing of it goes out."""
        self._text = text
        self._read(final=True)
        self._content.release_hold()
        self._content.indent.drop()
        self._spans.take()
        self._base, self._lead, self.engaged = 0, "", False
        if self.inside:
            self._may_repeat = self._block.at_head
            self._enter("")

    def _read_head(self, final: bool) -> bool:
        visible = VISIBLE.search(self._text, self._at)
        self._lead += self._consume(visible.start() if visible else len(self._text))
        if len(self._lead) <= SPACE_LIMIT:
            if not visible:
                if final:
                    self._release_lead()
                return False
            tags = self._rule.tags
            kinds = Kind.OPEN | self._wrapper.kinds | (Kind.CLOSE if tags.stray_closer else 0)
            marker = self._markers.match(kinds, self._text, self._at)
            if marker and marker.kind is Kind.OPEN:
                self._enter(self._consume(marker.end))
                return True
            if marker and marker.kind is Kind.CLOSE:
                self._enter("")
                self._meet_end(marker)
                return True
            if marker and marker.kind is Kind.PARTIAL and not final:
                return False
        self._state = _State.CONTENT if self._opens or self._wrapper.kinds else _State.PASS
        self._release_lead()
        return True

    def _read_block(self, final: bool) -> bool:
        marker = self._markers.find(_IN_BLOCK, self._text, self._at)
        if marker is None:
            self._reason(self._consume(len(self._text)))
        elif marker.kind is Kind.CLOSE:
            self._reason(self._consume(marker.start))
            self._meet_end(marker)
            return True
        elif self._opens_implicit(marker):
            if marker.kind is Kind.OPEN:
                self._block.open(self._consume(marker.end))
                return True
            if final:
                self._reason(self._consume(len(self._text)))
        elif marker.kind is Kind.OPEN:
            self._orphans += 1
            self._reason(self._consume(marker.end))
            return True
        elif final:
            self._reason(self._consume(len(self._text)))
        else:
            # Only a closer counts here. What can only become an opener goes out, and is watched.
            closer = self._markers.find(Kind.CLOSE, self._text, marker.start)
            until = closer.start if closer else len(self._text)
            self._reason(self._consume(until))
            self._at, self._sent = marker.start, until - marker.start
        return False

    def _opens_implicit(self, marker: Found) -> bool:
        """Tell whether this may be the opener of a block that the prompt has opened, which is consumed."""
        if not self._may_repeat or self._block.marked or not self._block.at_head:
            return False
        self._reason(self._consume(marker.start))
        return self._block.at_head

    def _read_content(self, final: bool) -> bool:
        while self._wrapper.breaks:
            following = self._text[self._at : self._at + 1]
            if not following:
                return False
            if self._wrapper.leaves_out(following):
                self._consume(self._at + 1)
        kinds = self._counting()
        if not kinds and not self._wrapper.kinds:
            self._state = _State.PASS
            return True
        marker = self._markers.find(kinds, self._text, self._at)
        if marker is None:
            self._write(self._consume(len(self._text)))
            return False
        self._write(self._consume(marker.start))
        if self._counting() != kinds:
            # What went out was the first visible text: a wrapper can't begin any more.
            return True
        if self._content.lines.in_code():
            spent = self._content.lines.is_spent(at_break=self._text[marker.start] in "\r\n")
            found = self._markers.match(self._wrapper.in_code(spent=spent), self._text, marker.start)
            if found is None:
                self._write(self._consume(marker.start + 1))
                return True
            marker = found
        if marker.kind is Kind.OPEN:
            return self._meet_opener(marker, final)
        if marker.kind is Kind.PARTIAL:
            self._put(self._content.expire(self._base + len(self._text) + 1))
            if final:
                self._write(self._consume(len(self._text)))
            return self._counting() != kinds
        if marker.kind is Kind.CLOSE:
            self._meet_closer(marker)
        else:
            self._meet_wrapper(marker)
        return True

    def _counting(self) -> int:
        """The kinds of marker that count in content, at this point."""
        kinds: int = Kind.OPEN if self._opens else 0
        if self._orphans or self._content.hold:
            kinds |= Kind.CLOSE
        return kinds | self._wrapper.counting(visible=self._content.visible)

    def _read_pass(self, _final: bool) -> bool:
        self._put(self._content.release(self._consume(len(self._text))))
        return False

    def _consume(self, until: int) -> str:
        """Read up to this index; return what of it did not go out before."""
        piece = self._text[self._at + self._sent : until]
        self._at, self._sent = until, 0
        return piece

    # Markers

    def _meet_end(self, closer: Found) -> None:
        self._consume(closer.end)
        self._close()
        self._after_closer = True

    def _meet_opener(self, marker: Found, final: bool) -> bool:
        following = self._text[marker.end : marker.end + 1]
        content = self._content
        if not self._begun or content.lines.blank or self._after_closer or following in ("\r", "\n"):
            self._put(content.release_hold())
            self._enter(self._consume(marker.end))
            return True
        if not following and not final:
            return False
        opener = self._text[marker.start : marker.end]
        content.hold.open(self._base + self._at, opener, content.lines.copy())
        content.lines.read(self._consume(marker.end))
        return True

    def _meet_closer(self, marker: Found) -> None:
        self._put(self._content.expire(self._base + marker.end))
        if self._content.hold:
            self._enter_held()
            self._meet_end(marker)
        elif self._orphans:
            self._orphans -= 1
            self._consume(marker.end)
            self._after_closer = True
        else:
            self._write(self._consume(marker.start + 1))

    def _meet_wrapper(self, marker: Found) -> None:
        self._put(self._content.release_hold())
        self._consume(marker.end)
        self._after_closer = False
        self._wrapper.meet(marker.kind)
        if marker.kind is Kind.WRAP:
            self._content.indent.drop()  # it stands before the answer, and is not its own

    # Blocks

    def _enter(self, marker: str) -> None:
        keeps = self._rule.unterminated is Unterminated.CONTENT
        self._block = Block(marker, SPACE_LIMIT, exact=self._exact, keeps=keeps)
        self._state = _State.BLOCK
        self.engaged = self._begun = True
        self._opens = self._rule.interleaved

    def _enter_held(self) -> None:
        held = self._content.hold.close()
        self._content.lines = held.lines
        self._orphans += held.nested
        self._enter(held.marker)
        self._reason(held.text)

    def _close(self) -> None:
        self._emit(Channel.REASONING, self._block.close())
        self._leave()
        if not self._content.visible:
            self._content.indent.open = not self._exact
            self._wrapper.expect()

    def _end_block(self) -> None:
        """End a block that nothing closed."""
        if not self._block.keeps:
            self._leave()
            return
        text, self._lead = self._lead + self._block.give_back(), ""
        self._state = _State.PASS
        self._put(self._content.release(text))

    def _leave(self) -> None:
        self._state = _State.CONTENT
        if self._exact:
            self._release_lead()
        self._lead = ""

    # Writing

    def _reason(self, text: str) -> None:
        self._emit(Channel.REASONING, self._block.write(text))

    def _release_lead(self) -> None:
        self._write(self._lead)
        self._lead = ""

    def _write(self, text: str) -> None:
        if text:
            self._after_closer = False
            self._put(self._content.write(text))

    def _put(self, text: str) -> None:
        self._emit(Channel.CONTENT, text)

    def _emit(self, channel: Channel, text: str) -> None:
        if text:
            self._spans.add(channel, text, self._base + self._at)


_READERS: dict[_State, Callable[[Splitter, bool], bool]] = {
    _State.HEAD: Splitter._read_head,  # noqa: SLF001 - the table belongs to the class
    _State.BLOCK: Splitter._read_block,  # noqa: SLF001
    _State.CONTENT: Splitter._read_content,  # noqa: SLF001
    _State.PASS: Splitter._read_pass,  # noqa: SLF001
}
