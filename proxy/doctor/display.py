"""What was found, for people."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from rich.text import Text

from proxy.doctor.evidence import Form
from proxy.rules import TAG_SETS
from proxy.terminal import escape

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from proxy.doctor.leaks import Inspection
    from proxy.doctor.report import Report
    from proxy.doctor.sample import Refusal
    from proxy.doctor.verdict import Verdict
    from proxy.doctor.writing import Written

_MARGIN = " " * len("  reasoning parser  ")
_UNKNOWN = "cannot be told"


def show(report: Report, console: Console) -> None:
    """Print it for people."""
    version = f" {report.version}" if report.version else ""
    models = len(report.verdicts) + len(report.inspections)
    count = f"{models} model{'' if models == 1 else 's'}"
    _say(console, f"{report.kind}{version} at {report.url}, {count} asked", "bold")
    if report.left_out:
        _say(console, f"{report.left_out} more not asked: name them with --model", "dim")
    for verdict in report.verdicts:
        _show_model(console, verdict.model, _list_verdict(verdict))
    for found in report.inspections:
        _show_model(console, found.model, _list_inspection(found))
    console.print()
    _show_end(report, console)


def _show_end(report: Report, console: Console) -> None:
    if report.written is not None:
        _show_written(report.written, console)
    elif report.yaml:
        where = "Add to the proxy's configuration" if report.inspections else "The configuration that fits"
        _say(console, f"{where}:", "bold")
        console.print()
        console.print(Text(report.yaml, "cyan"), end="", soft_wrap=True)
    elif report.inspections:
        verdict = "Something is wrong, see above." if report.exit_code else "Nothing leaks."
        _say(console, verdict, "bold red" if report.exit_code else "bold green")
    elif report.exit_code:
        _say(console, "No entry can help here, see above.", "bold red")
    else:
        _say(console, "No model needs an entry: there is nothing to configure.", "bold green")


def _show_written(written: Written, console: Console) -> None:
    if written.added:
        how = "Made" if written.created else "Changed"
        _say(console, f"{how} {written.file}: added {', '.join(written.added)}.", "bold green")
    else:
        _say(console, f"{written.file} stays as it is: there is nothing to add.", "bold")
    for line in written.left:
        _say(console, f"Left as it was: {line}.", "")


def _show_model(console: Console, model: str, rows: Iterator[tuple[str, str, str]]) -> None:
    console.print()
    _say(console, model, "bold")
    for label, text, style in rows:
        # A table would fill its lines up with spaces, which whoever copies them gets as well.
        lines = wrap(escape(text), max(console.width - len(_MARGIN), 20), break_on_hyphens=False)
        for number, line in enumerate(lines):
            margin = _MARGIN if number else f"  {label}".ljust(len(_MARGIN))
            console.print(Text.assemble((margin, "dim"), (line, style)), soft_wrap=True)


def _say(console: Console, text: str, style: str) -> None:
    console.print(Text(escape(text), style), soft_wrap=True)


def _list_verdict(verdict: Verdict) -> Iterator[tuple[str, str, str]]:
    """Yield label, text and style of each line about a model."""
    if verdict.refusal is not None:
        yield "no answer", _say_refusal(verdict.refusal), "yellow"
        return
    yield "thinking", _say_thinking(verdict), "red" if verdict.form is Form.MIXED else ""
    if verdict.form not in (Form.NONE, Form.UNCLEAR):
        switch = {True: "it stops thinking", False: "it thinks all the same", None: _UNKNOWN}
        yield "switched off", switch[verdict.switch], ""
        yield "reasoning parser", "on" if verdict.reasoning_parser else "off", ""
    parser = {True: "on", False: "off", None: f"{_UNKNOWN}: the model called no tool"}
    yield "tool parser", parser[verdict.tool_parser], ""
    if verdict.form is not Form.MIXED:
        needed = f"start {verdict.start}, tags {verdict.tags[0]}" if verdict.entry else "not needed"
        yield "entry", needed, "cyan" if verdict.entry else "green"
    for note in verdict.notes:
        yield "note", note, "yellow"


def _list_inspection(found: Inspection) -> Iterator[tuple[str, str, str]]:
    if found.refusal is not None:
        yield "no answer", _say_refusal(found.refusal), "yellow"
        return
    for problem in found.problems:
        yield "wrong", problem, "red"
    if found.fields:
        live = {True: ", live", False: "", None: ""}[found.live]
        yield "fine" if not found.problems else "seen", f"thinking as {_join(found.fields)}{live}", "green"
    elif not found.problems:
        yield "fine", "no thinking, and no tags", "green"
    for note in found.notes:
        yield "note", note, "yellow"


def _say_thinking(verdict: Verdict) -> str:
    when = ", when it is asked to" if verdict.on_request else ""
    fields = _join(verdict.fields)
    if verdict.form is Form.NATIVE:
        return f"in a field of its own, {fields}{when}"
    if verdict.form is Form.MIXED:
        return f"in a field of its own, {fields}, and yet tags in the text{when}"
    if verdict.form in (Form.NONE, Form.UNCLEAR):
        return "none" if verdict.form is Form.NONE else _UNKNOWN
    tags = TAG_SETS[verdict.tags[0]]
    opener, closer = tags.openers[0].strip(), tags.closers[0].strip()
    if verdict.form is Form.CLOSER:
        return f"in the text up to {closer}, the opener being in the prompt{when}"
    later = ", but not at its beginning" if verdict.form is Form.LATER else ""
    return f"in the text, between {opener} and {closer}{later}{when}"


def _say_refusal(refusal: Refusal) -> str:
    return f"{refusal.message} ({refusal.status})" if refusal.status else refusal.message


def _join(names: tuple[str, ...]) -> str:
    return " and ".join(names)
