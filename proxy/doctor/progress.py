"""Says on standard error what is being waited for: a big model may take a minute to its first token."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from proxy.terminal import escape, make_console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def telling(count: int) -> Iterator[Callable[[int, str], Callable[[str], None]]]:
    """Yield what begins a model, by its number from 1 and its name, and returns what tells its progress.

    On a terminal one line shows what goes on now, and is gone at the end; elsewhere each model is a line.
    """
    console = make_console(sys.stderr)
    if not console.is_terminal:

        def begin_plainly(number: int, model: str) -> Callable[[str], None]:
            sys.stderr.write(f"{number}/{count} {escape(model)}\n")
            sys.stderr.flush()
            return lambda _: None

        yield begin_plainly
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=None)

        def begin(number: int, model: str) -> Callable[[str], None]:
            shown = f"{number}/{count} {escape(model)}"
            said = [""]

            def tell(what: str) -> None:
                if what == said[0]:
                    return
                said[0] = what
                # The clock is that of this question.
                progress.reset(task, description=f"{shown}: {what}")

            return tell

        yield begin
