"""A model server that plays one conversation: it thinks and calls a tool, then thinks and answers.

The thinking stands between tags in `content`; the call is a real one, in `tool_calls`, as vLLM's own
parser would make it. Events and answers have the fields that the recordings of vLLM have
(tests/recordings), empty ones included, for a client may stumble over those too; a model whose name
ends in `-sglang` has SGLang's null in every delta.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from proxy.demo_answers import cut_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import Request

FIRST_THOUGHT = "Nobody knows the weather by heart.\nThe tool does — ask it for Oslo."
SECOND_THOUGHT = "The tool has answered → say it in one sentence."
ANSWER = "It is 12 degrees in Oslo."
THINKING_TURN = f"<think>\n{FIRST_THOUGHT}\n</think>\n\n"
"""The content of the first turn, as the model wrote it."""

OBSERVATION = "12 degrees"
"""What the tool has to say; without it there is no second turn."""

CALLS = {"get_weather": '{"city": "Oslo"}', "read": '{"path": "weather.txt"}'}
"""The tools that can be asked, and with what: the one of the scripts, and the coding agent's own."""

_ID = "chatcmpl-0123456789abcdef"
_CALL_ID = "chatcmpl-tool-0123456789abcdef"


class ModelServer:
    """The server; `app` is the ASGI application."""

    def __init__(self) -> None:
        """Begin with no requests."""
        self.requests: dict[tuple[str, bool], list[dict[str, Any]]] = defaultdict(list)
        """The bodies of the requests by model and by whether a stream was asked for, in their order."""
        models = Route("/v1/models", self._models)
        self.app = Starlette(routes=[Route("/v1/chat/completions", self._complete, methods=["POST"]), models])

    async def _models(self, _: Request) -> Response:
        return JSONResponse({"object": "list", "data": []})

    async def _complete(self, request: Request) -> Response:
        body = await request.json()
        stream = bool(body.get("stream"))
        self.requests[body["model"], stream].append(body)
        last = body["messages"][-1]
        if last["role"] != "tool":
            tools = [tool["function"]["name"] for tool in body.get("tools", ())]
            name = next((name for name in CALLS if name in tools), None)
            if name is None:
                return _refuse("the request offers no tool that is known here")
            text, function = THINKING_TURN, {"name": name, "arguments": CALLS[name]}
        elif OBSERVATION in json.dumps(last["content"]):
            text, function = f"<think>\n{SECOND_THOUGHT}\n</think>\n\n{ANSWER}", None
        else:
            return _refuse("the last message is not what the tool says")
        if stream:
            usage = (body.get("stream_options") or {}).get("include_usage", False)
            events = _stream(body["model"], text, function, usage=usage)
            return StreamingResponse(events, media_type="text/event-stream")
        return JSONResponse(_write_whole(body["model"], text, function))


def _refuse(message: str) -> Response:
    error = {"message": message, "type": "BadRequestError", "param": None, "code": 400}
    return JSONResponse({"error": error}, 400)


def _finish_reason(function: dict[str, str] | None) -> str:
    return "tool_calls" if function else "stop"


_USAGE = {"prompt_tokens": 40, "total_tokens": 60, "completion_tokens": 20, "prompt_tokens_details": None}


def _stream(model: str, text: str, function: dict[str, str] | None, *, usage: bool) -> Iterator[str]:
    head = {"id": _ID, "object": "chat.completion.chunk", "created": 1_750_000_000, "model": model}

    empty = {"reasoning_content": None} if model.endswith("-sglang") else {}

    def event(delta: dict[str, Any], **more: Any) -> str:
        choice = {"index": 0, "delta": empty | delta, "logprobs": None, "finish_reason": None} | more
        return f"data: {json.dumps(head | {'choices': [choice]})}\n\n"

    yield event({"role": "assistant", "content": ""})
    for token in cut_tokens(text, split_tags=True):
        yield event({"content": token}, token_ids=None)
    if function:
        half = len(function["arguments"]) // 2
        call = {"id": _CALL_ID, "type": "function", "index": 0}
        first = call | {"function": function | {"arguments": function["arguments"][:half]}}
        rest = {"index": 0, "function": {"arguments": function["arguments"][half:]}}
        yield event({"tool_calls": [first]}, token_ids=None)
        yield event({"tool_calls": [rest]}, token_ids=None)
    yield event({"content": ""}, finish_reason=_finish_reason(function), stop_reason=None, token_ids=None)
    if usage:
        yield f"data: {json.dumps(head | {'choices': [], 'usage': _USAGE})}\n\n"
    yield "data: [DONE]\n\n"


def _write_whole(model: str, text: str, function: dict[str, str] | None) -> dict[str, Any]:
    names = ("refusal", "annotations", "audio", "function_call", "reasoning")
    empty = dict.fromkeys(("reasoning_content",) if model.endswith("-sglang") else names)
    calls = [{"id": _CALL_ID, "type": "function", "function": function}] if function else []
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, **empty, "tool_calls": calls},
        "logprobs": None,
        "finish_reason": _finish_reason(function),
        "stop_reason": None,
        "token_ids": None,
    }
    head = {"id": _ID, "object": "chat.completion", "created": 1_750_000_000, "model": model}
    return head | {"choices": [choice], "service_tier": None, "usage": _USAGE, "prompt_logprobs": None}
