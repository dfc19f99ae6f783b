"""The shapes of OpenAI's chat completions, as model servers write them.

Chunks and answers stay the dictionaries they were parsed to, so that fields nobody knows here keep
their place. JSON is read with orjson; what it refuses or rounds but Python's servers can write (NaN,
lone surrogates, integers beyond 64 bits) goes through the standard library, which keeps it. So does a
number beyond a double (1e400), as its text: the standard library would write one as `Infinity`.
"""

from __future__ import annotations

import json
from typing import Any, Self

import orjson

DONE = b"[DONE]"
"""The data of the event that ends a stream."""

ENVELOPE = ("id", "object", "created", "model", "service_tier", "system_fingerprint")
"""The fields that say which answer a chunk belongs to."""

REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_details")
"""The names under which servers send reasoning that they parsed themselves."""

MAX_DEPTH = 200
"""Levels of nesting up to which an answer can be written anew (orjson writes 254)."""

_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_NUMBER = b"0" * 19


class _Number(float):
    """A number with its text: orjson, which would write it as null if it is not finite, asks for that."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Self:
        number = super().__new__(cls, text)
        number.text = text
        return number


def _keep(value: Any) -> orjson.Fragment:
    if isinstance(value, _Number):
        return orjson.Fragment(value.text)
    raise TypeError


def read_json(data: bytes, *, exact: bool = True) -> Any:
    """Parse JSON.

    Without `exact`, numbers of 19 digits and more may lose some: for what is not written anew, since
    looking for them takes longer than parsing.

    Raises:
        ValueError: not JSON, not UTF-8, or nested too deeply.
    """
    if not exact or _LONG_NUMBER not in data.translate(_ZEROS):
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError:
            pass
    try:
        return json.loads(data.decode(), parse_float=_Number, parse_constant=_Number)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def write_json(value: Any) -> bytes:
    """Write JSON on one line, without spaces."""
    try:
        return orjson.dumps(value, default=_keep)
    except TypeError:
        # `_write` calls itself for each level, where the standard library goes deeper.
        text = json.dumps(value, separators=(",", ":")) if is_deep(value) else _write(value)
        return text.encode()


def _write(value: Any) -> str:
    """Write what orjson refuses, by the standard library but for a number with its text."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_write(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_write, value)) + "]"
    return value.text if isinstance(value, _Number) else json.dumps(value)


def read_object(data: bytes | None) -> dict[str, Any] | None:
    """Parse a JSON object; None when the data is anything else."""
    try:
        value = read_json(data) if data else None
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def read_chunk(data: bytes | None) -> dict[str, Any] | None:
    """Parse a chunk of an answer; None when it is no JSON object, or one that can't be written anew."""
    chunk = read_object(data)
    if chunk and data and len(data) > 2 * MAX_DEPTH and data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        return None if is_deep(chunk) else chunk
    return chunk


def is_deep(value: Any) -> bool:
    """Tell whether a value is nested too deeply to be written anew."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += item.values()
            elif isinstance(item, list):
                inner += item
        if not inner:
            return False
        level = inner
    return True


def choices(chunk: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """List the choices of a chunk, each with its index (0 where it names none).

    What is not of that shape is left out: it is nothing we can change.
    """
    listed = chunk.get("choices")
    if not isinstance(listed, list):
        return []
    return [
        (index, choice)
        for choice in listed
        if isinstance(choice, dict) and type(index := choice.get("index", 0)) is int  # True is no index
    ]


def piece(
    choice: dict[str, Any], delta: dict[str, Any], share: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Make a choice from another one: the same index, this delta, and its share of the token lists."""
    made = {"index": choice.get("index", 0), "delta": delta}
    made |= {key: None for key in ("logprobs", "finish_reason") if key in choice}
    return made | (share or {})


def excerpt(chunk: dict[str, Any], choice: dict[str, Any]) -> dict[str, Any]:
    """Make a chunk from another one: the same answer, and only this choice."""
    return {key: chunk[key] for key in ENVELOPE if key in chunk} | {"choices": [choice]}


def is_text_part(part: Any) -> bool:
    """Tell whether a part of a content array is text and nothing more.

    Any other value in it may be a signature over the text, or an annotation that counts its characters.
    """
    return (
        isinstance(part, dict)
        and part.get("type") in ("text", "output_text")
        and isinstance(part.get("text"), str)
        and not any(value for key, value in part.items() if key not in ("type", "text"))
    )


def reasoning_text(message: dict[str, Any]) -> str:
    """Return the reasoning that a server parsed itself, whichever name it used."""
    for name in ("reasoning_content", "reasoning"):
        if isinstance(message.get(name), str) and message[name]:
            return str(message[name])
    details = message.get("reasoning_details")
    texts = (
        [detail.get("text") for detail in details if isinstance(detail, dict)]
        if isinstance(details, list)
        else []
    )
    return "".join(text for text in texts if isinstance(text, str))


def is_bare(chunk: dict[str, Any]) -> bool:
    """Tell whether a chunk whose texts were taken out carries nothing that a client could miss.

    A null says nothing, nor does an empty content.
    """
    for key, value in chunk.items():
        if value is not None and key not in ENVELOPE and key != "choices":
            return False
    for choice in chunk["choices"]:
        if not isinstance(choice, dict) or not isinstance(choice.get("delta"), dict):
            return False
        for key, value in choice.items():
            if value is not None and key not in ("index", "delta"):
                return False
        for key, value in choice["delta"].items():
            if value is not None and (key != "content" or value != ""):
                return False
    return True


def is_done(data: bytes | None) -> bool:
    """Tell whether the data of an event says that the stream is complete."""
    return data is not None and data.strip() == DONE


def is_error(chunk: dict[str, Any]) -> bool:
    """Tell whether an event says that the server failed, in one of the shapes that servers use for it."""
    return bool(chunk.get("error")) or chunk.get("object") == "error"


def is_cut(choice: dict[str, Any]) -> bool:
    """Tell whether a finished choice was cut off rather than ended by the model.

    A stop string ends with `stop` too; vLLM names it in `stop_reason` and SGLang in `matched_stop`,
    where a stop token is a number.
    """
    if isinstance(choice.get("stop_reason"), str) or isinstance(choice.get("matched_stop"), str):
        return True
    return choice.get("finish_reason") not in ("stop", "tool_calls", "function_call")


def has_stopped(choice: dict[str, Any]) -> bool:
    """Tell whether the model ended a choice by itself, and with no call."""
    return choice.get("finish_reason") == "stop" and not is_cut(choice)


def error_body(message: str, type_: str, code: str, param: str | None = None) -> bytes:
    """Write the OpenAI error envelope. `type_` begins with `proxy_`: the error is our own."""
    return orjson.dumps({"error": {"message": message, "type": type_, "param": param, "code": code}})
