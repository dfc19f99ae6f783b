"""The server that is asked: its list of models, and single questions to it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from proxy import chat, headers
from proxy.doctor.sample import Refusal, Sample, Sampler, error_message
from proxy.doctor.trouble import CONNECT_S, TroubleError, explain_access, explain_failure, explain_list
from proxy.errors import BrokenError, UpstreamError
from proxy.models import read_list
from proxy.probe import read_prompt_end
from proxy.settings import Timeouts
from proxy.upstream import Upstream

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.headers import Headers

PROXY_FIELD = b"x-think-proxy"
"""The field of `/healthz` by which a running proxy is known; its value is the version."""

_LIST_S = 10.0
_MAX_BYTES = 4 * 1024 * 1024
_MAX_ERROR_CHARS = 200
_OK = 200
_KINDS = {"vllm": "vLLM", "sglang": "SGLang", "llamacpp": "llama.cpp"}


class Model(NamedTuple):
    """One model of a server."""

    name: str
    root: str | None = None
    """The name or the path under which it was loaded, where the server says so."""


class Listing(NamedTuple):
    """What a server says about itself."""

    kind: str
    """What it is, for people."""
    version: str | None
    models: tuple[Model, ...]


class _Page(NamedTuple):
    status: int
    headers: Headers
    body: bytes


class ModelServer:
    """A model server, or a proxy in front of one."""

    def __init__(self, url: str, *, api_key: str | None, timeout_s: float) -> None:
        """Ask at an address as the configuration has it; each question may take so many seconds."""
        # One limit for a whole question, wherever its time goes: no others.
        times = Timeouts(connect_s=CONNECT_S, first_byte_s=0, idle_s=0)
        self._upstream = Upstream(url, times, api_key=api_key)
        self._api_key = api_key
        self._timeout_s = timeout_s
        self.url = url

    async def find_proxy(self) -> str | None:
        """Return the version of the think-proxy that runs here; None if it is something else."""
        try:
            page = await self._get(b"/healthz")
        except TroubleError:
            return None
        version = headers.find(page.headers, PROXY_FIELD)
        return version.decode("latin-1") if page.status == _OK and version else None

    async def list_models(self) -> Listing:
        """Return the models of the server.

        Raises:
            ListError: it gives no list.
            TroubleError: it cannot be reached, or takes no key or not this one.
        """
        page = await self._get(b"/v1/models")
        if trouble := explain_access(self.url, page.status, key_given=self._api_key is not None):
            raise trouble
        rows = read_list(page.body) if page.status == _OK else None
        if rows is None:
            location = headers.find(page.headers, b"location")
            raise explain_list(self.url, page.status, location.decode("latin-1") if location else None)
        models = {row["id"]: Model(row["id"], _read_root(row)) for row in rows}
        owner = next((row["owned_by"] for row in rows if isinstance(row.get("owned_by"), str)), "")
        return Listing(
            _KINDS.get(owner, "a model server"),
            await self._find_version() if owner == "vllm" else None,
            tuple(models.values()),
        )

    async def ask(self, question: dict[str, Any], watch: Callable[[], None]) -> Sample:
        """Return the answer to a question, as far as it came in time; a refusal is an answer as well.

        `watch` is called when the answer begins.

        Raises:
            TroubleError: the server cannot be reached, or takes no key or not this one.
        """
        body = chat.write_json(question)
        sampler = Sampler()
        began = time.monotonic()
        error: str | None = None
        timed_out = False
        try:
            async with asyncio.timeout(self._timeout_s):
                fields = self._fields(len(body))
                async with await self._upstream.send("POST", b"/v1/chat/completions", fields, body) as answer:
                    if answer.status != _OK:
                        page = _Page(answer.status, answer.headers, await answer.read_all(_MAX_BYTES) or b"")
                        return Sample(refusal=self._refuse(page))
                    while not sampler.full and (data := await answer.read()):
                        watch()
                        sampler.feed(data, time.monotonic() - began)
        except TimeoutError:
            timed_out = True
        except BrokenError as broken:
            error = broken.message
        except UpstreamError as failure:
            raise explain_failure(failure, self.url) from failure
        sample = sampler.finish(at_s=time.monotonic() - began, timed_out=timed_out, error=error)
        if sample.error is not None:
            sample = replace(sample, error=self._clean(sample.error))
        if sample.empty and timed_out:
            told = f"no answer within {self._timeout_s:g} seconds; --timeout allows for more"
            return replace(sample, refusal=Refusal(0, told))
        if sample.empty and sample.error is not None:
            return replace(sample, refusal=Refusal(0, sample.error))
        return sample

    async def read_prompt_end(self, question: dict[str, Any]) -> str | None:
        """Return the end of the prompt that a question makes, where the server can be asked (SGLang)."""
        fields = [(b"content-type", b"application/json")]
        return await read_prompt_end(self._upstream, fields, question, request_id=_new_id())

    async def close(self) -> None:
        """Close the connections."""
        await self._upstream.close()

    async def _find_version(self) -> str | None:
        page = await self._get(b"/version")
        version = (chat.read_object(page.body) or {}).get("version")
        return version if page.status == _OK and isinstance(version, str) else None

    async def _get(self, path: bytes) -> _Page:
        try:
            async with (
                asyncio.timeout(_LIST_S),
                await self._upstream.send("GET", path, self._fields(0), b"") as answer,
            ):
                return _Page(answer.status, answer.headers, await answer.read_all(_MAX_BYTES) or b"")
        except TimeoutError:
            raise TroubleError(
                f"{self.url} did not answer {path.decode()} within {_LIST_S:g} seconds: is it overloaded?"
            ) from None
        except UpstreamError as failure:
            raise explain_failure(failure, self.url) from failure

    def _fields(self, body_bytes: int) -> Headers:
        return headers.for_upstream(
            [(b"content-type", b"application/json")] if body_bytes else [],
            host=self._upstream.host,
            body_bytes=body_bytes,
            request_id=_new_id(),
            identity=True,
            api_key=self._api_key,
        )

    def _refuse(self, page: _Page) -> Refusal:
        """Return why there was no answer; raise if it is for want of a key, since all others lack it too."""
        if trouble := explain_access(self.url, page.status, key_given=self._api_key is not None):
            raise trouble
        told = error_message(chat.read_object(page.body) or {})
        return Refusal(page.status, self._clean(told or page.body.decode(errors="replace")))

    def _clean(self, message: str) -> str:
        """Return a server's words, short, on one line, and without the key."""
        if self._api_key is not None:
            message = message.replace(self._api_key, "***")
        return " ".join(message.split())[:_MAX_ERROR_CHARS]


def _new_id() -> bytes:
    return f"doctor-{uuid4().hex[:12]}".encode()


def _read_root(row: dict[str, Any]) -> str | None:
    root = row.get("root")
    return root if isinstance(root, str) and root != row["id"] else None
