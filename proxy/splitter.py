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
* `_held`: mid-line openers in content, each with the text behind it, oldest first. All of it is
  read as content meanwhile. A closer turns the oldest within the limit into a block; an opener that
  counts at once, the limit, or the end of the text turns them back into content.
* `_space` and `_kept`: in a block, the white space at its head until something visible comes, and,
  with `unterminated: content`, all of its text until it closes.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from proxy.lines import VISIBLE, Indent, Lines
from proxy.markers import compile_markers
from proxy.rules import Rule, Start, Unterminated, Whitespace

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

SPACE_LIMIT = 4096
"""Code points of white space held before an opener, at a block's head, on a line before the answer."""

HOLD_LIMIT = 8192
"""Code points within which a mid-line opener has to find its closer, both markers included."""


class Channel(Enum):
    """Where text goes."""

    CONTENT = auto()
    REASONING = auto()


class Span(NamedTuple):
    """A piece of text for one channel.

    `end` counts the code points of the input that had been read when the piece was complete;
    markers and dropped white space are among them.
    """

    channel: Channel
    text: str
    end: int


class _State(Enum):
    HEAD = auto()
    BLOCK = auto()
    CONTENT = auto()
    PASS = auto()


@dataclass(slots=True)
class _Held:
    """A mid-line opener, the position it stands at, and the text behind it up to the next one."""

    start: int
    marker: str
    lines: Lines
    text: list[str] = field(default_factory=list)


class Splitter:
    """The machine for one choice of one answer."""

    __slots__ = (
        "_after_closer",
        "_at",
        "_base",
        "_engaged",
        "_exact",
        "_head",
        "_held",
        "_indent",
        "_kept",
        "_lead",
        "_lines",
        "_marker",
        "_markers",
        "_orphans",
        "_rule",
        "_sent",
        "_space",
        "_spans",
        "_state",
        "_text",
        "_visible",
    )

    def __init__(self, rule: Rule) -> None:
        """Begin a choice. `Start.AUTO` has to be decided before: here it is read as `LEADING`."""
        self._rule = rule
        self._exact = rule.whitespace is Whitespace.EXACT
        self._markers = compile_markers(rule.tags)
        self._state = _State.HEAD
        self._spans: list[tuple[Channel, list[str], int]] = []
        self._text = ""  # what came and is not consumed
        self._at = 0  # where in it reading goes on
        self._base = 0  # the code points that came before it
        self._sent = 0  # how much behind _at went out already, watched because it may open a nested block
        self._lead = ""
        self._lines = Lines(code_aware=rule.code_aware)
        self._indent = Indent(SPACE_LIMIT)
        self._held: deque[_Held] = deque()
        self._visible = False  # visible content went out
        self._engaged = False  # there was a block
        self._after_closer = False  # a closer that counted stands directly before _at
        self._orphans = 0  # closers that still belong to nested openers
        self._marker = ""  # the opener of the block being read
        self._head = False  # in a block, before anything visible
        self._space = ""
        self._kept: list[str] | None = None
        if rule.start is Start.IMPLICIT:
            self._enter("")

    @property
    def engaged(self) -> bool:
        """Whether a block has been read, or is being read."""
        return self._engaged

    def feed(self, text: str) -> list[Span]:
        """Take the next piece of text; return what is now certain."""
        self._text += text
        self._read(final=False)
        self._expire(self._base + len(self._text) + 1)
        return self._take()

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
        self._release_held()
        self._indent.drop()
        self._after_closer = False
        return self._take()

    def finish(self, *, cut: bool = False) -> list[Span]:
        """End the choice: return what was held. From here on text passes untouched.

        Args:
            cut: the turn did not end by itself: length, a stop string, an error, a broken connection.
        """
        self._read(final=True)
        if cut and self._held and self._rule.unterminated is Unterminated.REASONING:
            self._hold_to_block()
        if self._state is _State.BLOCK:
            self._end_block()
        self._release_held()
        self._state = _State.PASS
        return self._take()

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
            marker = self._markers.openers.match(self._text, self._at)
            if marker and marker.lastgroup == "open":
                self._enter(self._consume(marker.end()))
                return True
            if marker and not final:
                return False
        self._state = _State.CONTENT if self._rule.start is Start.ANYWHERE else _State.PASS
        self._release_lead()
        return True

    def _read_block(self, final: bool) -> bool:
        marker = self._find(self._markers.both)
        if marker is None:
            self._reason(self._consume(len(self._text)))
        elif marker.lastgroup == "close":
            self._reason(self._consume(marker.start()))
            self._consume(marker.end())
            self._close()
            self._after_closer = True
            return True
        elif self._opens_implicit(marker):
            if marker.lastgroup == "open":
                self._marker = self._consume(marker.end())
                return True
            if final:
                self._reason(self._consume(len(self._text)))
        elif marker.lastgroup == "open":
            self._orphans += 1
            self._reason(self._consume(marker.end()))
            return True
        elif final:
            self._reason(self._consume(len(self._text)))
        else:
            # Only a closer counts here. What can only become an opener goes out, and is watched.
            closer = self._markers.closers.search(self._text, marker.start())
            until = closer.start() if closer else len(self._text)
            self._reason(self._consume(until))
            self._at, self._sent = marker.start(), until - marker.start()
        return False

    def _opens_implicit(self, marker: re.Match[str]) -> bool:
        """Tell whether this may be the opener at the start of an `implicit` block, which is consumed."""
        if self._rule.start is not Start.IMPLICIT or self._marker or not self._head:
            return False
        self._reason(self._consume(marker.start()))
        return self._head

    def _read_content(self, final: bool) -> bool:
        opens = self._rule.interleaved or not self._engaged
        closes = self._orphans > 0 or bool(self._held)
        if not (opens or closes):
            self._state = _State.PASS
            return True
        pattern = self._markers.both if closes else self._markers.openers
        marker = self._find(pattern if opens else self._markers.closers)
        if marker is None:
            self._write(self._consume(len(self._text)))
            return False
        self._write(self._consume(marker.start()))
        if self._lines.in_code():
            self._write(self._consume(marker.start() + 1))
            return True
        if marker.lastgroup == "open":
            return self._meet_opener(marker, final)
        if marker.lastgroup == "close":
            self._meet_closer(marker)
            return True
        self._expire(self._base + len(self._text) + 1)
        if final:
            self._write(self._consume(len(self._text)))
        return closes and not (self._held or self._orphans)

    def _read_pass(self, _final: bool) -> bool:
        self._release(self._consume(len(self._text)))
        return False

    def _find(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        if self._markers.first.search(self._text, self._at) is None:
            return None
        return pattern.search(self._text, self._at)

    def _consume(self, until: int) -> str:
        """Read up to this index; return what of it did not go out before."""
        piece = self._text[self._at + self._sent : until]
        self._at, self._sent = until, 0
        return piece

    # Markers in content

    def _meet_opener(self, marker: re.Match[str], final: bool) -> bool:
        following = self._text[marker.end() : marker.end() + 1]
        if not self._engaged or self._lines.blank or self._after_closer or following in ("\r", "\n"):
            self._release_held()
            self._enter(self._consume(marker.end()))
            return True
        if not following and not final:
            return False
        start, before = self._base + self._at, self._lines.copy()
        self._held.append(_Held(start, self._consume(marker.end()), before))
        self._lines.read(marker.group())
        return True

    def _meet_closer(self, marker: re.Match[str]) -> None:
        self._expire(self._base + marker.end())
        if self._held:
            self._hold_to_block()
            self._consume(marker.end())
            self._close()
        elif self._orphans:
            self._orphans -= 1
            self._consume(marker.end())
        else:
            self._write(self._consume(marker.start() + 1))
            return
        self._after_closer = True

    def _hold_to_block(self) -> None:
        first = self._held.popleft()
        self._lines = first.lines
        pieces = first.text
        for nested in self._held:
            self._orphans += 1
            pieces += (nested.marker, *nested.text)
        self._held.clear()
        self._enter(first.marker)
        self._reason("".join(pieces))

    def _expire(self, position: int) -> None:
        """Give up openers whose closer can no longer be complete in time at this position."""
        while self._held and self._held[0].start + HOLD_LIMIT < position:
            self._release_oldest()

    def _release_held(self) -> None:
        while self._held:
            self._release_oldest()

    def _release_oldest(self) -> None:
        held = self._held.popleft()
        self._release("".join((held.marker, *held.text)))

    # Writing

    def _enter(self, marker: str) -> None:
        self._state = _State.BLOCK
        self._engaged = True
        self._marker, self._head, self._space = marker, True, ""
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
        if not (self._exact or self._visible):
            self._indent.open = True

    def _end_block(self) -> None:
        """End a block that nothing closed."""
        if self._kept is None:
            self._leave()
            return
        space = "" if self._exact else self._space
        text = "".join((self._lead, self._marker, *self._kept, space))
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
        if self._held:
            self._held[-1].text.append(text)
        else:
            self._release(text)

    def _release(self, text: str) -> None:
        if self._indent.open:
            text = self._indent.feed(text)
        if text:
            self._visible = self._visible or VISIBLE.search(text) is not None
            self._emit(Channel.CONTENT, text)

    def _emit(self, channel: Channel, text: str) -> None:
        end = self._base + self._at
        if self._spans and self._spans[-1][0] is channel:
            pieces = self._spans.pop()[1]
            pieces.append(text)
            self._spans.append((channel, pieces, end))
        else:
            self._spans.append((channel, [text], end))

    def _take(self) -> list[Span]:
        spans = [Span(channel, "".join(pieces), end) for channel, pieces, end in self._spans]
        self._spans.clear()
        return spans


_READERS: dict[_State, Callable[[Splitter, bool], bool]] = {
    _State.HEAD: Splitter._read_head,  # noqa: SLF001 - the table belongs to the class
    _State.BLOCK: Splitter._read_block,  # noqa: SLF001
    _State.CONTENT: Splitter._read_content,  # noqa: SLF001
    _State.PASS: Splitter._read_pass,  # noqa: SLF001
}
