"""Which questions a model is asked, and in which order: each answer decides what is still worth asking."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from proxy.doctor import questions
from proxy.doctor.evidence import Form, examine
from proxy.doctor.questions import FIRST_TOKENS, RAISED_TOKENS
from proxy.doctor.verdict import Answers

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.doctor.modelserver import ModelServer
    from proxy.doctor.sample import Sample

    Tell = Callable[[str], None]

_STRICT = (400, 422)
"""What servers answer to a field that they do not know, or to `max_tokens` beyond the model's context."""


class Interview:
    """The questions to one model."""

    def __init__(self, server: ModelServer, model: str, tell: Tell) -> None:
        """Ask a model of a server; `tell` is told what is going on, in a few words."""
        self._server = server
        self._model = model
        self._tell = tell

    async def run(self) -> Answers:
        """Find out how the model thinks.

        Raises:
            TroubleError: the server cannot be reached, or refuses the key.
        """
        plain = await self._ask_plain()
        if plain.refusal is not None or plain.timed_out:
            return Answers(plain)
        off = await self._ask("with thinking switched off", questions.off(self._model))
        form = examine(plain).form
        on = special = None
        if form is Form.NONE:
            on = await self._ask_fully("with thinking switched on", questions.on)
        if form is Form.UNCLEAR or (on is not None and not examine(on).thinks):
            switches = on is not None and on.refusal is None
            special = await self._ask(
                "with special tokens", questions.special(self._model, switches=switches)
            )
        tool = await self._ask("with a tool", questions.tool(self._model, switches=off.refusal is None))
        return Answers(plain, off, on, special, tool)

    async def check(self) -> Answers:
        """See what a client gets through a proxy; raises as `run` does."""
        plain = await self._ask_with_room("as a client does", questions.plain)
        if plain.refusal is not None or plain.timed_out:
            return Answers(plain)
        return Answers(plain, await self._ask_with_room("with thinking switched off", questions.off))

    async def _ask_with_room(self, how: str, question: Callable[..., dict[str, Any]]) -> Sample:
        """Ask for a whole answer, or for less of it if the model's context is too small for that."""
        sample = await self._ask(how, question(self._model, max_tokens=RAISED_TOKENS))
        if sample.refusal is None or sample.refusal.status not in _STRICT:
            return sample
        return await self._ask(how, question(self._model, max_tokens=FIRST_TOKENS))

    async def _ask_plain(self) -> Sample:
        plain = await self._ask_fully("as a client does", questions.curious)
        if plain.refusal is not None and plain.refusal.status in _STRICT:
            plain = await self._ask_fully("as a client does", questions.plain)
        return plain

    async def _ask_fully(self, how: str, question: Callable[..., dict[str, Any]]) -> Sample:
        """Ask, and once more with room for a longer answer if it was cut off before it showed anything."""
        asked = question(self._model, max_tokens=FIRST_TOKENS)
        sample = await self._ask(how, asked)
        if sample.prompt is None and sample.refusal is None:
            sample = replace(sample, prompt=await self._server.read_prompt_end(asked))
        if examine(sample).form is not Form.UNCLEAR or sample.finish != "length":
            return sample
        longer = await self._ask(
            f"{how}, up to {RAISED_TOKENS} tokens", question(self._model, max_tokens=RAISED_TOKENS)
        )
        if longer.refusal is not None or longer.empty:
            return sample
        return replace(longer, prompt=longer.prompt or sample.prompt)

    async def _ask(self, how: str, question: dict[str, Any]) -> Sample:
        self._tell(f"asked {how}, waiting for the first token")
        return await self._server.ask(question, lambda: self._tell(f"asked {how}, answering"))
