"""Deal the per-token lists of a delta out to the pieces that its text was cut into.

`logprobs.content` holds an entry per token with the token's own bytes, and `token_ids` a number per
token. Every entry goes to exactly one piece, in order: the one in which its token ends.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate, pairwise
from typing import Any


def deal_out(choice: dict[str, Any], text: str, ends: list[int]) -> list[dict[str, Any]]:
    """Cut the token lists of a choice at these ends.

    Args:
        choice: the choice of a chunk, with the text `text` in its delta.
        text: the text that the entries belong to.
        ends: where each piece but the last ends, in code points of `text`, ascending; what is negative
            is the text of an earlier event.

    Returns:
        For each piece, the last one included, the `logprobs` and `token_ids` that replace those of
        the choice; empty where the choice has none.
    """
    shares: list[dict[str, Any]] = [{} for _ in range(len(ends) + 1)]
    logprobs, ids = choice.get("logprobs"), choice.get("token_ids")
    entries = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not ends or not isinstance(logprobs, dict) or not isinstance(entries, list):
        # Without the tokens' text nothing can be placed: all stays with the last piece.
        return shares
    cuts = [0, *_cut(entries, text, ends), len(entries)]
    others = dict.fromkeys(logprobs)
    for share, (begin, end) in zip(shares, pairwise(cuts), strict=True):
        share["logprobs"] = others | {"content": entries[begin:end]} if end > begin else None
    shares[-1]["logprobs"] = logprobs | {"content": entries[cuts[-2] :]}
    if isinstance(ids, list) and len(ids) == len(entries):
        for share, (begin, end) in zip(shares, pairwise(cuts), strict=True):
            share["token_ids"] = ids[begin:end] or None
    return shares


def _cut(entries: list[Any], text: str, ends: list[int]) -> list[int]:
    """For each end, count the entries whose token ends at it or before."""
    placed = entries[: len(entries) - _count_textless(entries, text)]
    reached = list(accumulate(map(_size, placed)))
    limits = list(accumulate(_count_bytes(text[begin:end]) for begin, end in pairwise([0, *_clip(ends)])))
    # A character may take several tokens, and those of its first bytes came with an earlier event or,
    # from SGLang, not at all. The last token with text ends where the text does.
    shift = _count_bytes(text) - reached[-1] if reached else 0
    return [bisect_right(reached, limit - shift) for limit in limits]


def _count_textless(entries: list[Any], text: str) -> int:
    """Count the entries at the end whose token left no text: that of the end of a turn, a stop string."""
    written = text.encode("utf-8", "surrogatepass")
    for count, entry in enumerate(reversed(entries)):
        token = _read_bytes(entry)
        if token and written.endswith(token):
            return count
    return 0


def _clip(ends: list[int]) -> list[int]:
    return [max(end, 0) for end in ends]


def _size(entry: Any) -> int:
    return len(_read_bytes(entry))


def _read_bytes(entry: Any) -> bytes:
    """Return the bytes of an entry's token, none where they can't be told."""
    if not isinstance(entry, dict):
        return b""
    token, listed = entry.get("token"), entry.get("bytes")
    if isinstance(listed, list):
        try:
            return bytes(listed)
        except (TypeError, ValueError):
            return b""
    return token.encode("utf-8", "surrogatepass") if isinstance(token, str) else b""


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
