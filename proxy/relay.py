"""Relay one request to the model server and its answer back, rewritten where the model is listed.

The straight line of a stream: bytes, events, chunks, spans, and back, without a task or a timer per
event. Reading from the server waits until the client took what came before, so a slow reader slows
the server and memory stays bounded (the figure is in `docs/transport.md`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy import headers
from proxy.asking import OK, Asking, Kind, late
from proxy.chain import NO_DONE, Chain
from proxy.course import clock
from proxy.errors import BrokenError, StoppedError, UpstreamError
from proxy.mask import Mask
from proxy.pulse import Pulse
from proxy.rounds import Rounds
from proxy.stream import Stream
from proxy.upstream import Answer
from proxy.whole import Whole

if TYPE_CHECKING:
    from collections.abc import Callable

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
        watch: Callable[[Source, Mask | None], Source] | None = None,
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
            watch: put around the body of an answer, before it is rewritten.
            course: where is noted when it came.
        """
        self._client = client
        self._plan = plan
        self._stream: Stream | Rounds | None = None
        self._upstream = upstream
        self._settings = settings
        self._notes = notes
        self._running = running
        self._tally = tally
        self._watch = watch
        self._course = course
        self._asking = Asking(client, upstream, running, notes, reads=plan is not None)

    async def run(self) -> None:
        """Serve the request; return when it is answered.

        Raises:
            UpstreamError: the server failed. When the client already has a part of the answer, it was told
                so in a rewritten stream; any other answer is left without an end.
            StoppedError: the proxy stops; for the rest as with UpstreamError.
        """
        client, asking = self._client, self._asking
        try:
            async with asyncio.timeout(asking.answer_s or None) as limit, asking:
                self._course.sent = clock()
                if self._plan is not None and self._plan.streams:
                    # While the model server thinks, there is time for what its answer will be read with.
                    asyncio.get_running_loop().call_soon(self._prepare, self._plan)
                answer = await asking.send(client.body)
                client.body = b""  # a stream may run for long, and a request may be large
                kind = Kind.of(answer)
                if kind is Kind.STREAM:
                    self._course.stream = True
                    limit.reschedule(None)
                await self._give(answer, kind, limit)
        except TimeoutError:
            raise late(asking.answer_s) from None

    async def _give(self, answer: Answer, kind: Kind | None, limit: asyncio.Timeout) -> None:
        """Give the client the answer: rewritten if it is one to be read, and can be; else untouched."""
        client, plan, settings = self._client, self._plan, self._settings
        secret = self._upstream.api_key
        opened = self._asking.open(answer) if plan and kind and answer.status == OK else None
        fields = headers.for_client(
            answer.headers,
            request_id=client.request_id,
            stream=kind is Kind.STREAM,
            rewritten=opened is not None,
            own_cors=settings.cors is not None,
            secret=secret.encode() if secret else None,
        )
        if plan and opened and kind is Kind.WHOLE:
            await self._rewrite_whole(answer, opened, fields, plan, limit)
            return
        stream = (self._stream or self._make_stream(plan)) if plan and opened else None
        self._course.rewritten = stream is not None
        body: Source = opened or answer
        if isinstance(stream, Rounds):
            body = Chain(self._asking, self._running, stream, answer, body)
        pulse: Pulse | None = None
        if self._watch is not None:
            body = self._watch(body, self._make_mask())
        elif (
            settings.keep_alive_s
            and kind is Kind.STREAM
            and (stream or headers.is_open_ended(answer.headers))
        ):
            head = answer.status, fields
            body = pulse = Pulse(body, client, head, settings.keep_alive_s, whole_events=stream is not None)
        try:
            if stream is None:
                await self._pass(answer, body, fields)
            else:
                await self._rewrite_stream(answer, body, fields, stream)
        finally:
            if pulse is not None:
                pulse.close()

    def _prepare(self, plan: Plan) -> None:
        self._stream = self._make_stream(plan)

    def _make_stream(self, plan: Plan) -> Stream | Rounds:
        max_event_bytes = self._settings.max_event_bytes
        if plan.retries is not None:
            return Rounds(plan, plan.retries, self._tally, max_event_bytes=max_event_bytes)
        return Stream(plan.begin(self._tally, ahead=True), max_event_bytes)

    async def _pass(self, answer: Answer, body: Source, fields: Headers) -> None:
        """Relay an answer untouched. One that breaks off is left without an end, as it came."""
        put, mask = self._client.put, self._make_mask()
        await self._pour(answer, body, fields, (lambda data: put(mask.feed(data))) if mask else put)
        await self._client.finish(mask.finish() if mask else b"")

    async def _rewrite_stream(
        self, answer: Answer, body: Source, fields: Headers, stream: Stream | Rounds
    ) -> None:
        client, course, tally, mask = self._client, self._course, self._tally, self._make_mask()
        put, feed = client.put, stream.feed

        def take(data: bytes) -> bool:
            takes_more = put(feed(mask.feed(data) if mask else data))
            if course.content is None and tally.content_chars:
                course.content = clock()
            if stream.overflow:
                raise BrokenError(
                    f"The model server sent an event larger than {self._settings.max_event_bytes} bytes "
                    "(maxEventBytes in the proxy's configuration)."
                )
            return takes_more

        try:
            await self._pour(answer, body, fields, take)
            if mask:
                put(feed(mask.finish()))
            if not stream.done and not headers.is_delimited(answer.headers):
                # The end of the connection is all that ended it: only [DONE] could tell it from a cut.
                raise BrokenError(NO_DONE)
        except (UpstreamError, StoppedError) as error:
            if not client.status:
                raise
            await client.finish(stream.break_off(error.body()))
            if stream.done:
                return
            raise
        finally:
            stream.sum_up()
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

    def _make_mask(self) -> Mask | None:
        return Mask(self._upstream.api_key) if self._upstream.api_key else None

    async def _rewrite_whole(
        self, answer: Answer, body: Source, fields: Headers, plan: Plan, limit: asyncio.Timeout
    ) -> None:
        client, asking, max_bytes = self._client, self._asking, self._settings.max_body_bytes
        whole, course = Whole(plan, self._tally), self._course
        course.rewritten = True
        read = await asking.read_whole(answer, body, max_bytes)
        course.arrived = clock()
        again = whole.take(read)
        course.handled = clock()
        while again is not None:
            limit.reschedule(None)  # each round has its own
            try:
                again = whole.take(await asking.ask_again(again, max_bytes))
            except UpstreamError:
                whole.fail()
                break
        self._note_auto(whole.prompt_seen)
        await client.start(answer.status, [*fields, (b"content-length", b"%d" % len(whole.body))])
        await client.finish(whole.body)

    def _note_auto(self, prompt_seen: bool | None) -> None:
        if prompt_seen is False:
            self._notes.once("start: auto counts as leading: the model server does not tell the prompt")
