"""Relay one request to the model server and its answer back, rewritten where the model is listed.

The straight line of a stream: bytes, events, chunks, spans, and back, without a task or a timer per
event. Reading from the server waits until the client took what came before, so a slow reader slows
the server and memory stays bounded (the figure is in `docs/transport.md`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from proxy import chat, headers
from proxy.client import ClientGoneError
from proxy.coding import CODINGS, Inflated
from proxy.course import clock
from proxy.errors import BrokenError, SilentError, StoppedError, UpstreamError
from proxy.mask import Mask, cover
from proxy.pulse import Pulse
from proxy.response import Rewriter
from proxy.stream import Stream
from proxy.upstream import Answer

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from proxy.client import Client
    from proxy.connection import Sink
    from proxy.course import Course
    from proxy.headers import Headers
    from proxy.request import Plan
    from proxy.running import Running
    from proxy.settings import Settings
    from proxy.tally import Tally
    from proxy.telemetry import Notes
    from proxy.upstream import Source, Upstream

_OK = 200


class Relay:
    """One request on its way to one model server, and the answer on its way back."""

    def __init__(
        self,
        client: Client,
        plan: Plan | None,
        *,
        upstream: Upstream,
        settings: Settings,
        notes: Notes,
        running: Running,
        tally: Tally,
        course: Course,
    ) -> None:
        """Begin with a request that was read.

        Args:
            client: the client.
            plan: how the answer is read; None relays it as it comes.
            upstream: the model server.
            settings: limits.
            notes: where it is said that an answer could not be read.
            running: what can end it from outside.
            tally: where is counted what was seen of the answer.
            course: where is noted when it came.
        """
        self._client = client
        self._plan = plan
        self._upstream = upstream
        self._settings = settings
        self._notes = notes
        self._running = running
        self._tally = tally
        self._course = course

    async def run(self) -> None:
        """Serve the request; return when it is answered.

        Raises:
            UpstreamError: the server failed. When the client already has a part of the answer, it was told
                so in a rewritten stream; any other answer is left without an end.
            StoppedError: the proxy stops; for the rest as with UpstreamError.
        """
        client, upstream = self._client, self._upstream
        answer_s = upstream.timeouts.answer_s
        target = client.path + (b"?" + client.query if client.query else b"")
        fields = self._make_fields()
        self._course.sent = clock()
        try:
            async with (
                asyncio.timeout(answer_s or None) as limit,
                await upstream.send(client.method, target, fields, client.body) as answer,
            ):
                self._running.answer = answer
                client.body = b""  # a stream may run for long, and a request may be large
                content_type = (headers.find(answer.headers, b"content-type") or b"").lower()
                stream = self._course.stream = content_type.startswith(b"text/event-stream")
                if stream:
                    limit.reschedule(None)
                readable = stream or content_type.startswith(b"application/json")
                opened = self._open(answer) if self._plan and answer.status == _OK and readable else None
                await self._give(answer, opened, stream=stream)
        except TimeoutError:
            raise SilentError(
                f"The model server did not complete its answer within {answer_s:g} seconds "
                "(timeouts.answerSeconds in the proxy's configuration)."
            ) from None
        finally:
            self._running.answer = None

    def _make_fields(self) -> Headers:
        client, api_key = self._client, self._upstream.api_key
        sent = client.headers
        if headers.is_preflight(client.method, sent):
            # What a browser asks without a key is not asked in anybody's name.
            sent, api_key = headers.without(sent, headers.CREDENTIALS), None
        return headers.for_upstream(
            sent,
            host=self._upstream.host,
            body_bytes=len(client.body),
            request_id=client.request_id,
            identity=self._plan is not None or api_key is not None,
            api_key=api_key,
        )

    def _open(self, answer: Answer) -> Source | None:
        """Return the body of an answer as it can be read, None if it is compressed in a way unknown here."""
        coding = (headers.find(answer.headers, b"content-encoding") or b"identity").strip().lower()
        if coding == b"identity":
            return answer
        if coding in CODINGS:
            return Inflated(answer)
        self._notes.once(
            "an answer is relayed as it is: the model server compressed it although asked not to"
        )
        return None

    async def _give(self, answer: Answer, opened: Source | None, *, stream: bool) -> None:
        """Give the client the answer: rewritten where its body could be `opened`, else untouched."""
        client, settings = self._client, self._settings
        secret = self._upstream.api_key
        fields = headers.for_client(
            answer.headers,
            request_id=client.request_id,
            stream=stream,
            rewritten=opened is not None,
            own_cors=settings.cors is not None,
            secret=secret.encode() if secret else None,
        )
        body: Source = opened or answer
        pulse: Pulse | None = None
        if settings.keep_alive_s and stream and (opened or headers.is_open_ended(answer.headers)):
            head = answer.status, fields
            body = pulse = Pulse(body, client, head, settings.keep_alive_s, whole_events=opened is not None)
        try:
            if self._plan is None or opened is None:
                await self._pass(answer, body, fields)
            elif stream:
                await self._rewrite_stream(answer, body, fields, self._plan)
            else:
                await self._rewrite_whole(answer, body, fields, self._plan)
        finally:
            if pulse is not None:
                pulse.close()

    async def _pass(self, answer: Answer, body: Source, fields: Headers) -> None:
        """Relay an answer untouched. One that breaks off is left without an end, as it came."""
        put, mask = self._client.put, self._mask()
        await self._pour(answer, body, fields, (lambda data: put(mask.feed(data))) if mask else put)
        await self._client.finish(mask.finish() if mask else b"")

    async def _rewrite_stream(self, answer: Answer, body: Source, fields: Headers, plan: Plan) -> None:
        client, mask, max_event_bytes = self._client, self._mask(), self._settings.max_event_bytes
        course, tally = self._course, self._tally
        course.rewritten = True
        stream = Stream(
            plan.rule,
            hides_prompt=plan.hides_prompt,
            toolbox=plan.toolbox,
            tally=tally,
            max_event_bytes=max_event_bytes,
        )

        def take(data: bytes) -> bool:
            takes_more = client.put(stream.feed(mask.feed(data) if mask else data))
            if course.content is None and tally.content_chars:
                course.content = clock()
            if stream.overflow:
                raise BrokenError(
                    f"The model server sent an event larger than {max_event_bytes} bytes "
                    "(maxEventBytes in the proxy's configuration)."
                )
            return takes_more

        try:
            await self._pour(answer, body, fields, take)
            if mask:
                client.put(stream.feed(mask.finish()))
            if not stream.done and not headers.is_delimited(answer.headers):
                # The end of the connection is all that ended it: only [DONE] could tell it from a cut.
                raise BrokenError("The model server closed the connection before its stream said [DONE].")
        except (UpstreamError, StoppedError) as error:
            if not client.status:
                raise
            await client.finish(stream.break_off(error.body()))
            if stream.done:
                return
            raise
        self._note_auto(stream.prompt_seen)
        await client.finish(stream.finish())

    async def _pour(self, answer: Answer, body: Source, fields: Headers, sink: Sink) -> None:
        """Begin the client's answer with the first byte of the body, and bring the body to a sink."""
        client, course = self._client, self._course
        data = await body.read()
        course.arrived = clock()
        answer.watch_idle()
        if not client.status:
            await client.start(answer.status, fields)
        while data:
            takes_more = sink(data)
            course.reads += 1
            course.handled = course.handled or clock()
            if not takes_more:
                await client.drained()
            if isinstance(body, Answer):
                # It comes straight from the connection, which can go on by itself.
                course.reads += await body.pour(sink, client.drained)
            data = await body.read()
        course.ended = clock()

    def _mask(self) -> Mask | None:
        return Mask(self._upstream.api_key) if self._upstream.api_key else None

    async def _rewrite_whole(self, answer: Answer, body: Source, fields: Headers, plan: Plan) -> None:
        client, max_bytes = self._client, self._settings.max_body_bytes
        pieces: list[bytes] = []
        size = 0
        while data := await body.read():
            if not pieces:
                answer.watch_idle()
            size += len(data)
            if size > max_bytes:
                raise BrokenError(
                    f"The model server's answer is larger than {max_bytes} bytes "
                    "(maxBodyBytes in the proxy's configuration)."
                )
            pieces.append(data)
        self._course.arrived = clock()
        self._course.rewritten = True
        whole = cover(b"".join(pieces), self._upstream.api_key)
        document = chat.read_object(whole)
        rewriter = Rewriter(
            plan.rule, hides_prompt=plan.hides_prompt, toolbox=plan.toolbox, tally=self._tally
        )
        if document is not None and rewriter.rewrite(document):
            whole = chat.write_json(document)
        self._note_auto(rewriter.prompt_seen)
        await client.start(answer.status, [*fields, (b"content-length", b"%d" % len(whole))])
        await client.finish(whole)
        self._course.handled = clock()

    def _note_auto(self, prompt_seen: bool | None) -> None:
        if prompt_seen is False:
            self._notes.once("start: auto counts as leading: the model server does not tell the prompt")


async def until_gone(client: Client, answering: Coroutine[Any, Any, None]) -> None:
    """Run what answers a client; end it at once when the client leaves.

    Raises:
        ClientGoneError: the client left.
    """
    work = asyncio.create_task(answering)
    gone = asyncio.create_task(client.gone())
    try:
        await asyncio.wait((work, gone), return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        work.cancel()
        await asyncio.wait((work, gone))
    if work.cancelled():
        raise ClientGoneError
    work.result()
