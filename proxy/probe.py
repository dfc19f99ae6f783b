"""Ask a server that does not tell its prompts how they end (`Start.AUTO`).

SGLang (0.5.13 and later) renders a conversation on `POST /v1/tokenize` and turns tokens into text on
`POST /v1/detokenize`. The conversation asked about has the shape of the client's and none of its words:
how a prompt ends depends on the model, on the arguments of its template and on who spoke last. So one
answer holds for all requests of that shape, and is kept. vLLM has no such path (its own has no `/v1`),
and tells the prompt with the answer: `AUTO` stays.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy import chat, headers, prompt
from proxy.errors import ProxyError

if TYPE_CHECKING:
    from proxy.headers import Headers
    from proxy.rules import Rule
    from proxy.telemetry import Notes
    from proxy.upstream import Upstream

PROBE_S = 5.0
"""Seconds for both requests together: rendering a few words takes milliseconds, and the client waits."""

KEEP_S = 600.0
"""Seconds for which an answer is kept: a server may come back with another template."""

RETRY_S = 60.0
"""The same for a failure that may pass."""

MAX_KEPT = 256
"""Answers kept; what they are kept under comes from clients."""

MAX_QUESTION_BYTES = 4096
"""A longer question is not asked: template arguments are a handful of words."""

_TAIL_TOKENS = 32
"""Tokens turned back into text: the longest opener, and white space behind it."""

_MAX_ANSWER_BYTES = 1024 * 1024

_OK = 200
_SERVER_ERRORS = 500
_TOO_MANY_REQUESTS = 429
_NO_ACCESS = (401, 403)
_NO_ENDPOINT = (404, 405)

_TEMPLATE_FIELDS = ("chat_template_kwargs", "reasoning_effort", "reasoning", "thinking")
"""Fields of a request that reach its chat template, besides messages and tools."""

_SOFT_SWITCHES = ("/think", "/no_think")
"""Words in a message that switch thinking: Nemotron Nano v2's template looks for them."""

_TOOL = {"type": "function", "function": {"name": "f", "description": "f", "parameters": {"type": "object"}}}
_TOOL_TURN = (
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "Hi"},
)


class Probe:
    """What the model servers said about the ends of their prompts."""

    def __init__(self) -> None:
        """Begin with nothing known."""
        self._kept: OrderedDict[tuple[str, bytes], tuple[float, str | None]] = OrderedDict()

    async def settle(
        self,
        rule: Rule,
        request: dict[str, Any],
        upstream: Upstream,
        fields: Headers,
        *,
        request_id: bytes,
        notes: Notes,
    ) -> Rule:
        """Return the rule with its start settled if the server can say where the prompt ends, else as it is.

        Args:
            rule: the rule in force, with a start of `AUTO`.
            request: the client's request, parsed; it is not changed.
            upstream: the model server it goes to.
            fields: the client's header fields; its credentials go along.
            request_id: the id under which the request is known here.
            notes: told once when a server that has the endpoint fails.
        """
        try:
            question = chat.write_json(write_question(request))
        except RecursionError:
            return rule
        if len(question) > MAX_QUESTION_BYTES:
            return rule
        now = asyncio.get_running_loop().time()
        key = (upstream.url, question)
        expires, tail = self._kept.get(key, (now, None))
        if expires <= now:
            status, tail = await _ask(_Sender(upstream, fields, request_id), question, request.get("model"))
            if tail is None and status not in (*_NO_ACCESS, *_NO_ENDPOINT):
                notes.once("the model server could not say where its prompts end", status=str(status))
            if status not in _NO_ACCESS:  # those are this client's own affair
                passing = not status or status == _TOO_MANY_REQUESTS or status >= _SERVER_ERRORS
                self._keep(key, (now + (RETRY_S if passing else KEEP_S), tail))
        return rule if tail is None else prompt.settle_start(rule, tail)

    def _keep(self, key: tuple[str, bytes], answer: tuple[float, str | None]) -> None:
        self._kept[key] = answer
        self._kept.move_to_end(key)
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)


async def read_prompt_end(
    upstream: Upstream, fields: Headers, request: dict[str, Any], *, request_id: bytes
) -> str | None:
    """Return the end of the prompt of a conversation like this one; None if the server does not say it.

    Nothing is kept of the answer, and nothing noted.
    """
    sender = _Sender(upstream, fields, request_id)
    _, tail = await _ask(sender, chat.write_json(write_question(request)), request.get("model"))
    return tail


class _Sender(NamedTuple):
    upstream: Upstream
    fields: Headers
    request_id: bytes

    async def post(self, path: bytes, question: bytes) -> tuple[int, dict[str, Any]]:
        """Return the status and the JSON object of an answer, empty where there is none."""
        sent = headers.for_upstream(
            self.fields,
            host=self.upstream.host,
            body_bytes=len(question),
            request_id=self.request_id,
            identity=True,
            api_key=self.upstream.api_key,
        )
        async with await self.upstream.send("POST", path, sent, question) as answer:
            return answer.status, chat.read_object(await answer.read_all(_MAX_ANSWER_BYTES)) or {}


async def _ask(sender: _Sender, question: bytes, model: object) -> tuple[int, str | None]:
    """Return the last status (0 when there was none) and the end of the prompt, if the server says it."""
    try:
        async with asyncio.timeout(PROBE_S):
            status, rendered = await sender.post(b"/v1/tokenize", question)
            tokens = rendered.get("tokens")
            if status != _OK or not isinstance(tokens, list) or not tokens:
                return status, None
            tail = {"model": model, "tokens": tokens[-_TAIL_TOKENS:], "skip_special_tokens": False}
            status, told = await sender.post(b"/v1/detokenize", chat.write_json(tail))
    except (ProxyError, TimeoutError):
        return 0, None
    text = told.get("text")
    return status, text if status == _OK and isinstance(text, str) else None


def write_question(request: dict[str, Any]) -> dict[str, Any]:
    """Return a request for the prompt of a conversation like this one, without any of its words."""
    messages = request.get("messages")
    told = (
        [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []
    )
    shape: list[dict[str, Any]] = []
    for role, roles in (("system", ("system", "developer")), ("user", ("user",))):
        said = [message for message in told if message.get("role") in roles]
        if said or role == "user":
            shape.append({"role": role, "content": f"Hi{_find_switch(said)}"})
    last = told[-1].get("role") if told else None
    if last == "tool":
        shape += _TOOL_TURN
    elif last == "assistant":
        shape.append({"role": "assistant", "content": "Hi"})
    question = {"model": request.get("model"), "messages": shape}
    question |= {name: request[name] for name in _TEMPLATE_FIELDS if request.get(name) is not None}
    if request.get("tools"):
        question["tools"] = [_TOOL]
    return question


def _find_switch(messages: list[dict[str, Any]]) -> str:
    """Return the last word in these messages that switches thinking, after a space; empty without one."""
    for message in reversed(messages):
        text = message.get("content")
        if isinstance(text, list):
            text = " ".join(str(part.get("text", "")) for part in text if isinstance(part, dict))
        if isinstance(text, str) and any(switch in text for switch in _SOFT_SWITCHES):
            return f" {max(_SOFT_SWITCHES, key=text.rfind)}"
    return ""
