"""What was found, as data: what it comes to, and how scripts get it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proxy.doctor.evidence import Form
from proxy.doctor.insertion import MODELS_KEY, render

if TYPE_CHECKING:
    from proxy.doctor.leaks import Inspection
    from proxy.doctor.sample import Refusal
    from proxy.doctor.verdict import NewEntry, Verdict
    from proxy.doctor.writing import Written


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found out about one server."""

    url: str
    kind: str
    version: str | None
    verdicts: tuple[Verdict, ...] = ()
    """Of each model, where the server is a model server."""
    inspections: tuple[Inspection, ...] = ()
    """Of each model, where it is a running proxy."""
    left_out: int = 0
    """Models of the server that were not asked."""
    written: Written | None = None

    @property
    def entries(self) -> list[NewEntry]:
        """The entries that are needed."""
        found: tuple[Verdict | Inspection, ...] = (*self.verdicts, *self.inspections)
        return [model.entry for model in found if model.entry is not None]

    @property
    def yaml(self) -> str:
        """The configuration to paste; empty where none is needed."""
        return render(self.url if self.verdicts else None, self.entries) if self.entries else ""

    @property
    def exit_code(self) -> int:
        """0 if all is well, or will be with that configuration; 1 if tags leak, or no model answered."""
        found: tuple[Verdict | Inspection, ...] = (*self.verdicts, *self.inspections)
        answered = any(model.refusal is None for model in found)
        leaks = any(verdict.form is Form.MIXED for verdict in self.verdicts) or any(
            inspection.problems for inspection in self.inspections
        )
        return 0 if answered and not leaks else 1


def describe(report: Report) -> dict[str, Any]:
    """Return what `--json` prints."""
    written = report.written
    return {
        "url": report.url,
        "server": {"kind": report.kind, "version": report.version},
        "models": [
            *map(_describe_verdict, report.verdicts),
            *map(_describe_inspection, report.inspections),
        ],
        "leftOut": report.left_out,
        MODELS_KEY: [entry.keys() for entry in report.entries],
        "yaml": report.yaml,
        "written": written
        and {
            "file": str(written.file),
            "created": written.created,
            "added": list(written.added),
            "left": list(written.left),
        },
        "error": None,
        "exitCode": report.exit_code,
    }


def _describe_verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "model": verdict.model,
        "thinking": str(verdict.form),
        "fields": list(verdict.fields),
        "tags": next(iter(verdict.tags), None),
        "start": verdict.start and str(verdict.start),
        "onRequest": verdict.on_request,
        "switch": verdict.switch,
        "reasoningParser": verdict.reasoning_parser,
        "toolParser": verdict.tool_parser,
        "entry": verdict.entry and verdict.entry.keys(),
        "notes": list(verdict.notes),
        "refusal": _describe_refusal(verdict.refusal),
    }


def _describe_inspection(found: Inspection) -> dict[str, Any]:
    return {
        "model": found.model,
        "thinking": str(found.form),
        "fields": list(found.fields),
        "live": found.live,
        "problems": list(found.problems),
        "notes": list(found.notes),
        "entry": found.entry and found.entry.keys(),
        "refusal": _describe_refusal(found.refusal),
    }


def _describe_refusal(refusal: Refusal | None) -> dict[str, Any] | None:
    return None if refusal is None else {"status": refusal.status, "message": refusal.message}
