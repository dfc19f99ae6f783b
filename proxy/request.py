"""Read what a chat request says about its answer, and prepare it for the model server.

A model that is not listed has its request read for the `model` alone. A request that needs no change
is sent as the bytes that came.
"""

from __future__ import annotations

from typing import Any

from proxy import chat
from proxy.errors import RequestError


def read_model(body: bytes) -> str:
    """Return the model that a request names.

    Raises:
        RequestError: the body is not a JSON object, or has no `model` string.
    """
    document = _read(body)
    model = document.get("model")
    if not isinstance(model, str):
        raise RequestError(
            "The request has no `model`, or it is not a string: name a model that /v1/models lists.",
            param="model",
        )
    return model


def peek_model(body: bytes) -> str | None:
    """Return the model that a request to another endpoint names, None where there is none to find."""
    document = chat.read_object(body)
    model = document.get("model") if document else None
    return model if isinstance(model, str) else None


def _read(body: bytes) -> dict[str, Any]:
    try:
        document = chat.read_json(body)
    except ValueError:
        raise RequestError("The request body is not valid JSON: send a chat completion request.") from None
    if not isinstance(document, dict):
        raise RequestError("The request body is not a JSON object: send a chat completion request.")
    return document
