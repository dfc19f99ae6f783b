"""The conversation by OpenAI's Python library.

Its types know no reasoning; what it does not know it keeps as an extra attribute, and sends back with
the message. The stream is folded by the library's own helper.
"""

from __future__ import annotations

import json
from typing import Any

from conversation import QUESTION, TOOL, get_weather, report, turn
from openai import OpenAI


def ask(client: OpenAI, stream: bool, **request: Any) -> Any:
    if not stream:
        return client.chat.completions.create(**request).choices[0].message
    with client.chat.completions.stream(**request) as events:
        return events.get_final_completion().choices[0].message


def converse(base_url: str, model: str, stream: bool) -> list[dict[str, str]]:
    client = OpenAI(base_url=base_url, api_key="none", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    turns = []
    while len(turns) < 2:
        message = ask(client, stream, model=model, messages=messages, tools=[TOOL])
        reasoning = getattr(message, "reasoning_content", None) or getattr(message, "reasoning", None)
        turns.append(turn(reasoning, message.content))
        messages.append(message)
        for call in message.tool_calls or ():
            observation = get_weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": observation})
    return turns


report("openai", {"": converse})
