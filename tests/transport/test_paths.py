"""Which paths are forwarded, and with which methods."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING

import pytest

from proxy.settings import Cors
from tests.servers import raw_server
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying
from tests.transport.scripts import refuse_all

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter

    from tests.servers import RawRequest
    from tests.transport.proxying import Proxy

FORWARDED = [
    "/v1/models",
    "/v1/models/Qwen/Qwen3-8B",
    "/v1/models/Qwen%2FQwen3-8B",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/responses/resp_1/cancel",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/score",
    "/v1/rerank",
    "/v1/audio/transcriptions",
    "/v1/audio/speech",
    "/tokenize",
    "/detokenize",
    "/version",
    "/health",
    "/v1/%6dodels",
    "/v1/models/a..b/.c",
]

REFUSED = [
    "/",
    "/v1",
    "/v1/",
    "/v1/models/../../metrics",
    "/metrics/",
    "/metric%73",
    "/v1/load_lora_adapter",
    "/v1/unload_lora_adapter",
    "/sleep",
    "/wake_up",
    "/reset_prefix_cache",
    "/flush_cache",
    "/start_profile",
    "/server_info",
    "/docs",
    "/openapi.json",
    "/v1/audio",
    "/v1/modelsx",
    "/v1/chat",
    "/v1/chat/completions/",
    "/V1/models",
    "//v1/models",
    "/v1//models",
    "/v1/models//x",
    "/v1/models/..",
    "/v1/models/.",
    "/v1/models/./x",
    "/v1/models/%2e%2e/%2e%2e/metrics",
    "/v1/models/..%2f..%2fmetrics",
    "/v1/models/%2E%2E%2F%2E%2E%2Fmetrics",
    "/v1/models/%252e%252e/metrics",
    "/v1/models/%252561",
    "/v1/models/%2561",
    "/v1/models/..;/metrics",
    "/v1/models/..%5c..%5cmetrics",
    "/v1/models/a%5cb",
    "/v1/models/a%00",
    "/v1/models/a%0d%0aHost:%20b",
    "/v1/models%2f..%2fmetrics",
    "/%2fv1/models",
    "/healthz/",
    "/readyz/x",
]


async def echo(request: RawRequest, _: StreamReader, writer: StreamWriter) -> None:
    writer.write(wire.answer(f"{request.method} {request.target}".encode()))


@pytest.mark.parametrize("path", FORWARDED)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS", "PUT"])
async def test_inference_paths_are_forwarded_as_they_came(path: str, method: str) -> None:
    async with raw_server(echo) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.request(f"{path}?q=%2e%2E&=", b"x", method=method))
    assert reply.body.decode() == f"{method} {path}?q=%2e%2E&="


async def test_other_paths_are_not_forwarded() -> None:
    async with raw_server(refuse_all) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        for path in REFUSED:
            for method in ("GET", "POST", "OPTIONS"):
                reply = await client.ask(wire.request(path, b"{}", method=method))
                assert reply.error() == (404, "proxy_request_error", "not_found"), path
                assert reply.header("x-request-id")
        assert not upstream.connections


@pytest.mark.parametrize(
    "target",
    ["http://evil.test/nothing", "http://evil.test/v1/models/../x", "*", "/v1/models\xe9", "evil.test:80"],
)
async def test_targets_of_other_forms_reach_no_other_server(target: str) -> None:
    async with raw_server(refuse_all) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        method = "CONNECT" if target == "evil.test:80" else "OPTIONS"
        reply = await client.ask(wire.request(target, method=method))
        assert reply.status in {400, 404}
        assert not upstream.connections


async def test_an_absolute_target_reaches_the_configured_server() -> None:
    async with raw_server(echo) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.request("http://evil.test/v1/models", host="evil.test"))
        assert reply.body == b"GET /v1/models"
        assert upstream.requests[0].header("host") == upstream.url.removeprefix("http://")


async def test_the_path_of_the_upstream_comes_first() -> None:
    async with (
        raw_server(echo) as upstream,
        proxying(f"{upstream.url}/gpu/7") as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(wire.request("/v1/models"))
    assert reply.body == b"GET /gpu/7/v1/models"


async def test_globs_add_paths() -> None:
    globs = ("/pooling", "/v1/x*", "/é?/[ab]")
    async with (
        raw_server(echo) as upstream,
        proxying(upstream.url, passthrough_paths=globs) as proxy,
        proxy.connect() as client,
    ):
        for path in ("/pooling", "/v1/x", "/v1/xy/z", "/%70ooling", "/%c3%a9z/a"):
            assert (await client.ask(wire.request(path))).body.decode() == f"GET {path}"
        for path in ("/pooling/", "/v1/y", "/v1/x/../y", "/v1/x%2f..%2fy", "/a/pooling", "/v1/x%0a"):
            assert (await client.ask(wire.request(path))).status == 404


async def test_a_glob_for_everything_still_refuses_what_decodes_to_something_else() -> None:
    async with (
        raw_server(echo) as upstream,
        proxying(upstream.url, passthrough_paths=("*",)) as proxy,
        proxy.connect() as client,
    ):
        assert (await client.ask(wire.request("/nothing"))).status == 200
        for path in ("/a/../b", "/a/%2e%2e/b", "/%252e", "//a"):
            assert (await client.ask(wire.request(path))).status == 404
        assert (await client.ask(wire.request("/healthz"))).json() == {"status": "ok"}


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
async def test_chat_takes_post_only(method: str) -> None:
    async with raw_server(refuse_all) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.request("/v1/chat/completions", method=method))
        assert (reply.status, reply.header("allow")) == (405, "POST, OPTIONS")


async def test_an_encoded_chat_path_is_rewritten_too() -> None:
    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        writer.write(wire.answer(wire.whole("<think>a</think>b")))

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        body = json.dumps({"model": LISTED}).encode()
        reply = await client.ask(wire.request("/v1/c%68at/completions", body))
        assert reply.json()["choices"][0]["message"]["reasoning_content"] == "a"
        reply = await client.ask(wire.request("/v1/c%68at/completions", b"{}"))
        assert reply.error() == (400, "proxy_request_error", "invalid_request")


PREFLIGHT = (
    "origin: https://a.test",
    "access-control-request-method: POST",
    "access-control-request-headers: x-a",
)


async def test_a_preflight_is_answered_by_the_server_without_cors() -> None:
    async def script(request: RawRequest, _: StreamReader, writer: StreamWriter) -> None:
        assert request.header("access-control-request-method") == "POST"
        writer.write(wire.answer(b"OK", "access-control-allow-origin: *"))

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.request("/v1/chat/completions", None, *PREFLIGHT, method="OPTIONS"))
    assert (reply.body, reply.header("access-control-allow-origin")) == (b"OK", "*")


async def test_a_preflight_is_answered_here_with_cors() -> None:
    cors = Cors(("https://a.test",), max_age_s=7)
    async with raw_server(refuse_all) as upstream, proxying(upstream.url, cors=cors) as proxy:
        async with proxy.connect() as client:
            reply = await client.ask(wire.request("/v1/chat/completions", None, *PREFLIGHT, method="OPTIONS"))
        assert not upstream.connections
    assert reply.status == 200
    assert reply.header("access-control-allow-origin") == "https://a.test"
    assert reply.header("access-control-allow-headers") == "x-a"
    assert reply.header("access-control-max-age") == "7"


@pytest.mark.parametrize(
    ("origin", "allowed"), [("https://a.test", ["https://a.test"]), ("https://b.test", [])]
)
@pytest.mark.parametrize("model", [LISTED, PLAIN, None])
async def test_cors_replaces_what_the_server_allows(
    origin: str, allowed: list[str], model: str | None
) -> None:
    async def script(_: RawRequest, __: StreamReader, writer: StreamWriter) -> None:
        writer.write(
            wire.answer(b"{}", "access-control-allow-origin: *", "access-control-allow-credentials: true")
        )

    cors = Cors(("https://a.test",))
    async with (
        raw_server(script) as upstream,
        proxying(upstream.url, cors=cors) as proxy,
        proxy.connect() as client,
    ):
        field = f"origin: {origin}"
        reply = await client.ask(wire.chat(model, field) if model else wire.request("/nothing", None, field))
    assert reply.status == (200 if model else 404)
    assert [value for name, value in reply.headers if name == "access-control-allow-origin"] == allowed
    assert reply.header("access-control-allow-credentials") is None


async def test_a_listed_model_elsewhere_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async with raw_server(echo) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        for path in ("/v1/responses", "/v1/messages", "/v1/completions"):
            for model in (LISTED, LISTED, PLAIN, 3):
                body = json.dumps({"model": model, "stream": True}).encode()
                assert (await client.ask(wire.request(path, body))).body.decode() == f"POST {path}"
            for body in (b"", b"[]", b"{", b"\xff"):
                await client.ask(wire.request(path, body))
    said = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert [record.__dict__["fields"]["path"] for record in said] == [
        "/v1/responses",
        "/v1/messages",
        "/v1/completions",
    ]
    assert {record.__dict__["fields"]["entry"] for record in said} == {LISTED}


async def test_health_paths() -> None:
    async with raw_server(echo) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        assert (await client.ask(wire.request("/healthz"))).json() == {"status": "ok"}
        assert not upstream.connections
        assert (await client.ask(wire.request("/readyz"))).json() == {"status": "ok", "upstream": "ok"}
        assert upstream.requests[0].target == "/health"
        assert (await client.ask(wire.request("/readyz", method="HEAD"))).status == 200
        assert len(upstream.connections) == 1
        reply = await client.ask(wire.request("/healthz", b""))
        assert reply.error() == (405, "proxy_request_error", "method_not_allowed")
        assert (await client.ask(wire.request("/healthz"))).status == 200


async def test_not_ready_without_the_upstream() -> None:
    async with raw_server(echo) as upstream:
        url = upstream.url
    async with proxying(url) as proxy, proxy.connect() as client:
        reply = await client.ask(wire.request("/readyz"))
        assert (reply.status, reply.json()) == (503, {"status": "unreachable", "upstream": "unreachable"})
        assert (await client.ask(wire.request("/healthz"))).status == 200


async def test_not_ready_while_the_upstream_says_so() -> None:
    async def script(_: RawRequest, reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(b"HTTP/1.1 503 Starting\r\ncontent-length: 10\r\n\r\n")
        await reader.read()

    async with raw_server(script) as upstream, proxying(upstream.url) as proxy, proxy.connect() as client:
        replies = await asyncio.gather(*(ask(proxy) for _ in range(5)), client.ask(wire.request("/readyz")))
        assert {reply.status for reply in replies} == {503}
        assert len(upstream.connections) == 1  # the answer is good for a while
        await (await upstream.connection()).wait_peer_closed()


async def ask(proxy: Proxy) -> wire.Reply:
    async with proxy.connect() as client:
        return await client.ask(wire.request("/readyz"))
