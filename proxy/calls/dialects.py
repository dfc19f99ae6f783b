"""How model families write a tool call into their text: one row per way, never a class per model.

The markers were read in the tool parsers of released servers; `docs/tool-calls.md` names file and version
for each row.
"""

# ruff: noqa: RUF001 - the fullwidth bar is what the markers are written with

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto


class Body(Enum):
    """How a call's arguments are written."""

    PARAMETERS = auto()
    """One marked value for each argument, as text."""
    OBJECT = auto()
    """A JSON object."""
    CALLS = auto()
    """JSON that holds names as well: an object with `name` and `arguments`, or a list of such objects."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to write calls.

    opener, then one call or several (`call`, name, `name_ends`, body, `call_end`), then closer. An empty
    marker is one that the dialect does not have.
    """

    name: str
    openers: tuple[str, ...]
    """What begins the envelope; several are spellings of one marker."""
    closers: tuple[str, ...]
    """What ends it. Without any, the end of the JSON does."""
    body: Body
    begins: str = ""
    """Where dialects share an opener: the characters that can follow it in this one, "" for a name."""
    call: str = ""
    """What begins a call in the envelope; without it, the envelope holds one call."""
    name_ends: tuple[str, ...] = ()
    call_end: str = ""
    key: str = ""
    key_end: str = ""
    value: str = ""
    """What begins a value; without it, the end of the key does."""
    value_end: str = ""
    bare: bool = False
    """A call can stand outside an envelope, a stray closer behind it."""
    trims: bool = False
    """One line break at either end of a value is layout."""
    attributes: bool = False
    """Names are attributes, a key may say whether its value is a string, a body may be JSON."""
    native_ids: bool = False
    """The name stands in an id (`functions.NAME:NUMBER`), which is kept."""
    fence: str = ""
    """An older form: the word `function` for the name, then the name, then JSON in this fence."""


def _dsml(name: str, space: str, opener: str, *variants: str) -> Dialect:
    """Return a row of DeepSeek's markup, which differs in the envelope's name and one space."""
    tag = f"｜DSML｜{space}"
    envelopes = (opener, *variants)
    return Dialect(
        name,
        openers=tuple(f"<{tag}{envelope}>" for envelope in envelopes),
        closers=tuple(f"</{tag}{envelope}>" for envelope in envelopes),
        body=Body.PARAMETERS,
        begins="<",
        call=f"<{tag}invoke name=",
        name_ends=(">",),
        call_end=f"</{tag}invoke>",
        key=f"<{tag}parameter name=",
        key_end=">",
        value_end=f"</{tag}parameter>",
        bare=True,
        attributes=True,
    )


_QWEN = Dialect(
    "qwen",
    openers=("<tool_call>",),
    closers=("</tool_call>",),
    body=Body.PARAMETERS,
    begins="<",
    call="<function=",
    name_ends=(">",),
    call_end="</function>",
    key="<parameter=",
    key_end=">",
    value_end="</parameter>",
    bare=True,
    trims=True,
)

DIALECTS = (
    _QWEN,
    Dialect("hermes", ("<tool_call>",), ("</tool_call>",), Body.CALLS, begins="{["),
    Dialect(
        "glm",
        openers=("<tool_call>",),
        closers=("</tool_call>",),
        body=Body.PARAMETERS,
        key="<arg_key>",
        key_end="</arg_key>",
        value="<arg_value>",
        value_end="</arg_value>",
    ),
    Dialect(
        "minimax",
        openers=("<minimax:tool_call>",),
        closers=("</minimax:tool_call>",),
        body=Body.PARAMETERS,
        begins="<",
        call="<invoke name=",
        name_ends=(">",),
        call_end="</invoke>",
        key="<parameter name=",
        key_end=">",
        value_end="</parameter>",
        bare=True,
    ),
    Dialect(
        "deepseek",
        openers=("<｜tool▁calls▁begin｜>",),
        closers=("<｜tool▁calls▁end｜>",),
        body=Body.OBJECT,
        begins="<",
        call="<｜tool▁call▁begin｜>",
        name_ends=("<｜tool▁sep｜>",),
        call_end="<｜tool▁call▁end｜>",
        fence="```",
    ),
    _dsml("deepseek-v3.2", "", "function_calls"),
    _dsml("deepseek-v4", "", "tool_calls", "toolcalls", "tool"),
    _dsml("deepseek-v4.1", " ", "calls"),
    Dialect(
        "kimi-k2",
        openers=("<|tool_calls_section_begin|>",),
        closers=("<|tool_calls_section_end|>",),
        body=Body.OBJECT,
        begins="<",
        call="<|tool_call_begin|>",
        name_ends=("<|tool_call_argument_begin|>",),
        call_end="<|tool_call_end|>",
        native_ids=True,
    ),
    Dialect(
        "seed-oss",
        openers=("<seed:tool_call>",),
        closers=("</seed:tool_call>",),
        body=Body.PARAMETERS,
        begins="<",
        call=_QWEN.call,
        name_ends=_QWEN.name_ends,
        call_end=_QWEN.call_end,
        key=_QWEN.key,
        key_end=_QWEN.key_end,
        value_end=_QWEN.value_end,
        trims=True,
    ),
    Dialect("mistral-list", ("[TOOL_CALLS]",), (), Body.CALLS, begins="{["),
    Dialect("mistral", ("[TOOL_CALLS]",), (), Body.OBJECT, name_ends=("[ARGS]", "{")),
)
"""Every way to write a call that is recognised."""


def _index() -> dict[str, tuple[Dialect, ...]]:
    found: dict[str, tuple[Dialect, ...]] = {}
    for row in DIALECTS:
        for opener in row.openers:
            found[opener] = (*found.get(opener, ()), row)
    for row in DIALECTS:
        # Rows that share the markers of their calls do not differ behind the first of them.
        if row.bare and row.call not in found:
            found[row.call] = (row,)
    return found


OPENERS = _index()
"""Every marker that can begin a block, and the rows it belongs to; also the calls that can stand alone."""

STRAY_CLOSERS = {
    row.call: tuple(closer for other in DIALECTS if other.call == row.call for closer in other.closers)
    for row in DIALECTS
    if row.bare
}
"""The closers that can follow a call outside an envelope, by what begins the call."""
