"""Spans of a proxy that runs as a command, as a collector gets them."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from proxy.demo import build_app
from tests.listener.processes import command
from tests.listener.test_processes import CHAT, CHAT_PATH, configure
from tests.servers import HOST, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow  # each starts a command


class Collector(ThreadingHTTPServer):
    """Takes spans as OTLP over HTTP."""

    def __init__(self) -> None:
        super().__init__((HOST, 0), _Intake)
        self.names: list[str] = []
        self.services: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}"


class _Intake(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        body = self.rfile.read(int(self.headers["content-length"]))
        for told in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.server.services |= {
                it.value.string_value for it in told.resource.attributes if it.key == "service.name"
            }
            self.server.names += [span.name for scope in told.scope_spans for span in scope.spans]
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    thread = threading.Thread(target=collector.serve_forever, daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        collector.shutdown()
        thread.join(10)
        collector.server_close()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_all_spans_are_there_when_the_proxy_has_ended(
    workers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(build_app(pace_s=0)) as upstream, collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        file = configure(tmp_path, upstream)
        with command("--config", str(file), "--workers", workers, cwd=tmp_path) as proxy:
            for _ in range(6):
                with proxy.client() as client:
                    assert client.post(CHAT_PATH, json=CHAT).status_code == 200
            proxy.stop(signal.SIGTERM)
    assert collector.names == ["chat demo/thinker"] * 6
    assert collector.services == {"think-proxy"}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_collector_that_is_not_there_keeps_nobody_waiting(
    workers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{HOST}:1")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    with serving(build_app(pace_s=0)) as upstream:
        file = configure(tmp_path, upstream, "log: {format: json}")
        with command("--config", str(file), "--workers", workers, cwd=tmp_path) as proxy:
            with proxy.client() as client:
                assert client.post(CHAT_PATH, json=CHAT).status_code == 200
            proxy.stop(signal.SIGTERM)
    assert all(line.startswith("{") for line in proxy.log.splitlines())
