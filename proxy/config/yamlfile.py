"""YAML text to plain data that remembers its lines.

Aliases and merge keys are followed; a key that is set twice is refused, which PyYAML does not do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import yaml

from proxy.config.problems import ConfigError, KeyPath, Place, Problem, show_path
from proxy.config.scalars import MERGE, SCALARS, TAG, Loader

if TYPE_CHECKING:
    from pathlib import Path

MAX_VALUES = 20_000
MAX_DEPTH = 32
"""Aliases can make a small file endless; a configuration needs neither this many values nor this depth."""


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML mapping: its data, and the line (from 1) on which each key or list item stands."""

    data: dict[str, Any]
    lines: dict[KeyPath, int]


@dataclass(slots=True)
class _Builder:
    """Turns nodes into data; collects lines and problems on the way."""

    source: str
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    values: int = 0
    depth: int = 0

    def report(self, node: yaml.Node, path: KeyPath, message: str) -> None:
        """Add a problem at the line on which a node begins."""
        self.problems.append(
            Problem(message, Place(self.source, node.start_mark.line + 1), show_path(path)),
        )

    def build(self, node: yaml.Node, path: KeyPath) -> Any:
        """Return the data of one node. Counts it: aliases are followed, so a file can be a bomb."""
        self.values += 1
        if self.values > MAX_VALUES or self.depth > MAX_DEPTH:
            self.report(node, (), "too many values or nested too deeply (an alias that repeats itself?)")
            raise ConfigError(self.problems)
        self.depth += 1
        try:
            return self.build_value(node, path)
        finally:
            self.depth -= 1

    def build_value(self, node: yaml.Node, path: KeyPath) -> Any:
        """Return the data of one node by its kind and tag."""
        if isinstance(node, yaml.MappingNode) and node.tag == TAG + "map":
            return self.build_mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == TAG + "seq":
            for index, item in enumerate(node.value):
                self.lines[*path, index] = item.start_mark.line + 1
            return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.tag in SCALARS:
            try:
                return SCALARS[node.tag](node.value)
            except ValueError:
                self.report(node, path, "is not what its tag says, or has too many digits")
                return None
        self.report(node, path, "has a YAML tag that is not understood here")
        return None

    def build_mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, Any]:
        """Return a mapping's data; its own keys win over merged ones, earlier merges over later ones."""
        merges = [value for key, value in node.value if key.tag == MERGE]
        merged = [item for value in merges for item in _list_merged(value)]
        data: dict[str, Any] = {}
        for other in reversed(merged):
            if isinstance(other, yaml.MappingNode):
                data |= self.build(other, path)
            else:
                self.report(other, path, "<< takes a mapping or a list of mappings")
        first_lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == MERGE:
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self.report(key_node, path, "a key must be plain text")
                continue
            key = key_node.value
            if key in first_lines:
                message = f"this key is already set on line {first_lines[key]}"
                self.report(key_node, (*path, key), message)
                continue
            first_lines[key] = self.lines[*path, key] = key_node.start_mark.line + 1
            data[key] = self.build(value_node, (*path, key))
        return data


def _list_merged(node: yaml.Node) -> list[yaml.Node]:
    """Return what a merge key merges: one node, or each of a list."""
    return node.value if isinstance(node, yaml.SequenceNode) else [node]


def parse(text: str, source: str) -> Document:
    """Read one YAML document whose top is a mapping; an empty text is an empty mapping.

    Raises:
        ConfigError: broken syntax, more than one document, a top that is no mapping, a key set twice.
    """
    try:
        nodes = list(islice(yaml.compose_all(text, Loader=Loader), 2))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        message = f"not valid YAML: {error.problem or error.context}"
        if "alias" in f"{error.context} {error.problem}":
            message += " (a name that begins with * needs quotes)"
        raise ConfigError([Problem(message, Place(source, line))]) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError([Problem(f"not valid YAML: {error.reason}", Place(source, line))]) from None
    except RecursionError:
        raise ConfigError([Problem("nested too deeply", Place(source))]) from None
    except (ValueError, OverflowError):  # PyYAML lets chr() fail on an escape past U+10FFFF
        raise ConfigError([Problem("not valid YAML: an escape names no character", Place(source))]) from None
    builder = _Builder(source)
    if len(nodes) > 1:
        builder.report(nodes[1], (), "a second YAML document begins here; only one is read")
    elif nodes and not isinstance(nodes[0], yaml.MappingNode):
        empty = nodes[0].tag == TAG + "null" and not nodes[0].value
        if not empty:
            builder.report(nodes[0], (), "the configuration must be a mapping of keys to values")
        nodes = []
    data = builder.build(nodes[0], ()) if nodes else {}
    if builder.problems:
        raise ConfigError(builder.problems)
    return Document(data, builder.lines)


def read(path: Path) -> Document:
    """Read a YAML file in UTF-8.

    Raises:
        ConfigError: the file can't be read, is not UTF-8, or `parse` refuses it.
    """
    try:
        raw = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a path"
        raise ConfigError([Problem(f"cannot be read: {reason}", Place(str(path)))]) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError([Problem("not UTF-8 text", Place(str(path), line))]) from None
    return parse(text, str(path))
