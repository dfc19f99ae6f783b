"""One request on its way: through the gate, to the rule for its model, and to the relay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.errors import MethodError, PathError
from proxy.gate import CHAT_PATH, TAGGED_PATHS
from proxy.relay import relay
from proxy.request import Plan, make_plan, peek_model, read_chat

if TYPE_CHECKING:
    from proxy.client import Client
    from proxy.gate import Gate
    from proxy.settings import Entry, RuleTable, Settings
    from proxy.telemetry import Notes
    from proxy.upstream import Upstream

_CHAT_METHODS = frozenset({"POST", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class World:
    """What a request takes along when it begins: one configuration, and what was built from it."""

    settings: Settings
    rules: RuleTable
    gate: Gate
    upstream: Upstream


class Exchange:
    """One request on its way through one world."""

    def __init__(self, client: Client, world: World, notes: Notes) -> None:
        """Begin with a request of which only the head is known."""
        self._client = client
        self._world = world
        self._notes = notes
        self.path = "(refused)"
        """The path for the log, once it is known to be harmless."""
        self.entry: Entry | None = None
        """The entry in force."""

    async def run(self) -> None:
        """Check, read and relay the request.

        Raises:
            ProxyError: it was refused, or the model server failed.
            ClientGoneError: the client left.
        """
        client, settings = self._client, self._world.settings
        path = self._world.gate.admit(client.path)
        if path is None:
            raise PathError(
                "The proxy does not forward this path. Model servers have operational paths that must not be "
                "reachable through it; passthroughPaths in its configuration adds some."
            )
        self.path = client.path.decode("ascii", "backslashreplace")
        if path == CHAT_PATH and client.method not in _CHAT_METHODS:
            raise MethodError("Chat completions are asked for with POST.")
        await client.read_body(settings.max_body_bytes, settings.timeouts.request_s)
        plan: Plan | None = None
        if path == CHAT_PATH and client.method == "POST":
            plan = self._plan_chat()
        elif path in TAGGED_PATHS and settings.entries:
            self._note_tags(path)
        await relay(client, plan, self._world.upstream, settings, self._notes)

    def _plan_chat(self) -> Plan | None:
        request = read_chat(self._client.body)
        self.entry = self._world.rules.find(request.model)
        if self.entry is None:
            return None
        plan = make_plan(request, self.entry.rule)
        self._client.body = plan.body
        return plan

    def _note_tags(self, path: bytes) -> None:
        model = peek_model(self._client.body)
        entry = self._world.rules.find(model) if model is not None else None
        if entry is not None:
            self._notes.once(
                "a listed model is relayed as it is here: only /v1/chat/completions is rewritten",
                entry=entry.name,
                path=path.decode(),
            )
