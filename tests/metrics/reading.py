"""Reads what `/metrics` says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from prometheus_client import Metric


class Told:
    """The metrics of one answer."""

    def __init__(self, text: str) -> None:
        self.families: dict[str, Metric] = {
            f"{family.name}_total" if family.type == "counter" else family.name: family
            for family in text_string_to_metric_families(text)
        }
        self.samples = {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def value(self, name: str, **labels: str) -> float | None:
        """Return the value of the series with exactly these labels."""
        return self.samples.get((name, *sorted(labels.items())))

    def total(self, name: str, **labels: str) -> float:
        """Add up all series with these labels, whatever others they have."""
        return sum(
            value
            for (known, *pairs), value in self.samples.items()
            if known == name and {*labels.items()} <= {*pairs}
        )

    def labels(self, label: str) -> set[str]:
        """Return all values of a label."""
        return {value for (_, *pairs) in self.samples for key, value in pairs if key == label}
