"""What was seen of one answer while it was relayed: counts, never text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """Counts of one request's answer, all of its choices and rounds together."""

    engaged: bool = False
    """Thinking was found in the text and moved."""
    reasoning_chars: int = 0
    """Code points that went out as reasoning."""
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
