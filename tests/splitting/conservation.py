"""Whether an output can be made from an input by taking markers out: a look that knows no rule of when.

It is weaker than the oracle and independent of it. It accepts every way of choosing which markers count, and
asks only that what is missing from the output is markers, and white space where white space may go. It
guesses: all readings that are possible so far are followed side by side, character by character.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from proxy.rules import Rule, Start, Unterminated, Whitespace
from proxy.splitter import Channel
from tests.splitting.oracle import Pieces, is_white

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMES = "think|thinking|reasoning|thought"
_OPENER = re.compile(rf"<(?:{_NAMES})[ \t]{{0,64}}>", re.IGNORECASE | re.ASCII)
_CLOSER = re.compile(rf"</(?:{_NAMES})[ \t]{{0,64}}>", re.IGNORECASE | re.ASCII)

_Characters = list[tuple[Channel, str]]


_Place = Literal["content", "block", "blank block"]
"""A blank block is one that leaves nothing in the output; that it is one is a guess made at its opener."""


class _Reading(NamedTuple):
    """One way to account for the input so far."""

    written: int
    """How many characters of the output are accounted for."""
    place: _Place
    owed: str
    """White space that goes out later: with `exact` that before the leading block, which moves behind its
    reasoning, with `tidy` the indentation of the answer, which moves behind the blocks on its line."""
    orphans: int
    """Nested openers read, less closers dropped in content."""


def is_conserved(text: str, pieces: Pieces, rule: Rule) -> bool:
    """Whether `pieces` are `text` without some of its markers and the white space that may go."""
    output = [(channel, character) for channel, piece in pieces for character in piece]
    readings: list[set[_Reading]] = [set() for _ in range(len(text) + 1)]
    readings[0] = {_Reading(0, place, "", 0) for place in _first_places(rule)}
    for position in range(len(text)):
        for reading in readings[position]:
            for after, reached in _steps(text, position, reading, output, rule):
                readings[after].add(reached)
    tidy = rule.whitespace is Whitespace.TIDY  # then white space alone up to the end is a blank line
    return any(
        output[reading.written :] in ([[], _content(reading.owed)] if tidy else [_content(reading.owed)])
        for reading in readings[len(text)]
    )


def _steps(
    text: str, position: int, reading: _Reading, output: _Characters, rule: Rule
) -> Iterator[tuple[int, _Reading]]:
    """Each way to account for what stands at this position: the position behind it, and the reading then."""
    character = text[position]
    tidy = rule.whitespace is Whitespace.TIDY
    at_the_start = is_white(text[:position])
    opener = _OPENER.match(text, position)
    closer = _CLOSER.match(text, position)
    channel = Channel.CONTENT if reading.place == "content" else Channel.REASONING
    is_next = output[reading.written : reading.written + 1] == [(channel, character)]
    if reading.place == "content":
        if is_next and not reading.owed:
            yield position + 1, reading._replace(written=reading.written + 1)
        if is_white(character) and (not _shows_content(output[: reading.written]) if tidy else at_the_start):
            if not tidy or character not in "\r\n":
                yield position + 1, reading._replace(owed=reading.owed + character)
            if tidy and (at_the_start or character in "\r\n"):
                yield position + 1, reading._replace(owed="")
        if opener:
            for place in _block_places(rule):
                yield opener.end(), reading._replace(place=place)
        if closer and reading.orphans:
            yield closer.end(), reading._replace(orphans=reading.orphans - 1)
        if tidy and reading.owed and (paid := _pay(reading, output)):
            yield from _steps(text, position, paid, output, rule)
        return
    if reading.place == "block" and is_next:
        orphans = reading.orphans + bool(opener)
        yield position + 1, reading._replace(written=reading.written + 1, orphans=orphans)
    if reading.place == "blank block" and is_white(character):
        yield position + 1, reading
    if opener and at_the_start and rule.start is Start.IMPLICIT:
        yield opener.end(), reading
    if closer and (paid := reading if tidy else _pay(reading, output)):
        yield closer.end(), paid._replace(place="content")


def _pay(reading: _Reading, output: _Characters) -> _Reading | None:
    """The reading when what is owed has gone out; None if it does not stand there."""
    end = reading.written + len(reading.owed)
    if output[reading.written : end] != _content(reading.owed):
        return None
    return reading._replace(written=end, owed="")


def _first_places(rule: Rule) -> list[_Place]:
    if rule.start is not Start.IMPLICIT:
        return ["content"]
    given_back: list[_Place] = ["content"] if rule.unterminated is Unterminated.CONTENT else []
    return given_back + _block_places(rule)


def _block_places(rule: Rule) -> list[_Place]:
    return ["block", "blank block"] if rule.whitespace is Whitespace.TIDY else ["block"]


def _content(text: str) -> _Characters:
    return [(Channel.CONTENT, character) for character in text]


def _shows_content(output: _Characters) -> bool:
    return any(channel is Channel.CONTENT and not is_white(character) for channel, character in output)
