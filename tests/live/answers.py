"""Answers of model servers, read the plain way: what each choice said, and what came along."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

DONE = "[DONE]"


@dataclass
class Choice:
    """One choice of an answer."""

    content: str = ""
    reasoning: str | None = None
    """None where no reasoning field came."""
    finish_reason: str | None = None
    stop_reason: Any = None
    logprobs: list[Any] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)

    def add(self, message: dict[str, Any], choice: dict[str, Any], name: str) -> None:
        """Take what a delta or a message, and its choice, say next."""
        self.content += message.get("content") or ""
        if message.get(name) is not None:
            self.reasoning = (self.reasoning or "") + message[name]
        self.logprobs += (choice.get("logprobs") or {}).get("content") or ()
        self.token_ids += choice.get("token_ids") or ()
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        self.stop_reason = choice.get("stop_reason") or self.stop_reason


def read_events(body: bytes) -> list[dict[str, Any]]:
    """Parse the events of a stream; the last one must say that it is complete."""
    texts = [event.removeprefix("data: ") for event in body.decode().split("\n\n")]
    assert texts[-2:] == [DONE, ""]
    assert DONE not in texts[:-2]
    return [json.loads(text) for text in texts[:-2]]


def read(body: bytes, *, stream: bool, name: str = "reasoning_content") -> dict[int, Choice]:
    """Read an answer: its choices by index, their reasoning from the field `name`."""
    made: dict[int, Choice] = {}
    for document in read_documents(body, stream=stream):
        for choice in document["choices"]:
            message = choice["delta" if stream else "message"]
            made.setdefault(choice["index"], Choice()).add(message, choice, name)
    return dict(sorted(made.items()))


def read_documents(body: bytes, *, stream: bool) -> list[dict[str, Any]]:
    """Parse an answer: its events, or the one document that it is."""
    return read_events(body) if stream else [json.loads(body)]


def read_usage(body: bytes, *, stream: bool) -> Any:
    """Return the last usage that an answer tells, None if it tells none."""
    documents = read_documents(body, stream=stream)
    told = [document["usage"] for document in documents if document.get("usage")]
    return told[-1] if told else None


def read_prompt(body: bytes, *, stream: bool) -> str | None:
    """Return the prompt's text, None if the answer does not tell it."""
    documents = read_documents(body, stream=stream)
    told = [document["prompt_text"] for document in documents if document.get("prompt_text")]
    assert len(told) <= 1
    return told[0] if told else None


def check_stream(body: bytes, name: str = "reasoning_content") -> None:
    """Check what clients rely on in each delta of a stream."""
    roles: list[int] = []
    finished: list[int] = []
    for event in read_events(body):
        for choice in event["choices"]:
            delta, index = choice["delta"], choice["index"]
            assert index not in finished, "a choice went on after its end"
            if name in delta:
                assert delta[name], "an empty reasoning field"
                assert not delta.get("content"), "reasoning and content in one delta"
            roles += [index] if "role" in delta else []
            finished += [index] if choice.get("finish_reason") else []
    assert len(roles) == len(set(roles)), "a role came twice"
    assert sorted(roles) == sorted(finished)
