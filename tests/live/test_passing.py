"""A model that is not listed, and errors: the very bytes, in both directions."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.live.conftest import PLAIN
from tests.live.shapes import SHAPES, Shape
from tests.live.tap import FORCE

if TYPE_CHECKING:
    from tests.live.conftest import Live

pytestmark = [pytest.mark.live, pytest.mark.slow]


@pytest.mark.parametrize(
    "shape",
    [shape for shape in SHAPES if shape.name in ("thinking", "multi-byte", "escapes", "closer-only")],
    ids=lambda shape: shape.name,
)
def test_passes_as_the_bytes_that_came(forcing: Live, shape: Shape, stream: bool) -> None:
    force = {"structured_outputs": {"regex": shape.forced}}
    reply = forcing.ask(
        PLAIN,
        stream=stream,
        force=force,
        logprobs=True,
        stream_options={"include_usage": True} if stream else None,
    )
    assert reply.status == 200
    assert reply.body == reply.exchange.answer
    (told,) = reply.choices().values()
    assert re.fullmatch(shape.read, told.content, re.DOTALL)


def test_asks_as_the_client_asked(live: Live, stream: bool) -> None:
    plain, listed = (
        live.ask(model, stream=stream, max_tokens=2).exchange.request for model in (PLAIN, "live/leading")
    )
    assert plain.replace(PLAIN.encode(), b"live/leading") == listed
    assert json.loads(plain)[FORCE] == {}


def without_ids(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in ("id", "created")}


@pytest.mark.parametrize("model", [PLAIN, "live/leading"])
def test_says_what_the_server_says_without_a_proxy(forcing: Live, model: str) -> None:
    """Where there is nothing to split, listed or not."""
    shape = {"structured_outputs": {"regex": "[a-z ]{20,40}"}}
    direct = [without_ids(forcing.ask_directly(**shape).json()) for _ in range(2)]
    if direct[0] != direct[1]:
        pytest.skip("the server answers the same seed differently each time")
    reply = forcing.ask(model, stream=False, force=shape)
    assert without_ids(json.loads(reply.body)) == direct[0]


@pytest.mark.parametrize("model", [PLAIN, "live/leading", "live/auto"])
def test_errors_pass_as_they_came(live: Live, model: str, stream: bool) -> None:
    reply = live.ask(model, stream=stream, max_tokens=-1)
    assert 400 <= reply.status < 500
    assert reply.body == reply.exchange.answer
    assert json.loads(reply.body)
