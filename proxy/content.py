"""The answer's text on its way out: the lines it is on, and what of it still waits."""

from __future__ import annotations

from proxy.hold import Hold
from proxy.lines import VISIBLE, Indent, Lines


class Content:
    """The content channel of one choice. Each method returns the text that goes out now."""

    __slots__ = ("hold", "indent", "lines", "visible")

    def __init__(self, space_limit: int, hold_limit: int, *, code_aware: bool) -> None:
        """Begin an empty answer; the limits are those of `Indent` and `Hold`, in code points."""
        self.lines = Lines(code_aware=code_aware)
        self.indent = Indent(space_limit)
        self.hold = Hold(hold_limit)
        self.visible = False
        """Something visible went out."""

    @property
    def is_plain(self) -> bool:
        """Whether text goes out as it is written: the answer has begun and nothing waits."""
        return self.visible and not self.hold and not self.indent.open

    def write(self, text: str) -> str:
        """Take text of the answer: follow its lines and code, and let it wait behind a held opener."""
        if not text:
            return ""
        self.lines.read(text)
        if self.hold:
            self.hold.write(text)
            return ""
        return self.release(text)

    def release(self, text: str) -> str:
        """Let text go whose lines were followed before, or need not be."""
        if self.indent.open:
            text = self.indent.feed(text)
        if text and not self.visible:
            self.visible = VISIBLE.search(text) is not None
        return text

    def release_hold(self) -> str:
        """Held openers were prose."""
        return self.release(self.hold.release()) if self.hold else ""

    def expire(self, position: int) -> str:
        """Give up held openers whose closer can no longer be complete in time at this position."""
        return self.release(self.hold.expire(position)) if self.hold else ""
