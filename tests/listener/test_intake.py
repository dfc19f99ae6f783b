"""What is read is the same however it comes in."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.errors import HeaderSizeError, MalformedError, ProxyError
from proxy.intake import End, Event, Intake, Phase, RequestHead
from tests.listener.test_fuzz import requests
from tests.transport import wire

LIMIT = 300

Made = list[RequestHead | bytes | End | type[ProxyError]]


def read(raw: bytes, cuts: list[int]) -> tuple[Made, Phase]:
    """Return what comes of bytes cut at these places, pieces of a body joined, and the phase at the end."""
    intake = Intake()
    made: Made = []
    for start, end in pairwise([0, *sorted(cut % (len(raw) + 1) for cut in cuts), len(raw)]):
        if start == end:
            continue
        events: list[Event] = intake.feed(raw[start:end], LIMIT)
        assert not any(isinstance(event, ProxyError) for event in events[:-1])
        for event in events:
            if isinstance(event, bytes) and made and isinstance(made[-1], bytes):
                made[-1] += event
            else:
                made.append(type(event) if isinstance(event, ProxyError) else event)
        if events and isinstance(events[-1], ProxyError):
            break
    return made, intake.phase


cuts = st.lists(st.integers(0, 2000), max_size=6)
OFFER = wire.request("/v1/embeddings", b"body", "connection: upgrade", "upgrade: h2c")
CHUNKS = (
    wire.request("/v1/embeddings", b"", "transfer-encoding: chunked") + wire.chunk(b"ab") + wire.LAST_CHUNK
)


@given(st.lists(requests(), max_size=3).map(b"".join), cuts)
@example(OFFER + CHUNKS + OFFER, [*range(400)])
@example(b"\r\n\r\n" + CHUNKS + b"nonsense\r\n\r\n", [*range(300)])
def test_cuts_change_nothing(raw: bytes, places: list[int]) -> None:
    whole, phase = read(raw, [])
    made, cut_phase = read(raw, places)
    if HeaderSizeError in (whole[-1:] + made[-1:]):
        # How much of what frames a body is counted depends on what comes with it; a head's size does not.
        heads = [[it for it in found if isinstance(it, RequestHead)] for found in (whole, made)]
        shorter = min(map(len, heads))
        assert heads[0][:shorter] == heads[1][:shorter]
    else:
        assert (made, cut_phase) == (whole, phase)


def test_a_request_is_its_head_its_body_and_its_end() -> None:
    events = Intake().feed(OFFER, LIMIT)
    (head, body, end) = events
    assert isinstance(head, RequestHead)
    assert (head.method, head.path, head.query, head.version, head.lasts) == (
        "POST",
        b"/v1/embeddings",
        b"",
        "1.1",
        True,
    )
    assert head.headers == [
        (b"host", b"proxy.test"),
        (b"connection", b"upgrade"),
        (b"content-length", b"4"),
    ]
    assert (body, end) == (b"body", End.END)


@pytest.mark.parametrize(
    ("line", "version", "waits"),
    [
        (b"expect: 100-continue", b"1.1", True),
        (b"Expect: 100-Continue", b"1.1", True),
        (b"expect: something", b"1.1", False),
        (b"x: 100-continue", b"1.1", False),
        (b"expect: 100-continue", b"1.0", False),
    ],
)
def test_who_waits_for_leave(line: bytes, version: bytes, waits: bool) -> None:
    (head, _) = Intake().feed(b"GET / HTTP/%b\r\nhost: a\r\n%b\r\n\r\n" % (version, line), LIMIT)
    assert isinstance(head, RequestHead)
    assert head.waits is waits


@pytest.mark.parametrize("target", [b"http://host", b"http://host?a"])
def test_an_absolute_target_without_a_path_means_the_root(target: bytes) -> None:
    (head, _) = Intake().feed(b"GET %b HTTP/1.1\r\nhost: a\r\n\r\n" % target, LIMIT)
    assert isinstance(head, RequestHead)
    assert head.path == b"/"


def test_what_is_wrong_is_the_last_event() -> None:
    *before, error = Intake().feed(CHUNKS + b"nonsense\r\n\r\n" + CHUNKS, LIMIT)
    assert len(before) == 3
    assert isinstance(error, MalformedError)
