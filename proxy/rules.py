"""What is done to one model's text, as values: tag sets, start modes, and the rule that joins them.

Everything here is data. A model family is a row of `TAG_SETS`, never a class. The configuration
produces a `Rule` per entry; the splitter and the rewriter take it and change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any


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
    """The markers of one family: any closer of the set closes any opener of it."""

    name: str
    openers: tuple[str, ...]
    closers: tuple[str, ...]
    loose: bool = False
    """The markers end in `>`, match in any ASCII case, and admit `MAX_PADDING` spaces or tabs before it."""
    special: bool = False
    """The markers are special tokens: servers drop them from the text unless asked not to, and no
    model writes them by chance, so wrappers and trailers go wherever they stand."""
    stray_closer: bool = False
    """A closer as the first text belongs to a block that the prompt opened and closed: it is dropped."""
    wrappers: tuple[tuple[str, str], ...] = ()
    """Pairs around the answer. They are removed, with one line break each on the inside unless special."""
    trailers: tuple[str, ...] = ()
    """What ends the turn behind a wrapped answer."""


MAX_PADDING = 64
"""Spaces or tabs admitted before the `>` of a loose marker."""

_THINK_NAMES = ("think", "thinking", "reasoning", "thought")
_K2_NAMES = ("think", "think_fast", "think_faster")

THINK = TagSet(
    name="think",
    openers=tuple(f"<{name}>" for name in _THINK_NAMES),
    closers=tuple(f"</{name}>" for name in _THINK_NAMES),
    loose=True,
)

TAG_SETS: dict[str, TagSet] = {
    row.name: row
    for row in (
        THINK,
        TagSet("minimax-m3", ("<mm:think>",), ("</mm:think>",), stray_closer=True),
        TagSet("seed-oss", ("<seed:think>",), ("</seed:think>",)),
        TagSet("kimi", ("◁think▷",), ("◁/think▷",)),
        TagSet(
            "kimi-k3",
            ("<|open|>think<|sep|>",),
            ("<|close|>think<|sep|>",),
            special=True,
            wrappers=(("<|open|>response<|sep|>", "<|close|>response<|sep|>"),),
            trailers=("<|close|>message<|sep|>",),
        ),
        TagSet("mistral", ("[THINK]",), ("[/THINK]",), special=True),
        TagSet("gemma4", ("<|channel>thought\n",), ("<channel|>",), special=True),
        TagSet(
            "cohere",
            ("<|START_THINKING|>",),
            ("<|END_THINKING|>",),
            special=True,
            wrappers=(
                ("<|START_RESPONSE|>", "<|END_RESPONSE|>"),
                ("<|START_TEXT|>", "<|END_TEXT|>"),
            ),
        ),
        TagSet("plamo", ("<|plamo:begin_think:plamo|>",), ("<|plamo:end_think:plamo|>",), special=True),
        TagSet(
            "k2-horizon",
            tuple(f"<ifm|{name}>" for name in _K2_NAMES),
            tuple(f"</ifm|{name}>" for name in _K2_NAMES),
        ),
        TagSet("apertus", ("<|inner_prefix|>",), ("<|inner_suffix|>",), special=True),
        TagSet(
            "granite-3.2",
            ("Here is my thought process:", "Here's my thought process:"),
            ("Here is my response:", "Here's my response:"),
        ),
        TagSet("hunyuan", ("<think>",), ("</think>",), loose=True, wrappers=(("<answer>", "</answer>"),)),
        TagSet("ernie", ("<think>",), ("</think>",), loose=True, wrappers=(("<response>", "</response>"),)),
        TagSet(
            "hy3",
            ("<think>", "<think:opensource>"),
            ("</think>", "</think:opensource>"),
            loose=True,
        ),
    )
}
"""The table of tag sets, by the name that the configuration uses. Sources: `docs/families.md`."""


_BY_REQUEST = "by request"


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
    prefill: str = field(default="", metadata={_BY_REQUEST: True})
    """The beginning of the answer, where the client wrote it and there is a block in it."""

    def settings(self) -> dict[str, Any]:
        """Return what a configuration says, by field; the rest is decided by each request."""
        return {row.name: getattr(self, row.name) for row in fields(self) if _BY_REQUEST not in row.metadata}
