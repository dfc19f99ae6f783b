"""Which header fields travel, seen from both ends."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import pytest

from proxy.rules import History, Rule, Start
from proxy.settings import Entry
from tests.servers import raw_server
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying
from tests.transport.scripts import serve

ANSWERS = {
    LISTED: wire.answer(wire.whole("a")),
    PLAIN: wire.answer(b"{}"),
}
STREAM = wire.chunk(wire.event("a", "stop") + wire.DONE) + wire.LAST_CHUNK

both_models = pytest.mark.parametrize("model", [LISTED, PLAIN])


def put_in(head: bytes, *fields: str) -> bytes:
    return head.replace(b"\r\n\r\n", "".join(["\r\n" + field for field in fields]).encode() + b"\r\n\r\n", 1)


@both_models
async def test_the_host_is_rewritten_and_the_client_stays_behind(model: str) -> None:
    async with raw_server(serve(ANSWERS[model])) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            fields = (
                "Authorization: Bearer k",
                "X-API-Key: k",
                "traceparent: 00-1-2-01",
                "user-agent: u",
                "x: 1",
                "x: 2",
            )
            await client.ask(wire.chat(model, *fields, "cookie: a=b", "Cookie: c=d"))
        (seen,) = upstream.requests
    assert [value for name, value in seen.headers if name == "host"] == [upstream.url.removeprefix("http://")]
    for field in fields:
        name, _, value = field.lower().partition(": ")
        assert (name, value) in [(name, value.lower()) for name, value in seen.headers]
    assert seen.header("cookie") is None
    assert not {name for name, _ in seen.headers} & {"x-forwarded-for", "forwarded", "via"}


@both_models
async def test_hop_by_hop_fields_of_a_request_end_here(model: str) -> None:
    dropped = {
        "keep-alive": "timeout=5",
        "te": "trailers",
        "trailer": "x-late",
        "proxy-authorization": "Basic a",
        "proxy-connection": "keep-alive",
        "x-hop": "1",
        "x-other-hop": "2",
    }
    fields = [f"{name}: {value}" for name, value in dropped.items()]
    async with raw_server(serve(ANSWERS[model])) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            named = (
                "connection: keep-alive, X-Hop",
                "connection: x-other-hop,host ,content-length",
                "x-kept: 3",
            )
            await client.ask(wire.chat(model, *fields, *named))
        (seen,) = upstream.requests
    names = [name for name, _ in seen.headers]
    assert not {*names} & {*dropped, "connection"}
    assert seen.header("x-kept") == "3"
    assert names.count("host") == names.count("content-length") == 1
    assert seen.json()["model"] == model


@both_models
@pytest.mark.parametrize("stream", [False, True])
async def test_hop_by_hop_fields_of_an_answer_end_here(model: str, stream: bool) -> None:
    fields = (
        "connection: X-Hop",
        "keep-alive: timeout=5",
        "proxy-authenticate: Basic",
        "trailer: x-late",
        "upgrade: h2c",
        "x-hop: 1",
        "set-cookie: a=b",
        "x-kept: 3",
        "server: vllm",
        "openai-processing-ms: 7",
    )
    parts = [put_in(wire.STREAM_HEAD, *fields), STREAM] if stream else [put_in(ANSWERS[model], *fields)]
    async with (
        raw_server(serve(*parts)) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(wire.chat(model, stream=stream))
    names = {name for name, _ in reply.headers}
    assert not names & {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "trailer",
        "upgrade",
        "x-hop",
        "set-cookie",
    }
    assert (reply.header("x-kept"), reply.header("server")) == ("3", "vllm")
    assert reply.header("openai-processing-ms") == "7"


DATE = "Sun, 06 Nov 1994 08:49:37 GMT"


@both_models
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("sent", [DATE, None])
async def test_an_answer_has_the_date_that_the_server_gave_it_or_ours(
    model: str, stream: bool, sent: str | None
) -> None:
    fields = [f"Date: {sent}"] if sent else []
    parts = [put_in(wire.STREAM_HEAD, *fields), STREAM] if stream else [put_in(ANSWERS[model], *fields)]
    async with (
        raw_server(serve(*parts)) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        began = datetime.now(UTC).replace(microsecond=0)
        reply = await client.ask(wire.chat(model, stream=stream))
    (told,) = [value for name, value in reply.headers if name == "date"]
    if sent:
        assert told == sent
    else:
        assert began <= parsedate_to_datetime(told) <= datetime.now(UTC)


OURS = {
    "/healthz": wire.request("/healthz"),
    "/_proxy/": wire.request("/_proxy/"),
    "a redirect": wire.request("/_proxy"),
    "a refusal": wire.request("/nothing"),
    "no server": wire.chat(PLAIN),
    "no request": b"nonsense\r\n\r\n",
}


@pytest.mark.parametrize("request_", OURS.values(), ids=OURS.keys())
async def test_an_answer_of_our_own_has_a_date(request_: bytes) -> None:
    async with proxying("http://127.0.0.1:9") as proxy, proxy.connect() as client:
        began = datetime.now(UTC).replace(microsecond=0)
        reply = await client.ask(request_)
    (told,) = [value for name, value in reply.headers if name == "date"]
    assert began <= parsedate_to_datetime(told) <= datetime.now(UTC)
    assert told.endswith(" GMT")


DIGESTS = ["content-digest", "repr-digest", "digest", "content-md5"]


@pytest.mark.parametrize(
    ("rule", "is_changed"),
    [(Rule(), False), (Rule(history=History.DROP), True), (Rule(start=Start.AUTO), True), (None, False)],
)
async def test_digests_of_a_body_go_no_further_than_that_body(rule: Rule | None, is_changed: bool) -> None:
    entries = () if rule is None else (Entry(LISTED, rule),)
    messages = [{"role": "assistant", "content": "a", "reasoning": "b"}, {"role": "user", "content": "c"}]
    sent = wire.chat(LISTED, *(f"{name}: x" for name in DIGESTS), messages=messages)
    async with (
        raw_server(serve(ANSWERS[LISTED])) as upstream,
        proxying(upstream.url, entries=entries) as proxy,
    ):
        async with proxy.connect() as client:
            await client.ask(sent)
        seen = upstream.requests[-1]
    assert (seen.body != sent.partition(b"\r\n\r\n")[2]) == is_changed
    assert [name for name, _ in seen.headers if name in DIGESTS] == ([] if is_changed else DIGESTS)


@both_models
async def test_a_stream_is_marked_for_whatever_might_buffer_it(model: str) -> None:
    head = put_in(wire.STREAM_HEAD, "cache-control: public", "x-accel-buffering: yes")
    async with (
        raw_server(serve(head, STREAM)) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(wire.chat(model, stream=True))
    assert [value for name, value in reply.headers if name == "cache-control"] == ["no-cache"]
    assert [value for name, value in reply.headers if name == "x-accel-buffering"] == ["no"]


@both_models
async def test_a_whole_answer_keeps_its_caching(model: str) -> None:
    sent = put_in(ANSWERS[model], "cache-control: public")
    async with (
        raw_server(serve(sent)) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(wire.chat(model))
    assert reply.header("cache-control") == "public"
    assert reply.header("x-accel-buffering") is None


@both_models
async def test_compression_is_asked_for_where_the_answer_is_only_relayed(model: str) -> None:
    async with (
        raw_server(serve(ANSWERS[model])) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        await client.ask(wire.chat(model, "accept-encoding: gzip, br;q=0.9"))
        await client.ask(wire.chat(model))
    with_field, without = (
        [value for name, value in seen.headers if name == "accept-encoding"] for seen in upstream.requests
    )
    assert with_field == (["identity"] if model == LISTED else ["gzip, br;q=0.9"])
    assert without == (["identity"] if model == LISTED else [])


@pytest.mark.parametrize("request_id", ["a", "A-1._:/+=@z", "x" * 128])
async def test_a_good_request_id_is_kept_on_both_sides(request_id: str) -> None:
    sent = put_in(ANSWERS[PLAIN], "x-request-id: from-the-server")
    async with (
        raw_server(serve(sent)) as upstream,
        proxying(upstream.url) as proxy,
        proxy.connect() as client,
    ):
        reply = await client.ask(wire.chat(PLAIN, f"X-Request-ID: {request_id}"))
        assert [value for name, value in reply.headers if name == "x-request-id"] == [request_id]
        assert [value for name, value in upstream.requests[0].headers if name == "x-request-id"] == [
            request_id
        ]


@pytest.mark.parametrize("request_id", ["", "a b", "x" * 129, "a;b", 'a"', "\xe9", "a\tb", None])
async def test_any_other_request_id_is_replaced(request_id: str | None) -> None:
    fields = [] if request_id is None else [f"x-request-id: {request_id}"]
    async with raw_server(serve(ANSWERS[PLAIN])) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            first = (await client.ask(wire.chat(PLAIN, *fields))).header("x-request-id")
            second = (await client.ask(wire.chat(PLAIN, *fields))).header("x-request-id")
        assert [seen.header("x-request-id") for seen in upstream.requests] == [first, second]
    assert first != second
    assert first
    assert len(first) == 32


async def test_errors_carry_the_request_id() -> None:
    async with proxying("http://127.0.0.1:1") as proxy, proxy.connect() as client:
        for request in (
            wire.chat(PLAIN, "x-request-id: r1"),
            wire.request("/nothing", None, "x-request-id: r1"),
        ):
            assert (await client.ask(request)).header("x-request-id") == "r1"


async def test_a_request_without_a_body_gets_none() -> None:
    async with raw_server(serve(ANSWERS[PLAIN])) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            await client.ask(wire.request("/v1/models"))
            await client.ask(wire.request("/v1/embeddings", b""))
        get, post = upstream.requests
    assert get.header("content-length") is None
    assert post.header("content-length") == "0"
