"""What is done to one model's text, as values: tag sets, start modes, and the rule that joins them.

Everything here is data. A model family is a row of `TAG_SETS`, never a class. The configuration
produces a `Rule` per entry; the splitter and the rewriter take it and change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Start(StrEnum):
    """When splitting engages."""

    LEADING = "leading"
    """Only if the first visible text is an opener."""
    IMPLICIT = "implicit"
    """The answer begins inside thinking: the chat template wrote the opener into the prompt."""
    AUTO = "auto"
    """The server is asked for the prompt; it decides between the two above, request by request."""
    ANYWHERE = "anywhere"
    """The first opener outside code, wherever it stands."""


class Whitespace(StrEnum):
    """What happens to the blank lines that models write around a leading block."""

    TIDY = "tidy"
    EXACT = "exact"


class Unterminated(StrEnum):
    """What a block is that never closed."""

    REASONING = "reasoning"
    CONTENT = "content"


class ReasoningField(StrEnum):
    """The wire name under which clients receive reasoning."""

    REASONING_CONTENT = "reasoning_content"
    REASONING = "reasoning"
    BOTH = "both"
    NONE = "none"


class History(StrEnum):
    """How the reasoning of earlier assistant turns goes back to the server."""

    KEEP = "keep"
    INLINE = "inline"
    REASONING = "reasoning"
    REASONING_CONTENT = "reasoning_content"
    DROP = "drop"


class ToolCallRecovery(StrEnum):
    """What happens to a complete tool call that a turn left inside its thinking."""

    OFF = "off"
    PROMOTE = "promote"
    RETRY = "retry"


@dataclass(frozen=True, slots=True)
class TagSet:
    """The markers of one family: any closer of the set closes any opener of it.

    `loose` markers end in `>`; they match in any ASCII case and admit up to `MAX_PADDING` spaces
    or tabs before that `>`. Other markers match literally.
    """

    name: str
    openers: tuple[str, ...]
    closers: tuple[str, ...]
    loose: bool = False


MAX_PADDING = 64
"""Spaces or tabs admitted before the `>` of a loose marker."""

_THINK_NAMES = ("think", "thinking", "reasoning", "thought")

THINK = TagSet(
    name="think",
    openers=tuple(f"<{name}>" for name in _THINK_NAMES),
    closers=tuple(f"</{name}>" for name in _THINK_NAMES),
    loose=True,
)

TAG_SETS: dict[str, TagSet] = {row.name: row for row in (THINK,)}
"""The table of tag sets, by the name that the configuration uses."""


@dataclass(frozen=True, slots=True)
class Rule:
    """How one model's answers are split and its requests are sent. Frozen: a request keeps its own."""

    start: Start = Start.LEADING
    tags: TagSet = field(default=THINK)
    interleaved: bool = True
    code_aware: bool = True
    whitespace: Whitespace = Whitespace.TIDY
    unterminated: Unterminated = Unterminated.REASONING
    reasoning_field: ReasoningField = ReasoningField.REASONING_CONTENT
    history: History = History.KEEP
    tool_call_recovery: ToolCallRecovery = ToolCallRecovery.OFF
    max_retries: int = 2
