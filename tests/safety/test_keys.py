"""Who may come in, and whose key goes where."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from proxy import keys
from proxy.keys import Keys
from proxy.settings import Cors, Server
from tests.safety.upstreams import always, server
from tests.servers import raw_server, read_request
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

    from tests.servers import RawRequest
    from tests.transport.wire import Reply

KEY = "sk-proxy-one"
OTHER_KEY = "sk-client-own"
UPSTREAM_KEY = "sk-upstream-secret"
OURS = (KEY, "sk-proxy-two")

PREFLIGHT = ("origin: https://chat.example", "access-control-request-method: POST")


def refused(reply: Reply) -> bool:
    """Tell whether it is the refusal, and nothing else."""
    if reply.status != 401:
        return False
    assert reply.error() == (401, "proxy_request_error", "invalid_api_key")
    assert reply.header("www-authenticate") == "Bearer"
    return True


@pytest.mark.parametrize(
    ("fields", "opens"),
    [
        ((f"authorization: Bearer {KEY}",), True),
        (("Authorization: bearer sk-proxy-two",), True),
        ((f"authorization: Bearer   {KEY} ",), True),
        ((f"x-api-key: {KEY}",), True),
        ((f"X-API-Key:{KEY}",), True),
        (("x-api-key: wrong", f"authorization: Bearer {KEY}"), True),
        (("authorization: Bearer wrong", f"authorization: Bearer {KEY}"), True),
        ((), False),
        (("authorization: Bearer wrong",), False),
        (("authorization: Bearer",), False),
        (("authorization: ",), False),
        (("x-api-key: ",), False),
        ((f"authorization: {KEY}",), False),
        ((f"authorization: Basic {KEY}",), False),
        ((f"authorization: Bearer Bearer {KEY}",), False),
        ((f"authorization: Bearer {KEY[:-1]}",), False),
        ((f"authorization: Bearer {KEY}x",), False),
        ((f"authorization: Bearer {KEY.upper()}",), False),
        ((f"x-api-key: Bearer {KEY}",), False),
        ((f"api-key: {KEY}",), False),
        ((f"cookie: authorization=Bearer {KEY}",), False),
        ((f"proxy-authorization: Bearer {KEY}",), False),
        (("authorization: Bearer \xff",), False),
    ],
    ids=repr,
)
async def test_one_of_the_keys_opens_the_proxy(fields: tuple[str, ...], opens: bool) -> None:
    async with raw_server(server("a")) as upstream:
        async with proxying(upstream.url, api_keys=OURS) as proxy, proxy.connect() as client:
            for request in (
                wire.chat(PLAIN, *fields),
                wire.request("/v1/models", None, *fields),
                wire.request(f"/v1/models?api_key={KEY}", None, *fields),
            ):
                reply = await client.ask(request)
                assert (reply.status, refused(reply)) == ((200, False) if opens else (401, True))
        assert bool(upstream.connections) is opens


async def test_a_key_from_the_file_opens_it_too() -> None:
    async with (
        raw_server(server("a")) as upstream,
        proxying(upstream.url, file_api_keys=(KEY,)) as proxy,
        proxy.connect() as client,
    ):
        assert (await client.ask(wire.chat(PLAIN, f"x-api-key: {KEY}"))).status == 200
        assert refused(await client.ask(wire.chat(PLAIN)))


async def test_without_a_key_nobody_learns_which_paths_there_are() -> None:
    async with raw_server(server("a")) as upstream:
        async with proxying(upstream.url, api_keys=OURS) as proxy, proxy.connect() as client:
            for path in (
                "/",
                "/metrics",
                "/_proxy/state",
                "/_proxy/bench",
                "/_proxy/x",
                "/v1/models",
                "/nothing",
                "/docs",
                "/openapi.json",
            ):
                assert refused(await client.ask(wire.request(path)))
            assert refused(await client.ask(wire.request("/v1/chat/completions", b"no JSON")))
            assert refused(await client.ask(wire.request("/v1/chat/completions", method="GET")))
        assert not upstream.connections


async def test_health_paths_stay_open_and_no_other_spelling_of_them() -> None:
    async with raw_server(server("a")) as upstream:
        async with proxying(upstream.url, api_keys=OURS) as proxy, proxy.connect() as client:
            for path in ("/healthz", "/readyz", "/healthz?x=/v1/models", "http://other.test/healthz"):
                assert (await client.ask(wire.request(path))).status == 200
            for path in (
                "/%68ealthz",
                "/healthz/",
                "//healthz",
                "/healthz/../v1/models",
                "/healthz%2f..%2fv1/models",
                "/healthz%3f/../v1/models",
                "/v1/models#/healthz",
                "/v1/models?/healthz",
                "/v1/models;/healthz",
            ):
                assert refused(await client.ask(wire.request(path)))
        assert {request.target for request in upstream.requests} == {"/health"}


@pytest.mark.parametrize(
    "host", ["healthz", "x/healthz", "x/healthz?", "127.0.0.1/healthz#", "healthz:80/healthz", ""]
)
async def test_the_host_field_opens_nothing(host: str) -> None:
    async with raw_server(server("a")) as upstream:
        async with proxying(upstream.url, api_keys=OURS) as proxy, proxy.connect() as client:
            assert refused(await client.ask(wire.request("/v1/models", host=host)))
        assert not upstream.connections


def test_every_key_is_compared_by_its_digest_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(known: bytes, given: bytes) -> bool:
        compared.append((known, given))
        return known == given

    monkeypatch.setattr(keys, "compare_digest", compare)
    held = Keys(["a", "b" * 1000, "c"])
    for given in (b"a", b"c", b"d", b"x" * 1000):
        compared.clear()
        assert held.admit([(b"authorization", b"Bearer " + given)]) is (given in (b"a", b"c"))
        assert len(compared) == 3
        assert {len(side) for pair in compared for side in pair} == {32}


# A browser asks without a key


@pytest.mark.parametrize(
    "request_",
    [
        wire.request("/v1/chat/completions", None, *PREFLIGHT, method="OPTIONS"),
        wire.request("/v1/models", None, *PREFLIGHT, method="OPTIONS"),
        wire.request("/metrics", None, *PREFLIGHT, method="OPTIONS"),
        wire.request("/v1/models", None, *PREFLIGHT, f"x-api-key: {OTHER_KEY}", method="OPTIONS"),
        wire.request("/v1/models", None, method="OPTIONS"),
        wire.request("/v1/models", None, PREFLIGHT[0], method="OPTIONS"),
        wire.request("/v1/embeddings", b"{}", *PREFLIGHT, method="OPTIONS"),
        wire.request("/v1/embeddings", b"{}", *PREFLIGHT, method="POST"),
        wire.request("/v1/models", None, *PREFLIGHT, method="GET"),
        wire.request("*", None, *PREFLIGHT, method="OPTIONS"),
    ],
    ids=range(10),
)
async def test_without_cors_a_preflight_gets_no_further_than_any_request_without_a_key(
    request_: bytes,
) -> None:
    async with raw_server(server("a")) as upstream:
        async with proxying(upstream.url, api_keys=OURS) as proxy, proxy.connect() as client:
            assert refused(await client.ask(request_))
        assert not upstream.connections


async def test_a_refused_preflight_is_told_what_answers_it() -> None:
    async with proxying("http://127.0.0.1:9", api_keys=OURS) as proxy, proxy.connect() as client:
        for fields, told in ((PREFLIGHT, True), ((), False)):
            reply = await client.ask(wire.request("/v1/models", None, *fields, method="OPTIONS"))
            assert ("cors" in reply.json()["error"]["message"]) is told


async def test_a_preflight_in_an_open_proxy_carries_no_key() -> None:
    async with raw_server(server("a")) as upstream:
        servers = (Server("a", upstream.url, api_key=UPSTREAM_KEY),)
        fields = (*PREFLIGHT, f"authorization: Bearer {OTHER_KEY}", f"x-api-key: {OTHER_KEY}")
        async with proxying(servers) as proxy, proxy.connect() as client:
            reply = await client.ask(wire.request("/v1/models", None, *fields, method="OPTIONS"))
            assert reply.status == 200
        (seen,) = upstream.requests
        assert not {"authorization", "x-api-key"} & {name for name, _ in seen.headers}


async def test_with_cors_a_preflight_is_answered_here_and_a_refusal_can_be_read() -> None:
    cors = Cors(("https://chat.example",))
    async with raw_server(server("a")) as upstream:
        async with proxying(upstream.url, api_keys=OURS, cors=cors) as proxy, proxy.connect() as client:
            reply = await client.ask(wire.request("/v1/models", None, *PREFLIGHT, method="OPTIONS"))
            assert reply.status == 200
            reply = await client.ask(wire.request("/v1/models", None, PREFLIGHT[0]))
            assert refused(reply)
            assert reply.header("access-control-allow-origin") == "https://chat.example"
        assert not upstream.connections


# Whose key goes where


async def ask_for_fields(*fields: str, upstream_key: str | None = None, **settings: Any) -> dict[str, Any]:
    """Return the credentials that the model server got."""
    async with raw_server(server("a")) as upstream:
        servers = (Server("a", upstream.url, api_key=upstream_key),)
        async with proxying(servers, **settings) as proxy, proxy.connect() as client:
            assert (await client.ask(wire.chat(LISTED, *fields))).status == 200
        (request,) = upstream.requests
    assert KEY not in repr(request)
    return {name: value for name, value in request.headers if name in ("authorization", "x-api-key")}


async def test_in_an_open_proxy_the_clients_key_passes() -> None:
    sent = (f"authorization: Bearer {OTHER_KEY}", f"x-api-key: {OTHER_KEY}")
    assert await ask_for_fields(*sent) == {"authorization": f"Bearer {OTHER_KEY}", "x-api-key": OTHER_KEY}


@pytest.mark.parametrize(
    ("fields", "left"),
    [
        ((f"authorization: Bearer {KEY}",), {}),
        ((f"x-api-key: {KEY}",), {}),
        ((f"x-api-key: {KEY}", f"authorization: Basic {KEY}"), {}),
        ((f"x-api-key: {KEY}", f"authorization: {KEY}"), {}),
        (
            (f"x-api-key: {KEY}", f"authorization: Bearer {OTHER_KEY}"),
            {"authorization": f"Bearer {OTHER_KEY}"},
        ),
        ((f"authorization: Bearer {KEY}", f"x-api-key: {OTHER_KEY}"), {"x-api-key": OTHER_KEY}),
    ],
    ids=repr,
)
async def test_a_credential_that_opened_the_proxy_is_not_forwarded(
    fields: tuple[str, ...], left: dict[str, str]
) -> None:
    assert await ask_for_fields(*fields, api_keys=OURS) == left


@pytest.mark.parametrize("ours", [(), OURS])
async def test_the_key_of_the_server_takes_the_place_of_the_clients(ours: tuple[str, ...]) -> None:
    opening = (f"x-api-key: {KEY}",) if ours else (f"x-api-key: {OTHER_KEY}",)
    for sent in (opening, (*opening, f"authorization: Bearer {OTHER_KEY}")):
        got = await ask_for_fields(*sent, upstream_key=UPSTREAM_KEY, api_keys=ours)
        assert got == {"authorization": f"Bearer {UPSTREAM_KEY}"}


async def test_each_server_gets_its_own_key_and_no_other() -> None:
    async with raw_server(server("a", "m")) as first, raw_server(server("b", "n")) as second:
        servers = (
            Server("a", first.url, models=("m",), api_key="sk-a"),
            Server("b", second.url, models=("n",)),
        )
        async with proxying(servers, api_keys=OURS) as proxy, proxy.connect() as client:
            fields = (f"x-api-key: {KEY}", f"authorization: Bearer {OTHER_KEY}")
            for request in (wire.chat("m", *fields), wire.chat("n", *fields)):
                await client.ask(request)
            assert (await client.ask(wire.request("/v1/models", None, *fields))).status == 200
    for requests, key in ((first.requests, "sk-a"), (second.requests, OTHER_KEY)):
        assert {request.header("authorization") for request in requests} == {f"Bearer {key}"}
        assert {request.header("x-api-key") for request in requests} == {None}


def parrot(model_key: str, kind: str) -> Any:
    """Answer with what was sent, key and all."""

    async def script(request: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        told = f"your key is {request.header('authorization')}, {model_key}"
        fields = (f"x-echo: {told}", f"x-{kind}: fine")
        while True:
            if kind == "stream":
                writer.write(wire.STREAM_HEAD.replace(b"\r\n\r\n", f"\r\n{fields[0]}\r\n\r\n".encode()))
                for piece in (wire.event(told), f": {told}\n\n".encode(), f"{told}\n".encode()):
                    # Cut in the middle of the key, wherever that is.
                    middle = piece.find(model_key.encode()) + 5
                    writer.write(wire.chunk(piece[:middle]))
                    await writer.drain()
                    writer.write(wire.chunk(piece[middle:]))
                writer.write(wire.LAST_CHUNK)
            elif kind == "error":
                body = json.dumps({"error": {"message": told}}).encode()
                writer.write(wire.answer(body, *fields, status="401 Unauthorized"))
            else:
                writer.write(wire.answer(wire.whole(told), *fields))
            await read_request(reader)

    return script


@pytest.mark.parametrize("kind", ["stream", "error", "whole"])
@pytest.mark.parametrize("model", [LISTED, PLAIN])
async def test_the_key_of_the_server_never_comes_back(model: str, kind: str) -> None:
    async with raw_server(parrot(UPSTREAM_KEY, kind)) as upstream:
        servers = (Server("a", upstream.url, api_key=UPSTREAM_KEY),)
        async with proxying(servers) as proxy, proxy.connect() as client:
            reply = await client.ask(wire.chat(model, "accept-encoding: gzip"))
            assert UPSTREAM_KEY not in repr(reply)
            assert b"your key is Bearer ****" in reply.body
            assert reply.header("x-echo") is None
            if kind != "stream":
                assert reply.json()
                assert reply.header(f"x-{kind}") == "fine"
        assert upstream.requests[0].header("accept-encoding") == "identity"
        assert upstream.requests[0].header("authorization") == f"Bearer {UPSTREAM_KEY}"


async def test_a_list_of_models_does_not_tell_it_either() -> None:
    rows = {"data": [{"id": "m", "owned_by": UPSTREAM_KEY}]}
    listing = wire.answer(json.dumps(rows).encode(), f"x-echo: {UPSTREAM_KEY}")
    refusal = wire.answer(f"no: {UPSTREAM_KEY}".encode(), f"x-echo: {UPSTREAM_KEY}", status="403 No")
    for reply in (listing, refusal):
        async with raw_server(always(reply)) as first, raw_server(always(reply)) as second:
            servers = tuple(Server(it.url[-5:], it.url, api_key=UPSTREAM_KEY) for it in (first, second))
            async with proxying(servers) as proxy, proxy.connect() as client:
                told = await client.ask(wire.request("/v1/models"))
        assert UPSTREAM_KEY not in repr(told)
        assert b"****" in told.body
