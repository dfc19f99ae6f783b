"""The conversation by Pydantic AI's agent, which holds it by itself."""

from __future__ import annotations

from typing import Any

from conversation import QUESTION, get_weather, report, turn
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


def joined(message: ModelResponse, kind: type[TextPart | ThinkingPart]) -> str:
    return "".join(part.content for part in message.parts if isinstance(part, kind))


def converse(base_url: str, model: str, stream: bool) -> list[dict[str, str]]:
    provider = OpenAIProvider(base_url=base_url, api_key="none")
    agent = Agent(OpenAIChatModel(model, provider=provider), tools=[get_weather])
    result: Any
    if stream:
        result = agent.run_stream_sync(QUESTION)
        for _ in result.stream_text():
            pass
    else:
        result = agent.run_sync(QUESTION)
    answers = [message for message in result.all_messages() if isinstance(message, ModelResponse)]
    return [turn(joined(answer, ThinkingPart), joined(answer, TextPart)) for answer in answers]


report("pydantic-ai-slim", {"": converse})
