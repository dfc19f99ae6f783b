"""What the log says about requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest


def requests(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Return the fields of the line of each request."""
    return [record.__dict__["fields"] for record in caplog.records if record.message == "request"]


def outcomes(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str | None]]:
    """Return what became of each request, and the error if there was one."""
    return [(fields["outcome"], fields.get("error")) for fields in requests(caplog)]
