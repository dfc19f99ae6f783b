"""The tools of a request: which of them its answer may call, and with what parameters."""

from __future__ import annotations

from typing import Any


def read_tools(document: dict[str, Any]) -> dict[str, Any]:
    """Return the functions that may be called, each with the schema of its parameters.

    `tool_choice` narrows them: none at all, the one it names, or those of its `allowed_tools`. Of a shape
    that is not OpenAI's, nothing may be called.
    """
    listed = document.get("tools")
    functions: dict[str, Any] = {}
    for tool in listed if isinstance(listed, list) else []:
        function = tool.get("function") if isinstance(tool, dict) else None
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            functions[function["name"]] = function.get("parameters")
    wanted = document.get("tool_choice")
    if wanted is None or wanted in ("auto", "required"):
        return functions
    allowed = _names(wanted) if isinstance(wanted, dict) else []
    return {name: schema for name, schema in functions.items() if name in allowed}


def _names(wanted: dict[str, Any]) -> list[Any]:
    """Return the names in a `tool_choice`: one function, or a list of allowed ones."""
    if isinstance(wanted.get("function"), dict):
        return [_name(wanted)]
    allowed = wanted.get("allowed_tools", wanted)
    listed = allowed.get("tools") if isinstance(allowed, dict) else None
    return [_name(tool) for tool in (listed if isinstance(listed, list) else [])]


def _name(tool: Any) -> Any:
    function = tool.get("function") if isinstance(tool, dict) else None
    return function.get("name") if isinstance(function, dict) else None
