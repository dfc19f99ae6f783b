"""The whole-text oracle: the rules of splitting, said a second time, slowly and with the end in sight.

It was written from the specification alone, apart from the machine, so that the two can be compared. It looks
ahead as far as it likes, reads the same text again and again, and knows no chunks. Three passes:

1. `_Reader` decides which markers count. It turns the text into a list of items: prose and blocks.
2. `_in_code` and `_at_line_start` answer it about Markdown, each time from the whole content read so far.
3. `_render` sends the items to the two channels and applies the white space policy.

It knows the tag set `think` only. A turn that `tool_calls` deltas interrupt is a list of parts: the texts
between two interrupts. Nothing is held over an interrupt, so a marker never spans two parts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.rules import Rule, Start, Unterminated, Whitespace
from proxy.splitter import Channel

if TYPE_CHECKING:
    from collections.abc import Sequence

SPACE_LIMIT = 4096
"""Code points of white space held before an opener, at a block's head, on a line before the answer."""

HOLD_LIMIT = 8192
"""Code points from the first of a mid-line opener to the last of its closer."""

_NAMES = "think|thinking|reasoning|thought"
_OPENER = re.compile(rf"<(?:{_NAMES})[ \t]{{0,64}}>", re.IGNORECASE | re.ASCII)
_CLOSER = re.compile(rf"</(?:{_NAMES})[ \t]{{0,64}}>", re.IGNORECASE | re.ASCII)
_MARKER = re.compile(rf"</?(?:{_NAMES})[ \t]{{0,64}}>", re.IGNORECASE | re.ASCII)

Pieces = list[tuple[Channel, str]]


def split(text: str, rule: Rule, *, cut: bool = False) -> Pieces:
    """Split a whole answer; neighbours of one channel are one piece, no piece is empty."""
    return split_parts([text], rule, cut=cut)[0]


def split_parts(parts: Sequence[str], rule: Rule, *, cut: bool = False) -> list[Pieces]:
    """Split an answer with an interrupt between every two parts; what goes out is given part by part."""
    reader = _Reader(rule, cut=cut)
    for number, part in enumerate(parts, start=1):
        reader.read(part, last=number == len(parts))
    return [merge(pieces) for pieces in _render(reader.items, rule)]


def merge(pieces: Sequence[tuple[Channel, str]]) -> Pieces:
    """Join neighbours of one channel and leave empty pieces out."""
    merged: Pieces = []
    for channel, text in pieces:
        if text and merged and merged[-1][0] is channel:
            merged[-1] = (channel, merged[-1][1] + text)
        elif text:
            merged.append((channel, text))
    return merged


def is_white(text: str) -> bool:
    """Whether every character is white space (of an empty text, yes)."""
    return all(character.isspace() or character in "\ufeff\u200b" for character in text)


# ----------------------------------------------------------------------------
# Pass 1: which markers count


@dataclass(frozen=True)
class _Prose:
    text: str


@dataclass(frozen=True)
class _Block:
    before: str
    """Leading white space that was held when the block began."""
    raw: str
    """The block as it was written, without its closer: what `unterminated: content` gives back."""
    text: str
    """Its reasoning."""
    closed: bool


@dataclass(frozen=True)
class _PartEnd:
    pass


class _Reader:
    """Reads parts in order; `items` is the result."""

    def __init__(self, rule: Rule, *, cut: bool) -> None:
        self.rule = rule
        self.cut = cut
        self.items: list[_Prose | _Block | _PartEnd] = []
        self.content = [""]
        """The content channel so far. A new string begins where a marker was taken out."""
        self.orphans = 0
        """Closers still to be dropped."""
        self.behind_closer = False
        """Whether a closer that ended a block or was dropped stands directly before this place. An interrupt
        stands between."""
        self.blocks = 0
        self.passing = False
        self.leading_space_open = True
        """Whether white space here would still be white space before a leading block."""

    def read(self, part: str, *, last: bool) -> None:
        self.behind_closer = False
        position = self._begin(part, last=last)
        while marker := _MARKER.search(part, position):
            self._prose(part[position : marker.start()])
            position = marker.end()
            if self.passing or (self.rule.code_aware and _in_code(self.content)):
                self._prose(marker[0])
            elif _CLOSER.fullmatch(marker[0]):
                self._closer_in_content(marker[0])
            else:
                position = self._opener_in_content(part, marker, last=last)
        self._prose(part[position:])
        self.items.append(_PartEnd())

    def _begin(self, part: str, *, last: bool) -> int:
        """Read what stands before the content of a part; returns where the content begins."""
        space = part[: len(part) - len(_without_leading_space(part))]
        opener = _OPENER.match(part, len(space)) if len(space) <= SPACE_LIMIT else None
        if self.rule.start is Start.IMPLICIT:
            if self.blocks:
                return 0
            body = opener.end() if opener else len(space)
            return self._block(part, 0, body, last=last, head=space)
        if self.blocks or self.passing or not self.leading_space_open:
            return 0
        if opener:
            return self._block(part, len(space), opener.end(), last=last, before=space)
        if space != part or len(space) > SPACE_LIMIT:
            self.leading_space_open = False
            self.passing = self.rule.start is Start.LEADING
        return 0

    def _prose(self, text: str) -> None:
        if text:
            self.items.append(_Prose(text))
            self.content[-1] += text
            self.behind_closer = False

    def _marker_taken_out(self, *, closer: bool) -> None:
        self.content.append("")
        self.behind_closer = closer

    def _closer_in_content(self, marker: str) -> None:
        if self.orphans:
            self.orphans -= 1
            self._marker_taken_out(closer=True)
        else:
            self._prose(marker)

    def _opener_in_content(self, part: str, opener: re.Match[str], *, last: bool) -> int:
        """Returns the position behind the opener, or behind its block if it counts."""
        if not self.blocks:  # only `anywhere` comes here before its first block
            return self._block(part, opener.start(), opener.end(), last=last)
        if self.rule.interleaved:
            if self.behind_closer or _counts_at_once(part, opener, self.content):
                return self._block(part, opener.start(), opener.end(), last=last)
            if held := self._hold(part, opener, last=last):
                return self._block(part, opener.start(), opener.end(), last=last, held=held)
        self._prose(opener[0])
        return opener.end()

    def _hold(self, part: str, opener: re.Match[str], *, last: bool) -> _Held | None:
        """Look for the closer of a mid-line opener, reading on as content; None when the opener is prose."""
        content = list(self.content)
        content[-1] += opener[0]
        nested = 0
        position = opener.end()
        while marker := _MARKER.search(part, position):
            content[-1] += part[position : marker.start()]
            position = marker.end()
            if not (self.rule.code_aware and _in_code(content)):
                if _CLOSER.fullmatch(marker[0]):
                    complete = marker.end() - opener.start() <= HOLD_LIMIT
                    return _Held(marker, nested) if complete else None
                if _counts_at_once(part, marker, content):
                    return None
                nested += 1
            content[-1] += marker[0]
        still_held = len(part) - opener.start() < HOLD_LIMIT
        return _Held(None, nested) if last and self.cut and still_held else None

    def _block(
        self,
        part: str,
        start: int,
        body: int,
        *,
        last: bool,
        before: str = "",
        head: str = "",
        held: _Held | None = None,
    ) -> int:
        """Read one block: written from `start`, its text from `body`. Returns the position behind it."""
        closer = held.closer if held else _CLOSER.search(part, body)
        end = closer.start() if closer else len(part)
        text = head + part[body:end]
        interrupted = not closer and not last
        self.items.append(_Block(before, part[start:end], text, closed=bool(closer) or interrupted))
        self.blocks += 1
        self.orphans += held.nested if held else len(_OPENER.findall(part, body, end))
        self.orphans += interrupted
        self._marker_taken_out(closer=bool(closer))
        return closer.end() if closer else len(part)


@dataclass(frozen=True)
class _Held:
    """What a mid-line hold came to: a closer, or none because the turn was cut off."""

    closer: re.Match[str] | None
    nested: int


def _counts_at_once(part: str, opener: re.Match[str], content: list[str]) -> bool:
    return _at_line_start(content) or part[opener.end() : opener.end() + 1] in ("\r", "\n")


def _without_leading_space(text: str) -> str:
    for position, character in enumerate(text):
        if not is_white(character):
            return text[position:]
    return ""


# ----------------------------------------------------------------------------
# Pass 2: lines and code of the content channel

_Line = list[str]
"""The characters of a line; an empty string where a marker was taken out."""


def _lines(content: list[str]) -> list[_Line]:
    """Cut at LF, CRLF and CR. The last line is the one that has no line break yet."""
    lines: list[_Line] = [[]]
    before = ""
    for piece in content:
        for character in piece:
            if character in "\r\n":
                if not (before == "\r" and character == "\n"):
                    lines.append([])
            else:
                lines[-1].append(character)
            before = character
        lines[-1].append("")
    return lines


def _at_line_start(content: list[str]) -> bool:
    return is_white("".join(_lines(content)[-1]))


def _in_code(content: list[str]) -> bool:
    """Whether the end of this content is inside code. The marker that asks ends a run of backticks."""
    fence = ""  # the run that opened the fence
    inline = 0  # the length of the run that opened inline code
    lines = _lines(content)
    for number, line in enumerate(lines, start=1):
        ended = number < len(lines)
        run, rest = _first_run(line)
        if fence:
            if ended and run[:1] == fence[0] and len(run) >= len(fence) and not "".join(rest).strip(" \t"):
                fence = ""
        elif is_white("".join(line)):
            inline = 0 if ended else inline
        elif len(run) >= 3 and (run[0] == "~" or "`" not in rest):
            fence = run
            inline = 0
        elif len(run) >= 3:
            inline = _after_runs(rest, len(run))
        else:
            inline = _after_runs(line, inline)
    return bool(fence or inline)


def _first_run(line: _Line) -> tuple[str, _Line]:
    """The run of backticks or tildes at the start of a line, behind any indentation, and what follows it."""
    start = 0
    while start < len(line) and is_white(line[start]):
        start += 1
    end = start
    while end < len(line) and line[end] in ("`", "~") and line[end] == line[start]:
        end += 1
    return "".join(line[start:end]), line[end:]


def _after_runs(line: _Line, inline: int) -> int:
    """Take the backtick runs of a line one by one; returns the length of the inline code open behind them."""
    runs: list[int] = []
    before = ""
    for character in line:
        if character == "`" and before == "`":
            runs[-1] += 1
        elif character == "`":
            runs.append(1)
        before = character
    for run in runs:
        if not inline:
            inline = run
        elif inline == run:
            inline = 0
    return inline


# ----------------------------------------------------------------------------
# Pass 3: the two channels


def _render(items: list[_Prose | _Block | _PartEnd], rule: Rule) -> list[Pieces]:
    """Send the items to the channels; returns one list for each part."""
    tidy = rule.whitespace is Whitespace.TIDY
    parts: list[Pieces] = [[]]
    tidying = False  # behind a leading block, before the first visible character
    indentation = ""
    visible = False
    for item in items:
        out = parts[-1]
        match item:
            case _PartEnd():
                indentation = ""
                parts.append([])
            case _Block(closed=False) if rule.unterminated is Unterminated.CONTENT:
                out.append((Channel.CONTENT, indentation + item.before + item.raw))
            case _Block():
                blank = tidy and is_white(item.text) and len(item.text) <= SPACE_LIMIT
                out.append((Channel.REASONING, "" if blank else item.text))
                out.append((Channel.CONTENT, "" if tidy else item.before))
                tidying = tidy and not visible
            case _Prose() if tidying:
                shown, indentation = _tidy(indentation, item.text)
                out.append((Channel.CONTENT, shown))
                visible = not is_white(shown)
                tidying = not shown
            case _Prose():
                out.append((Channel.CONTENT, item.text))
                visible = visible or not is_white(item.text)
    return parts[:-1]


def _tidy(indentation: str, text: str) -> tuple[str, str]:
    """Take blank lines off the front; returns what is shown and, if that is nothing, the indentation."""
    for position, character in enumerate(text):
        if character in "\r\n":
            indentation = ""
        elif is_white(character) and len(indentation) < SPACE_LIMIT:
            indentation += character
        else:
            return indentation + text[position:], ""
    return "", indentation
