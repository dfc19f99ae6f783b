"""What a chat completion request asks of the demo server, read and checked as vLLM does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from proxy.demo_answers import MODELS, cut_tokens

if TYPE_CHECKING:
    from proxy.demo_answers import Model

MAX_CHOICES = 16
"""More choices than this in one request are refused; nobody reads more than a few of them."""

_TEMPLATE_TOKENS = 4
"""Tokens that a chat template adds around one message: role, two markers, a line break (ChatML)."""


class RefusalError(Exception):
    """A request that the server does not take, with the status and the body of the answer to it."""

    def __init__(self, message: str, *, param: str | None = None, status: int = 400) -> None:
        """Keep what the error envelope says: `param` is the field at fault, `status` the HTTP status."""
        super().__init__(message)
        self.status = status
        kind = "NotFoundError" if status == 404 else "BadRequestError"  # noqa: PLR2004
        self.body = orjson.dumps(
            {"error": {"message": message, "type": kind, "param": param, "code": status}},
        )


@dataclass(frozen=True, slots=True)
class Ask:
    """A chat completion request, as far as the demo server heeds it."""

    model: Model
    question: int
    prompt_tokens: int
    n: int
    max_tokens: int | None
    stop: tuple[str, ...]
    stream: bool
    include_usage: bool
    continuous_usage: bool


def read_ask(body: bytes) -> Ask:
    """Read a request body. Raises `RefusalError`: 400 for a bad body, 404 for an unknown model."""
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError as exc:
        raise RefusalError(f"JSON decode error: {exc}") from exc
    if not isinstance(request, dict):
        raise RefusalError("The request body must be a JSON object.")
    name = _typed(request, "model", str, "a string")
    messages = _typed(request, "messages", list, "a list of messages")
    if not messages or not all(isinstance(message, dict) for message in messages):
        raise RefusalError("messages must be a list of at least one message.", param="messages")
    stream = _typed(request, "stream", bool, "a boolean") or False
    options = _typed(request, "stream_options", dict, "an object") or {}
    if options and not stream:
        raise RefusalError("Stream options can only be defined when `stream=True`.", param="stream_options")
    temperature = _typed(request, "temperature", (int, float), "a number")
    if temperature is not None and temperature < 0:
        raise RefusalError(
            f"temperature must be non-negative, got {float(temperature)}. "
            f"(parameter=temperature, value={float(temperature)})",
            param="temperature",
        )
    n = _count(request, "n") or 1
    if n > MAX_CHOICES:
        raise RefusalError(f"n must be at most {MAX_CHOICES}, got {n}. (parameter=n, value={n})", param="n")
    max_tokens = _count(request, "max_tokens")
    newer_max_tokens = _count(request, "max_completion_tokens")
    stop = _read_stop(request.get("stop"))
    # vLLM checks the values before it looks for the model.
    if name not in MODELS:
        aliases = ", ".join(MODELS)
        raise RefusalError(
            f"The model `{name}` does not exist. Valid aliases: {aliases}.",
            param="model",
            status=404,
        )
    include_usage = options.get("include_usage") is True
    return Ask(
        model=MODELS[name],
        question=max(0, sum(message.get("role") == "user" for message in messages) - 1),
        prompt_tokens=sum(_TEMPLATE_TOKENS + len(cut_tokens(_message_text(m))) for m in messages),
        n=n,
        max_tokens=max_tokens if newer_max_tokens is None else newer_max_tokens,
        stop=stop,
        stream=stream,
        include_usage=include_usage,
        continuous_usage=include_usage and options.get("continuous_usage_stats") is True,
    )


def _typed(request: dict[str, Any], key: str, kind: type | tuple[type, ...], wanted: str) -> Any:
    value = request.get(key)
    if value is None and key in {"model", "messages"}:
        raise RefusalError(f"{key} is required.", param=key)
    # JSON's true is an int to Python, never to the client that sent it.
    if value is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
        raise RefusalError(f"{key} must be {wanted}.", param=key)
    return value


def _count(request: dict[str, Any], key: str) -> int | None:
    value: int | None = _typed(request, key, int, "an integer")
    if value is not None and value < 1:
        raise RefusalError(
            f"{key} must be at least 1, got {value}. (parameter={key}, value={value})", param=key
        )
    return value


def _read_stop(value: Any) -> tuple[str, ...]:
    strings = [value] if isinstance(value, str) else value or []
    if not isinstance(strings, list) or not all(isinstance(string, str) and string for string in strings):
        raise RefusalError("stop must be a string or a list of strings, none of them empty.", param="stop")
    return tuple(strings)


def _message_text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
