"""Whether requests are traced: if the environment names a collector, and the extra `otel` is installed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from proxy.telemetry import LOGGER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.otel import Traces

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"


def open_traces(environ: Mapping[str, str] = os.environ) -> Traces | None:
    """Begin to trace if the environment asks for it; what keeps that from being done is logged.

    The variables are OpenTelemetry's own:
    https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/.
    """
    if (
        not any(environ.get(name) for name in _ENDPOINTS)
        or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
        or environ.get("OTEL_TRACES_EXPORTER", "").strip() not in ("", "otlp")
    ):
        return None
    protocol = next((value for name in _PROTOCOLS if (value := environ.get(name))), _PROTOCOL)
    if protocol != _PROTOCOL:
        LOGGER.warning("traces are off: of OpenTelemetry's protocols, only %s is spoken", _PROTOCOL)
        return None
    try:
        from proxy.otel import Traces  # noqa: PLC0415 - where it is not asked for, nothing is imported

        return Traces()
    except ImportError:
        LOGGER.warning("traces are off: they take the extra `otel` of think-proxy, which is not installed")
    except Exception as error:  # noqa: BLE001 - its message may quote a variable, and those hold keys
        LOGGER.warning("traces are off: an OTEL_ variable cannot be read (%s)", type(error).__name__)
    return None
