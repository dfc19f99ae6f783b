"""Ask a model server for an answer, and again where the answer takes several rounds."""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from typing import TYPE_CHECKING, Self

from proxy import headers
from proxy.coding import CODINGS, Inflated
from proxy.errors import BrokenError, SilentError
from proxy.mask import cover

if TYPE_CHECKING:
    from types import TracebackType

    from proxy.client import Client
    from proxy.headers import Headers
    from proxy.running import Running
    from proxy.telemetry import Notes
    from proxy.upstream import Answer, Source, Upstream

OK = 200


class Kind(Enum):
    """How an answer can be read."""

    STREAM = auto()
    WHOLE = auto()

    @classmethod
    def of(cls, answer: Answer) -> Kind | None:
        """Return the kind of an answer, None if it is neither."""
        content_type = headers.find(answer.headers, b"content-type") or b""
        return _KINDS.get(content_type.partition(b";")[0].strip().lower())


_KINDS = {b"text/event-stream": Kind.STREAM, b"application/json": Kind.WHOLE}


class Asking:
    """The requests to a model server that one request of a client takes."""

    def __init__(
        self, client: Client, upstream: Upstream, running: Running, notes: Notes, *, reads: bool
    ) -> None:
        """Begin with a request that was read.

        Args:
            client: the client, in whose name is asked.
            upstream: the model server.
            running: what can end it from outside.
            notes: where it is said that an answer could not be read.
            reads: the answer is to be read, and should not be compressed.
        """
        self._client = client
        self._upstream = upstream
        self._running = running
        self._notes = notes
        self._reads = reads
        self._answer: Answer | None = None
        self.answer_s = upstream.timeouts.answer_s
        """Seconds for each answer, up to the beginning of a stream; 0 for any."""

    async def __aenter__(self) -> Self:
        """Hold nothing yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Leave the last answer."""
        self.leave()

    def leave(self) -> None:
        """Give the connection of the answer back if its body was read to its end, else close it."""
        self._running.answer = None
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.leave()

    async def send(self, body: bytes) -> Answer:
        """Send the client's request with this body; return the answer when its head is there.

        Raises:
            UpstreamError: there is none.
        """
        client = self._client
        target = client.path + (b"?" + client.query if client.query else b"")
        answer = await self._upstream.send(client.method, target, self._make_fields(len(body)), body)
        self._answer = self._running.answer = answer
        return answer

    async def send_again(self, body: bytes, kind: Kind) -> tuple[Answer, Source]:
        """Send another request, the answer before having been left; return its answer, and the body of it.

        Raises:
            UpstreamError: there is none, or not one of this kind that can be read.
        """
        self._client.headers = headers.without(self._client.headers, headers.DIGESTS)
        answer = await self.send(body)
        source = self.open(answer) if answer.status == OK and Kind.of(answer) is kind else None
        if source is None:
            raise BrokenError("The model server did not answer when it was asked again.")
        return answer, source

    async def ask_again(self, body: bytes, max_bytes: int) -> bytes:
        """Send another request when the answer before was read; return its whole body.

        Raises:
            UpstreamError: there is none in time, or not one that can be read.
        """
        self.leave()
        try:
            async with asyncio.timeout(self.answer_s or None):
                answer, source = await self.send_again(body, Kind.WHOLE)
                return await self.read_whole(answer, source, max_bytes)
        except TimeoutError:
            raise late(self.answer_s) from None

    def open(self, answer: Answer) -> Source | None:
        """Return the body of an answer as it can be read, None if it is compressed in a way unknown here."""
        coding = (headers.find(answer.headers, b"content-encoding") or b"identity").strip().lower()
        if coding != b"identity" and coding not in CODINGS:
            self._notes.once(
                "an answer is relayed as it is: the model server compressed it although asked not to"
            )
            return None
        return answer if coding == b"identity" else Inflated(answer)

    async def read_whole(self, answer: Answer, source: Source, max_bytes: int) -> bytes:
        """Read the whole body of an answer, the server's key taken out of it.

        Raises:
            UpstreamError: the server failed, or sent more than `max_bytes`.
        """
        pieces: list[bytes] = []
        size = 0
        while data := await source.read():
            if not pieces:
                answer.watch_idle()
            size += len(data)
            if size > max_bytes:
                raise BrokenError(
                    f"The model server's answer is larger than {max_bytes} bytes "
                    "(maxBodyBytes in the proxy's configuration)."
                )
            pieces.append(data)
        return cover(b"".join(pieces), self._upstream.api_key)

    def _make_fields(self, body_bytes: int) -> Headers:
        client, api_key = self._client, self._upstream.api_key
        sent = client.headers
        if headers.is_preflight(client.method, sent):
            # What a browser asks without a key is not asked in anybody's name.
            sent, api_key = headers.without(sent, headers.CREDENTIALS), None
        return headers.for_upstream(
            sent,
            host=self._upstream.host,
            body_bytes=body_bytes,
            request_id=client.request_id,
            identity=self._reads or api_key is not None,
            api_key=api_key,
        )


def late(answer_s: float) -> SilentError:
    """Return the error for an answer that took longer than it may."""
    return SilentError(
        f"The model server did not complete its answer within {answer_s:g} seconds "
        "(timeouts.answerSeconds in the proxy's configuration)."
    )
