"""Read what a chat request says about its answer, and prepare it for the model server.

A model that is not listed has its request read for the `model` alone. A request that needs no change
is sent as the bytes that came.

    body -> read_chat -> ChatRequest -> make_plan, if its model has a rule -> Plan
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from proxy import chat, history, prompt
from proxy.errors import RequestError
from proxy.promotion import EMPTY, Toolbox
from proxy.response import Rewriter
from proxy.retries import Retries, may_retry
from proxy.rules import Start, ToolCallRecovery
from proxy.tools import read_tools

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.rules import Rule
    from proxy.tally import Tally


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat completion request, parsed once.

    Parsed, a body takes several times its bytes: keep what has to be known while the answer runs, and
    not the request itself.
    """

    model: str
    document: dict[str, Any] = field(repr=False)
    """What the body holds, not to be changed."""
    body: bytes = field(repr=False)
    exact: bool = field(default=True, repr=False)
    """The document holds every digit of its numbers, see `chat.read_json`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is sent for a listed model, and how its answer is read."""

    body: bytes = field(repr=False)
    rule: Rule
    hides_prompt: bool
    """The prompt's text was asked for by the proxy alone, and is taken out of the answer."""
    streams: bool = False
    """A stream was asked for."""
    toolbox: Toolbox = EMPTY
    """What tool calls left in the thinking are made with; empty where none are recovered."""
    retries: Retries | None = None
    """What asks again for a turn that left calls in its thinking, where the rule wants that."""

    def begin(self, tally: Tally, *, ahead: bool = False) -> Rewriter:
        """Return what rewrites an answer to it, see `Rewriter`; what is seen is counted in the tally."""
        return Rewriter(
            self.rule, hides_prompt=self.hides_prompt, toolbox=self.toolbox, tally=tally, ahead=ahead
        )


def read_chat(body: bytes) -> ChatRequest:
    """Parse the body of a chat completion request.

    Raises:
        RequestError: the body is not a JSON object, or has no `model` string.
    """
    return _read_chat(body, exact=False)


def _read_chat(body: bytes, *, exact: bool) -> ChatRequest:
    document = _read(body, exact=exact)
    model = document.get("model")
    if not isinstance(model, str):
        raise RequestError(
            "The request has no `model`, or it is not a string: name a model that /v1/models lists.",
            param="model",
        )
    return ChatRequest(model, document, body, exact)


def make_plan(request: ChatRequest, rule: Rule, call_ids: Iterator[str] | None = None) -> Plan:
    """Return what is to be sent for a listed model, and how its answer is read.

    The body is the very one that came when nothing about it changes.

    Args:
        request: the request.
        rule: that of its model.
        call_ids: ids for tool calls that are recovered, without an end; None recovers none.

    Raises:
        RequestError: it has to be changed and is nested too deeply to be written anew.
    """
    toolbox = EMPTY
    retries = rule.tool_call_recovery is ToolCallRecovery.RETRY
    if call_ids is not None and rule.tool_call_recovery is not ToolCallRecovery.OFF:
        tools = read_tools(request.document) if not retries or may_retry(request.document) else {}
        toolbox = Toolbox(tools, call_ids, request.document.get("parallel_tool_calls") is False)
    document = history.convert(request.document, rule)
    # A block that `history` puts back into a prefilled turn counts: the server sees it.
    begun = prompt.decide_start(document, rule)
    hides_prompt = begun.start is Start.AUTO and not prompt.asks_for_prompt(document)
    document = prompt.ask(document, begun, finds_calls=bool(toolbox.tools))
    if document is not request.document and not request.exact:
        return make_plan(_read_chat(request.body, exact=True), rule, call_ids)
    try:
        body = request.body if document is request.document else chat.write_json(document)
    except RecursionError:
        raise RequestError("The request body is nested too deeply.") from None
    return Plan(
        body,
        begun,
        hides_prompt,
        document.get("stream") is True,
        toolbox,
        retries=Retries(body, begun) if retries and toolbox.tools else None,
    )


def peek_model(body: bytes) -> str | None:
    """Return the model that a request to another endpoint names, None where there is none to find."""
    document = chat.read_object(body)
    model = document.get("model") if document else None
    return model if isinstance(model, str) else None


def _read(body: bytes, *, exact: bool) -> dict[str, Any]:
    try:
        document = chat.read_json(body, exact=exact)
    except ValueError:
        raise RequestError("The request body is not valid JSON: send a chat completion request.") from None
    if not isinstance(document, dict):
        raise RequestError("The request body is not a JSON object: send a chat completion request.")
    return document
