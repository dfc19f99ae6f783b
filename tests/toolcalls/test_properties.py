"""Whatever a model writes: the same under every cut, nothing lost, nothing raised, and work in proportion."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proxy.calls import finder as limits
from proxy.calls.call import Call, CallBlock, Parameter
from proxy.calls.coercion import write_arguments
from proxy.calls.dialects import DIALECTS
from proxy.calls.finder import Finder
from tests.counting import lines_run
from tests.examples import up_to
from tests.toolcalls.cases import CASES, MALFORMED, QWEN, TOOLS
from tests.toolcalls.feeding import C, R, find, raw, recover, watch
from tests.toolcalls.scale import at_both_scales, scaled

many = settings(max_examples=up_to(200))

MARKERS = sorted(
    {
        marker
        for row in DIALECTS
        for marker in (
            *row.openers,
            *row.closers,
            row.call,
            *row.name_ends,
            row.call_end,
            row.key,
            row.key_end,
            row.value,
            row.value_end,
            row.fence,
        )
        if marker
    }
)
BITS = [
    *MARKERS,
    "read",
    "get_time",
    "function",
    '{"name": "read"}',
    "{}",
    '"',
    "\\",
    "\n",
    " ",
    "x",
    ":0",
    "```json",
]
WHOLE = [case.text for case in CASES] + list(MALFORMED.values())

texts = st.lists(
    st.one_of(st.sampled_from(BITS), st.sampled_from(WHOLE), st.text(max_size=4)), max_size=14
).map("".join)


@many
@given(texts, st.lists(st.integers(0, 400), max_size=12))
@example("<tool_call>\n<tool_call>read</tool_call>", [11])
@example("<function=read></function>\n</tool_call>x", [27, 30])
def test_a_text_says_the_same_under_every_cut(text: str, places: list[int]) -> None:
    whole = find(text)
    assert find(text, [place for place in places if place <= len(text)]) == whole
    assert find(text, range(len(text))) == whole


@many
@given(texts, st.integers(1, 40))
def test_nothing_is_lost(text: str, size: int) -> None:
    pieces, run = find(text, range(0, len(text), size))
    assert raw(pieces) + raw(run) == text
    assert all(
        isinstance(piece, CallBlock) or piece.isspace() or not piece.strip("\ufeff\u200b \n\t\r")
        for piece in run
    )


@many
@given(texts, st.integers(1, 40))
def test_nothing_is_lost_when_text_may_rarely_be_read_again(text: str, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "REREADS", 1)
        patch.setattr(limits, "BLOCK_LIMIT", 60)
        patch.setattr(limits, "RUN_LIMIT", 90)
        patch.setattr(limits, "HEAD_LIMIT", 3)
        whole = find(text)
        assert find(text, range(0, len(text), size)) == whole
        assert raw(whole[0]) + raw(whole[1]) == text


@many
@given(texts)
def test_held_text_can_still_become_a_call(text: str) -> None:
    """What has gone out never comes back, and behind visible text nothing complete is held."""
    finder = Finder()
    out = ""
    for char in text:
        out += raw(finder.feed(char))
        assert text.startswith(out)
    out += raw(finder.finish())
    assert out + raw(finder.run) == text


spans = st.lists(st.tuples(st.sampled_from([R, R, C]), texts.filter(bool)), max_size=4)


@many
@given(spans, st.integers(1, 50), st.booleans())
@example([(C, "\n"), (R, QWEN)], 1, True)
def test_what_is_not_recovered_is_said_as_without_recovery(
    parts: list[tuple[Any, str]], size: int, stopped: bool
) -> None:
    cuts = range(0, 2000, size)
    plain: list[tuple[Any, str]] = []
    for channel, text in parts:
        if plain and plain[-1][0] is channel:
            plain[-1] = channel, plain[-1][1] + text
        else:
            plain.append((channel, text))
    out, recovery = recover(plain, TOOLS, cuts, stopped=stopped)
    if not recovery.calls:
        assert out == plain
    else:
        assert stopped
        said = "".join(text for _, text in plain)
        assert len("".join(text for _, text in out)) < len(said)
        assert all(call.name in TOOLS for call in recovery.calls)
        begun = out[:1] if plain[0][0] is C else []  # white space before the thinking is out already
        assert begun in ([], plain[:1])
        assert not any(channel is C for channel, _ in out[len(begun) :])
    noted, watching = watch(plain, TOOLS, cuts, stopped=stopped)
    assert noted == plain
    assert (watching.left.blocks if watching.left else []) == recovery.blocks
    if watching.left:
        assert watching.left.thought == "".join(text for channel, text in plain if channel is R)
        assert watching.left.content == "".join(text for channel, text in plain if channel is C)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
WORDS = """type enum anyOf oneOf allOf $ref properties items prefixItems additionalProperties x string integer
number boolean object array null # #/properties/x #/anyOf/0"""
words = st.sampled_from(WORDS.split())
schemas = st.recursive(
    words | st.none() | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
    max_leaves=15,
)


@many
@given(schemas, st.text(max_size=8) | json_values.map(json.dumps), st.sampled_from([None, True, False]))
def test_typing_never_fails_and_gives_json(schema: Any, text: str, is_string: bool | None) -> None:
    written = write_arguments(Call("f", (Parameter("x", text, is_string),)), schema)
    assert set(json.loads(written, parse_constant=pytest.fail)) == {"x"}
    assert set(json.loads(write_arguments(Call("f", {"x": text}), schema))) == {"x"}


@many
@given(json_values)
def test_without_a_schema_arguments_stay_as_they_are(value: Any) -> None:
    assert json.loads(write_arguments(Call("f", {"x": value}), None)) == {"x": value}


FULL = 1 << 17
"""Code points: work that grew with the square would not come to an end."""

HOSTILE = {
    "prose": "word ",
    "angle brackets": "<",
    "openers": "<tool_call>",
    "openers and text": "<tool_call> and ",
    "functions": "<function=read>",
    "keys": "<function=read><parameter=path>x",
    "JSON that never ends": '<tool_call>{"a',
    "JSON that breaks after a while": '<tool_call>{"a": "' + 'x<tool_call>{"' * 40 + "\n",
    "blocks": QWEN,
    "blocks and prose": QWEN + "x",
    "lists": "<tool_call>[[[[",
    "names": "<function=" + "x" * 200,
    "white space in a block": "<tool_call>     ",
    "white space": " \n",
    "closers that stray": "<function=read></function>\n</tool_call>",
    "sections": "<|tool_calls_section_begin|>",
    "values that end in values": "<tool_call>x<arg_key>k</arg_key><arg_value><tool_call>",
}


@pytest.mark.slow
@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("by", [1, 0], ids=["by character", "whole"])
def test_work_is_in_proportion_to_the_text(unit: str, by: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "BLOCK_LIMIT", 300)
        patch.setattr(limits, "RUN_LIMIT", 1000)
        patch.setattr(limits, "HEAD_LIMIT", 50)
        small, large = ((unit * (size // len(unit) + 1))[:size] for size in (1250, 5000))
        work = [
            lines_run(lambda text=text: find(text, range(0, len(text), by or len(text))))  # type: ignore[misc]
            for text in (small, large)
        ]
    assert work[0] > 0
    assert work[1] <= 4.6 * work[0] + 200


@at_both_scales
@pytest.mark.parametrize("unit", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_long_text_comes_to_an_end(unit: str, share: int) -> None:
    full = FULL // share
    text = (unit * (full // len(unit) + 1))[:full]
    with scaled(share):
        for size in (full, 1000 // share):
            pieces, run = find(text, range(0, len(text), size))
            assert len(raw(pieces)) + len(raw(run)) == len(text)


@at_both_scales
def test_a_block_at_its_limit_one_character_at_a_time(share: int) -> None:
    with scaled(share):
        text = "<tool_call><function=read><parameter=path>" + "x" * (limits.BLOCK_LIMIT + 5)
        finder = Finder()
        out = [piece for char in text for piece in finder.feed(char)]
        assert raw([*out, *finder.finish()]) == text
