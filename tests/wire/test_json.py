"""JSON: what servers can write comes back, and whatever it is, reading it raises nothing unforeseen."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy import chat

KEPT = [
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b'{"logprob":NaN,"x":0.5}',
    b'"\\ud83d"',
    b'["\\udc00\\ud83d","\\ud83e\\udd14"]',
    b"18446744073709551615",
    b"18446744073709551616",
    b"-9223372036854775809",
    b"[123456789012345678901234567890,1]",
    b'{"b":1,"a":2,"c":[{},[],""]}',
    b"1.0",
    b"-9999.0",
    b'"\\u0000\\u2028\\"\\\\"',
    '"na\u00efve \U0001f914"'.encode(),
]


@pytest.mark.parametrize("data", KEPT)
def test_what_is_read_is_written(data: bytes) -> None:
    written = chat.write_json(chat.read_json(data))
    assert json.dumps(json.loads(written)) == json.dumps(json.loads(data))
    assert b"\n" not in written


def test_numbers_that_only_python_writes() -> None:
    assert (
        chat.write_json(chat.read_json(b'{"a":NaN,"b":[Infinity,-Infinity]}'))
        == b'{"a":NaN,"b":[Infinity,-Infinity]}'
    )


def test_numbers_beyond_a_double_are_written_as_they_came() -> None:
    data = b'{"a":1e400,"b":[-1E+999,1.50,NaN],"c":0.12345678901234567890}'
    read = chat.read_json(data)
    assert (read["a"], read["b"][0]) == (math.inf, -math.inf)
    assert chat.write_json(read) == data
    assert chat.write_json({"usage": read}) == b'{"usage":%b}' % data


@pytest.mark.parametrize("beside", [b'"\\ud83d"', b"[18446744073709551616]", b'{"\\udc00":[true,null,""]}'])
def test_such_numbers_are_written_as_they_came_beside_what_orjson_refuses(beside: bytes) -> None:
    data = b'{"a":1e400,"b":[-1E+999,1.50,NaN,{"c":[]}],"d":%b}' % beside
    assert chat.write_json(chat.read_json(data)) == data


def test_what_is_no_json_is_not_written() -> None:
    with pytest.raises(TypeError):
        chat.write_json({"a": object()})


REFUSED = [
    b"",
    b" ",
    b"{",
    b"{'a':1}",
    b"[1,]",
    b"[DONE]",
    b"nul",
    b'"\xff"',
    b'"\xed\xa0\x80"',
    b'{"a":1}x',
    b"\xef\xbb\xbf{}",
    '{"a":1}'.encode("utf-16"),
    b"[" * 100_000,
    b"[" * 100_000 + b"]" * 100_000,
    b'{"a":' * 100_000,
    b"1" * 5000,
    b"\x00",
]


@pytest.mark.parametrize("data", REFUSED, ids=lambda data: repr(data[:12]))
def test_what_is_no_json_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the type is what callers rely on
        chat.read_json(data)
    assert chat.read_object(data) is None
    assert chat.read_chunk(data) is None


@pytest.mark.parametrize("data", [b"[]", b"1", b'"x"', b"null", b"true", b"NaN"])
def test_only_objects_are_chunks(data: bytes) -> None:
    assert chat.read_object(data) is None
    assert chat.read_chunk(data) is None


def test_the_last_of_two_equal_keys_counts() -> None:
    assert chat.read_json(b'{"a":1,"b":2,"a":3}') == {"a": 3, "b": 2}
    assert chat.read_json(b'{"a":NaN,"b":2,"a":3}') == {"a": 3, "b": 2}


@pytest.mark.parametrize("opener", [b"[", b'{"a":'])
@pytest.mark.parametrize("depth", [1, chat.MAX_DEPTH - 1, chat.MAX_DEPTH + 1, 500, 1500])
def test_a_chunk_that_was_read_can_be_written(opener: bytes, depth: int) -> None:
    closer = b"]" if opener == b"[" else b"}"
    deep = opener * (depth - 1) + b"{}" + closer * (depth - 1)
    for data in (b'{"x":%b}' % deep, b'{"x":%b,"y":NaN}' % deep, b'{"x":%b,"y":"\\ud83d"}' % deep):
        chunk = chat.read_chunk(data)
        assert (chunk is not None) == (depth < chat.MAX_DEPTH)
        if chunk is not None:
            assert json.loads(chat.write_json(chunk))["x"] == json.loads(deep)


def test_wide_is_not_deep() -> None:
    data = json.dumps({"x": [[{}] for _ in range(5000)]}).encode()
    assert chat.read_chunk(data) == json.loads(data)
    assert not chat.is_deep(json.loads(data))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_any_value_of_pythons_servers(value: Any) -> None:
    data = json.dumps(value).encode()
    assert json.dumps(json.loads(chat.write_json(chat.read_json(data)))).encode() == data


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_reading_raises_nothing_else(data: bytes) -> None:
    chat.read_chunk(data)
