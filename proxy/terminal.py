"""What may be sent to a terminal, and whether it takes colour."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What moves a terminal's cursor or turns its text around; not the tab and the line feed."""

_PLAIN_WIDTH = 110


def escape(text: str) -> str:
    """Show control characters instead of sending them to the terminal: a model may have written any."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def takes_colour(out: TextIO) -> bool:
    """Tell whether somebody looks at it on a terminal and does not mind (https://no-color.org)."""
    return out.isatty() and not os.environ.get("NO_COLOR")


def make_console(out: TextIO) -> Console:
    """Return a console of Rich that takes text as it is, and colours it on a terminal only."""
    from rich.console import Console  # noqa: PLC0415 - `split` needs none of it

    terminal = out.isatty()
    return Console(
        file=out,
        force_terminal=terminal,
        no_color=not takes_colour(out),
        color_system="auto" if takes_colour(out) else None,
        width=None if terminal else _PLAIN_WIDTH,
        markup=False,
        emoji=False,
        highlight=False,
    )
