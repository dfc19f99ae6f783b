"""The answer to what is no request: the application never saw it, so it is written and logged here."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from proxy.telemetry import RequestReport, log_request

if TYPE_CHECKING:
    from proxy.errors import ProxyError


def refuse(error: ProxyError, method: str) -> bytes:
    """Return the whole answer, the last one of its connection; only the method of what came is logged."""
    request_id = uuid4().hex
    log_request(
        RequestReport(
            request_id=request_id,
            method=method,
            path="(refused)",
            entry=None,
            status=error.status,
            outcome="refused",
            duration_s=0.0,
            error=error.code,
        )
    )
    body = error.body()
    fields = (
        b"content-type: application/json\r\n"
        b"content-length: %d\r\n"
        b"x-request-id: %b\r\n"
        b"connection: close\r\n\r\n"
    ) % (len(body), request_id.encode())
    return STATUS_LINE[error.status] + fields + (b"" if method == "HEAD" else body)
