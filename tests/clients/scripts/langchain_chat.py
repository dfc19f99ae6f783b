"""The conversation by LangChain's ChatDeepSeek, and by the class that docs/clients.md makes of it."""

from __future__ import annotations

from functools import partial, reduce
from operator import add
from typing import Any

from conversation import QUESTION, TOOL, get_weather, report, turn
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_deepseek import ChatDeepSeek


class ThinkingChat(ChatDeepSeek):
    """ChatDeepSeek that sends the reasoning of earlier turns back."""

    def _get_request_payload(self, input_: Any, **options: Any) -> dict[str, Any]:
        payload = super()._get_request_payload(input_, **options)
        for message, sent in zip(self._convert_input(input_).to_messages(), payload["messages"], strict=True):
            if reasoning := message.additional_kwargs.get("reasoning_content"):
                sent["reasoning_content"] = reasoning
        return payload


def converse(kind: type[ChatDeepSeek], base_url: str, model: str, stream: bool) -> list[dict[str, str]]:
    chat = kind(api_base=base_url, api_key="none", model=model, max_retries=0).bind_tools([TOOL])
    messages: list[Any] = [HumanMessage(QUESTION)]
    turns = []
    while len(turns) < 2:
        message: Any = reduce(add, chat.stream(messages)) if stream else chat.invoke(messages)
        turns.append(turn(message.additional_kwargs.get("reasoning_content"), message.content))
        messages.append(message)
        messages += [
            ToolMessage(get_weather(**call["args"]), tool_call_id=call["id"]) for call in message.tool_calls
        ]
    return turns


report("langchain-deepseek", {"": partial(converse, ChatDeepSeek), "class": partial(converse, ThinkingChat)})
