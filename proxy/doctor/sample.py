"""One streamed answer as it was seen: its texts, where they stood, and when they came.

Pure: the bytes and the seconds at which they came are given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from proxy import chat, sse
from proxy.prompt import PROMPT_TEXT

MAX_BYTES = 16 * 1024 * 1024
"""The largest answer that is read; a few thousand tokens with all their framing are 1 MiB."""

_PROMPT_END = 1024
_FEW_PIECES = 8
_AT_ONCE_S = 0.1
_WAITED_S = 1.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """A question that got no answer: the status, 0 when there was none, and the server's words."""

    status: int
    message: str


@dataclass(frozen=True, slots=True)
class Sample:
    """An answer, or why there was none. Times are in seconds since the question was sent."""

    content: str = ""
    reasoning: str = ""
    fields: tuple[str, ...] = ()
    """The names under which reasoning came, in the order in which they were seen."""
    calls: bool = False
    """There were tool calls in their own field."""
    finish: str | None = None
    error: str | None = None
    """An error in the middle of the answer."""
    timed_out: bool = False
    prompt: str | None = None
    """The end of the prompt, if the server told it."""
    pieces: int = 0
    """Events that held reasoning."""
    thought_s: float = 0.0
    """When the first reasoning came."""
    end_s: float = 0.0
    """When the last text came."""
    refusal: Refusal | None = None

    @property
    def cut(self) -> bool:
        """Whether the model did not end the answer by itself."""
        return self.finish not in ("stop", "tool_calls", "function_call") or self.error is not None

    @property
    def empty(self) -> bool:
        """Whether nothing came."""
        return not (self.content or self.reasoning or self.calls)

    @property
    def live(self) -> bool | None:
        """Whether reasoning came while it was thought; None when it was too little or too fast to tell.

        Held back, all of it comes at the end, at once, after a wait.
        """
        if self.pieces < _FEW_PIECES:
            return None
        if self.end_s - self.thought_s >= _AT_ONCE_S:
            return True
        return False if self.end_s >= _WAITED_S else None


class Sampler:
    """Collects the first choice of an answer; one that is no stream, but a whole answer, will do too."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self._decoder = sse.Decoder(MAX_BYTES)
        self._whole = bytearray()
        self._bytes = 0
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._fields: dict[str, None] = {}
        self._calls = False
        self._finish: str | None = None
        self._error: str | None = None
        self._prompt: str | None = None
        self._pieces = 0
        self._thought_s = self._end_s = 0.0

    @property
    def full(self) -> bool:
        """Whether more has come than is read."""
        return self._bytes > MAX_BYTES

    def feed(self, data: bytes, at_s: float) -> None:
        """Take the next bytes, which came so many seconds after the question."""
        self._bytes += len(data)
        if self._whole or (self._bytes == len(data) and data.lstrip().startswith(b"{")):
            self._whole += data
            return
        for event in self._decoder.feed(data):
            self._read(event, at_s)

    def finish(self, *, at_s: float, timed_out: bool = False, error: str | None = None) -> Sample:
        """End the answer, which may have been broken off; return what was seen of it."""
        if self._whole:
            self._read_answer(chat.read_object(bytes(self._whole)) or {}, at_s, "message")
        elif not timed_out:
            for event in self._decoder.finish():
                self._read(event, at_s)
        return Sample(
            content="".join(self._content),
            reasoning="".join(self._reasoning),
            fields=tuple(self._fields),
            calls=self._calls,
            finish=self._finish,
            error=error or self._error,
            timed_out=timed_out,
            prompt=self._prompt,
            pieces=self._pieces,
            thought_s=self._thought_s,
            end_s=self._end_s,
        )

    def _read(self, event: sse.Event, at_s: float) -> None:
        chunk = chat.read_object(event.data)
        if chunk is not None:
            self._read_answer(chunk, at_s, "delta")

    def _read_answer(self, answer: dict[str, Any], at_s: float, part: str) -> None:
        if chat.is_error(answer):
            self._error = error_message(answer) or "the server failed"
        prompt = answer.get(PROMPT_TEXT)
        if isinstance(prompt, str):
            self._prompt = prompt[-_PROMPT_END:]
        for index, choice in chat.choices(answer):
            if index == 0:
                self._read_choice(choice, at_s, part)

    def _read_choice(self, choice: dict[str, Any], at_s: float, part: str) -> None:
        if isinstance(choice.get("finish_reason"), str):
            self._finish = choice["finish_reason"]
        message = choice.get(part)
        if not isinstance(message, dict):
            return
        thought = chat.reasoning_text(message)
        if thought:
            self._fields |= {name: None for name in chat.REASONING_FIELDS if message.get(name)}
            self._reasoning.append(thought)
            self._pieces += 1
            self._thought_s = self._thought_s or at_s
        content = message.get("content")
        if isinstance(content, str) and content:
            self._content.append(content)
        if message.get("tool_calls") or message.get("function_call"):
            self._calls = True
        if thought or content or self._calls:
            self._end_s = at_s


def error_message(answer: dict[str, Any]) -> str | None:
    """Return what an error says, in one of the shapes that servers have for it; None if it says nothing."""
    error = answer.get("error")
    told = error if isinstance(error, dict) else answer
    for value in (told.get("message"), told.get("detail"), error):
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None
