"""A client's connection: when it begins, what it waits for, and how it ends.

A head that has begun, or the rest of a body whose answer is complete already, has
`timeouts.requestSeconds`; what is no request is answered in the error envelope.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from proxy.errors import ProxyError, RequestTimeoutError
from proxy.intake import Intake, MalformedError, Phase
from proxy.report import RequestReport

if TYPE_CHECKING:
    import asyncio

    from proxy.cycle import Cycle

LINGER_S = 5.0
"""Seconds for which a client may go on sending after its last answer, as nginx allows (lingering_timeout)."""


class ClientConnection(Intake):
    """The protocol of one client's connection."""

    _is_deaf = False
    """What still comes is dropped."""
    _running: Cycle | None = None
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._set_timers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every request that its client is gone."""
        self._unset_timers()
        for cycle in (self._running, *(waiting for waiting, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)
        self.traffic.lost.set()

    def data_received(self, data: bytes) -> None:
        """Read what came."""
        if self._is_deaf:
            return
        self._unset_keepalive_if_required()
        if self.phase is Phase.NOTHING:
            self.phase = Phase.HEAD
        try:
            self.feed(memoryview(data))
        except httptools.HttpParserError as error:
            fault = error.__context__
            self._refuse(fault if isinstance(fault, ProxyError) else MalformedError("This is not HTTP/1.1."))
        except ProxyError as error:
            self._refuse(error)
        else:
            self._set_timers()

    def on_response_complete(self) -> None:
        """Go on with the next request, or end the connection."""
        self.server_state.total_requests += 1
        if self._running is not None and self._running.is_last:
            self._close_gently()
        elif not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self.start(self.pipeline.pop()[0])  # type: ignore[arg-type]  # it was put there above
            self._set_timers()

    def retire(self) -> None:
        """Make the running request the last one of this connection."""
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        """End the connection, now or with the running request."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            self.retire()

    def start(self, cycle: Cycle) -> None:
        """Run a request."""
        self._running = cycle
        task = self.loop.create_task(cycle.run_asgi(self.app))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def _set_timers(self) -> None:
        if self._is_deaf or self.transport.is_closing():
            return
        is_answered = self.cycle is None or self.cycle.response_complete
        if self.phase is Phase.HEAD or (self.phase is Phase.BODY and is_answered):
            if self._deadline is None and (limit_s := self.traffic.settings.timeouts.request_s):
                self._deadline = self.loop.call_later(limit_s, self._expire, limit_s)
        else:
            self._unset_timers()
            if is_answered:
                self.timeout_keep_alive_task = self.loop.call_later(
                    self.timeout_keep_alive, self.timeout_keep_alive_handler
                )

    def _unset_timers(self) -> None:
        self._unset_keepalive_if_required()
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self, limit_s: float) -> None:
        self._deadline = None
        self._refuse(
            RequestTimeoutError(
                f"The request was not complete after {limit_s:g} seconds "
                "(timeouts.requestSeconds in the proxy's configuration)."
            )
        )

    def _refuse(self, error: ProxyError) -> None:
        """Answer what is no request; where an answer is on its way already, end the connection behind it."""
        self._is_deaf = True
        self._unset_timers()
        cycle = self.cycle
        if self.phase is Phase.BODY and cycle is not None:
            if cycle is not self._running or cycle.response_started:
                self.transport.close()
                return
            cycle.disconnected = True
            cycle.message_event.set()
        elif cycle is not None and not cycle.response_complete:
            cycle.keep_alive = False
            return
        method = self.scope.get("method", "-") if self.scope else "-"
        request_id = uuid4().hex
        body = error.body()
        fields = (
            b"content-type: application/json\r\n"
            b"content-length: %d\r\n"
            b"x-request-id: %b\r\n"
            b"connection: close\r\n\r\n"
        ) % (len(body), request_id.encode())
        self.transport.write(STATUS_LINE[error.status] + fields + (b"" if method == "HEAD" else body))
        self._close_gently()
        self.traffic.report(
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

    def _close_gently(self) -> None:
        """End this side, and let the client end its own: a close now would be a reset to one that sends."""
        if self.transport.is_closing():
            return
        if self.phase is Phase.NOTHING:
            self.transport.close()
            return
        self._is_deaf = True
        self._unset_timers()
        self.flow.resume_reading()
        self.transport.write_eof()
        self._deadline = self.loop.call_later(LINGER_S, self.transport.close)
