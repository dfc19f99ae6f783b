"""What the model server of the benchmark says: the words it sends, and those the client expects.

The request's model name picks the mode, so that every proxy carries it unseen:

- `KIND/full`       streamed, one write per event, no pause
- `KIND/paced-50`   streamed, 50 tokens a second
- `KIND/whole`      the same words in one JSON body
- `KIND/mib`        one JSON body of about 1 MiB

`KIND` is `split` for the models that the product lists and `plain` for those it does not.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass

WORDS = (
    "row",
    " brown",
    " the",
    " light",
    " scatters",
    " because",
    " blue",
    " waves",
    " air",
    " is",
    " so",
    ",",
)
TOKENS = 400
MIB_TOKENS = 190_000  # about 5.5 bytes a word
_ID = "chatcmpl-9cf48ac4661aeeb8"
_CREATED = 1796030829
_PRINT = "vllm-0.32.0-de80e841"


@dataclass(frozen=True)
class Answer:
    """One answer: its tokens, and the two texts a splitting proxy makes of them."""

    tokens: tuple[str, ...]
    reasoning: str
    content: str

    @property
    def text(self) -> str:
        """The text as the model wrote it, markers included."""
        return "".join(self.tokens)


@functools.cache
def make_answer(count: int) -> Answer:
    """Return an answer of `count` tokens, five eighths of it thinking; `count` is at least 16."""
    thinking = count * 5 // 8
    words = [WORDS[i % len(WORDS)] for i in range(count)]
    think = ["\n", *words[: thinking - 4], "\n"]
    said = words[: count - thinking - 1]
    return Answer(
        tokens=("<think>", *think, "</think>", "\n\n", *said),
        reasoning="".join(think),
        content="".join(said),
    )


def make_events(model: str, count: int) -> list[bytes]:
    """Return the SSE events of a stream of `count` tokens, shaped and spelled as vLLM 0.32 does."""

    def event(**fields: object) -> bytes:
        head = {"id": _ID, "object": "chat.completion.chunk", "created": _CREATED, "model": model}
        return b"data: " + json.dumps(head | fields, separators=(",", ":")).encode() + b"\n\n"

    def choice(delta: dict[str, str], finish: str | None = None, **more: object) -> list[dict[str, object]]:
        return [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, **more}]

    usage = {"prompt_tokens": 8, "total_tokens": 8 + count, "completion_tokens": count}
    return [
        event(choices=choice({"role": "assistant", "content": ""}), prompt_token_ids=None, prompt_text=None),
        *(event(choices=choice({"content": token}, token_ids=None)) for token in make_answer(count).tokens),
        event(
            choices=choice({"content": ""}, "stop", stop_reason=None, token_ids=None),
            system_fingerprint=_PRINT,
        ),
        event(choices=[], usage=usage, system_fingerprint=_PRINT),
        b"data: [DONE]\n\n",
    ]


def make_whole(model: str, count: int) -> bytes:
    """Return the JSON body of an answer of `count` tokens that is not streamed."""
    message = {"role": "assistant", "content": make_answer(count).text, "refusal": None, "annotations": None}
    message |= {"audio": None, "function_call": None, "reasoning": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop", "stop_reason": None}
    body = {
        "id": _ID,
        "object": "chat.completion",
        "created": _CREATED,
        "model": model,
        "choices": [choice],
        "service_tier": None,
        "system_fingerprint": _PRINT,
        "usage": {"prompt_tokens": 8, "total_tokens": 8 + count, "completion_tokens": count},
        "prompt_logprobs": None,
    }
    return json.dumps(body, separators=(",", ":")).encode()
