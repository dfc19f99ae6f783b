"""What is below `/_proxy/`: the page, which anybody may have since it holds no data, and its numbers.

The bench is a request like those of clients, and is served as one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from proxy import chat
from proxy.client import Client
from proxy.errors import CredentialError, MethodError, ProxyError
from proxy.page import bench
from proxy.page.document import GUARDS, read_document
from proxy.page.origin import check_site
from proxy.page.overview import describe_overview

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.types import Receive, Scope, Send

    from proxy.headers import Headers
    from proxy.page.overview import Family
    from proxy.world import World

PAGE = b"/_proxy/"
STATE = b"/_proxy/state"
_BARE = b"/_proxy"

PATHS = frozenset({PAGE, STATE, _BARE, bench.PATH})
"""The paths of the page, as they come: another spelling of them is not one of them."""

_READS = frozenset({"GET", "HEAD"})


_JSON: Headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store"), *GUARDS]


async def show(
    world: World,
    collect: Callable[[], Iterable[Family]],
    scope: Scope,
    _receive: Receive,
    _send: Send,
    *,
    draining: bool,
) -> None:
    """Answer a request for the page or for its numbers.

    Args:
        world: the configuration at work.
        collect: returns the metrics.
        scope: the request.
        draining: the proxy is about to stop.
    """
    client = Client(scope, b"")
    try:
        status, fields, body = await _answer(world, collect, client, draining=draining)
    except ProxyError as error:
        status, body = error.status, error.body()
        fields = [*_JSON, (b"content-length", b"%d" % len(body)), *error.headers]
    await client.start(status, fields)
    await client.finish(b"" if client.method == "HEAD" else body)


async def _answer(
    world: World, collect: Callable[[], Iterable[Family]], client: Client, *, draining: bool
) -> tuple[int, Headers, bytes]:
    """Return status, fields and body.

    Raises:
        ProxyError: the request was refused.
    """
    if client.method not in _READS:
        error = MethodError("The page takes GET.")
        error.headers = ((b"allow", b"GET, HEAD"),)
        raise error
    if client.path == PAGE:
        return 200, *read_document()
    if client.path == _BARE:
        # Relative, for whoever serves the proxy below a path of their own.
        return 308, [(b"location", b"_proxy/"), (b"content-length", b"0"), *GUARDS], b""
    if not world.keys.admit(client.headers):
        raise CredentialError("The numbers take one of the proxy's keys: `Authorization: Bearer KEY`.")
    check_site(client.headers, has_keys=bool(world.keys))
    families = await asyncio.to_thread(
        lambda: list(collect())
    )  # with several workers there are files to read
    body = chat.write_json(await describe_overview(world, families, draining=draining))
    return 200, [*_JSON, (b"content-length", b"%d" % len(body))], body
