"""What the contract names and this version can't do yet. Building it means deleting its row here.

A key then needs its field in `model`, a value needs nothing more.
"""

from __future__ import annotations

NOT_BUILT_KEYS: dict[tuple[str | int, ...], object] = {
    ("upstreams",): {},
    ("api_keys",): [],
    ("api_keys_file",): None,
    ("max_header_bytes",): None,
    ("max_concurrent_requests",): None,
    ("drain_seconds",): None,
    ("drain_delay_seconds",): None,
    ("listen", "uds"): None,
    ("keep_alive_seconds",): 0,
    ("watch_config",): False,
    ("page",): False,
}
"""Keys of the contract that this version refuses by name, with the value that asks for nothing."""

NOT_BUILT_VALUES: dict[str, frozenset[str]] = {
    "tool_call_recovery": frozenset({"promote", "retry"}),
}
"""Values of an entry's keys that this version refuses by name."""
