"""The decoder: bytes in any pieces, events out, and not a byte lost."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy import sse
from proxy.sse import Event
from tests.examples import up_to

BOM = b"\xef\xbb\xbf"

CASES = [
    ("one", b"data: a\n\n", [b"a"]),
    ("two", b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
    ("cr", b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
    ("crlf", b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
    (
        "mixed",
        b"data: a\r\r\ndata: b\n\r\ndata: c\r\n\ndata: d\n\rdata: e\n\n",
        [b"a", b"b", b"c", b"d", b"e"],
    ),
    ("no space", b"data:a\n\n", [b"a"]),
    ("one space goes", b"data:  a \n\n", [b" a "]),
    ("several lines", b"data: {\ndata:\ndata: }\n\n", [b"{\n\n}"]),
    ("a line without a colon", b"data\n\n", [b""]),
    ("other fields", b"event: x\nid: 1\nretry: 2\ndata: a\nnodata: b\n\n", [b"a"]),
    ("comment", b": ping\n\ndata: a\n\n", [b"a"]),
    ("comment in an event", b": ping\ndata: a\n: pong\n\n", [b"a"]),
    ("bom", BOM + b"data: a\n\n", [b"a"]),
    ("bom, then cr", BOM + b"data: a\r\r", [b"a"]),
    ("a bom at the start only", b"data: a\n\n" + BOM + b"data: b\n\n", [b"a"]),
    ("two boms", BOM + BOM + b"data: a\n\ndata: b\n\n", [b"b"]),
    ("no blank line", b"data: a\n\ndata: b\n", [b"a", b"b"]),
    ("no line end", b"data: a\n\ndata: b", [b"a", b"b"]),
    ("a lone cr at the end", b"data: a\r", [b"a"]),
    ("blank lines", b"\n\n\n\ndata: a\n\n\n\n\ndata: b\n\n\n", [b"a", b"b"]),
    (
        "line separators are text",
        "data: \u2028\u2029\x85\x0b\x0c\x1c\n\n".encode(),
        ["\u2028\u2029\x85\x0b\x0c\x1c".encode()],
    ),
    ("not UTF-8", b"data: \xff\xed\xa0\x80\x00\n\n", [b"\xff\xed\xa0\x80\x00"]),
    ("nothing", b"", []),
    ("white space", b"\r\n", []),
    ("half a bom", BOM[:2], []),
]


def decode(raw: bytes, cuts: list[int], limit: int = 1000) -> list[Event]:
    decoder = sse.Decoder(limit)
    places = [0, *sorted(cuts), len(raw)]
    events = [event for start, end in pairwise(places) for event in decoder.feed(raw[start:end])]
    return events + decoder.finish()


def data(events: list[Event]) -> list[bytes]:
    return [event.data for event in events if event.data is not None]


def conserve(events: list[Event], raw: bytes) -> None:
    """The events are the stream, but for the end that a last one without one is given."""
    joined = b"".join(event.raw for event in events)
    assert joined.startswith(raw)
    assert joined[len(raw) :] in (b"", b"\n", b"\n\n")
    assert data(sse.Decoder(len(joined)).feed(joined)) == data(events)


@pytest.mark.parametrize(("raw", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_every_cut(raw: bytes, expected: list[bytes]) -> None:
    everywhere = list(range(len(raw)))
    twice = [[first, second] for first in everywhere for second in everywhere if first <= second]
    for cuts in ([], everywhere, *twice):
        events = decode(raw, cuts)
        assert data(events) == expected, cuts
        conserve(events, raw)


LINES = st.sampled_from(
    [b"data: a", b"data:", b"data", b": c", b"event: e", b"id: 1", b"", b"x", BOM, b"data: {\xc3\xa9}", b"da"]
)
BREAKS = st.sampled_from([b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n", b"\n\n\n", b"\r\r\n", b""])


@settings(max_examples=up_to(200))
@given(st.data())
def test_cuts_change_nothing(draw: st.DataObject) -> None:
    pieces = draw.draw(st.lists(st.tuples(LINES, BREAKS), max_size=12))
    raw = b"".join(line + end for line, end in pieces)
    cuts = draw.draw(st.lists(st.integers(0, len(raw)), max_size=8))
    whole, cut = decode(raw, []), decode(raw, cuts)
    assert data(whole) == data(cut)
    assert [event for event in whole if event.data is not None and b"\r" not in event.raw] == [
        event for event in cut if event.data is not None and b"\r" not in event.raw
    ]
    conserve(whole, raw)
    conserve(cut, raw)
    assert data(decode(b"".join(event.raw for event in cut), [])) == data(cut)


@settings(max_examples=up_to(100))
@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=5))
def test_any_bytes(raw: bytes, cuts: list[int]) -> None:
    events = decode(raw, [min(cut, len(raw)) for cut in cuts])
    conserve(events, raw)


@pytest.mark.parametrize("end", [b"\n\n", b"\r\r", b"\r\n\r\n"])
def test_an_event_is_given_out_with_its_last_byte(end: bytes) -> None:
    decoder = sse.Decoder(1000)
    for byte in b"data: a" + end[:-1]:
        held = decoder.feed(bytes([byte]))
    if end == b"\r\n\r\n":
        # The CR alone ends the blank line; nobody waits for its LF.
        assert data(held) == [b"a"]
        assert decoder.feed(b"\n") == [Event(b"\n", None)]
    else:
        assert held == []
        assert data(decoder.feed(end[-1:])) == [b"a"]
    assert data(decoder.feed(b"data: b\n\n")) == [b"b"]


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize(("size", "fits"), [(40, True), (41, False)])
def test_overflow_wherever_the_cut(step: int, size: int, fits: bool) -> None:
    first, large = b"data: a\n\n", b"data: " + b"x" * (size - 8) + b"\n\n"
    raw = first + large + b"data: b\n\n"
    decoder = sse.Decoder(40)
    events = [event for at in range(0, len(raw), step) for event in decoder.feed(raw[at : at + step])]
    events += decoder.finish()
    assert decoder.overflow is not fits
    assert [event.raw for event in events] == ([first, large, b"data: b\n\n"] if fits else [first])


def test_overflow_of_whole_events() -> None:
    decoder = sse.Decoder(40)
    assert data(decoder.feed(b"data: a\n\n")) == [b"a"]
    assert data(decoder.feed(b"data: b\n\n" * 9)) == [b"b"] * 9
    assert data(decoder.feed(b"data: c\n\ndata: %b\n\ndata: d\n\n" % (b"x" * 40))) == [b"c"]
    assert decoder.overflow


def test_overflow_before_the_event_is_complete() -> None:
    decoder = sse.Decoder(40)
    decoder.feed(b"data: ")
    assert not decoder.overflow
    assert decoder.feed(b"x" * 35) == []
    assert decoder.overflow
    assert decoder.feed(b"data: a\n\n") == []
    assert decoder.finish() == []
    assert decoder.overflow


def test_a_large_event_in_small_pieces_is_not_copied_again_and_again() -> None:
    size = 1 << 14
    decoder = sse.Decoder(1 << 20)
    decoder.feed(b": go\n\ndata: ")
    piece = b"x"
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        copied = 0
        for _ in range(size):
            tracemalloc.reset_peak()
            start, _ = tracemalloc.get_traced_memory()
            decoder.feed(piece)
            _, peak = tracemalloc.get_traced_memory()
            # A buffer that is written anew for each piece shows as a peak of its own size.
            copied += max(peak - start - 1024, 0)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert copied < 1000 * size  # written anew each time it would be 8,000 times
    assert after - before < 4 * size
    assert [len(event.data or b"") for event in decoder.feed(b"\n\n")] == [size]


ENCODED = [
    (b"data: a\n\n", b"data: new\n\n"),
    (b"data:a\n\n", b"data: new\n\n"),
    (b"data: a\r\n\r\n", b"data: new\r\n\r\n"),
    (b"event: e\r\ndata: a\r\n\r\n", b"event: e\r\ndata: new\r\n\r\n"),
    (b"event: e\rdata: a\r\r", b"event: e\rdata: new\r\r"),
    (b": c\nid: 1\ndata: a\ndata: b\nretry: 3\n\n", b": c\nid: 1\ndata: new\nretry: 3\n\n"),
    (b"\ndata: a\n\n", b"\ndata: new\n\n"),
    (b"data\n\n", b"data: new\n\n"),
]


@pytest.mark.parametrize(("raw", "expected"), ENCODED)
def test_encode_keeps_the_other_lines(raw: bytes, expected: bytes) -> None:
    (origin,) = decode(raw, []) if not raw.startswith(b"\n") else [Event(raw, b"a")]
    assert sse.encode(b"new", origin) == Event(expected, b"new")
    assert data(decode(expected, [])) == [b"new"]


def test_encode_without_an_origin() -> None:
    assert sse.encode(b"new") == Event(b"data: new\n\n", b"new")


@pytest.mark.parametrize(
    ("raw", "bare"),
    [
        (b"data: a\n\n", True),
        (b"data:a\r\n\r\n", True),
        (b"data: a\rdata: b\r\r", True),
        (b"\ndata: a\n\n", True),
        (b": c\ndata: a\n\n", False),
        (b"data: a\nid: 1\n\n", False),
        (b"event: e\ndata: a\n\n", False),
    ],
)
def test_is_bare(raw: bytes, bare: bool) -> None:
    assert sse.is_bare(Event(raw, b"a")) is bare


def test_a_blank_line_behind_whole_events_stays_by_itself() -> None:
    decoder = sse.Decoder(1 << 20)
    assert [event.raw for event in decoder.feed(b"data: a\n\n")] == [b"data: a\n\n"]
    assert [event.raw for event in decoder.feed(b"data: b\n\n\n")] == [b"data: b\n\n"]
    assert [event.raw for event in decoder.finish()] == [b"\n"]
