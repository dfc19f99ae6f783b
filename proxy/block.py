"""The text of one block of reasoning, between its opener and its closer."""

from __future__ import annotations

from proxy.lines import VISIBLE


class Block:
    """A block that is being read.

    A block without visible text emits nothing, so white space at its head waits for the first visible
    character, unless it is kept anyway (`exact`). With `keeps` all of it waits for the closer: a block
    that never closes is to be given back as it came.
    """

    __slots__ = ("_before", "_exact", "_kept", "_limit", "_marker", "_space", "at_head", "keeps")

    def __init__(self, marker: str, limit: int, *, exact: bool, keeps: bool) -> None:
        """Begin behind an opener (empty: the prompt opened it); hold `limit` code points of white space."""
        self._marker = marker
        self._limit = limit
        self._exact = exact
        self._space = ""
        self._before = 0  # white space that came before the opener
        self._kept: list[str] = []
        self.at_head = True
        """Nothing visible has come, and no more white space than is held."""
        self.keeps = keeps

    def open(self, marker: str) -> None:
        """Take an opener that comes behind white space of a block which the prompt had opened."""
        self._marker, self._before = marker, len(self._space)

    @property
    def marked(self) -> bool:
        """Whether an opener was written."""
        return self._marker != ""

    def write(self, text: str) -> str:
        """Take text; return what goes out now."""
        if self.at_head:
            self._space += text
            if VISIBLE.search(text) or len(self._space) > self._limit:
                self.at_head = False
            elif not self._exact:
                return ""
            if not self._exact:
                text, self._space = self._space, ""
        if not self.keeps:
            return text
        self._kept.append(text)
        return ""

    def close(self) -> str:
        """End the block at its closer; return what goes out now."""
        return "".join(self._kept)

    def give_back(self) -> str:
        """End a block that keeps its text and never closed; return it with its marker."""
        text = "".join(self._kept) + ("" if self._exact else self._space)
        return text[: self._before] + self._marker + text[self._before :]
