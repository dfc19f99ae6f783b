"""Deal the per-token lists of a delta out to the pieces that its text was cut into.

`logprobs.content` (and `refusal`) hold an entry per token with the token's own bytes, and `token_ids`
a number per token. Every entry goes to exactly one piece, in order: the one in which its token ends.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any


def deal_out(choice: dict[str, Any], text: str, ends: list[int]) -> list[dict[str, Any]]:
    """Cut the token lists of a choice at these ends.

    Args:
        choice: the choice of a chunk, with the text `text` in its delta.
        text: the text that the entries belong to.
        ends: where each piece but the last ends, in code points of `text`; what is negative or
            behind its end is the text of another event.

    Returns:
        For each piece, the last one included, the `logprobs` and `token_ids` that replace those of
        the choice; empty where the choice has none.
    """
    shares: list[dict[str, Any]] = [{} for _ in range(len(ends) + 1)]
    if not ends:
        return shares
    logprobs, ids = choice.get("logprobs"), choice.get("token_ids")
    if isinstance(logprobs, dict) and isinstance(logprobs.get("content"), list):
        entries = logprobs["content"]
        cuts = _cut(entries, text, ends)
        for share, begin, end in zip(shares, [0, *cuts], [*cuts, len(entries)], strict=True):
            share["logprobs"] = logprobs | {"content": entries[begin:end]} if end > begin else None
        if isinstance(ids, list) and len(ids) == len(entries):
            for share, begin, end in zip(shares, [0, *cuts], [*cuts, len(ids)], strict=True):
                share["token_ids"] = ids[begin:end] or None
            return shares
    elif logprobs is not None:
        shares[-1]["logprobs"] = logprobs
    if ids is not None:
        # Without the tokens' text the numbers can't be placed.
        shares[-1]["token_ids"] = ids
    return shares


def _cut(entries: list[Any], text: str, ends: list[int]) -> list[int]:
    """For each end, count the entries whose token ends at it or before."""
    sizes = [_size(entry) for entry in entries]
    total = len(text.encode("utf-8", "surrogatepass"))
    reached = list(accumulate(sizes))
    if reached and reached[-1] > total:
        # Bytes of a character begun in an earlier event: the last token still ends where the text does.
        reached = [position - (reached[-1] - total) for position in reached]
    limits = [len(text[: max(end, 0)].encode("utf-8", "surrogatepass")) for end in ends]
    return [sum(position <= limit for position in reached) for limit in limits]


def _size(entry: Any) -> int:
    if not isinstance(entry, dict):
        return 0
    if isinstance(entry.get("bytes"), list):
        return len(entry["bytes"])
    token = entry.get("token")
    return len(token.encode("utf-8", "surrogatepass")) if isinstance(token, str) else 0
