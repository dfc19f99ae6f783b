"""The list of models, where there are several model servers: theirs in one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from proxy import chat, headers
from proxy.errors import BrokenError, UnreachableError, UpstreamError
from proxy.mask import cover
from proxy.telemetry import LOGGER

if TYPE_CHECKING:
    from proxy.client import Client
    from proxy.headers import Headers
    from proxy.routes import Routes
    from proxy.upstream import Upstream

PATH = b"/v1/models"
WAIT_S = 5.0
"""Seconds that a server may take for its list; a client that asks for it has a menu to show."""
MAX_BYTES = 4 * 1024 * 1024
"""The largest list of one server; hundreds of models make some 100 KB."""

_OK = 200


class _Listing:
    """What one server answered; the body of an error is kept as well."""

    def __init__(self, status: int, fields: Headers, body: bytes) -> None:
        self.status = status
        self.fields = fields
        self.body = body
        self.models = read_list(body) if status == _OK else None

    @property
    def cors(self) -> Headers:
        """What it lets web pages of other origins read."""
        return [field for field in self.fields if field[0].startswith(headers.CORS_PREFIX)]


def read_list(body: bytes) -> list[dict[str, Any]] | None:
    """Return the models in a server's list, each with an `id`; None if that is no such list."""
    document = chat.read_object(body)
    data = document.get("data") if document else None
    if not isinstance(data, list):
        return None
    return [row for row in data if isinstance(row, dict) and isinstance(row.get("id"), str)]


async def list_models(client: Client, routes: Routes, *, own_cors: bool) -> None:
    """Answer with the models of all servers, each where requests for it go.

    A server that gives no list is left out: a field of the answer names it, and the log. Where all say
    no (to the client's key, it may be), the client gets what the first of them said.

    Args:
        client: who asks.
        routes: the servers.
        own_cors: cross-origin rules are made here. Without, the answer has those of the servers if all that
            are in it have the same: none shows another one's models to a page that may not see them.

    Raises:
        UnreachableError: no server gave any answer.
    """
    asked = (_ask(client, upstream, own_cors=own_cors) for upstream in routes.upstreams)
    found = await asyncio.gather(*asked)
    listings = list(zip(routes.upstreams, found, strict=True))
    missing = [upstream.name for upstream, listing in listings if listing is None or listing.models is None]
    if len(missing) == len(listings):
        said = next((listing for listing in found if listing is not None and listing.status != _OK), None)
        if said is None:
            raise UnreachableError("No upstream gave its list of models; the proxy's log says more.")
        await _send(client, said.status, said.fields, said.body)
        return
    models = {
        row["id"]: row
        for upstream, listing in listings
        for row in (listing.models or () if listing else ())
        if routes.serves(upstream, row["id"])
    }
    fields = [(b"content-type", b"application/json"), (b"x-request-id", client.request_id)]
    rules = [listing.cors for listing in found if listing is not None and listing.models is not None]
    if all(rule == rules[0] for rule in rules):
        fields += rules[0]
    if missing:
        fields.append((b"x-proxy-missing-upstreams", ", ".join(missing).encode()))
    try:
        body = chat.write_json({"object": "list", "data": list(models.values())})
    except RecursionError:
        raise BrokenError("An upstream's list of models is nested too deeply.") from None
    await _send(client, _OK, fields, body)


async def _ask(client: Client, upstream: Upstream, *, own_cors: bool) -> _Listing | None:
    try:
        async with asyncio.timeout(WAIT_S):
            return await _read(client, upstream, own_cors=own_cors)
    except TimeoutError:
        reason = f"no answer within {WAIT_S:g} seconds"
    except UpstreamError as error:
        reason = error.code
    LOGGER.warning(
        "left out of the list of models", extra={"fields": {"upstream": upstream.name, "reason": reason}}
    )
    return None


async def _read(client: Client, upstream: Upstream, *, own_cors: bool) -> _Listing:
    sent = headers.for_upstream(
        headers.without(client.headers, headers.CONDITIONS),
        host=upstream.host,
        body_bytes=0,
        request_id=client.request_id,
        identity=True,
        api_key=upstream.api_key,
    )
    target = PATH + (b"?" + client.query if client.query else b"")
    async with await upstream.send("GET", target, sent, b"") as answer:
        body = await answer.read_all(MAX_BYTES)
        if body is None:
            raise BrokenError(f"The list of models is larger than {MAX_BYTES} bytes.")
        fields = headers.for_client(
            answer.headers,
            request_id=client.request_id,
            stream=False,
            rewritten=True,
            own_cors=own_cors,
            secret=upstream.api_key.encode() if upstream.api_key else None,
        )
    listing = _Listing(answer.status, fields, cover(body, upstream.api_key))
    if listing.models is None:
        LOGGER.warning(
            "left out of the list of models",
            extra={"fields": {"upstream": upstream.name, "reason": f"status {answer.status}"}},
        )
    return listing


async def _send(client: Client, status: int, fields: Headers, body: bytes) -> None:
    await client.start(status, [*fields, (b"content-length", b"%d" % len(body))])
    await client.finish(b"" if client.method == "HEAD" else body)
