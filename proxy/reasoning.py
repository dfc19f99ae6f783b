"""Where reasoning stands in a message or a delta.

The wire name is data: the functions take the names to write, and nothing is changed in place. A field
that the server left empty (SGLang sends a null in every delta) keeps its place and is overwritten there.
"""

from __future__ import annotations

from typing import Any

from proxy import chat

_FIELDS = frozenset(chat.REASONING_FIELDS)


def is_native(message: dict[str, Any]) -> bool:
    """Tell whether the server parsed the reasoning itself: null, "" and [] prove nothing."""
    # Mostly none is there at all, which one look tells.
    return not _FIELDS.isdisjoint(message) and any(message.get(name) for name in chat.REASONING_FIELDS)


def place(message: dict[str, Any], content: Any, reasoning: str, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the message with other content (None: without the key), and with reasoning unless empty."""
    made: dict[str, Any] = {}
    for key, value in message.items():
        if key != "content":
            made[key] = reasoning if reasoning and key in names else value
            continue
        if content is not None:
            made[key] = content
        if reasoning:
            made |= {name: reasoning for name in names if name not in message}
    return made


def rename(message: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return a message with native reasoning under these names; the same object when it is already.

    `reasoning_details` may be signed: they stay beside it, unless there is no name at all. So does a
    shape without text that we could carry elsewhere.
    """
    given = [name for name in chat.REASONING_FIELDS if message.get(name)]
    text = chat.reasoning_text(message)
    if names and not text:
        return message
    made: dict[str, Any] = {}
    for key, value in message.items():
        if key in given:
            made |= {name: text for name in names if name not in message}
            if key in names or (names and key == "reasoning_details"):
                made[key] = value
        else:
            made[key] = text if key in names else value
    return message if made == message else made


def divide(delta: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the native reasoning of a delta, and the rest of it."""
    given = {name: delta[name] for name in chat.REASONING_FIELDS if delta.get(name)}
    return given, {key: value for key, value in delta.items() if key not in given}
