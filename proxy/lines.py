"""Where the content channel stands: on which kind of line, and inside which Markdown code.

Theory of operation. `Lines.read` takes content as it is written, in pieces cut anywhere, and keeps
three things: whether the line so far holds white space only, which code is open, and the run of
backticks or tildes that may still grow. A run means something only once it has ended, at the first
other character or at a marker (`end_run`):

    open before    run                                    open after
    nothing        n backticks                            inline code of n
    inline n       n backticks                            nothing
    any inline     three or more ` or ~ at a line start   that fence
    fence, on its  backticks, on a backtick fence         inline code of the fence's length,
      first line                                            which this run may close
    fence          as many of its kind at a line start,   nothing, from the line break on
                     only spaces or tabs behind

A blank line ends inline code, never a fence. Nothing is held here: this only follows what goes out.
"""

from __future__ import annotations

import copy
import re
from typing import Self

SPACE = r"\s\ufeff\u200b"
"""White space inside a character class: `str.isspace()`, a byte order mark, a zero width space."""

VISIBLE = re.compile(f"[^{SPACE}]")
"""The first character that is not white space."""

_FENCE_RUN = 3
_LINE_BREAK = re.compile(r"[\r\n]")
_TOKEN = re.compile(r"\r\n?|\n|`+|~+|[^\r\n`~]+")
STOPS = "\r\n`~"
"""The characters that mean something on any line."""

_NOT_PADDING = re.compile(r"[^ \t]")


class Lines:
    """The line and code state at one position of the content channel.

    With `code_aware` off only lines are followed and `in_code` is never true.
    """

    __slots__ = (
        "_after_cr",
        "_closing",
        "_code_aware",
        "_fence",
        "_fence_run",
        "_inline",
        "_on_info_line",
        "_run",
        "_run_char",
        "_run_leads",
        "blank",
    )

    def __init__(self, *, code_aware: bool) -> None:
        """Stand at the start of an empty content channel."""
        self._code_aware = code_aware
        self.blank = True
        self._after_cr = False
        self._inline = 0
        self._fence = ""
        self._fence_run = 0
        self._on_info_line = False
        self._closing = False
        self._run = 0
        self._run_char = ""
        self._run_leads = False

    def copy(self) -> Self:
        """Remember this position, so that text read ahead can be taken back."""
        return copy.copy(self)

    def in_code(self) -> bool:
        """Tell whether a marker that stands here stands in code; a marker ends a run."""
        self.end_run()
        return self._inline > 0 or self._fence != ""

    def is_spent(self, *, at_break: bool) -> bool:
        """Tell whether the code that is open has ended but for its line, or may be a stray backtick.

        A closing fence stands before, or (`at_break`) inline code would have to go on behind a line break.
        """
        self.end_run()
        return self._closing or (at_break and not self._fence)

    @property
    def settled(self) -> bool:
        """Whether text without any of `STOPS` changes nothing."""
        return not (self.blank or self._run or self._closing or self._after_cr)

    def read(self, text: str) -> None:
        """Follow a piece of content."""
        # Four searches for one character are faster than one for any of four.
        if not (self._run or "\n" in text or "`" in text or "~" in text or "\r" in text):
            self._read_plain(text)
            return
        for token in _TOKEN.findall(text):
            first = token[0]
            if first in "`~":
                self._read_run(first, len(token))
            elif first in "\r\n":
                self._break_line(token)
            else:
                self._read_plain(token)

    def end_run(self) -> None:
        """Give the run that has just ended its meaning."""
        if not self._run:
            return
        run, char, leads = self._run, self._run_char, self._run_leads
        self._run = 0
        if not self._code_aware:
            return
        if self._fence:
            self._closing = leads and char == self._fence and run >= self._fence_run
            if self._on_info_line and char == "`":
                self._inline, self._fence, self._closing = self._fence_run, "", False
                self._close_inline(run)
        elif leads and run >= _FENCE_RUN:
            self._fence, self._fence_run, self._inline = char, run, 0
            self._on_info_line = char == "`"
        elif char == "`":
            if self._inline:
                self._close_inline(run)
            else:
                self._inline = run

    def _close_inline(self, run: int) -> None:
        if run == self._inline:
            self._inline = 0

    def _read_plain(self, text: str) -> None:
        if not text:
            return
        self.end_run()
        self._after_cr = False
        if self.blank and VISIBLE.search(text):
            self.blank = False
        if self._closing and _NOT_PADDING.search(text):
            self._closing = False

    def _read_run(self, char: str, length: int) -> None:
        if self._run and self._run_char == char:
            self._run += length
            return
        self.end_run()
        self._run, self._run_char, self._run_leads = length, char, self.blank
        self.blank = False
        self._after_cr = False

    def _break_line(self, line_break: str) -> None:
        if line_break == "\n" and self._after_cr:
            self._after_cr = False
            return
        self.end_run()
        if self._closing:
            self._fence = ""
        elif self.blank and not self._fence:
            self._inline = 0
        self._closing = self._on_info_line = False
        self.blank = True
        self._after_cr = line_break == "\r"


class Indent:
    """The white space between a leading block and the answer: blank lines go, its own indentation stays."""

    __slots__ = ("_limit", "_space", "open")

    def __init__(self, limit: int) -> None:
        """Hold at most `limit` code points of one line."""
        self._limit = limit
        self._space = ""
        self.open = False
        """True from a leading block on, until the answer has begun."""

    def feed(self, text: str) -> str:
        """Take content before the answer; return what of it, and of what was held, goes out."""
        visible = VISIBLE.search(text)
        stop = visible.start() if visible else len(text)
        line = 0
        for line_break in _LINE_BREAK.finditer(text, 0, stop):
            if len(self._space) + line_break.start() - line > self._limit:
                return self._release(text[line:])
            self._space = ""
            line = line_break.end()
        if visible or len(self._space) + stop - line > self._limit:
            return self._release(text[line:])
        self._space += text[line:]
        return ""

    def drop(self) -> None:
        """White space alone up to the end, or up to a tool call, was a blank line."""
        self._space = ""

    def close(self) -> None:
        """The answer is over: what was held was a blank line, and what comes passes."""
        self._space, self.open = "", False

    def _release(self, text: str) -> str:
        text, self._space, self.open = self._space + text, "", False
        return text
