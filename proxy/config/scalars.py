"""What an unquoted word of YAML means: YAML 1.2's core schema, and nothing else.

https://yaml.org/spec/1.2.2/#103-core-schema. PyYAML follows 1.1, in which `off`, `no`, `1:30` and
`2024-05-01` are not the text that they seem to be.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

TAG = "tag:yaml.org,2002:"
MERGE = TAG + "merge"


class Loader(yaml.SafeLoader):
    """SafeLoader with the scalars of YAML 1.2's core schema, and 1.1's merge key."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (as declared there)


for _name, _pattern, _first in (
    ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    ("int", r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$", list("-+0123456789")),
    (
        "float",
        r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
        list("-+.0123456789"),
    ),
    ("merge", r"^<<$", ["<"]),
):
    Loader.add_implicit_resolver(TAG + _name, re.compile(_pattern), _first)


def _read_int(text: str) -> int:
    """Read what the core schema calls an integer; a leading 0 alone is decimal."""
    return int(text, 0) if text[:2].lower() in {"0x", "0o"} else int(text)


def _read_bool(text: str) -> bool:
    """Read true or false; anything else under an explicit `!!bool` is a ValueError."""
    if text.lower() not in {"true", "false"}:
        raise ValueError(text)
    return text.lower() == "true"


SCALARS: dict[str, Callable[[str], Any]] = {
    TAG + "null": lambda _: None,
    TAG + "bool": _read_bool,
    TAG + "int": _read_int,
    TAG + "float": lambda text: float(re.sub(r"\.(?=inf|nan)", "", text.lower())),
    TAG + "str": str,
    MERGE: str,
}
"""How the text of each kind becomes a value; a ValueError means that it is not of that kind."""
