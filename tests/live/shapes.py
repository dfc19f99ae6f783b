"""The shapes that answers are forced into, and how each one has to be read.

`forced` is a regular expression for the model server. `read` is one for the text that comes of it: its
groups named r, r1, r2… are the reasoning, those named c, c1, c2… the content, both in order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

A, B, C = "[a-z][a-z ]{8,24}", "[a-z][a-z ]{4,16}", "[a-z]{4,12}"
"""Words: a model with random weights writes noise. The first one is never a space, so that white space
around blocks is where the shape says."""


@dataclass(frozen=True)
class Shape:
    """A form that an answer can have."""

    name: str
    forced: str
    read: str
    model: str = "live/leading"
    """The entry of the proxy's configuration that reads it, see `conftest.ENTRIES`."""
    told_in: str = "reasoning_content"
    """The field with the reasoning."""
    finish_reason: str = "stop"
    more: dict[str, Any] = field(default_factory=dict)
    """Further fields of the request."""

    def split(self, text: str) -> tuple[str | None, str]:
        """Return the reasoning (None: no such field) and the content of a text of this shape."""
        found = re.fullmatch(self.read, text, re.DOTALL)
        assert found is not None, f"the server did not keep to the shape: {text!r}"
        groups = found.groupdict(default="")
        reasoning = "".join(groups[name] for name in sorted(groups) if name.startswith("r"))
        return reasoning or None, "".join(groups[name] for name in sorted(groups) if name.startswith("c"))


THINKING = Shape("thinking", f"<think>\n{A}\n</think>\n\n{A}", r"<think>(?P<r>.*)</think>\n\n(?P<c>.*)")

_CLOSER = f"{A}\n</think>\n\n{A}"
_WHOLE = "(?P<c>.*)"

SHAPES = (
    THINKING,
    Shape("thought-only", f"<think>{A}", "<think>(?P<r>.*)"),
    Shape("other-name", f"<Thinking >{A}</thinking >{A}", "<Thinking >(?P<r>.*)</thinking >(?P<c>.*)"),
    Shape("white-space-first", f"\n \n<think>{A}</think>{B}", r"\s*<think>(?P<r>.*)</think>(?P<c>.*)"),
    Shape("empty-block", f"<think>\n\n</think>\n\n{A}", r"<think>\s*</think>\s*(?P<c>.*)"),
    Shape("indented-answer", f"<think>{B}</think>\n\n    {B}", "<think>(?P<r>.*)</think>\n\n(?P<c>.*)"),
    Shape("no-thinking", A, _WHOLE),
    Shape(
        "interleaved-lines",
        f"<think>{B}</think>{B}\n<think>{B}</think>{B}",
        "<think>(?P<r1>.*)</think>(?P<c1>.*\n)<think>(?P<r2>.*)</think>(?P<c2>.*)",
    ),
    Shape(
        "interleaved-mid-line",
        f"<think>{B}</think>{C} <think>{B}</think>{C} <think>{B}</think>{C}",
        "<think>(?P<r1>.*)</think>(?P<c1>.* )<think>(?P<r2>.*)</think>(?P<c2>.* )"
        "<think>(?P<r3>.*)</think>(?P<c3>.*)",
    ),
    Shape(
        "nested-opener",
        f"<think>{C}<think>{C}</think>{C}</think>{C}",
        "<think>(?P<r>[^<]*<think>[^<]*)</think>(?P<c1>.*)</think>(?P<c2>.*)",
    ),
    Shape("mention-in-mid-answer", f"{A}the tag <think> opens{A}", _WHOLE),
    Shape(
        "mention-after-thinking",
        f"<think>{B}</think>the tag <think> opens{A}",
        "<think>(?P<r>[^<]*)</think>(?P<c>.*)",
    ),
    Shape(
        "mention-in-code",
        f"<think>{B}</think>write `<think>{C}</think>` {B}",
        "<think>(?P<r>[^<]*)</think>(?P<c>.*)",
    ),
    Shape(
        "mention-in-fence",
        f"<think>{B}</think>\n\n```\n<think>\n{C}</think>\n```\n{B}",
        "<think>(?P<r>[^<]*)</think>\n\n(?P<c>.*)",
    ),
    Shape("near-miss", f"<thin{C}>{B}<div>a < b</thinker>", _WHOLE),
    Shape("closer-only", _CLOSER, "(?P<r>.*)</think>\n\n(?P<c>.*)", "live/implicit"),
    Shape("closer-only-leading", _CLOSER, _WHOLE),
    Shape("closer-first", f"</think>\n\n{A}", "</think>\n\n(?P<c>.*)", "live/implicit"),
    Shape(
        "opener-after-opened-prompt",
        f"<think>\n{A}</think>{B}",
        "<think>(?P<r>.*)</think>(?P<c>.*)",
        "live/implicit",
    ),
    Shape(
        "anywhere",
        f"{B}<think>{B}</think>{B}",
        "(?P<c1>.*)<think>(?P<r>.*)</think>(?P<c2>.*)",
        "live/anywhere",
    ),
    Shape(
        "one-block-only",
        f"<think>{B}</think>{B}\n<think>{B}</think>{B}",
        "<think>(?P<r>[^<]*)</think>(?P<c>.*)",
        "live/one-block",
    ),
    Shape(
        "exact",
        f" \n<think>\n{B}\n</think>\n\n  {B}\n",
        r"(?P<c1>\s*)<think>(?P<r>.*)</think>(?P<c2>.*)",
        "live/exact",
    ),
    Shape("unterminated-content", f"<think>{A}", "(?P<c>.*)", "live/content"),
    Shape("reasoning-field", THINKING.forced, THINKING.read, "live/reasoning", "reasoning"),
    Shape("no-reasoning-field", THINKING.forced, r"<think>.*</think>\n\n(?P<c>.*)", "live/none"),
    Shape(
        "custom-tags",
        f"<<thoughts>>{A}<<answer>>{A}",
        "<<thoughts>>(?P<r>.*)<<answer>>(?P<c>.*)",
        "live/custom",
    ),
    Shape(
        "multi-byte",
        "<think>[\u3042-\u3093\U0001f600-\U0001f64f]{6,12}</think>\n\n"
        "[\u0430-\u044f\u4e00-\u4eff\U0001f300-\U0001f320]{6,12}",
        "<think>(?P<r>.*)</think>\n\n(?P<c>.*)",
    ),
    Shape(
        "multi-byte-tags",
        "\u25c1think\u25b7[\u3042-\u3093]{4,8}\u25c1/think\u25b7[\u4e00-\u4eff]{4,8}",
        "\u25c1think\u25b7(?P<r>.*)\u25c1/think\u25b7(?P<c>.*)",
        "live/kimi",
    ),
    Shape(
        "escapes",
        f'<think>"{C}\\\\{C}\t\u2028"</think>"{C}\\\\{C}\u2029\t"',
        "<think>(?P<r>.*)</think>(?P<c>.*)",
    ),
    Shape(
        "truncated-in-thinking",
        "<think>[a-z][a-z ]{300,400}</think>a",
        "<think>(?P<r>.*)",
        finish_reason="length",
        more={"max_tokens": 24},
    ),
    Shape(
        "truncated-in-hold",
        f"<think>{C}</think>{C} <think>[a-z]{{300,400}}</think>",
        "<think>(?P<r1>[^<]*)</think>(?P<c>[^<]*)<think>(?P<r2>.*)",
        finish_reason="length",
        more={"max_tokens": 72},
    ),
    Shape(
        "stop-string-in-thinking",
        f"<think>[a-y]{{5,15}}Z{A}</think>{B}",
        "<think>(?P<r>[a-y]*)",
        more={"stop": ["Z"]},
    ),
    Shape(
        "stop-string-in-answer",
        f"<think>{B}</think>[a-y]{{5,15}}Z{A}",
        "<think>(?P<r>.*)</think>(?P<c>[a-y]*)",
        more={"stop": ["Z"]},
    ),
    Shape(
        "stop-string-is-the-closer",
        f"<think>{B}</think>{B}",
        "<think>(?P<r>.*)",
        more={"stop": ["</think>"]},
    ),
)
