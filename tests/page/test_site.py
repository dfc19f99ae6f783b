"""What is served below `/_proxy/`, to whom, and with which fields."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

import proxy as proxy_package
from proxy.page.document import read_document
from proxy.page.origin import is_private
from proxy.rules import Rule
from proxy.settings import Cors, Entry, Server
from tests.metrics.test_metrics import TALLY, finished, report
from tests.safety.upstreams import server
from tests.servers import raw_server
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying

HTML = (Path(proxy_package.__file__).parent / "page" / "page.html").read_text(encoding="utf-8")
KEY = "sk-proxy"
LOCAL = "localhost:8080"
NOBODY = "http://127.0.0.1:9"


def get(target: str, *fields: str, host: str = LOCAL, method: str = "GET") -> bytes:
    return wire.request(target, None, *fields, host=host, method=method)


def post(*fields: str, host: str = LOCAL, body: bytes | None = None) -> bytes:
    asked = body if body is not None else json.dumps({"model": PLAIN, "prompt": "hi"}).encode()
    if not any(field.startswith("content-type") for field in fields):
        fields = ("content-type: application/json", *fields)
    return wire.request("/_proxy/bench", asked, *fields, host=host)


# The page itself


def test_the_policy_names_what_stands_in_the_page_and_nothing_else() -> None:
    fields = dict(read_document().fields)
    policy = dict(rule.split(" ", 1) for rule in fields[b"content-security-policy"].decode().split("; "))
    for kind in ("style", "script"):
        (inline,) = re.findall(rf"<{kind}>(.*?)</{kind}>", HTML, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()
        assert policy[f"{kind}-src"] == f"'sha256-{digest}'"
    assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in str(policy)


def test_the_page_asks_nobody_for_anything_and_makes_no_markup_of_text() -> None:
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", HTML))
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(?:src|action)=|@import|url\(|\sstyle=|\son[a-z]+=", HTML)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|Function\(", HTML)
    assert "localStorage" not in HTML
    assert "document.cookie" not in HTML


async def test_the_page_is_served_with_and_without_keys() -> None:
    for options in ({}, {"api_keys": (KEY,)}):
        async with proxying(NOBODY, **options) as proxy, proxy.connect() as client:
            for host in (LOCAL, "proxy.example"):
                reply = await client.ask(get("/_proxy/", host=host))
                assert (reply.status, reply.body) == (200, HTML.encode())
                assert reply.header("content-type") == "text/html; charset=utf-8"
                assert reply.header("x-content-type-options") == "nosniff"
                assert "sha256-" in (reply.header("content-security-policy") or "")
            head = await client.ask(get("/_proxy/", method="HEAD"))
            assert (head.status, head.body) == (200, b"")
            bare = await client.ask(get("/_proxy"))
            assert (bare.status, bare.header("location")) == (308, "_proxy/")


@pytest.mark.parametrize(
    ("target", "allowed"),
    [("/_proxy/", "GET, HEAD"), ("/_proxy/state", "GET, HEAD"), ("/_proxy/bench", "POST")],
)
async def test_other_methods_are_refused(target: str, allowed: str) -> None:
    async with proxying(NOBODY) as proxy, proxy.connect() as client:
        for method in ("DELETE", "OPTIONS", "GET" if allowed == "POST" else "PUT"):
            reply = await client.ask(get(target, method=method))
            assert reply.error() == (405, "proxy_request_error", "method_not_allowed")
            assert reply.header("allow") == allowed


async def test_without_the_page_there_is_nothing() -> None:
    async with raw_server(server("a")) as upstream:
        async with proxying(upstream.url, page=False) as proxy, proxy.connect() as client:
            for request in (get("/_proxy/"), get("/_proxy"), get("/_proxy/state"), post()):
                assert (await client.ask(request)).error() == (404, "proxy_request_error", "not_found")
        assert not upstream.connections


async def test_nothing_else_is_below_it_and_no_other_spelling_leads_there() -> None:
    async with proxying(NOBODY) as proxy, proxy.connect() as client:
        for target in ("/_proxy/x", "/_proxy/state/", "/%5fproxy/state", "//_proxy/state", "/_proxy/../x"):
            assert (await client.ask(get(target))).status == 404


# Who may ask


@pytest.mark.parametrize("field", [f"authorization: Bearer {KEY}", f"x-api-key: {KEY}"])
async def test_numbers_and_bench_need_a_key(field: str) -> None:
    async with raw_server(server("a")) as upstream:
        async with proxying(upstream.url, api_keys=(KEY,)) as proxy, proxy.connect() as client:
            for request in (get("/_proxy/state"), post()):
                assert (await client.ask(request)).error() == (401, "proxy_request_error", "invalid_api_key")
                wrong = request.replace(b"\r\n\r\n", b"\r\nauthorization: Bearer no\r\n\r\n", 1)
                assert (await client.ask(wrong)).status == 401
            assert not [request for request in upstream.requests if request.target != "/health"]
            # With a key, any name will do: a foreign site does not have it.
            for host in (LOCAL, "proxy.example"):
                assert (await client.ask(get("/_proxy/state", field, host=host))).status == 200
                assert (await client.ask(post(field, host=host))).status == 200
        sent = [request for request in upstream.requests if request.target == "/v1/chat/completions"]
        assert sent
        assert KEY not in str(sent)


@pytest.mark.parametrize(
    ("fields", "passes"),
    [
        ((), True),
        (("sec-fetch-site: same-origin",), True),
        (("sec-fetch-site: none",), True),
        (("sec-fetch-site: cross-site",), False),
        (("sec-fetch-site: same-site",), False),
        (("sec-fetch-site: cross-site", f"origin: http://{LOCAL}"), False),
        ((f"origin: http://{LOCAL}",), True),
        ((f"origin: https://{LOCAL.upper()}",), True),
        (("origin: http://localhost:8081",), False),
        (("origin: http://evil.example",), False),
        (("origin: null",), False),
        (("origin: ",), False),
        # A proxy in front may have changed Host; the browser knows better.
        (("sec-fetch-site: same-origin", "origin: https://ours.example"), True),
    ],
)
async def test_a_foreign_site_gets_nothing(fields: tuple[str, ...], passes: bool) -> None:
    cors = Cors(("*",))
    async with (
        raw_server(server("a")) as upstream,
        proxying(upstream.url, cors=cors) as proxy,
        proxy.connect() as client,
    ):
        for request in (get("/_proxy/state", *fields), post(*fields)):
            reply = await client.ask(request)
            assert reply.status == (200 if passes else 403)
            assert passes or reply.error()[2] == "foreign_site"
            # Whatever `cors` lets in elsewhere.
            assert reply.header("access-control-allow-origin") is None
        preflight = get(
            "/_proxy/bench",
            "origin: http://evil.example",
            "access-control-request-method: POST",
            method="OPTIONS",
        )
        assert (await client.ask(preflight)).status == 405


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
)
async def test_what_a_form_can_send_is_refused(content_type: str) -> None:
    async with raw_server(server("a")) as upstream:
        async with proxying(upstream.url) as proxy, proxy.connect() as client:
            assert (await client.ask(post(f"content-type: {content_type}"))).status == 400
        assert not upstream.connections


@pytest.mark.parametrize(
    ("host", "private"),
    [
        ("127.0.0.1:8080", True),
        ("10.1.2.3", True),
        ("203.0.113.7:80", True),
        ("[::1]:8080", True),
        ("localhost", True),
        ("LOCALHOST.:1", True),
        ("a.localhost:8080", True),
        ("think-proxy:8080", True),
        ("gpu.local", True),
        ("think-proxy.vllm.svc.cluster.local:8080", True),
        ("box.internal", True),
        ("box.home.arpa", True),
        ("proxy.example:8080", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("evil.example#.local", False),
        ("evil.example/.local", False),
        ("evil.example?.local", False),
        ("local", True),
        ("", False),
        (":8080", False),
        ("[::1", False),
    ],
)
def test_names_that_anybody_can_own_are_told_apart(host: str, private: bool) -> None:
    assert is_private(host) is private


async def test_a_name_that_leads_here_by_chance_gets_nothing_without_keys() -> None:
    async with raw_server(server("a")) as upstream:
        async with proxying(upstream.url) as proxy, proxy.connect() as client:
            for request in (
                get("/_proxy/state", "sec-fetch-site: same-origin", host="evil.example"),
                post("origin: http://evil.example", host="evil.example"),
            ):
                assert (await client.ask(request)).error()[2] == "foreign_site"
        assert not upstream.connections


# The numbers


async def test_the_numbers_of_real_requests() -> None:
    entries = (Entry(LISTED, Rule(), "proxy.yaml:3", {"start": "set here"}), Entry("other", Rule()))

    async def script(request: Any, reader: Any, writer: Any) -> None:
        del reader
        if request.target == "/health":
            writer.write(wire.answer())
            return
        text = b"".join(map(wire.event, ("<think>ab", "cd</think>", "xyz", ""))) + wire.DONE
        writer.write(wire.STREAM_HEAD + wire.chunk(text) + wire.LAST_CHUNK)

    async with raw_server(script) as upstream:
        servers = (Server("gpu", upstream.url, ("l*",)), Server("gone", NOBODY))
        async with proxying(servers, entries=entries) as proxy, proxy.connect() as client:
            empty = (await client.ask(get("/_proxy/state"))).json()
            for _ in range(2):
                assert (await client.ask(wire.chat(LISTED, stream=True))).status == 200
            assert (await client.ask(wire.chat(PLAIN))).status == 502
            reply = await client.ask(get("/_proxy/state"))
            assert reply.header("cache-control") == "no-store"
            state = reply.json()
    assert [(row["entry"], row["requests"]) for row in empty["entries"]] == [(LISTED, 0), ("other", 0)]
    assert state["upstreams"] == [
        {"name": "gpu", "url": upstream.url, "models": ["l*"], "reachable": True, "errors": {}},
        {"name": "gone", "url": NOBODY, "models": ["*"], "reachable": False, "errors": {"unreachable": 1}},
    ]
    row, other = state["entries"]
    assert (row["requests"], row["answers"]) == (2, 2)
    assert (row["outcomes"], row["statuses"]) == ({"answered": 2}, {"2xx": 2})
    assert sum(number for _, number in row["firstEvent"]) == 2
    bounds = [bound for bound, _ in row["firstEvent"]]
    assert bounds[-1] is None
    assert bounds[:-1] == sorted(bounds[:-1])
    assert (row["origin"], row["rule"][:2]) == (
        "proxy.yaml:3",
        [f'model: "{LISTED}"', 'start: "leading"  # set here'],
    )
    assert other["requests"] == 0
    assert state["unlisted"]["statuses"] == {"5xx": 1}
    assert state["inFlight"] == 0


async def test_what_is_counted_by_entry_is_added_up_over_servers() -> None:
    entries = (Entry("Qwen/*", Rule()),)
    async with proxying(NOBODY, entries=entries) as proxy, proxy.connect() as client:
        for upstream in ("gpu", "other"):
            proxy.app.metrics.count(report(finished(), TALLY, upstream=upstream))
        proxy.app.metrics.count(report(finished(), TALLY, entry="gone/*"))
        proxy.app.metrics.count(report(outcome="client_left", status=0))
        proxy.app.metrics.count_reload(ok=False)
        state = (await client.ask(get("/_proxy/state"))).json()
    row, gone = state["entries"]
    assert (row["entry"], gone["entry"], gone["rule"]) == ("Qwen/*", "gone/*", None)
    assert row["outcomes"] == {"answered": 2, "client_left": 1}
    assert row["statuses"] == {"2xx": 2, "none": 1}
    assert (row["requests"], row["answers"], row["engaged"], row["clientAborts"]) == (3, 2, 2, 1)
    assert (row["reasoningCharacters"], row["contentCharacters"]) == (240, 60)
    assert (row["promotedCalls"], row["retries"], row["thinkingOnly"]) == (4, 6, 2)
    assert [pair for pair in row["firstEvent"] if pair[1]] == [[5, 2]]
    assert [pair for pair in row["firstContent"] if pair[1]] == [[10, 2]]
    assert (gone["requests"], gone["reasoningCharacters"]) == (1, 120)
    assert state["reloads"] == {"ok": 0, "failed": 1}
