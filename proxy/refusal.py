"""The answer to what is no request: the application never saw it, so it is written and reported here."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from proxy.cycle import write_date
from proxy.report import RequestReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.errors import ProxyError


def refuse(error: ProxyError, method: str, report: Callable[[RequestReport], None]) -> bytes:
    """Report it, without anything of what came but the method, and return the whole answer."""
    request_id = uuid4().hex
    report(
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
        b"date: %b\r\n"
        b"connection: close\r\n\r\n"
    ) % (len(body), request_id.encode(), write_date())
    return STATUS_LINE[error.status] + fields + (b"" if method == "HEAD" else body)
