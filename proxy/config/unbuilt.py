"""What the contract names and this version can't do yet. Building it means deleting its row here.

A key then needs its field in `model`, a value needs nothing more.
"""

from __future__ import annotations

NOT_BUILT_KEYS: dict[tuple[str | int, ...], object] = {}
"""Keys of the contract that this version refuses by name, with the value that asks for nothing."""

NOT_BUILT_VALUES: dict[str, frozenset[str]] = {}
"""Values of an entry's keys that this version refuses by name."""
