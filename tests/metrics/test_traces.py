"""Spans: one per request, in the client's trace, and the model server's below it."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from proxy.otel import Traces
from proxy.traces import open_traces
from tests.commands import ROOT, run_process
from tests.safety.upstreams import always
from tests.servers import HOST, raw_server
from tests.transport import wire
from tests.transport.proxying import LISTED, PLAIN, proxying
from tests.transport.test_logs import SECRET, misbehave

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

NOBODY = f"http://{HOST}:1"
FINE = wire.answer(b"{}")
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
COLLECTOR = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}


def parent(flags: str = "01") -> str:
    return f"traceparent: 00-{TRACE}-{PARENT}-{flags}"


class Tracing:
    """Traces that stay in memory."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.traces = Traces(self._exporter)

    def spans(self) -> list[ReadableSpan]:
        """End the tracing, and return what came of it."""
        self.traces.close()
        return list(self._exporter.get_finished_spans())


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_request_is_one_span_in_the_clients_trace_with_the_servers_below_it() -> None:
    tracing = Tracing()
    answer = wire.answer(wire.whole("<think>a</think>b"))
    async with raw_server(always(answer)) as upstream, proxying(upstream.url, traces=tracing.traces) as proxy:
        async with proxy.connect() as client:
            fields = (parent(), "tracestate: vendor=1", "x-request-id: r1")
            assert (await client.ask(wire.chat(LISTED, *fields))).status == 200
        await proxy.served(1)
    (span,) = tracing.spans()
    assert span.name == f"chat {LISTED}"
    assert span.kind is SpanKind.CLIENT
    assert span.status.status_code is StatusCode.UNSET
    assert span.context is not None
    assert span.parent is not None
    own = f"{span.context.span_id:016x}"
    assert (f"{span.context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    (seen,) = upstream.requests
    assert [value for name, value in seen.headers if name == "traceparent"] == [f"00-{TRACE}-{own}-01"]
    assert [value for name, value in seen.headers if name == "tracestate"] == ["vendor=1"]
    found = attributes(span)
    assert found.pop("think_proxy.overhead_s") > 0
    assert found == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": LISTED,
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "url.path": "/v1/chat/completions",
        "think_proxy.request_id": "r1",
        "think_proxy.entry": LISTED,
        "think_proxy.upstream": "default",
        "think_proxy.outcome": "answered",
        "think_proxy.rewritten": True,
        "think_proxy.engaged": True,
        "think_proxy.reasoning_chars": 1,
        "think_proxy.content_chars": 1,
    }
    assert dict(span.resource.attributes)["service.name"] == "think-proxy"


async def test_a_stream_says_when_it_began() -> None:
    tracing = Tracing()
    body = wire.event("b", "stop") + wire.DONE
    stream = wire.STREAM_HEAD + wire.chunk(body) + wire.LAST_CHUNK
    async with raw_server(always(stream)) as upstream, proxying(upstream.url, traces=tracing.traces) as proxy:
        async with proxy.connect() as client:
            await client.ask(wire.chat(PLAIN, stream=True))
        await proxy.served(1)
    (span,) = tracing.spans()
    assert attributes(span)["gen_ai.request.stream"] is True
    assert attributes(span)["gen_ai.response.time_to_first_chunk"] > 0
    assert "think_proxy.entry" not in attributes(span)


async def test_without_a_good_parent_a_trace_begins_here() -> None:
    tracing = Tracing()
    asked = ((), ("traceparent: nonsense", "tracestate: a=1"), (parent().replace("00-", "ff-"),))
    async with raw_server(always(FINE)) as upstream, proxying(upstream.url, traces=tracing.traces) as proxy:
        async with proxy.connect() as client:
            for fields in asked:
                await client.ask(wire.chat(PLAIN, *fields))
        await proxy.served(len(asked))
    spans = tracing.spans()
    assert [span.parent for span in spans] == [None, None, None]
    assert len({span.context.trace_id for span in spans if span.context}) == 3


async def test_what_the_client_does_not_sample_is_not_told_and_still_handed_on() -> None:
    tracing = Tracing()
    async with raw_server(always(FINE)) as upstream, proxying(upstream.url, traces=tracing.traces) as proxy:
        async with proxy.connect() as client:
            await client.ask(wire.chat(PLAIN, parent("00")))
        await proxy.served(1)
    assert tracing.spans() == []
    (value,) = (value for name, value in upstream.requests[0].headers if name == "traceparent")
    assert value.startswith(f"00-{TRACE}-")
    assert value.endswith("-00")


async def test_without_tracing_the_clients_field_passes_as_it_came() -> None:
    async with raw_server(always(FINE)) as upstream, proxying(upstream.url) as proxy:
        async with proxy.connect() as client:
            await client.ask(wire.chat(PLAIN, parent(), "tracestate: a=1"))
        seen = upstream.requests[0]
    assert (seen.header("traceparent"), seen.header("tracestate")) == (parent().partition(": ")[2], "a=1")


async def test_errors_are_told_and_texts_are_not() -> None:
    tracing = Tracing()
    long = "m" * 5000
    async with raw_server(misbehave) as upstream, proxying(upstream.url, traces=tracing.traces) as proxy:
        messages = [{"role": "user", "content": SECRET}]
        requests = [
            wire.chat(PLAIN, user="error", messages=messages),
            wire.chat(LISTED, user="break", messages=messages, stream=True),
            wire.chat(long, f"authorization: Bearer {SECRET}", messages=messages),
            wire.request(f"/{SECRET}?{SECRET}", None, f"cookie: {SECRET}", f"tracestate: {SECRET}=1"),
            wire.request("/v1/embeddings", b'{"model": "e"}'),
        ]
        for number, request in enumerate(requests, 1):
            async with proxy.connect() as client:
                await client.ask(request)
            await proxy.served(number)
    error, broken, plain, refused, embeddings = tracing.spans()
    assert SECRET not in "".join(span.to_json() for span in (error, broken, plain, refused, embeddings))
    assert attributes(error)["error.type"] == "500"
    assert attributes(broken)["error.type"] == "upstream_broken"
    assert attributes(refused)["error.type"] == "not_found"
    for span in (error, broken, refused):
        assert span.status.status_code is StatusCode.ERROR
    assert attributes(plain)["gen_ai.request.model"] == long[:256]
    assert plain.name == f"chat {long[:256]}"
    assert plain.status.status_code is StatusCode.UNSET
    assert refused.name == "GET"
    assert "url.path" not in attributes(refused)
    assert attributes(embeddings)["gen_ai.operation.name"] == "embeddings"


# Whether there is any


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_SERVICE_NAME": "x"},
        COLLECTOR | {"OTEL_SDK_DISABLED": "True"},
        COLLECTOR | {"OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_it_is_off_without_a_word(environ: dict[str, str], caplog: pytest.LogCaptureFixture) -> None:
    assert open_traces(environ) is None
    assert not caplog.records


def test_what_cannot_be_had_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "think_proxy")
    assert open_traces(COLLECTOR | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}) is None
    assert "http/protobuf" in caplog.text

    def fail() -> None:
        raise ValueError(SECRET)

    monkeypatch.setattr("proxy.otel.Traces", fail)
    assert open_traces(COLLECTOR) is None
    assert "(ValueError)" in caplog.text
    monkeypatch.setitem(sys.modules, "proxy.otel", None)
    assert open_traces({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/v1/traces"}) is None
    assert "extra `otel`" in caplog.text
    assert SECRET not in caplog.text
    assert len(caplog.records) == 3


@pytest.mark.parametrize("environ", [COLLECTOR, COLLECTOR | {"OTEL_TRACES_EXPORTER": "otlp"}])
def test_an_endpoint_switches_it_on(environ: dict[str, str]) -> None:
    made = open_traces(environ)
    assert isinstance(made, Traces)
    made.close()


def test_off_it_imports_nothing() -> None:
    code = (
        "import sys, proxy.serve, proxy.traces; proxy.traces.open_traces({});"
        "late = ('opentelemetry.sdk', 'opentelemetry.exporter', 'prometheus_client', 'proxy.otel');"
        "print([it for it in sys.modules if it.startswith(late)])"
    )
    done = run_process("-c", code, cwd=ROOT)
    assert (done.code, done.out, done.err) == (0, "[]\n", "")
