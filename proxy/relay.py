"""Relay one request to the model server and its answer back, rewritten where the model is listed.

The straight line of a stream: bytes, events, chunks, spans, and back, without a task or a timer per
event. Reading from the server waits until the client took what came before, so a slow reader slows
the server and memory stays bounded (the figure is in `docs/transport.md`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy import chat, headers
from proxy.client import ClientGoneError
from proxy.coding import CODINGS, Inflated
from proxy.errors import BrokenError, SilentError, UpstreamError
from proxy.response import Rewriter
from proxy.stream import Stream

if TYPE_CHECKING:
    from proxy.client import Client
    from proxy.request import Plan
    from proxy.settings import Settings
    from proxy.telemetry import Notes
    from proxy.upstream import Answer, Upstream

_OK = 200


async def relay(
    client: Client, plan: Plan | None, upstream: Upstream, settings: Settings, notes: Notes
) -> None:
    """Serve a request; return when it is answered, or at once when the client leaves.

    Args:
        client: the client, its request read.
        plan: how the answer is read; None relays it as it comes.
        upstream: the model server.
        settings: timeouts and limits.
        notes: where it is said that an answer could not be read.

    Raises:
        UpstreamError: the server failed. When the client already has a part of the answer, it was told
            so in a rewritten stream; any other answer is left without an end.
        ClientGoneError: the client left.
    """
    work = asyncio.create_task(_answer(client, plan, upstream, settings, notes))
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


async def _answer(
    client: Client, plan: Plan | None, upstream: Upstream, settings: Settings, notes: Notes
) -> None:
    target = client.path + (b"?" + client.query if client.query else b"")
    fields = headers.for_upstream(
        client.headers,
        host=upstream.host,
        body_bytes=len(client.body),
        request_id=client.request_id,
        identity=plan is not None,
    )
    answer_s = settings.timeouts.answer_s
    try:
        async with (
            asyncio.timeout(answer_s or None) as limit,
            await upstream.send(client.method, target, fields, client.body) as answer,
        ):
            client.body = b""  # a stream may run for long, and a request may be large
            content_type = (headers.find(answer.headers, b"content-type") or b"").lower()
            stream = content_type.startswith(b"text/event-stream")
            if stream:
                limit.reschedule(None)
            readable = stream or content_type.startswith(b"application/json")
            body = _open(answer, notes) if plan and answer.status == _OK and readable else None
            if plan is None or body is None:
                await _pass(client, answer, settings, stream=stream)
            elif stream:
                await _rewrite_stream(client, answer, body, plan, settings)
            else:
                await _rewrite_whole(client, answer, body, plan, settings)
    except TimeoutError:
        raise SilentError(
            f"The model server did not complete its answer within {answer_s:g} seconds "
            "(timeouts.answerSeconds in the proxy's configuration)."
        ) from None


def _open(answer: Answer, notes: Notes) -> Answer | Inflated | None:
    """Return the body of an answer as it can be read, None if it is compressed in a way unknown here."""
    coding = (headers.find(answer.headers, b"content-encoding") or b"identity").strip().lower()
    if coding == b"identity":
        return answer
    if coding in CODINGS:
        return Inflated(answer)
    notes.once("an answer is relayed as it is: the model server compressed it although asked not to")
    return None


async def _pass(client: Client, answer: Answer, settings: Settings, *, stream: bool) -> None:
    """Relay an answer untouched. One that breaks off is left without an end, as it came."""
    data = await answer.read()
    answer.watch(settings.timeouts.idle_s)
    await client.start(answer.status, _fields(client, answer, settings, stream=stream))
    while data:
        await client.write(data)
        data = await answer.read()
    await client.finish()


async def _rewrite_stream(
    client: Client, answer: Answer, body: Answer | Inflated, plan: Plan, settings: Settings
) -> None:
    stream = Stream(plan.rule, hides_prompt=plan.hides_prompt, max_event_bytes=settings.max_event_bytes)
    data = await body.read()
    answer.watch(settings.timeouts.idle_s)
    await client.start(answer.status, _fields(client, answer, settings, stream=True, rewritten=True))
    try:
        while data:
            if out := stream.feed(data):
                await client.write(out)
            if stream.overflow:
                raise BrokenError(
                    f"The model server sent an event larger than {settings.max_event_bytes} bytes "
                    "(maxEventBytes in the proxy's configuration)."
                )
            data = await body.read()
        if not stream.done and not headers.is_delimited(answer.headers):
            # The end of the connection is all that ended it: only [DONE] could tell it from a cut.
            raise BrokenError("The model server closed the connection before its stream said [DONE].")
    except UpstreamError as error:
        await client.finish(stream.break_off(error.body()))
        if stream.done:
            return
        raise
    await client.finish(stream.finish())


async def _rewrite_whole(
    client: Client, answer: Answer, body: Answer | Inflated, plan: Plan, settings: Settings
) -> None:
    pieces: list[bytes] = []
    size = 0
    while data := await body.read():
        if not pieces:
            answer.watch(settings.timeouts.idle_s)
        size += len(data)
        if size > settings.max_body_bytes:
            raise BrokenError(
                f"The model server's answer is larger than {settings.max_body_bytes} bytes "
                "(maxBodyBytes in the proxy's configuration)."
            )
        pieces.append(data)
    whole = b"".join(pieces)
    document = chat.read_object(whole)
    if document is not None and Rewriter(plan.rule, hides_prompt=plan.hides_prompt).rewrite(document):
        whole = chat.write_json(document)
    fields = _fields(client, answer, settings, stream=False, rewritten=True)
    await client.start(answer.status, [*fields, (b"content-length", b"%d" % len(whole))])
    await client.finish(whole)


def _fields(
    client: Client, answer: Answer, settings: Settings, *, stream: bool, rewritten: bool = False
) -> headers.Headers:
    return headers.for_client(
        answer.headers,
        request_id=client.request_id,
        stream=stream,
        rewritten=rewritten,
        own_cors=settings.cors is not None,
    )
