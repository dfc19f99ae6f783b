"""One request on its way: through the gate, to the rule for its model, and to the relay."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes
from uuid import uuid4

from proxy import headers, models
from proxy.course import Course, clock
from proxy.errors import CredentialError, MethodError, PathError
from proxy.gate import CHAT_PATH, TAGGED_PATHS
from proxy.relay import Relay
from proxy.report import RequestReport, measure
from proxy.request import make_plan, peek_model, read_chat
from proxy.rules import Start
from proxy.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.client import Client
    from proxy.page.bench import Bench
    from proxy.request import ChatRequest, Plan
    from proxy.running import Running
    from proxy.settings import Entry
    from proxy.telemetry import Notes
    from proxy.upstream import Upstream
    from proxy.world import World

_CHAT_METHODS = frozenset({"POST", "OPTIONS"})
_READS = frozenset({"GET", "HEAD"})
_ONE_MODEL = models.PATH + b"/"


class Exchange:
    """One request on its way through one world."""

    def __init__(
        self, client: Client, world: World, notes: Notes, running: Running, bench: Bench | None = None
    ) -> None:
        """Begin with a request of which only the head is known; `bench` is its client if that is the page."""
        self._client = client
        self._world = world
        self._notes = notes
        self._running = running
        self._bench = bench
        self.path = "(refused)"
        """The path for the log, once it is known to be harmless."""
        self.entry: Entry | None = None
        """The entry in force."""
        self.tally = Tally()
        """What was seen of the answer."""
        self.course = Course()
        """When it came."""
        self.upstream: Upstream | None = None
        """Where the request went."""
        self._end: tuple[str, str | None, float, float] = "", None, 0.0, 0.0
        self.model: str | None = None
        """What the client named as its model, if that was looked at."""

    def end(self, outcome: str, error: str | None) -> None:
        """Take note that it is over, and how; see `RequestReport`."""
        self._end = outcome, error, clock() - self.course.began, time.time()

    def report(self) -> RequestReport:
        """Return what the request came to, once it is over."""
        outcome, error, duration_s, ended_at = self._end
        return RequestReport(
            request_id=self._client.request_id.decode(),
            method=self._client.method,
            path=self.path,
            entry=self.entry.name if self.entry else None,
            upstream=self.upstream.name if self.upstream else None,
            status=self._client.status,
            outcome=outcome,
            duration_s=duration_s,
            ended_at=ended_at,
            error=error,
            **measure(self.course, self.tally),
        )

    def admit(self) -> None:
        """Check the key of the request, and take it away.

        A browser asks for leave (a preflight) without one. Only `cors` answers that, before it comes here:
        the model server hears of nobody who has no key.

        Raises:
            CredentialError: it has none that opens the proxy.
        """
        client, keys = self._client, self._world.keys
        if not keys.admit(client.headers):
            hint = " Browsers ask without one first: `cors` in the proxy's configuration answers them."
            raise CredentialError(
                "The proxy takes requests with one of its keys only: send it as `Authorization: Bearer KEY`."
                + (hint if headers.is_preflight(client.method, client.headers) else "")
            )
        client.headers = keys.strip(client.headers)

    async def run(self) -> None:
        """Check, read and relay the request.

        Raises:
            ProxyError: it was refused, or the model server failed.
            ClientGoneError: the client left.
        """
        client, world = self._client, self._world
        settings = world.settings
        if self._bench is not None:
            await self._run_bench(self._bench)
            return
        path = world.gate.admit(client.path)
        if path is None:
            raise PathError(
                "The proxy does not forward this path. Model servers have operational paths that must not be "
                "reachable through it; passthroughPaths in its configuration adds some."
            )
        self.path = client.path.decode("ascii", "backslashreplace")
        if path == CHAT_PATH and client.method not in _CHAT_METHODS:
            raise MethodError("Chat completions are asked for with POST.")
        await client.read_body(settings.max_body_bytes, settings.timeouts.request_s)
        self.course.read = clock()
        if path == models.PATH and client.method in _READS and len(world.routes.upstreams) > 1:
            await client.attend(models.list_models(client, world.routes, own_cors=settings.cors is not None))
            return
        if path == CHAT_PATH and client.method == "POST":
            await client.attend(self._answer_chat(read_chat(client.body)))
        else:
            self.model = self._find_model(path)
            self.upstream = world.routes.find(self.model)
            await client.attend(self._relay(None, self.upstream))

    async def _run_bench(self, bench: Bench) -> None:
        """Ask one chat as for any client, and show both sides of its answer."""
        settings = self._world.settings
        self.path = bench.path.decode()
        bench.check(has_keys=bool(self._world.keys))
        await bench.read_body(settings.max_body_bytes, settings.timeouts.request_s)
        self.course.read = clock()
        bench.become(CHAT_PATH)
        await bench.attend(bench.answer(self._answer_chat(read_chat(bench.body))))

    async def _answer_chat(self, request: ChatRequest) -> None:
        self.model = request.model
        upstream = self.upstream = self._world.routes.find(request.model)
        entry = self.entry = self._world.rules.find(request.model)
        if self._bench is not None:
            entry = self._bench.choose(entry, self._world.settings, upstream.name)
        plan = make_plan(request, entry.rule, _make_call_ids()) if entry else None
        if plan and plan.rule.start is Start.AUTO:
            asked = clock()
            settled = await self._world.probe.settle(
                plan.rule,
                request.document,
                upstream,
                self._client.headers,
                request_id=self._client.request_id,
                notes=self._notes,
            )
            self.course.elsewhere_s = clock() - asked
            plan = replace(plan, rule=settled)
        del request  # parsed, it takes several times its bytes, and a stream may run for long
        if plan and plan.body is not self._client.body:
            self._client.body = plan.body
            self._client.headers = headers.without(self._client.headers, headers.DIGESTS)
        await self._relay(plan, upstream)

    async def _relay(self, plan: Plan | None, upstream: Upstream) -> None:
        # What another rule finds is no news about the entry in force.
        in_force = self._bench is None or not self._bench.deviates
        relay = Relay(
            self._client,
            plan,
            upstream=upstream,
            settings=self._world.settings,
            notes=self._notes,
            running=self._running,
            tally=self.tally if in_force else Tally(),
            course=self.course if in_force else Course(),
            watch=self._bench.watch if self._bench else None,
        )
        await relay.run()

    def _find_model(self, path: bytes) -> str | None:
        """Return the model that a request other than a chat names, if anybody has to know."""
        tagged = path in TAGGED_PATHS and bool(self._world.settings.entries)
        model: str | None = None
        if path.startswith(_ONE_MODEL):
            model = unquote_to_bytes(path.removeprefix(_ONE_MODEL)).decode("utf-8", "replace")
        elif self._client.body and (tagged or not self._world.routes.plain):
            model = peek_model(self._client.body)
        entry = self._world.rules.find(model) if tagged and model is not None else None
        if entry is not None:
            self._notes.once(
                "a listed model is relayed as it is here: only /v1/chat/completions is rewritten",
                entry=entry.name,
                path=path.decode(),
            )
        return model


def _make_call_ids() -> Iterator[str]:
    """Return ids for tool calls that no other call has, one after the other."""
    while True:
        yield f"call_{uuid4().hex}"
