"""What the Python scripts beside this one have in common: the question, the tool, and the report.

Each is started as `SCRIPT BASE_URL MODEL ...`, holds the conversation with every model, streaming and
not, and prints one JSON object: the client's version, and for each way to use the client, each model,
and `stream` or `whole` the turns, with the reasoning and the answer that the client showed.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Converse = Callable[[str, str, bool], list[dict[str, str]]]

QUESTION = "How warm is it in Oslo?"

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Tell the weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}


def get_weather(city: str) -> str:
    """Tell the weather of a city."""
    return {"Oslo": "12 degrees"}[city]


def turn(reasoning: str | None, content: str | None) -> dict[str, str]:
    """Make one turn of the report."""
    return {"reasoning": reasoning or "", "content": content or ""}


def report(distribution: str, ways_to_use: dict[str, Converse]) -> None:
    """Hold the conversations that the command line says in each way to use the client; print the report."""
    base_url, *models = sys.argv[1:]
    conversations = {
        use: {
            model: {way: converse(base_url, model, way == "stream") for way in ("stream", "whole")}
            for model in models
        }
        for use, converse in ways_to_use.items()
    }
    json.dump({"version": version(distribution), "conversations": conversations}, sys.stdout)
