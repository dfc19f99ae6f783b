"""vLLM's wire format for chat completions, as the demo server speaks it.

Key order, nulls and chunking follow vLLM 0.32, as recorded in `tests/recordings/vllm-0.32`. Nothing
here does I/O; ids and times come in as arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proxy.demo_request import Ask

VERSION = "0.32.0"
"""The vLLM version whose format this is."""

FINGERPRINT = f"vllm-{VERSION}-demo"


@dataclass(frozen=True, slots=True)
class Step:
    """One token of a choice: the text that it sets free (often none), and how it ended the choice."""

    text: str
    finish_reason: str | None = None
    stop_reason: str | None = None


def play_choices(ask: Ask) -> list[list[Step]]:
    """Return the steps of each choice that `ask` wants, by its index."""
    return [
        play(ask.model.answer(ask.question, index), max_tokens=ask.max_tokens, stop=ask.stop)
        for index in range(ask.n)
    ]


def play(tokens: Sequence[str], *, max_tokens: int | None, stop: Sequence[str]) -> list[Step]:
    """Return the steps of one choice: one for each token, the last one with a finish reason.

    An answer that ends by itself takes one step more, for the end-of-text token. As with vLLM, the
    last `length - 1` characters wait while a stop string may still begin in them.
    """
    hold = max((len(string) for string in stop), default=1) - 1
    steps: list[Step] = []
    text, sent = "", 0
    for count, token in enumerate(tokens, 1):
        text += token
        found = [(at, string) for string in stop if (at := text.find(string, sent)) >= 0]
        if found:
            at, string = min(found)
            return [*steps, Step(text[sent:at], "stop", string)]
        if count == max_tokens:
            return [*steps, Step(text[sent:], "length")]
        end = max(sent, len(text) - hold)
        steps.append(Step(text[sent:end]))
        sent = end
    return [*steps, Step(text[sent:], "stop")]


def write_stream(
    ask: Ask, choices: Sequence[Sequence[Step]], *, completion_id: str, created: int
) -> Iterator[list[bytes]]:
    """Yield the events of a streamed answer, beat by beat.

    The first beat holds the role chunks, each one after it the next token of every choice that still
    runs; the last one ends with the usage (if asked for) and `[DONE]`.
    """
    head = {
        "id": completion_id,
        "object": "chat.completion.chunk",
        "created": created,
        "model": ask.model.name,
    }

    def event(choice: dict[str, Any], *, tokens: int, tail: dict[str, Any]) -> bytes:
        chunk = {**head, "choices": [choice]}
        if ask.continuous_usage:
            chunk["usage"] = {**_usage(ask.prompt_tokens, tokens), "completion_tokens_details": None}
        return _event(chunk | tail)

    role = {"role": "assistant", "content": ""}
    yield [
        event(
            {"index": index, "delta": role, "logprobs": None, "finish_reason": None},
            tokens=0,
            tail={"prompt_token_ids": None, "prompt_text": None},
        )
        for index in range(len(choices))
    ]
    for tokens, beat in enumerate(zip_longest(*choices), 1):
        events: list[bytes] = []
        for index, step in enumerate(beat):
            if step is None:
                continue
            choice = {"index": index, "delta": {"content": step.text}, "logprobs": None}
            choice["finish_reason"] = step.finish_reason
            if step.finish_reason:
                choice["stop_reason"] = step.stop_reason
            choice["token_ids"] = None
            # The usage chunk carries the fingerprint; without one, the chunk that finishes a choice.
            signed = step.finish_reason and not ask.include_usage
            tail = {"system_fingerprint": FINGERPRINT} if signed else {}
            events.append(event(choice, tokens=tokens, tail=tail))
        if tokens == max(map(len, choices)):
            if ask.include_usage:
                usage = _usage(ask.prompt_tokens, sum(map(len, choices)))
                last = {**head, "choices": [], "usage": usage, "system_fingerprint": FINGERPRINT}
                events.append(_event(last))
            events.append(b"data: [DONE]\n\n")
        yield events


def write_whole(ask: Ask, choices: Sequence[Sequence[Step]], *, completion_id: str, created: int) -> bytes:
    """Return the body of an answer that is not streamed."""
    silent = dict.fromkeys(("refusal", "annotations", "audio", "function_call", "reasoning"))
    details = dict.fromkeys(("prompt_tokens_details", "completion_tokens_details"))
    return orjson.dumps(
        {
            "id": completion_id,
            "object": "chat.completion",
            "created": created,
            "model": ask.model.name,
            "choices": [
                {
                    "index": index,
                    "message": {"role": "assistant", "content": "".join(s.text for s in steps), **silent},
                    "logprobs": None,
                    "finish_reason": steps[-1].finish_reason,
                    "stop_reason": steps[-1].stop_reason,
                    "token_ids": None,
                    "routed_experts": None,
                }
                for index, steps in enumerate(choices)
            ],
            "service_tier": None,
            "system_fingerprint": FINGERPRINT,
            "usage": {**_usage(ask.prompt_tokens, sum(map(len, choices))), **details},
            **dict.fromkeys(("prompt_logprobs", "prompt_token_ids", "prompt_text")),
            **dict.fromkeys(("kv_transfer_params", "ec_transfer_params", "metrics")),
        },
    )


def _event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(chunk) + b"\n\n"


def _usage(prompt: int, completion: int) -> dict[str, int | None]:
    return {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}
