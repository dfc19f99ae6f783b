"""A client's connection: when it begins, what it waits for, and how it ends.

A head that has begun, or the rest of a body whose answer is complete already, has
`timeouts.requestSeconds`; what is no request is answered in the error envelope.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.utils import get_local_addr, get_remote_addr

from proxy.cycle import Cycle
from proxy.delivery import Delivery, count_unsent
from proxy.errors import ProxyError, RequestTimeoutError
from proxy.intake import Intake, Phase, RequestHead
from proxy.refusal import refuse

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from proxy.traffic import Traffic

MAX_PIPELINED = 8
"""Requests that may wait on one connection for the answer before theirs."""

LINGER_S = 5.0
"""Seconds for which a client may go on sending after its last answer, as nginx allows (lingering_timeout)."""

LAST_LINGER_S = 0.5
"""The same when the proxy stops: many clients look at a connection only when they need it."""


class ClientConnection(asyncio.Protocol):
    """The protocol of one client's connection."""

    def __init__(self, app: ASGIApp, traffic: Traffic, keep_alive_s: float) -> None:
        """Serve `app`; a connection on which nothing happens is closed after `keep_alive_s`."""
        self._app = app
        self._traffic = traffic
        self._keep_alive_s = keep_alive_s
        self._loop = asyncio.get_running_loop()
        self._intake = Intake()
        self._last: Cycle | None = None
        """The request that came last."""
        self._running: Cycle | None = None
        self._waiting: deque[Cycle] = deque()
        self._is_deaf = False
        """What still comes is dropped."""
        self._deadline: asyncio.TimerHandle | None = None

    # What the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request."""
        self._transport = cast("asyncio.Transport", transport)
        self._flow = FlowControl(self._transport)
        self._delivery = Delivery(self._transport)
        self._scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "scheme": "http",
            "root_path": "",
            "server": get_local_addr(self._transport),
            "client": get_remote_addr(self._transport),
        }
        self._traffic.connections.add(self)
        self._set_timers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every request that its client is gone."""
        self._unset_timers()
        self._delivery.resume()
        self._leave()
        if exc is None:
            self._transport.close()
        self._traffic.connections.discard(self)
        self._last = self._running = None  # they know it too: only the collector breaks circles
        self._traffic.lost.set()

    def eof_received(self) -> None:
        """End what a client asked for that sends no more: it is gone, by our rule.

        Where it is still owed an answer, what it did not read is dropped: sending that first could take for
        ever, and the model server would work on.
        """
        if self._is_owed:
            self._leave()
            self._transport.abort()
        else:  # the transport closes itself when all is sent
            self._unset_timers()
            self._delivery.end_after(self._keep_alive_s, self._keep_alive_s)

    def pause_writing(self) -> None:
        """Let answers wait for the client to read."""
        self._flow.pause_writing()
        self._delivery.pause()

    def resume_writing(self) -> None:
        """Let answers go on."""
        self._flow.resume_writing()
        self._delivery.resume()

    def data_received(self, data: bytes) -> None:
        """Read what came."""
        if self._is_deaf:
            return
        self._delivery.go_on()
        for event in self._intake.feed(data, self._traffic.settings.max_header_bytes):
            if isinstance(event, RequestHead):
                if len(self._waiting) == MAX_PIPELINED:
                    self._end_after_last()
                    return
                self._unset_deadline()
                self._begin(event)
            elif isinstance(event, ProxyError):
                self._refuse(event)
                return
            elif self._last is not None:
                if isinstance(event, bytes):
                    self._last.upload.take(event)
                else:
                    self._unset_deadline()  # the next head has one of its own
                    self._last.upload.complete()
        self._set_timers()

    # What the server calls

    def retire(self) -> None:
        """Make the running request the last one of this connection."""
        if self._last is not None:
            self._last.keep_alive = False

    def shutdown(self) -> None:
        """End the connection, now or with the running request."""
        if not self._is_answered:
            self.retire()
        elif self._is_deaf:
            self._delivery.end_after(LAST_LINGER_S, self._keep_alive_s)
        elif self._intake.phase is not Phase.NOTHING or count_unsent(self._transport):
            self._close_gently()
        else:
            self._transport.close()

    def abort(self) -> None:
        """End the connection; what was not sent is dropped."""
        self._transport.abort()

    # Requests

    @property
    def _is_answered(self) -> bool:
        return self._last is None or self._last.response_complete

    @property
    def _is_owed(self) -> bool:
        """Whether the client would still get an answer, or the rest of one, to a request."""
        cycle = self._running
        return cycle is not None and not (cycle.response_complete or cycle.disconnected)

    def _begin(self, head: RequestHead) -> None:
        """Run a request, or let it wait for the answer before its own."""
        cycle = Cycle(
            self._scope | head.scope(),
            self._transport,
            self._flow,
            self._go_on,
            waits=head.waits,
            keep_alive=head.lasts and not self._traffic.is_draining,
        )
        if self._is_answered:
            self._run(cycle)
        else:
            # Reading goes on, within bounds: nothing else tells that the client left.
            self._waiting.append(cycle)
        self._last = cycle

    def _run(self, cycle: Cycle) -> None:
        self._running = cycle
        tasks = self._traffic.tasks
        task = self._loop.create_task(cycle.run(self._app))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    def _go_on(self) -> None:
        """Go on with the next request once an answer is complete, or end the connection."""
        if self._running is not None and not self._running.keep_alive:
            self._close_gently()
        elif not self._transport.is_closing():
            self._flow.resume_reading()
            if self._waiting:
                self._run(self._waiting.popleft())
            self._set_timers()

    def _leave(self) -> None:
        """Tell every request that its client is gone."""
        for cycle in (self._running, *self._waiting):
            if cycle is not None:
                cycle.leave()
        self._waiting.clear()
        self._flow.resume_writing()

    # Timers

    def _set_timers(self) -> None:
        if self._is_deaf or self._transport.is_closing():
            return
        phase, is_answered = self._intake.phase, self._is_answered
        if phase is Phase.HEAD or (phase is Phase.BODY and is_answered):
            if self._deadline is None and (limit_s := self._traffic.settings.timeouts.request_s):
                self._deadline = self._loop.call_later(limit_s, self._expire, limit_s)
            return
        if self._deadline is not None:
            self._unset_deadline()
        if is_answered:
            self._delivery.end_after(self._keep_alive_s, self._keep_alive_s)

    def _unset_timers(self) -> None:
        self._delivery.go_on()
        self._unset_deadline()

    def _unset_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expire(self, limit_s: float) -> None:
        self._deadline = None
        self._refuse(RequestTimeoutError.after(limit_s))

    # Ends

    def _refuse(self, error: ProxyError) -> None:
        """Answer what is no request; where an answer is on its way already, end the connection behind it."""
        in_body = self._intake.phase is Phase.BODY
        if not self._is_answered:
            if in_body and self._last is not None:
                self._last.upload.fail(error)
            self._end_after_last()
            return
        if not in_body:  # else it had its answer
            self._transport.write(refuse(error, self._intake.method, self._traffic.report))
        self._close_gently()

    def _end_after_last(self) -> None:
        """Read no more, and end the connection behind the answer to what came last."""
        self._is_deaf = True
        self._unset_timers()
        self.retire()

    def _close_gently(self) -> None:
        """End this side, and let the client end its own: a close now would be a reset to one that sends."""
        if self._transport.is_closing():
            return
        self._is_deaf = True
        self._unset_timers()
        self._flow.resume_reading()
        self._transport.write_eof()
        linger_s = LAST_LINGER_S if self._traffic.is_draining else LINGER_S
        self._delivery.end_after(linger_s, self._keep_alive_s)
