"""`think-proxy split`: what the proxy makes of a recorded answer, printed."""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from proxy import config, offline
from proxy.presets import find_preset
from proxy.rules import TAG_SETS, Rule
from proxy.settings import Entry, RuleTable, Settings, strip_variant
from proxy.splitter import Channel
from proxy.terminal import escape, takes_colour

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.offline import Piece

_FORMATS = {".sse": "stream of events", ".json": "answer in JSON with choices"}

STDIN = Path("-")
"""The name that stands for standard input."""

_DIM, _BOLD, _RESET = "\x1b[2m", "\x1b[1m", "\x1b[0m"


def run(
    file: Path = STDIN, *, model: str | None = None, config_file: Path | None = None, as_json: bool = False
) -> None:
    """Split a recording and print reasoning and content apart; exit with 1 when it can't be read.

    What is in it tells what it is; a name that promises something else is an error.

    Args:
        file: the recording: a stream of events, a whole answer or plain text; `-` reads standard input.
        model: the model whose rule counts; without it the one that the recording names.
        config_file: the configuration; None means the default one, if there is any.
        as_json: print one JSON object instead of text for people.

    Raises:
        ConfigError: the configuration is faulty.
    """
    settings = config.load(config_file)
    try:
        recording = sys.stdin.buffer.read() if file == STDIN else file.read_bytes()
        promised = _FORMATS.get(file.suffix.lower())
        if promised and offline.is_text(recording):
            _give_up(f"{file}: this is no {promised}; what is to be split as text may not be called so")
        model = model or offline.find_model(recording)
        entry = choose_entry(model, settings)
        pieces = offline.split(recording, entry.rule)
    except OSError as error:
        _give_up(f"{file}: {error.strerror or error}")
    except UnicodeDecodeError as error:
        _give_up(f"{file}: this is no stream, no answer in JSON, and no UTF-8 text (byte {error.start})")
    if as_json:
        sys.stdout.write(json.dumps(_describe(model, entry, pieces)) + "\n")
    else:
        _write(sys.stdout, pieces)


def choose_entry(model: str | None, settings: Settings) -> Entry:
    """Return the entry for a model: the configuration's, else its family's preset, else the defaults."""
    if model is None:
        return Entry("", Rule())
    listed = RuleTable(settings.entries).find(model)
    found = find_preset(model) or find_preset(strip_variant(model) or "")
    if listed is not None or found is None:
        return listed or Entry(model, Rule())
    glob, preset = found
    return Entry(model, Rule(tags=TAG_SETS[preset.tags], start=preset.start), f"preset for {glob}")


def _describe(model: str | None, entry: Entry, pieces: list[Piece]) -> dict[str, Any]:
    """Return what `--json` prints."""
    (rule,) = config.describe(Settings(entries=(entry,)))["inlineThinkTagModels"]
    choices = {index: list(runs) for index, runs in groupby(pieces, key=lambda piece: piece.choice)}
    return {
        "model": model,
        "rule": {key: value for key, value in rule.items() if key != "model"},
        "choices": [
            {
                "index": index,
                "reasoning": "".join(run.text for run in runs if run.channel is Channel.REASONING),
                "content": "".join(run.text for run in runs if run.channel is Channel.CONTENT),
                "spans": [{"channel": run.channel.name.lower(), "text": run.text} for run in runs],
            }
            for index, runs in (choices or {0: []}).items()
        ],
    }


def _write(out: TextIO, pieces: list[Piece]) -> None:
    """Print for people, in colour if they look at it on a terminal and do not mind."""
    for line in _lines(pieces, colour=takes_colour(out), terminal=out.isatty()):
        # A recording may hold what the terminal's encoding, or none, can write: a lone surrogate.
        encoding = out.encoding or "utf-8"
        out.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def _lines(pieces: list[Piece], *, colour: bool, terminal: bool) -> Iterator[str]:
    label, thought, end = (_BOLD, _DIM, _RESET) if colour else ("", "", "")
    several = len({piece.choice for piece in pieces}) > 1
    for index, runs in groupby(pieces, key=lambda piece: piece.choice):
        if several:
            yield f"{label}choice {index}{end}"
        for _, channel, text in runs:
            yield f"{label}[{channel.name.lower()}]{end}"
            shown = escape(text) if terminal else text
            yield f"{thought}{shown}{end}" if channel is Channel.REASONING else shown


def _give_up(problem: str) -> NoReturn:
    sys.stderr.write(f"think-proxy: split: {problem}\n")
    sys.exit(1)
