"""Entries into a configuration file, as text: every byte that stood there stays, comments and all.

A YAML library that reads and writes would format the file anew. Here the parser only tells where things
stand; lines go in between. What comes of it is read again and has to be what was meant, nothing else.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import yaml

from proxy.config import yamlfile
from proxy.config.description import quote
from proxy.config.problems import ConfigError
from proxy.config.scalars import Loader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.doctor.verdict import NewEntry

MODELS_KEY = "inlineThinkTagModels"

_MODELS_KEYS = (MODELS_KEY, "inline_think_tag_models")
_UPSTREAM_KEYS = ("upstream", "upstreams")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*(:[A-Za-z0-9_.-]+)?(://[A-Za-z0-9_./:-]+)?")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""Words that YAML, or somebody who reads it, takes for something else than text."""


class InsertionError(Exception):
    """The file is written in a way that nothing can be put into safely."""


class _Edit(NamedTuple):
    """Text to put in the place of that between two indexes."""

    start: int
    end: int
    text: str


def render(upstream: str | None, entries: Sequence[NewEntry]) -> str:
    """Return a configuration with these, in YAML; either may be left out."""
    lines = [f"upstream: {_quote(upstream)}"] if upstream is not None else []
    if entries:
        lines += [f"{MODELS_KEY}:", *_block(entries, "  ")]
    return "".join(line + "\n" for line in lines)


def insert(text: str, upstream: str | None, entries: Sequence[NewEntry]) -> str:
    """Return the text of a configuration file with these added to what it says.

    Args:
        text: the file, in which no entry is listed already.
        upstream: the address of the model server; left out if the file names one, or several.
        entries: what goes behind the entries that there are.

    Raises:
        ConfigError: the text is no configuration.
        InsertionError: the way it is written leaves no safe place; nothing is wrong with it otherwise.
    """
    bom, text = ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)
    before = yamlfile.parse(text, "file").data
    root = yaml.compose(text, Loader=Loader)
    meant = dict(before)
    edits: list[_Edit] = []
    if upstream is not None and not any(before.get(key) for key in _UPSTREAM_KEYS):
        meant["upstream"] = upstream
        edits.append(_set_upstream(text, root, upstream))
    if entries:
        key = next((key for key in _MODELS_KEYS if key in before), MODELS_KEY)
        added = [entry.keys() if entry.start or entry.tags else entry.model for entry in entries]
        meant[key] = [*(before.get(key) or []), *added]
        # A list goes on where it ends, and may end where the file does: before anything new behind it.
        place = 0 if key in before else len(edits)
        edits.insert(place, _add_entries(text, root, entries))
    line_break = "\r\n" if "\r\n" in text else "\n"
    # From the back, so that the indexes hold; of two at the same place the first one ends up first.
    for _, edit in sorted(enumerate(edits), key=lambda row: (row[1].start, row[0]), reverse=True):
        text = text[: edit.start] + edit.text.replace("\n", line_break) + text[edit.end :]
    try:
        made = yamlfile.parse(text, "file").data
    except ConfigError:
        made = {}
    if made != meant:
        raise InsertionError
    return bom + text


def _set_upstream(text: str, root: yaml.Node | None, upstream: str) -> _Edit:
    value = _find(root, ("upstream",))
    if value is None:
        return _append(text, root, f"upstream: {_quote(upstream)}\n")
    return _Edit(value.start_mark.index, value.end_mark.index, f" {_quote(upstream)}")


def _add_entries(text: str, root: yaml.Node | None, entries: Sequence[NewEntry]) -> _Edit:
    value = _find(root, _MODELS_KEYS)
    if value is None:
        return _append(text, root, render(None, entries))
    if not isinstance(value, yaml.SequenceNode):
        # The key without a value, or a word for that. Its comment stays behind it.
        return _after_line(text, value.end_mark.index, _block(entries, _indent(root) + "  "))
    if value.flow_style:
        flow = ", ".join(map(_flow, entries))
        if not value.value:
            return _Edit(value.start_mark.index + 1, value.start_mark.index + 1, flow)
        end = _end(value)
        return _Edit(end, end, f", {flow}")
    return _after_line(text, _end(value), _block(entries, " " * value.start_mark.column))


def _find(root: yaml.Node | None, keys: tuple[str, ...]) -> yaml.Node | None:
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    return next((value for key, value in pairs if key.value in keys), None)


def _append(text: str, root: yaml.Node | None, block: str) -> _Edit:
    gap = "" if not text or text.endswith("\n") else "\n"
    lines = [_indent(root) + line for line in block.splitlines()]
    return _Edit(len(text), len(text), gap + "".join(line + "\n" for line in lines))


def _after_line(text: str, index: int, lines: list[str]) -> _Edit:
    """Return an edit that puts lines behind the one that an index is in."""
    # A block scalar ends where the next line begins.
    found = index - 1 if index and text[index - 1] == "\n" else text.find("\n", index)
    block = "".join(line + "\n" for line in lines)
    if found < 0:
        return _Edit(len(text), len(text), "\n" + block)
    return _Edit(found + 1, found + 1, block)


def _end(node: yaml.SequenceNode) -> int:
    """Return where the last item of a list ends. The end mark of a block lies behind comments."""
    last = node.value[-1]
    while isinstance(last, yaml.CollectionNode) and not last.flow_style:
        last = last.value[-1][1] if isinstance(last, yaml.MappingNode) else last.value[-1]
    return int(last.end_mark.index)


def _indent(root: yaml.Node | None) -> str:
    return " " * root.start_mark.column if isinstance(root, yaml.MappingNode) and root.value else ""


def _block(entries: Sequence[NewEntry], indent: str) -> list[str]:
    """Return entries as lines of a list."""
    lines: list[str] = []
    for entry in entries:
        if not entry.start and not entry.tags:
            lines.append(f"{indent}- {_quote(entry.model)}")
            continue
        first, *others = (f"{key}: {_quote(value)}" for key, value in entry.keys().items())
        lines += [f"{indent}- {first}", *(f"{indent}  {other}" for other in others)]
    return lines


def _flow(entry: NewEntry) -> str:
    if not entry.start and not entry.tags:
        return _quote(entry.model)
    return "{" + ", ".join(f"{key}: {_quote(value)}" for key, value in entry.keys().items()) + "}"


def _quote(text: str) -> str:
    """Write a text, in quotes where it may be taken for something else."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return quote(text)
