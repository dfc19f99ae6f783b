"""The bench: one chat, asked once, of which the page sees what came in and what went out.

    POST /_proxy/bench {"model", "prompt", "thinking", "maxTokens", "rule", "entry"}

The request becomes a chat completion and goes the way of every other one. Its answer is told in events:

    plan    how it is read
    raw     bytes as the model server sent them
    split   the bytes that took their place: what a client would have got
    end     it is over, and what went wrong

`raw` comes before the `split` that was made of it. An answer that is no stream of events comes as it is.
"""

from __future__ import annotations

import asyncio
from codecs import getincrementaldecoder
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proxy import chat, headers, sse
from proxy.client import Client
from proxy.config import render_entry
from proxy.errors import BodySizeError, BrokenError, MethodError, ProxyError, RequestError, SilentError
from proxy.page.document import GUARDS
from proxy.page.origin import check_site
from proxy.prompt import OFF_SWITCHES, ON_SWITCHES
from proxy.settings import Settings
from proxy.split_command import choose_entry

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from starlette.types import Scope

    from proxy.headers import Headers
    from proxy.mask import Mask
    from proxy.rules import TagSet
    from proxy.settings import Entry
    from proxy.upstream import Source

PATH = b"/_proxy/bench"
MAX_REQUEST_BYTES = 256 * 1024
"""The largest request: a prompt that somebody pastes."""
MAX_ANSWER_BYTES = 16 * 1024 * 1024
"""The largest answer, as the model server sends it: an event per token has some 300 bytes."""
MAX_TOKENS = 32_768
MAX_S = 900.0
"""Seconds that an answer may take: nobody looks at a bench for longer."""

_OK = 200
_FIELDS = frozenset({"model", "prompt", "thinking", "maxTokens", "rule", "entry"})
_SWITCHES = {"default": None, "on": ON_SWITCHES, "off": OFF_SWITCHES}
_RULES = ("inForce", "preset", "entry")


@dataclass(frozen=True, slots=True)
class Trial:
    """What the page asks for."""

    body: bytes
    """The chat completion request."""
    model: str
    rule: str
    """`inForce`, as a client would have it; `preset`, as if the model were listed by its name alone;
    `entry`, by the rule of another entry."""
    entry: str | None


def read_trial(body: bytes) -> Trial:
    """Read what the page asks for.

    Raises:
        RequestError: it is not as it should be.
        BodySizeError: it is too large.
    """
    if len(body) > MAX_REQUEST_BYTES:
        raise BodySizeError(f"The bench takes {MAX_REQUEST_BYTES} bytes at most.")
    asked = chat.read_object(body)
    if asked is None or not asked.keys() <= _FIELDS:
        raise RequestError(f"The bench takes a JSON object of {', '.join(sorted(_FIELDS))}.")
    model, prompt = _read_text(asked, "model"), _read_text(asked, "prompt")
    thinking, rule = asked.get("thinking", "default"), asked.get("rule", "inForce")
    max_tokens, entry = asked.get("maxTokens", 1024), asked.get("entry")
    if not isinstance(thinking, str) or thinking not in _SWITCHES:
        raise RequestError("thinking is default, on or off.", param="thinking")
    if rule not in _RULES or not isinstance(entry, str | None):
        raise RequestError(f"rule is one of {', '.join(_RULES)}.", param="rule")
    if type(max_tokens) is not int or not 1 <= max_tokens <= MAX_TOKENS:
        raise RequestError(f"maxTokens is a number from 1 to {MAX_TOKENS}.", param="maxTokens")
    request: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "stream": True,
    }
    switch = _SWITCHES[thinking]
    if switch is not None:
        request["chat_template_kwargs"] = dict(switch)
    return Trial(chat.write_json(request), model, str(rule), entry)


def _read_text(asked: dict[str, Any], name: str) -> str:
    text = asked.get(name)
    if not isinstance(text, str) or not text.strip():
        raise RequestError(f"{name} is missing.", param=name)
    return text


class Bench(Client):
    """The page as a client: it is told what came in, too."""

    def __init__(self, scope: Scope, request_id: bytes) -> None:
        """Begin with the head of a request for `PATH`."""
        super().__init__(scope, request_id)
        self._put, self.put = self.put, self._tell_split
        self._trial = Trial(b"", "", _RULES[0], None)
        self.deviates = False
        """The rule is not the one in force: what it finds is no news about the model's entry."""
        self._events = False  # the answer is a stream: it is told in events of our own
        self._early: list[bytes] = []  # events from before the answer began
        self._decoders = {name: getincrementaldecoder("utf-8")("replace") for name in ("raw", "split")}

    def check(self, *, has_keys: bool) -> None:
        """See that the page itself asks; `has_keys` says that it needed a key to come this far.

        A form of another site can send no JSON, and its script would have to ask for leave first, which
        nobody gives.

        Raises:
            RequestError: somebody else asks, or in another way.
        """
        if self.method != "POST":
            error = MethodError("The bench takes POST.")
            error.headers = ((b"allow", b"POST"),)
            raise error
        check_site(self.headers, has_keys=has_keys)
        content_type = headers.find(self.headers, b"content-type") or b""
        if content_type.partition(b";")[0].strip().lower() != b"application/json":
            raise RequestError("The bench takes application/json.")

    def become(self, path: bytes) -> None:
        """Turn into a chat completion request: of the browser's fields only the key goes along.

        Raises:
            RequestError: what the page sent is not as it should be.
        """
        trial = self._trial = read_trial(self.body)
        credentials = [field for field in self.headers if field[0] in headers.CREDENTIALS]
        self.headers = [*credentials, (b"content-type", b"application/json")]
        self.path, self.query, self.body = path, b"", trial.body

    def choose(self, listed: Entry | None, settings: Settings, upstream: str) -> Entry | None:
        """Return the entry whose rule counts, and tell it with the beginning of the answer.

        Args:
            listed: the entry in force.
            settings: the configuration.
            upstream: the name of the model server.

        Raises:
            RequestError: there is no such entry.
        """
        trial, entry = self._trial, listed
        if trial.rule == "preset":
            entry = choose_entry(trial.model, Settings())
        elif trial.rule == "entry":
            entry = next((row for row in settings.entries if row.name == trial.entry), None)
            if entry is None:
                raise RequestError("The configuration has no such entry.", param="entry")
        tags = entry.rule.tags if entry else None
        self.deviates = entry is not listed
        plan = {
            "model": trial.model,
            "upstream": upstream,
            "inForce": not self.deviates,
            "listed": listed and listed.name,
            "entry": entry and entry.name,
            "origin": entry and entry.origin,
            "rule": entry and render_entry(entry),
            "markers": [*tags.openers, *tags.closers, *_others(tags)] if tags else [],
            "loose": tags is not None and tags.loose,
        }
        self._early.append(_event("plan", plan))
        return entry

    async def answer(self, answering: Coroutine[Any, Any, None]) -> None:
        """Run what answers, and tell the end of it.

        Raises:
            ProxyError: what it raised; or it took too long.
        """
        try:
            try:
                async with asyncio.timeout(MAX_S):
                    await answering
            except TimeoutError:
                raise SilentError(f"The bench ends an answer after {MAX_S:g} seconds.") from None
        except ProxyError as error:
            await self._end({"message": error.message, "code": error.code})
            raise
        await self._end(None)

    async def _end(self, error: dict[str, str] | None) -> None:
        if not self._events:
            return
        left = ((name, decoder.decode(b"", final=True)) for name, decoder in self._decoders.items())
        told = [_event(name, text) for name, text in left if text]
        await super().finish(b"".join((*told, _event("end", {"error": error}))))

    def watch(self, source: Source, mask: Mask | None) -> Source:
        """Return the body of an answer; what is read of it is told, less the secret that is to be masked."""
        return _Watched(source, mask, self)

    async def tell_raw(self, data: bytes) -> None:
        """Tell what came."""
        told = self._tell("raw", data)
        if self._events:
            await super().write(told)
        else:
            self._early.append(told)

    async def start(self, status: int, fields: Headers) -> None:
        """Begin the answer."""
        content_type = headers.find(fields, b"content-type") or b""
        self._events = status == _OK and content_type.lower().startswith(b"text/event-stream")
        if not self._events:
            await super().start(status, [*fields, *GUARDS])
            return
        own = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
            (b"x-request-id", self.request_id),
            *GUARDS,
        ]
        await super().start(status, own)
        await super().write(b"".join(self._early))

    async def write(self, data: bytes) -> None:
        """Tell a piece of what a client would get."""
        await super().write(self._tell("split", data) if self._events else data)

    async def finish(self, data: bytes = b"") -> None:
        """Tell the last piece; `answer` tells the end."""
        if not self._events:
            await super().finish(data)
        elif data:
            await self.write(data)

    def _tell_split(self, data: bytes) -> bool:
        """Tell a piece of what a client would get, see `Client.put`."""
        return self._put(self._tell("split", data) if self._events and data else data)

    def _tell(self, name: str, data: bytes) -> bytes:
        """Write an event with bytes as text; a character may have been cut in two between them."""
        return _event(name, self._decoders[name].decode(data))


class _Watched:
    """A body that tells the bench what is read of it."""

    def __init__(self, source: Source, mask: Mask | None, bench: Bench) -> None:
        self._source = source
        self._mask = mask
        self._bench = bench
        self._left = MAX_ANSWER_BYTES

    async def read(self) -> bytes:
        """Return the next bytes, nothing at the end; raises what the source raises."""
        data = await self._source.read()
        self._left -= len(data)
        if self._left < 0:
            raise BrokenError(f"The bench ends an answer after {MAX_ANSWER_BYTES} bytes.")
        if told := self._mask.feed(data) if self._mask else data:
            await self._bench.tell_raw(told)
        return data


def _event(name: str, value: Any) -> bytes:
    return b"event: %b\n%b" % (name.encode(), sse.encode(chat.write_json(value)).raw)


def _others(tags: TagSet) -> Iterator[str]:
    """Yield what is removed besides openers and closers."""
    for pair in tags.wrappers:
        yield from pair
    yield from tags.trailers
