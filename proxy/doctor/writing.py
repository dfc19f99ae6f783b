"""What was found, into a configuration file: made anew, or with what it lacks added to it."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from proxy import config
from proxy.config.environment import PREFIX
from proxy.doctor.insertion import insert, render
from proxy.doctor.verdict import fits
from proxy.settings import RuleTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.doctor.verdict import NewEntry, Verdict
    from proxy.settings import Entry, Settings

_HEAD = "# Made by `think-proxy doctor`. Every key: docs/configuration-reference.md\n"


class Written(NamedTuple):
    """What became of a file."""

    file: Path
    created: bool
    added: tuple[str, ...]
    """What is new in it: the names of models, and `upstream`."""
    left: tuple[str, ...]
    """What stays as it was although it has to do with this server, in sentences."""


def write(file: Path, upstream: str, verdicts: Sequence[Verdict]) -> Written:
    """Put the address and the entries that are needed into a file. Whatever it says already stays.

    Raises:
        ConfigError: the file is no configuration, or would be none.
        InsertionError: the way it is written leaves no safe place.
        OSError: it cannot be read or written.
    """
    needed = [(verdict, verdict.entry) for verdict in verdicts if verdict.entry is not None]
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        _replace(file, _HEAD + render(upstream, [entry for _, entry in needed]))
        return Written(file, created=True, added=("upstream", *(entry.model for _, entry in needed)), left=())
    settings = _load(file)
    left = [] if not settings.servers else _compare_upstream(settings, upstream)
    table = RuleTable(settings.entries)
    wanted: list[NewEntry] = []
    for verdict, entry in needed:
        listed = table.find(entry.model)
        if listed is None:
            wanted.append(entry)
        else:
            left.append(_compare(verdict, listed))
    new = [] if settings.servers else ["upstream"]
    new += [entry.model for entry in wanted]
    if new:
        # Line breaks as they are: a text file would translate them.
        text = file.read_bytes().decode()
        _replace(file, insert(text, None if settings.servers else upstream, wanted))
    return Written(file, created=False, added=tuple(new), left=tuple(left))


def _compare_upstream(settings: Settings, upstream: str) -> list[str]:
    if any(server.url == upstream for server in settings.servers):
        return []
    told = "upstreams, none of which is" if settings.upstreams else "upstream, which is not"
    return [f"{told} {upstream}"]


def _compare(verdict: Verdict, listed: Entry) -> str:
    """Say what is there for a model already, and whether it is right."""
    how = "is listed" if listed.name == verdict.model else f"is covered by {listed.name}"
    rule = listed.rule
    if fits(verdict, rule.start, rule.tags.name):
        return f"{verdict.model}, which {how} as it should be"
    return (
        f"{verdict.model}, which {how} with start {rule.start} and tags {rule.tags.name}; "
        f"its answers need start {verdict.start} and tags {verdict.tags[0]}"
    )


def _load(file: Path) -> Settings:
    """Read a file alone: variables of this shell that set keys are not part of it."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    return config.load(file, environ=environ)


def _replace(file: Path, text: str) -> None:
    """Write a file beside it, see that it loads, and put it in its place in one step."""
    target = file.resolve()  # a link stays one
    with suppress(FileNotFoundError):
        mode = stat.S_IMODE(target.stat().st_mode)
        return _swap(target, text, mode)
    umask = os.umask(0)
    os.umask(umask)
    return _swap(target, text, 0o666 & ~umask)


def _swap(target: Path, text: str, mode: int) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    made = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as out:
            out.write(text.encode())
            out.flush()
            os.fsync(out.fileno())
        made.chmod(mode)
        _load(made)
        made.replace(target)
    finally:
        made.unlink(missing_ok=True)
