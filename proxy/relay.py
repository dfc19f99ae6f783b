"""Relay one request to the model server and its answer back, rewritten where the model is listed.

The straight line of a stream: bytes, events, chunks, spans, and back, without a task or a timer per
event. Reading from the server waits until the client took what came before, so a slow reader slows
the server and memory stays bounded.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy import chat, headers, sse
from proxy.client import ClientGoneError
from proxy.errors import BrokenError, UpstreamError
from proxy.response import Rewriter

if TYPE_CHECKING:
    from proxy.client import Client
    from proxy.rules import Rule
    from proxy.settings import Settings
    from proxy.upstream import Answer, Upstream

_OK = 200


async def relay(
    client: Client, body: bytes, rule: Rule | None, upstream: Upstream, settings: Settings
) -> None:
    """Serve a request; return when it is answered, or at once when the client leaves.

    Args:
        client: the client, its request read.
        body: the request body to send.
        rule: how the answer is split; None relays it as it comes.
        upstream: the model server.
        settings: timeouts and limits.

    Raises:
        UpstreamError: the server failed. When the client already has a part of the answer, it was told
            so in a rewritten stream; any other answer is left without an end.
        ClientGoneError: the client left.
    """
    work = asyncio.create_task(_answer(client, body, rule, upstream, settings))
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
    client: Client, body: bytes, rule: Rule | None, upstream: Upstream, settings: Settings
) -> None:
    target = client.path + (b"?" + client.query if client.query else b"")
    fields = headers.for_upstream(
        client.headers,
        host=upstream.host,
        body_bytes=len(body),
        request_id=client.request_id,
        identity=rule is not None,
    )
    async with await upstream.send(client.method, target, fields, body) as answer:
        kind = headers.find(answer.headers, b"content-type") or b""
        stream = kind.startswith(b"text/event-stream")
        readable = answer.status == _OK and headers.find(answer.headers, b"content-encoding") in (
            None,
            b"identity",
        )
        if rule is None or not readable or not (stream or kind.startswith(b"application/json")):
            await _pass(client, answer, settings, stream=stream)
        elif stream:
            await _rewrite_stream(client, answer, rule, settings)
        else:
            await _rewrite_whole(client, answer, rule, settings)


async def _pass(client: Client, answer: Answer, settings: Settings, *, stream: bool) -> None:
    """Relay an answer untouched. One that breaks off is left without an end, as it came."""
    fields = headers.for_client(answer.headers, request_id=client.request_id, stream=stream)
    data = await answer.read()
    answer.watch(settings.timeouts.idle_s)
    await client.start(answer.status, fields)
    while data:
        await client.write(data)
        data = await answer.read()
    await client.finish()


async def _rewrite_stream(client: Client, answer: Answer, rule: Rule, settings: Settings) -> None:
    decoder = sse.Decoder(settings.max_event_bytes)
    rewriter = Rewriter(rule)
    fields = headers.for_client(answer.headers, request_id=client.request_id, stream=True)
    data = await answer.read()
    answer.watch(settings.timeouts.idle_s)
    await client.start(answer.status, fields)
    try:
        while data:
            out = [made.raw for event in decoder.feed(data) for made in rewriter.feed(event)]
            if out:
                await client.write(b"".join(out))
            if decoder.overflow:
                raise BrokenError(
                    f"The model server sent an event larger than {settings.max_event_bytes} bytes."
                )
            data = await answer.read()
    except UpstreamError as error:
        await client.finish(b"".join(made.raw for made in _break_off(decoder, rewriter, error)))
        if rewriter.done:
            return
        raise
    last = [made for event in decoder.finish() for made in rewriter.feed(event)]
    await client.finish(b"".join(made.raw for made in [*last, *rewriter.finish()]))


def _break_off(decoder: sse.Decoder, rewriter: Rewriter, error: UpstreamError) -> list[sse.Event]:
    """Return what a stream that broke off still has to say: held text, then the error, and no end."""
    # An event cut in the middle is no JSON: a client would stumble over it before it saw the error.
    whole = [event for event in decoder.finish() if chat.read_object(event.data) is not None]
    made = [made for event in whole for made in rewriter.feed(event)] + rewriter.finish()
    return made if rewriter.done else [*made, sse.encode(error.body())]


async def _rewrite_whole(client: Client, answer: Answer, rule: Rule, settings: Settings) -> None:
    pieces: list[bytes] = []
    size = 0
    while data := await answer.read():
        if not pieces:
            answer.watch(settings.timeouts.idle_s)
        size += len(data)
        if size > settings.max_body_bytes:
            raise BrokenError(f"The model server's answer is larger than {settings.max_body_bytes} bytes.")
        pieces.append(data)
    body = b"".join(pieces)
    document = chat.read_object(body)
    if document is not None and Rewriter(rule).rewrite(document):
        body = chat.write_json(document)
    fields = headers.for_client(
        answer.headers, request_id=client.request_id, stream=False, body_bytes=len(body)
    )
    await client.start(answer.status, fields)
    await client.finish(body)
