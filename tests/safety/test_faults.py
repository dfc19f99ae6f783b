"""Whatever a library below raises has a place in the tree of the proxy's errors."""

from __future__ import annotations

import asyncio
import asyncio.exceptions
import inspect
import socket
import ssl
from typing import TYPE_CHECKING, Any

import httptools
import pytest
from httptools.parser import errors as parser_errors

from proxy import errors
from proxy.connection import Connection
from proxy.errors import BrokenError, ProxyError, SilentError, UnreachableError, UpstreamError
from proxy.reply import Reply
from proxy.settings import Timeouts
from proxy.upstream import Upstream
from tests.safety.upstreams import always
from tests.servers import raw_server
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying

if TYPE_CHECKING:
    from collections.abc import Iterable


def below(kind: type[Exception]) -> set[type[Exception]]:
    """Return a class of exceptions and all that are known below it."""
    return {kind}.union(*map(below, kind.__subclasses__()))


def raised_by(module: Any) -> set[type[Exception]]:
    """Return the exceptions that a module defines or hands on."""
    return {
        found
        for _, found in inspect.getmembers(module, inspect.isclass)
        if issubclass(found, Exception) and not issubclass(found, Warning)
    }


STANDARD = {"builtins", "ssl", "socket", "asyncio.exceptions", "concurrent.futures._base"}
CONNECTING = {
    kind
    for kind in below(OSError) | raised_by(ssl) | raised_by(socket) | raised_by(asyncio.exceptions)
    if kind.__module__ in STANDARD and not kind.__name__.startswith("_")
} | {UnicodeError, UnicodeEncodeError, RuntimeError}
PARSING = raised_by(parser_errors)


def make(kind: type[Exception]) -> Exception:
    """Return one of a class, whatever it takes to be made."""
    for arguments in ((), (1, "why"), ("why",), (b"", 1), ("idna", "why", 0, 1, "why")):
        try:
            return kind(*arguments)
        except TypeError:
            continue
    raise AssertionError(kind)


def name(kind: type[Exception]) -> str:
    return kind.__name__


def by_name(kinds: set[type[Exception]]) -> list[type[Exception]]:
    return sorted(kinds, key=name)


def test_the_libraries_have_what_is_looked_for() -> None:
    assert {ConnectionResetError, TimeoutError, ssl.SSLCertVerificationError, socket.gaierror} <= CONNECTING
    assert {asyncio.IncompleteReadError, asyncio.InvalidStateError, ssl.SSLZeroReturnError} <= CONNECTING
    assert {httptools.HttpParserUpgrade, httptools.HttpParserInvalidStatusError} <= PARSING


@pytest.mark.parametrize("kind", by_name(CONNECTING), ids=name)
async def test_raised_while_connecting(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: Upstream) -> Connection:
        raise make(kind)

    monkeypatch.setattr(Upstream, "_dial", fail)
    upstream = Upstream("http://h", Timeouts())
    with pytest.raises(UpstreamError) as caught:
        await upstream.send("GET", b"/", [], b"")
    assert type(caught.value) is (SilentError if issubclass(kind, TimeoutError) else UnreachableError)
    assert "http://h" in caught.value.message
    assert upstream.live == 0


@pytest.mark.parametrize("kind", by_name(CONNECTING), ids=name)
@pytest.mark.parametrize(
    "begun", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", b"HTTP/1.1 200 OK\r\n\r\n"]
)
async def test_the_reason_for_which_a_connection_is_lost(kind: type[Exception], begun: bytes) -> None:
    lost: list[Connection] = []
    connection = Connection(lost.append)
    transport = Transport()
    connection.connection_made(transport)  # type: ignore[arg-type]
    asking = asyncio.ensure_future(_ask(connection))
    await asyncio.sleep(0)
    if begun:
        connection.data_received(begun)
    connection.connection_lost(make(kind))
    with pytest.raises(BrokenError):
        await asking
    assert lost == [connection]


async def _ask(connection: Connection) -> None:
    await connection.send(b"GET / HTTP/1.1\r\n\r\n", b"", has_body=True, timeout_s=0)
    while await connection.read():
        pass


class Transport:
    """A transport that takes everything."""

    def writelines(self, data: Iterable[bytes]) -> None:
        pass

    def is_closing(self) -> bool:
        return False


@pytest.mark.parametrize("kind", by_name(PARSING), ids=name)
def test_raised_by_the_parser(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    class Parser:
        """A parser that fails."""

        def __init__(self, _: Any) -> None:
            pass

        def feed_data(self, _: bytes) -> None:
            raise make(kind)

    monkeypatch.setattr("proxy.reply.httptools.HttpResponseParser", Parser)
    with pytest.raises(BrokenError):
        Reply(has_body=True).feed(b"x")


@pytest.mark.parametrize("error", by_name(below(ProxyError)), ids=name)
def test_every_error_of_the_tree_can_be_told_and_stands_in_the_drawing(error: type[ProxyError]) -> None:
    assert 400 <= error.status < 600
    assert error.type.startswith("proxy_")
    assert error("why").body().startswith(b'{"error":{"message":"why","type":"proxy_')
    if error.__module__ == errors.__name__:
        drawn = [row for row in (errors.__doc__ or "").splitlines() if f" {error.__name__} " in f" {row} "]
        if error is not ProxyError:
            assert [row.split()[-2:] for row in drawn] == [[str(error.status), error.code]]


@pytest.mark.parametrize("model", [LISTED, PLAIN])
async def test_a_connection_that_dies_of_an_exception_is_a_502_and_the_next_is_served(model: str) -> None:
    async with (
        raw_server(always(wire.answer(b"fine"))) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("proxy.upstream.Upstream._dial", _refuse)
            reply = await client.ask(wire.chat(model))
            assert reply.error() == (502, "proxy_upstream_error", "upstream_unreachable")
        assert (await client.ask(wire.chat(model))).body == b"fine"


async def _refuse(_: Upstream) -> Connection:
    raise ssl.SSLCertVerificationError(1, "no")
