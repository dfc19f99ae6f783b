"""Several model servers: which one gets a request, and the list of models of all."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from proxy.settings import Cors, Server, Timeouts
from tests.safety.upstreams import always, server
from tests.servers import HOST, WAIT_S, raw_server
from tests.transport import wire
from tests.transport.proxying import LISTED, proxying
from tests.transport.scripts import keep_silent

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import Sequence
    from pathlib import Path

    from tests.servers import RawRequest
    from tests.transport.wire import Reply


def served_by(reply: Reply) -> str:
    assert reply.status == 200
    name = reply.json()["server"]
    assert isinstance(name, str)
    return name


def post(path: str, **members: Any) -> bytes:
    return wire.request(path, json.dumps(members).encode(), "content-type: application/json")


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("vendor/exact", "a"),
        ("vendor/exact:free", "a"),
        ("Qwen/Qwen3-8B", "a"),
        ("qwen/qwen3-8b", "b"),
        ("Qwen/other", "b"),
        ("both", "a"),
        ("both:x/y", "b"),
        ("x" * 100_000, "b"),
        ("\ud800", "b"),
    ],
)
async def test_the_first_server_that_takes_the_model_gets_the_request(model: str, name: str) -> None:
    async with raw_server(server("a")) as first, raw_server(server("b")) as second:
        servers = (
            Server("a", first.url, models=("vendor/exact", "Qwen/Qwen3-*", "both")),
            Server("b", second.url, models=("both", "*")),
        )
        async with proxying(servers) as proxy, proxy.connect() as client:
            for path in ("/v1/chat/completions", "/v1/embeddings", "/v1/completions", "/tokenize"):
                assert served_by(await client.ask(post(path, model=model, messages=[]))) == name


async def test_a_listed_model_is_split_wherever_it_is_served() -> None:
    async with (
        raw_server(always(wire.answer(wire.whole("<think>a</think>b")))) as thinking,
        raw_server(server("other")) as other,
    ):
        servers = (
            Server("other", other.url, models=("x",)),
            Server("thinking", thinking.url, models=("lis*",)),
        )
        async with proxying(servers) as proxy, proxy.connect() as client:
            reply = await client.ask(wire.chat(LISTED))
    assert reply.json()["choices"][0]["message"]["reasoning_content"] == "a"


async def test_a_model_that_no_server_takes_is_a_404_that_says_what_there_is() -> None:
    async with raw_server(server("a")) as upstream:
        servers = (
            Server("a", upstream.url, models=("Qwen/*", "m")),
            Server("b", upstream.url, models=("m", "n")),
        )
        async with proxying(servers) as proxy, proxy.connect() as client:
            requests = [wire.chat("qwen"), post("/v1/embeddings", model="M"), wire.request("/v1/models/none")]
            for request in requests:
                reply = await client.ask(request)
                assert reply.error() == (404, "proxy_request_error", "model_not_found")
                assert reply.json()["error"]["param"] == "model"
                assert "Qwen/*, m, n" in reply.json()["error"]["message"]
        assert not upstream.connections


async def test_one_server_with_models_of_its_own_takes_no_others() -> None:
    async with raw_server(server("a")) as upstream:
        only = (Server("a", upstream.url, models=("m",)),)
        async with proxying(only) as proxy, proxy.connect() as client:
            assert (await client.ask(wire.chat("x"))).status == 404
            assert served_by(await client.ask(wire.chat("m"))) == "a"


async def test_a_request_without_a_model_goes_to_the_first_server() -> None:
    async with raw_server(server("a")) as first, raw_server(server("b")) as second:
        servers = (Server("a", first.url, models=("m",)), Server("b", second.url))
        async with proxying(servers) as proxy, proxy.connect() as client:
            requests = [
                wire.request("/version"),
                wire.request("/v1/responses/abc"),
                post("/tokenize", prompt="x"),
                post("/tokenize", model=5),
                wire.request(
                    "/v1/audio/transcriptions", b"--b\r\nmodel", "content-type: multipart/form-data"
                ),
                wire.request("/v1/embeddings", b"[" * 5000),
            ]
            for request in requests:
                assert served_by(await client.ask(request)) == "a"


async def test_a_model_is_looked_up_where_requests_for_it_go() -> None:
    async with raw_server(server("a")) as first, raw_server(server("b")) as second:
        servers = (Server("a", first.url, models=("Qwen/*",)), Server("b", second.url))
        async with proxying(servers) as proxy, proxy.connect() as client:
            for path, name in (
                ("/v1/models/Qwen/x", "a"),
                ("/v1/models/Qwen%2Fx", "a"),
                ("/v1/models/other", "b"),
            ):
                reply = await client.ask(wire.request(path))
                assert (served_by(reply), reply.json()["target"]) == (name, path)


async def test_each_server_has_its_own_timeouts() -> None:
    async with raw_server(keep_silent) as upstream:
        servers = (
            Server("a", upstream.url, models=("a",), timeouts=Timeouts(first_byte_s=0.05)),
            Server("b", upstream.url, models=("b",), timeouts=Timeouts(answer_s=0.05)),
        )
        async with proxying(servers) as proxy, proxy.connect() as client:
            first = (await client.ask(wire.chat("a"))).json()["error"]["message"]
            second = (await client.ask(wire.chat("b"))).json()["error"]["message"]
    assert "timeouts.firstByteSeconds" in first
    assert "timeouts.answerSeconds" in second


# The list of models


def ids(reply: Reply) -> list[tuple[str, str]]:
    body = reply.json()
    assert body["object"] == "list"
    return [(row["owned_by"], row["id"]) for row in body["data"]]


async def test_the_list_of_models_is_that_of_all_servers_each_model_where_requests_for_it_go() -> None:
    async with (
        raw_server(server("a", "m", "Qwen/x", "hidden")) as first,
        raw_server(server("b", "Qwen/x", "n", "m")) as second,
    ):
        servers = (Server("a", first.url, models=("Qwen/*", "m")), Server("b", second.url))
        async with proxying(servers) as proxy, proxy.connect() as client:
            reply = await client.ask(wire.request("/v1/models?x=1"))
            assert ids(reply) == [("a", "m"), ("a", "Qwen/x"), ("b", "n")]
            assert reply.header("x-proxy-missing-upstreams") is None
            assert reply.header("content-type") == "application/json"
            head = await client.ask(wire.request("/v1/models", method="HEAD"))
            assert (head.status, head.body) == (200, b"")
    assert first.requests[0].target == "/v1/models?x=1"


@pytest.mark.parametrize(
    "reply",
    [
        wire.answer(b'{"error": "no"}', status="500 No"),
        wire.answer(b"<html>"),
        wire.answer(b'{"object": "list"}'),
        wire.answer(b'{"data": {"id": "x"}}'),
        b"nonsense\r\n\r\n",
        b"",
        wire.answer(b"[" * 5_000_000),
    ],
    ids=["error", "no JSON", "no data", "no list", "no HTTP", "closed", "too much"],
)
async def test_a_server_without_a_list_is_left_out_and_noted(
    reply: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with raw_server(server("a", "m")) as first, raw_server(always(reply)) as second:
        servers = (Server("good", first.url), Server("bad", second.url))
        async with proxying(servers) as proxy, proxy.connect() as client:
            listed = await client.ask(wire.request("/v1/models"))
    assert ids(listed) == [("a", "m")]
    assert listed.header("x-proxy-missing-upstreams") == "bad"
    noted = [record.__dict__["fields"] for record in caplog.records if "list of models" in record.message]
    assert [fields["upstream"] for fields in noted] == ["bad"]


async def test_a_server_that_is_down_or_silent_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.models.WAIT_S", 0.1)

    async with raw_server(server("a", "m")) as first, raw_server(keep_silent) as silent:
        servers = (
            Server("down", f"http://{HOST}:1"),
            Server("silent", silent.url),
            Server("good", first.url, models=("m",)),
        )
        servers = (servers[2], *servers[:2])
        async with proxying(servers) as proxy, proxy.connect() as client:
            listed = await client.ask(wire.request("/v1/models"))
    assert ids(listed) == [("a", "m")]
    assert listed.header("x-proxy-missing-upstreams") == "down, silent"


async def test_a_client_that_leaves_while_lists_are_asked_for_frees_the_servers() -> None:
    async with raw_server(keep_silent) as first, raw_server(keep_silent) as second:
        servers = (Server("a", first.url), Server("b", second.url))
        async with proxying(servers) as proxy:
            async with proxy.connect() as client:
                await client.send(wire.request("/v1/models"))
                asked = await asyncio.gather(first.connection(), second.connection())
            for connection in asked:
                await connection.wait_peer_closed()
            await proxy.served(1)


async def test_where_all_servers_are_down_the_list_is_an_error() -> None:
    servers = (Server("a", f"http://{HOST}:1"), Server("b", f"http://{HOST}:1"))
    async with proxying(servers) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.request("/v1/models"))
    assert reply.error() == (502, "proxy_upstream_error", "upstream_unreachable")


async def test_where_all_servers_say_no_the_client_hears_what_the_first_said() -> None:
    refusal = wire.answer(b'{"error": {"message": "no key"}}', "set-cookie: a=b", status="401 Unauthorized")
    async with raw_server(always(refusal)) as first, raw_server(always(wire.answer(b"no JSON"))) as second:
        servers = (Server("b", second.url), Server("a", first.url))
        async with proxying(servers) as proxy, proxy.connect() as client:
            reply = await client.ask(wire.request("/v1/models"))
    assert (reply.status, reply.body) == (401, b'{"error": {"message": "no key"}}')
    assert reply.header("set-cookie") is None


@pytest.mark.parametrize(
    "field", ["if-none-match: *", "range: bytes=0-9", "if-modified-since: x", "if-range: x"]
)
async def test_a_list_is_asked_for_whole_and_without_conditions(field: str) -> None:
    async with raw_server(server("a", "m")) as first, raw_server(server("b", "n")) as second:
        servers = (Server("a", first.url, models=("m",)), Server("b", second.url))
        async with proxying(servers) as proxy, proxy.connect() as client:
            fields = (field, "authorization: Bearer k", "x-tenant: t", "x-request-id: r")
            assert ids(await client.ask(wire.request("/v1/models", None, *fields))) == [
                ("a", "m"),
                ("b", "n"),
            ]
    for asked in (first.requests[0], second.requests[0]):
        assert asked.header(field.partition(":")[0]) is None
        assert [asked.header(name) for name in ("authorization", "x-tenant", "x-request-id")] == [
            "Bearer k",
            "t",
            "r",
        ]


ANYONE = "access-control-allow-origin: *"
NOBODY = "x-none: 1"


@pytest.mark.parametrize(
    ("said", "own", "seen"),
    [
        ((ANYONE, ANYONE), None, "*"),
        ((ANYONE, NOBODY), None, None),
        ((NOBODY, ANYONE), None, None),
        ((ANYONE, "access-control-allow-origin: https://a.test"), None, None),
        ((NOBODY, NOBODY), None, None),
        ((ANYONE, ANYONE), Cors(("https://b.test",)), "https://b.test"),
    ],
)
async def test_pages_may_see_the_list_of_all_if_they_may_see_that_of_each(
    said: tuple[str, str], own: Cors | None, seen: str | None
) -> None:
    scripts = [
        always(wire.answer(b'{"data":[{"id":"%b","owned_by":"%b"}]}' % (name, name), field))
        for name, field in zip((b"a", b"b"), said, strict=True)
    ]
    async with raw_server(scripts[0]) as first, raw_server(scripts[1]) as second:
        servers = (
            Server("a", first.url, models=("a",)),
            Server("down", f"http://{HOST}:1", models=("c",)),
            Server("b", second.url),
        )
        async with proxying(servers, cors=own) as proxy, proxy.connect() as client:
            reply = await client.ask(wire.request("/v1/models", None, "origin: https://b.test"))
    assert [value for name, value in reply.headers if name == "access-control-allow-origin"] == (
        [seen] if seen else []
    )
    assert ids(reply) == [("a", "a"), ("b", "b")]


async def test_models_of_the_only_server_pass_as_they_came() -> None:
    body = b'{ "object":"list", "data": [],  "odd": 1 }'
    async with raw_server(always(wire.answer(body))) as upstream:
        for servers in (upstream.url, (Server("a", upstream.url),)):
            async with proxying(servers) as proxy, proxy.connect() as client:
                assert (await client.ask(wire.request("/v1/models"))).body == body


# Health


async def ready(servers: Sequence[Server]) -> tuple[int, Any]:
    async with proxying(tuple(servers)) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.request("/readyz"))
    return reply.status, reply.json()


async def test_ready_while_one_server_can_be_reached() -> None:
    async with raw_server(server("a")) as upstream:
        good, down = Server("good", upstream.url), Server("down", f"http://{HOST}:1")
        assert await ready((down, good)) == (
            200,
            {"status": "ok", "upstreams": {"down": "unreachable", "good": "ok"}},
        )
    assert await ready((down,)) == (503, {"status": "unreachable", "upstreams": {"down": "unreachable"}})


async def test_the_log_names_the_server(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "think_proxy")
    async with raw_server(server("a")) as upstream:
        for servers in ((Server("one", upstream.url),), upstream.url):
            async with proxying(servers) as proxy, proxy.connect() as client:
                await client.ask(wire.chat("m"))
    told = [record.__dict__["fields"].get("upstream") for record in caplog.records]
    assert told == ["one", "default"]


# Socket files and TLS


async def test_a_server_behind_a_socket_file(tmp_path: Path) -> None:
    path = str(tmp_path / "vllm.sock")
    async with raw_server(server("a"), path=path) as upstream:
        quoted = path.replace("/", "%2F")
        for one, host, target in (
            (Server("a", "http://vllm.test:7/base", uds=path), "vllm.test:7", "/base/version"),
            (Server("a", f"http+unix://{path}"), "localhost", "/version"),
            (Server("a", f"http+unix://{quoted}/base"), "localhost", "/base/version"),
        ):
            async with proxying((one,)) as proxy, proxy.connect() as client:
                assert served_by(await client.ask(wire.request("/version"))) == "a"
                assert (await client.ask(wire.request("/readyz"))).status == 200
            asked = next(request for request in upstream.requests if request.target == target)
            assert asked.header("host") == host
            upstream.requests.clear()


async def test_no_socket_file_is_an_unreachable_server(tmp_path: Path) -> None:
    async with proxying(f"http+unix://{tmp_path}/none.sock") as proxy, proxy.connect() as client:
        reply = await client.ask(wire.request("/version"))
    assert reply.error() == (502, "proxy_upstream_error", "upstream_unreachable")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def vouch(authority: trustme.CA, folder: Path, name: str = "localhost") -> tuple[str, ssl.SSLContext]:
    """Return the file that vouches for a server of this name, and what the server takes."""
    file = folder / "ca.pem"
    authority.cert_pem.write_to_path(file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return str(file), context


@pytest.mark.parametrize("host", ["localhost", HOST])
async def test_tls_to_a_server_whose_certificate_a_file_vouches_for(
    tmp_path: Path, authority: trustme.CA, host: str
) -> None:
    file, context = vouch(authority, tmp_path, host)
    async with raw_server(server("a"), tls=context) as upstream:
        good = Server("a", f"https://{host}:{upstream.port}/base", ca_file=file)
        async with proxying((good,)) as proxy, proxy.connect() as client:
            for _ in range(2):
                reply = await client.ask(wire.chat("m"))
                assert (served_by(reply), reply.json()["target"]) == ("a", "/base/v1/chat/completions")
                assert reply.json()["headers"]["host"] == f"{host}:{upstream.port}"
            assert (
                proxy.app.world.routes.first.live == 1
            )  # the second request went over the first's connection
            assert (await client.ask(wire.request("/readyz"))).status == 200


async def test_a_stream_over_tls_is_rewritten_and_freed_when_its_client_leaves(
    tmp_path: Path, authority: trustme.CA
) -> None:
    left = asyncio.Event()

    async def script(_: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(wire.STREAM_HEAD + wire.chunk(wire.event("<think>why</think>so")))
        await reader.read()
        left.set()

    file, context = vouch(authority, tmp_path)
    async with raw_server(script, tls=context) as upstream:
        good = Server("a", f"https://localhost:{upstream.port}", ca_file=file)
        async with proxying((good,)) as proxy:
            async with proxy.connect() as client:
                await client.send(wire.chat(LISTED, stream=True))
                await client.head()
                assert wire.texts(wire.events(await client.piece())) == ("why", "so")
            await asyncio.wait_for(left.wait(), WAIT_S)


@pytest.mark.parametrize(
    ("host", "trusted", "why"),
    [
        ("localhost", "nobody", "unable to get local issuer certificate"),
        ("localhost", "another", "unable to get local issuer certificate"),
        (HOST, "its own", f"IP address mismatch, certificate is not valid for '{HOST}'"),
    ],
)
async def test_tls_is_refused_to_a_certificate_of_nobody_and_of_another_name(
    tmp_path: Path, authority: trustme.CA, host: str, trusted: str, why: str
) -> None:
    file, context = vouch(authority, tmp_path)
    if trusted == "another":
        trustme.CA().cert_pem.write_to_path(file)
    async with raw_server(server("a"), tls=context) as upstream:
        url = f"https://{host}:{upstream.port}"
        bad = Server("a", url, ca_file=None if trusted == "nobody" else file)
        async with proxying((bad,)) as proxy, proxy.connect() as client:
            reply = await client.ask(wire.chat("m"))
            assert (await client.ask(wire.request("/readyz"))).status == 503
        assert not upstream.requests
    assert reply.error() == (502, "proxy_upstream_error", "upstream_unreachable")
    assert reply.json()["error"]["message"] == (
        f"The certificate of the model server at {url} is not accepted ({why}). "
        "`caFile` in the proxy's configuration names the certificates to check it against."
    )
