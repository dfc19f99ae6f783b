"""Split one choice's text into reasoning and content, as it arrives.

House rules: text in, spans out; no input makes it raise; a character is looked at a bounded number
of times; nothing is held that the specification does not name (`docs/splitting.md`).

Theory of operation. Four states:

    state     what is read                             ends with
    HEAD      white space before the first text        an opener -> BLOCK; other text -> CONTENT or PASS
    BLOCK     reasoning                                a closer -> CONTENT
    CONTENT   the answer, with its lines and code      an opener that counts -> BLOCK
    PASS      the rest, untouched                      never

`_READERS` names the reader of each state. A reader consumes `_text` from `_at` on and returns True
when a reader should go on, False when more text has to come first; what then remains is the
beginning of a marker, or an opener whose next character decides about it.

Four things can stand between what is read and what goes out:

* `_lead`: white space before the leading block, until it is known whether a block follows (and,
  with `exact`, until that block ends).
* `_indent`: before the answer's first visible character, the white space of the current line.
* `_hold`: mid-line openers in content and the text behind them.
* `_space` and `_kept`: in a block, the white space at its head until something visible comes, and,
  with `unterminated: content`, all of its text until it closes.

Some families wrap the answer in a pair of its own (`_wraps`): its beginning counts before anything
visible, its end from then on. Both go, and nothing else changes.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

from proxy.hold import Hold
from proxy.lines import VISIBLE, Indent, Lines
from proxy.markers import Kind, compile_markers
from proxy.rules import Rule, Start, Unterminated, Whitespace
from proxy.spans import Channel, Span, Spans

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.markers import Found

__all__ = ["HOLD_LIMIT", "SPACE_LIMIT", "Channel", "Span", "Splitter"]

SPACE_LIMIT = 4096
"""Code points of white space held before an opener, at a block's head, on a line before the answer."""

HOLD_LIMIT = 8192
"""Code points within which a mid-line opener has to find its closer, both markers included."""


class _State(Enum):
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
        self._lines = Lines(code_aware=rule.code_aware)
        self._indent = Indent(SPACE_LIMIT)
        self._hold = Hold(HOLD_LIMIT)
        self._visible = False  # visible content went out
        self._engaged = False  # there was a block
        self._opens = rule.start is Start.ANYWHERE  # an opener in content can count
        self._after_closer = False  # a closer that counted stands directly before _at
        self._orphans = 0  # closers that still belong to nested openers
        special = rule.tags.special and rule.tags.wrappers
        self._wraps: int = Kind.WRAP | Kind.UNWRAP if special else 0
        self._wrapped = False  # the answer's wrapper has begun
        self._skip = ""  # the line break to leave out behind it
        self._marker = ""  # the opener of the block being read
        self._before = 0  # white space of an implicit block that came before its opener
        self._head = False  # in a block, before anything visible
        self._space = ""
        self._kept: list[str] | None = None
        if rule.start is Start.IMPLICIT:
            self._enter("")

    @property
    def engaged(self) -> bool:
        """Whether a block has been read, or is being read."""
        return self._engaged

    @property
    def inside(self) -> bool:
        """Whether a block is being read."""
        return self._state is _State.BLOCK

    def feed(self, text: str) -> list[Span]:
        """Take the next piece of text; return what is now certain."""
        self._text += text
        self._read(final=False)
        self._expire(self._base + len(self._text) + 1)
        return self._spans.take()

    def skim(self, text: str) -> Channel | None:
        """Read text that goes out at once, unchanged and on one channel; return that channel.

        Returns None, and reads nothing, when that is not sure at a glance: then `feed` has to look.
        """
        if self._text or self._state is _State.HEAD:
            return None
        if self._state is _State.BLOCK:
            if self._head or self._kept is not None or self._markers.begins_in(_IN_BLOCK, text):
                return None
            self._base += len(text)
            return Channel.REASONING
        if self._indent.open:
            return None
        if self._state is _State.CONTENT:
            if self._hold or self._skip or not self._visible:
                return None
            if self._markers.begins_in(self._counting(), text):
                return None
            self._after_closer = False
            self._lines.read(text)
        self._base += len(text)
        return Channel.CONTENT

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
            elif self._kept is not None:
                self._end_block()
        self._release(self._hold.release())
        self._indent.drop()
        self._after_closer = False
        return self._spans.take()

    def finish(self, *, cut: bool = False) -> list[Span]:
        """End the choice: return what was held. From here on text passes untouched.

        Args:
            cut: the turn did not end by itself: length, a stop string, an error, a broken connection.
        """
        self._read(final=True)
        if cut and self._hold and self._rule.unterminated is Unterminated.REASONING:
            self._enter_held()
        if self._state is _State.BLOCK:
            self._end_block()
        self._release(self._hold.release())
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

    def _read_head(self, final: bool) -> bool:
        visible = VISIBLE.search(self._text, self._at)
        self._lead += self._consume(visible.start() if visible else len(self._text))
        if len(self._lead) <= SPACE_LIMIT:
            if not visible:
                if final:
                    self._release_lead()
                return False
            tags = self._rule.tags
            kinds = Kind.OPEN | self._wraps | (Kind.CLOSE if tags.stray_closer else 0)
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
        self._state = _State.CONTENT if self._opens or self._wraps else _State.PASS
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
                self._marker, self._before = self._consume(marker.end), len(self._space)
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
        """Tell whether this may be the opener at the start of an `implicit` block, which is consumed."""
        if self._rule.start is not Start.IMPLICIT or self._marker or not self._head:
            return False
        self._reason(self._consume(marker.start))
        return self._head

    def _read_content(self, final: bool) -> bool:
        if self._skip and not self._skip_break():
            return False
        kinds = self._counting()
        if not kinds and not self._wraps:
            self._state = _State.PASS
            return True
        marker = self._markers.find(kinds, self._text, self._at)
        if marker is None:
            self._write(self._consume(len(self._text)))
            return False
        self._write(self._consume(marker.start))
        if self._lines.in_code():
            # A special token can't be quoted; everything else in code is literal.
            unwraps = self._wraps & Kind.UNWRAP if self._rule.tags.special else 0
            found = self._markers.match(unwraps, self._text, marker.start)
            if found is None:
                self._write(self._consume(marker.start + 1))
                return True
            marker = found
        if marker.kind is Kind.OPEN:
            return self._meet_opener(marker, final)
        if marker.kind is Kind.PARTIAL:
            self._expire(self._base + len(self._text) + 1)
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
        if self._orphans or self._hold:
            kinds |= Kind.CLOSE
        if self._wraps:
            kinds |= self._wraps & Kind.UNWRAP if self._visible else self._wraps
        return kinds

    def _read_pass(self, _final: bool) -> bool:
        self._release(self._consume(len(self._text)))
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
        if not self._engaged or self._lines.blank or self._after_closer or following in ("\r", "\n"):
            self._release(self._hold.release())
            self._enter(self._consume(marker.end))
            return True
        if not following and not final:
            return False
        self._hold.open(self._base + self._at, self._text[marker.start : marker.end], self._lines.copy())
        self._lines.read(self._consume(marker.end))
        return True

    def _meet_closer(self, marker: Found) -> None:
        self._expire(self._base + marker.end)
        if self._hold:
            self._enter_held()
            self._meet_end(marker)
        elif self._orphans:
            self._orphans -= 1
            self._consume(marker.end)
            self._after_closer = True
        else:
            self._write(self._consume(marker.start + 1))

    def _meet_wrapper(self, marker: Found) -> None:
        self._release(self._hold.release())
        self._consume(marker.end)
        self._after_closer = False
        special = self._rule.tags.special
        if marker.kind is Kind.WRAP:
            self._wraps, self._wrapped = Kind.UNWRAP, True
            self._skip = "" if special else "\r\n"
        elif not special:
            self._wraps = 0

    def _skip_break(self) -> bool:
        """Leave out the line break behind a wrapper; False while it is not there yet."""
        following = self._text[self._at : self._at + 1]
        if not following:
            return False
        if following in self._skip:
            self._consume(self._at + 1)
            self._skip = "\n" if following == "\r" else ""
        else:
            self._skip = ""
        return True

    def _enter_held(self) -> None:
        block = self._hold.close()
        self._lines = block.lines
        self._orphans += block.nested
        self._enter(block.marker)
        self._reason(block.text)

    def _expire(self, position: int) -> None:
        """Give up held openers whose closer can no longer be complete in time at this position."""
        if self._hold:
            self._release(self._hold.expire(position))

    # Writing

    def _enter(self, marker: str) -> None:
        self._state = _State.BLOCK
        self._engaged = True
        self._opens = self._rule.interleaved
        self._marker, self._before = marker, 0
        self._head, self._space = True, ""
        self._kept = [] if self._rule.unterminated is Unterminated.CONTENT else None

    def _reason(self, text: str) -> None:
        """Write text of the block; white space at its head waits, unless `exact` keeps it anyway."""
        if self._head:
            self._space += text
            if VISIBLE.search(text) or len(self._space) > SPACE_LIMIT:
                self._head = False
            elif not self._exact:
                return
            if not self._exact:
                text, self._space = self._space, ""
        if not text:
            return
        if self._kept is None:
            self._emit(Channel.REASONING, text)
        else:
            self._kept.append(text)

    def _close(self) -> None:
        if self._kept:
            self._emit(Channel.REASONING, "".join(self._kept))
        self._leave()
        if not self._visible:
            self._indent.open = not self._exact
            if self._rule.tags.wrappers and not (self._wrapped or self._wraps):
                self._wraps = Kind.WRAP

    def _end_block(self) -> None:
        """End a block that nothing closed."""
        if self._kept is None:
            self._leave()
            return
        text = "".join(self._kept) + ("" if self._exact else self._space)
        text = self._lead + text[: self._before] + self._marker + text[self._before :]
        self._state, self._kept, self._lead = _State.PASS, None, ""
        self._release(text)

    def _leave(self) -> None:
        self._state, self._kept = _State.CONTENT, None
        if self._exact:
            self._release_lead()
        self._lead = ""

    def _release_lead(self) -> None:
        self._write(self._lead)
        self._lead = ""

    def _write(self, text: str) -> None:
        """Write content: follow its lines and code, and let it wait behind a held opener."""
        if not text:
            return
        self._after_closer = False
        self._lines.read(text)
        if self._hold:
            self._hold.write(text)
        else:
            self._release(text)

    def _release(self, text: str) -> None:
        if self._indent.open:
            text = self._indent.feed(text)
        if text:
            self._visible = self._visible or VISIBLE.search(text) is not None
            self._emit(Channel.CONTENT, text)

    def _emit(self, channel: Channel, text: str) -> None:
        self._spans.add(channel, text, self._base + self._at)


_READERS: dict[_State, Callable[[Splitter, bool], bool]] = {
    _State.HEAD: Splitter._read_head,  # noqa: SLF001 - the table belongs to the class
    _State.BLOCK: Splitter._read_block,  # noqa: SLF001
    _State.CONTENT: Splitter._read_content,  # noqa: SLF001
    _State.PASS: Splitter._read_pass,  # noqa: SLF001
}
