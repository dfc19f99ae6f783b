"""Spans of OpenTelemetry: one per request, made from its report. Imported only where traces are wanted.

Names are those of the semantic conventions for generative AI and HTTP
(https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/), and `think_proxy.…` for the rest.
"""

from __future__ import annotations

import threading
from dataclasses import asdict
from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from proxy import __version__, headers
from proxy.gate import CHAT_PATH

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span
    from opentelemetry.util.types import AttributeValue

    from proxy.headers import Headers
    from proxy.report import RequestReport

CLOSE_S = 3.0
"""Seconds for the last spans to reach the collector when the process ends; a worker has little more."""

_MODEL_CHARS = 256
_PROPAGATOR = TraceContextTextMapPropagator()
_CONTEXT = frozenset(name.encode() for name in _PROPAGATOR.fields)
_OPERATIONS = {
    CHAT_PATH.decode(): "chat",
    "/v1/completions": "text_completion",
    "/v1/embeddings": "embeddings",
}
_NAMES = {
    "method": "http.request.method",
    "path": "url.path",
    "status": "http.response.status_code",
    "stream": "gen_ai.request.stream",
    "first_event_s": "gen_ai.response.time_to_first_chunk",
}
"""Where a field of the report has a name in the conventions."""

_IN_THE_SPAN = frozenset({"ended_at", "duration_s", "error"})
"""Fields that a span has in a form of its own."""


class Trace:
    """The span of one request."""

    def __init__(self, span: Span) -> None:
        """Take a span that has begun."""
        self._span = span

    def carry(self, fields: Headers) -> Headers:
        """Return header fields with this span as the parent of what they lead to."""
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, set_span_in_context(self._span))
        return [
            *headers.without(fields, _CONTEXT),
            *((name.encode(), value.encode()) for name, value in carrier.items()),
        ]

    def end(self, report: RequestReport, model: str | None) -> None:
        """End it with what the request came to; `model` is the one that the client named."""
        span = self._span
        if span.is_recording():
            self._describe(report, model[:_MODEL_CHARS] if model else None)
        span.end(int(report.ended_at * 1e9))

    def _describe(self, report: RequestReport, model: str | None) -> None:
        span = self._span
        told: dict[str, AttributeValue] = {
            _NAMES.get(name, f"think_proxy.{name}"): value
            for name, value in asdict(report).items()
            if value and name not in _IN_THE_SPAN
        }
        if not report.path.startswith("/"):
            del told["url.path"]  # a path that is not forwarded is not told, here as in the log
        operation = _OPERATIONS.get(report.path)
        if operation is not None:
            told["gen_ai.operation.name"] = operation
        if model is not None:
            told["gen_ai.request.model"] = model
        fault = report.error or (str(report.status) if report.upstream_fault else None)
        if fault is not None:
            told["error.type"] = fault
            span.set_status(Status(StatusCode.ERROR))
        span.update_name(" ".join(part for part in (operation or report.method, model) if part))
        span.set_attributes(told)


class Traces:
    """Makes spans and sends them; the `OTEL_…` variables of the environment say where, and how many."""

    def __init__(self, exporter: SpanExporter | None = None) -> None:
        """Begin to send, with an exporter in place of the usual one if there is one.

        It starts a thread: in a worker, this belongs behind the fork.

        Raises:
            ValueError: a variable cannot be read.
        """
        named = OTELResourceDetector().detect().attributes
        ours = {"service.name": "think-proxy", "service.version": __version__}
        self._provider = TracerProvider(resource=Resource.create({**ours, **named}), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("think-proxy", __version__)

    def begin(self, method: str, fields: Headers) -> Trace:
        """Begin the span of a request; its `traceparent` names the parent, if it has a good one."""
        carrier = {
            name.decode(): value.decode("latin-1") for name, value in reversed(fields) if name in _CONTEXT
        }
        context = _PROPAGATOR.extract(carrier)
        return Trace(self._tracer.start_span(method, context, SpanKind.CLIENT))

    def close(self) -> None:
        """Send what is left. Where the collector does not take it in time, it is lost."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_S)
