"""What a model is asked. Short questions: the form of the answer counts, not what it says. Pure."""

from __future__ import annotations

from typing import Any

from proxy.prompt import OFF_SWITCHES, ON_SWITCHES, PROMPT_TEXT

FIRST_TOKENS = 256
"""Enough for most models to think about one sum, and to answer."""

RAISED_TOKENS = 2048
"""Asked for once, when an answer was cut off before it showed anything."""

_SUM = "What is 17 + 25? Answer with the number alone."
_TIME = "What time is it in Paris? Use the tool."

_TOOL = {
    "type": "function",
    "function": {
        "name": "get_time",
        "description": "Tell the time in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}

_OFF = {"chat_template_kwargs": dict(OFF_SWITCHES)}
_ON = {"chat_template_kwargs": dict(ON_SWITCHES)}
_TELLS_PROMPT = {f"return_{PROMPT_TEXT}": True}
_KEEPS_SPECIAL = {"skip_special_tokens": False}


def plain(model: str, *, max_tokens: int) -> dict[str, Any]:
    """Return the question of a client that knows of no switch."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": _SUM}],
        "stream": True,
        "max_tokens": max_tokens,
    }


def curious(model: str, *, max_tokens: int) -> dict[str, Any]:
    """Return the same, asking for the prompt's text too; a server that is strict about fields refuses it."""
    return plain(model, max_tokens=max_tokens) | _TELLS_PROMPT


def off(model: str, *, max_tokens: int = FIRST_TOKENS) -> dict[str, Any]:
    """Return the question with thinking switched off, by every switch of a chat template that is known."""
    return plain(model, max_tokens=max_tokens) | _OFF


def on(model: str, *, max_tokens: int) -> dict[str, Any]:
    """Return the question with thinking switched on."""
    return curious(model, max_tokens=max_tokens) | _ON


def special(model: str, *, switches: bool) -> dict[str, Any]:
    """Return a question that asks for special tokens to stay in the text: some families' tags are such."""
    asked = plain(model, max_tokens=FIRST_TOKENS) | _KEEPS_SPECIAL
    return asked | _ON if switches else asked


def tool(model: str, *, switches: bool) -> dict[str, Any]:
    """Return a question that wants a tool to be called, with thinking off if the server takes switches."""
    asked = plain(model, max_tokens=FIRST_TOKENS)
    asked |= {"messages": [{"role": "user", "content": _TIME}], "tools": [_TOOL]}
    return asked | _OFF if switches else asked
