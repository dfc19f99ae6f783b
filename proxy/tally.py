"""What was seen of one answer while it was relayed: counts, never text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.spans import Channel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.spans import Span


@dataclass(slots=True)
class Tally:
    """Counts of one request's answer, all of its choices and rounds together."""

    engaged: bool = False
    """Thinking was found in the text and moved."""
    reasoning_chars: int = 0
    """Code points of reasoning, those too that `reasoningField: none` leaves out."""
    content_chars: int = 0
    """Code points that went out as content."""
    promoted: int = 0
    """Calls that were left in the thinking and became calls of the answer."""
    thinking_only: int = 0
    """Choices that ended by themselves with reasoning and nothing else."""
    retries: int = 0
    """Times the model was asked again."""
    retries_used_up: bool = False
    """The last retry too left its calls in the thinking."""
    retry_failures: int = 0
    """Times that asking again failed, and the answer ended with the round before."""

    def count(self, spans: Iterable[Span]) -> None:
        """Count text that goes out."""
        for span in spans:
            if span.channel is Channel.REASONING:
                self.reasoning_chars += len(span.text)
            else:
                self.content_chars += len(span.text)
