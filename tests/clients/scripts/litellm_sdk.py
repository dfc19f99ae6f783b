"""The conversation by LiteLLM's SDK, which takes the proxy for any compatible server (`openai/`)."""

from __future__ import annotations

import json
from typing import Any

import litellm
from conversation import QUESTION, TOOL, get_weather, report, turn
from litellm import completion, stream_chunk_builder

# It prints advice to the standard output, which is the report's.
litellm.suppress_debug_info = True


def ask(stream: bool, **request: Any) -> Any:
    answer: Any = completion(stream=stream, max_retries=0, **request)
    if stream:
        answer = stream_chunk_builder(list(answer))
    return answer.choices[0].message


def converse(base_url: str, model: str, stream: bool) -> list[dict[str, str]]:
    server = {"model": f"openai/{model}", "api_base": base_url, "api_key": "none"}
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    turns = []
    while len(turns) < 2:
        message = ask(stream, messages=messages, tools=[TOOL], **server)
        turns.append(turn(getattr(message, "reasoning_content", None), message.content))
        messages.append(message)
        for call in message.tool_calls or ():
            observation = get_weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": observation})
    return turns


report("litellm", {"": converse})
