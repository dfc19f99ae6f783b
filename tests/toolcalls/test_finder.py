from __future__ import annotations

import json
from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from proxy.calls import dialects
from proxy.calls import finder as limits
from proxy.calls.coercion import write_arguments
from proxy.calls.dialects import DIALECTS, OPENERS, STRAY_CLOSERS
from proxy.calls.finder import BLOCK_LIMIT, HEAD_LIMIT, Finder
from tests.toolcalls.cases import CASES, HERMES, MALFORMED, QWEN, TOOLS, Case
from tests.toolcalls.feeding import blocks, every_cut, find, raw
from tests.toolcalls.scale import at_both_scales, scaled

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
CALL = "<tool_call>get_time</tool_call>"


@each_case
def test_reads_every_dialect(case: Case) -> None:
    text = f"Let me see.\n{case.text}\n"
    reads_what_it_says(case, text, [[], range(len(text))])


@pytest.mark.share
@each_case
def test_reads_every_dialect_however_it_is_cut(case: Case) -> None:
    text = f"Let me see.\n{case.text}\n"
    reads_what_it_says(case, text, every_cut(text))


def reads_what_it_says(case: Case, text: str, all_cuts: Iterable[Sequence[int]]) -> None:
    for cuts in all_cuts:
        pieces, run = find(text, cuts)
        calls = [call for block in blocks(run) for call in block.calls]
        typed = [(call.name, json.loads(write_arguments(call, TOOLS[call.name]))) for call in calls]
        assert pieces == ["Let me see.\n"]
        assert typed == case.calls
        assert tuple(call.id for call in calls if call.id) == case.ids
        assert len(blocks(run)) == case.blocks
        assert raw(run) == f"{case.text}\n"


@pytest.mark.parametrize("case", [case for case in CASES if case.blocks == 1], ids=lambda case: case.name)
def test_a_block_is_raw_text_with_its_envelope(case: Case) -> None:
    _, run = find(case.text)
    assert [block.raw for block in blocks(run)] == [case.text]


@each_case
def test_what_is_cut_off_is_no_call(case: Case) -> None:
    whole = blocks(find(case.text)[1])
    needs_envelope = case.blocks == 1 and not case.text.startswith(tuple(STRAY_CLOSERS))
    for end in range(len(case.text)):
        pieces, run = find(case.text[:end])
        assert raw(pieces) + raw(run) == case.text[:end]
        found = blocks([*pieces, *run])
        assert not (needs_envelope and found)
        for block, full in zip(found, whole, strict=False):
            assert full.raw.startswith(block.raw)
            assert full.calls == block.calls


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_malformed_is_text(text: str) -> None:
    for cuts in ([], range(len(text))):
        assert find(text, cuts) == ([text], [])


@pytest.mark.share
@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_malformed_is_text_however_it_is_cut(text: str) -> None:
    for cuts in every_cut(text):
        assert find(text, cuts) == ([text], [])


@pytest.mark.share
@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_call_behind_what_is_malformed_is_found(text: str) -> None:
    whole = f"{text}\n{QWEN}"
    for cuts in every_cut(whole):
        pieces, run = find(whole, cuts)
        assert pieces == [f"{text}\n"]
        assert [block.raw for block in blocks(run)] == [QWEN]


@pytest.mark.share
@pytest.mark.parametrize(
    "begun",
    [
        "<tool_call><function=read><parameter=path>/x",
        '<tool_call>{"name": "read", "argum',
        "<tool_call>read <arg_key>path",
        "<tool_call><tool_call>",
        "<｜DSML｜tool_calls>",  # noqa: RUF001
    ],
)
def test_a_call_that_was_begun_anew_is_found(begun: str) -> None:
    text = f"{begun}\nNo, better:\n{QWEN}"
    for cuts in every_cut(text):
        pieces, run = find(text, cuts)
        assert pieces == [f"{begun}\nNo, better:\n"]
        assert [block.raw for block in blocks(run)] == [QWEN]


@pytest.mark.share
def test_what_was_read_again_too_often_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"<function=read><parameter=path>{HERMES}<parameter=limit>\n{QWEN}"
    assert [block.raw for block in blocks(find(text)[0])] == [HERMES]
    monkeypatch.setattr(limits, "REREADS", 0)
    for cuts in every_cut(text):
        pieces, run = find(text, cuts)
        assert blocks(pieces) == []
        assert raw(pieces) == text.removesuffix(QWEN)
        assert [block.raw for block in blocks(run)] == [QWEN]


@pytest.mark.share
def test_a_call_quoted_in_one_that_is_cut_off_is_not_found() -> None:
    text = f"<tool_call><function=write><parameter=content>Example: {HERMES}"
    for cuts in every_cut(text):
        assert find(text, cuts) == ([text], [])


def test_drafts_come_before_the_visible_text_that_shows_they_are() -> None:
    finder = Finder()
    assert finder.feed(f"First {QWEN}") == ["First "]
    assert finder.feed("\n\n") == []
    out = finder.feed("no,")
    assert raw(out) == f"{QWEN}\n\nno,"
    assert [block.raw for block in blocks(out)] == [QWEN]
    assert finder.run == []


@pytest.mark.share
def test_drafts_before_a_call() -> None:
    text = f"a {HERMES} b {QWEN} c {QWEN}\n{CALL}\n"
    for cuts in every_cut(text):
        pieces, run = find(text, cuts)
        assert raw(pieces) == f"a {HERMES} b {QWEN} c "
        assert [block.raw for block in blocks(pieces)] == [HERMES, QWEN]
        assert [block.raw for block in blocks(run)] == [QWEN, CALL]


@pytest.mark.share
def test_a_draft_followed_by_a_call_that_is_cut_off_leaves_nothing() -> None:
    text = f"{QWEN}\n<tool_call>\n<function=read>\n<param"
    for cuts in every_cut(text):
        pieces, run = find(text, cuts)
        assert raw(pieces) == text
        assert run == []


def test_text_goes_out_at_the_character_that_disproves_an_opener() -> None:
    finder = Finder()
    for char, expected in (("a", "a"), (" ", " "), ("<", ""), ("t", ""), ("o", ""), ("p", "<top"), ("[", "")):
        assert raw(finder.feed(char)) == expected
    assert raw(finder.feed("T")) == ""
    assert raw(finder.feed("HE")) == "[THE"


def test_prose_goes_out_at_the_character_that_disproves_a_call() -> None:
    finder = Finder()
    assert finder.feed("The <tool_call>") == ["The "]
    assert raw(finder.feed(" tag ")) == ""
    assert raw(finder.feed("i")) == "<tool_call> tag i"


@pytest.mark.share
def test_a_closer_alone_belongs_to_the_call_before_it() -> None:
    call = "<function=get_time>\n</function>"
    for tail in ("</tool_call>", "\n</tool_call>", " \n</seed:tool_call>"):
        for cuts in every_cut(call + tail + "\n"):
            pieces, run = find(call + tail + "\n", cuts)
            assert pieces == []
            assert [block.raw for block in blocks(run)] == [call + tail]
    for tail in ("</tool_call></tool_call>", "x</tool_call>", "</minimax:tool_call>", "</tool_calls>"):
        for cuts in every_cut(call + tail):
            pieces, run = find(call + tail, cuts)
            assert raw(pieces) == call + tail
            assert run == []


def test_a_block_is_held_up_to_its_limit() -> None:
    begin, end = "<tool_call><function=read><parameter=path>", "</parameter></function></tool_call>"
    fits = "x" * (BLOCK_LIMIT - len(begin) - len(end))
    for cuts in ([], [5], [BLOCK_LIMIT - 1], [BLOCK_LIMIT], list(range(0, BLOCK_LIMIT, 1000))):
        pieces, run = find(begin + fits + end, cuts)
        assert (pieces, [block.raw for block in blocks(run)]) == ([], [begin + fits + end])
        assert find(begin + "x" + fits + end, cuts) == ([begin + "x" + fits + end], [])


def test_a_block_past_its_limit_goes_out() -> None:
    finder = Finder()
    begin = "<tool_call><function=read><parameter=path>"
    assert finder.feed(begin + "x" * (BLOCK_LIMIT - len(begin) - 1)) == []
    assert len(raw(finder.feed("x"))) == BLOCK_LIMIT
    assert finder.feed("x") == ["x"]


@at_both_scales
def test_a_run_past_its_limit_is_drafts_up_to_the_next_visible_text(share: int) -> None:
    block = f"<tool_call>{'x' * 200}</tool_call>"
    with scaled(share):
        count = limits.RUN_LIMIT // len(block)
        assert len(blocks(find(block * count)[1])) == count
        pieces, run = find(block * (count + 5))
        assert (raw(pieces), run) == (block * (count + 5), [])
        pieces, run = find(block * (count + 5) + "." + block)
        assert [block.raw for block in blocks(run)] == [block]


def test_white_space_before_anything_visible_is_held_up_to_its_limit() -> None:
    assert find(" " * HEAD_LIMIT + QWEN)[0] == []
    assert find(" " * (HEAD_LIMIT + 1) + QWEN)[0] == [" " * (HEAD_LIMIT + 1)]
    assert find(" " * HEAD_LIMIT) == ([], [" " * HEAD_LIMIT])


def test_passes_only_what_feed_returns_as_it_is() -> None:
    finder = Finder()
    assert not finder.passes("a")
    finder.feed("a")
    assert finder.passes("a ")
    assert not finder.passes("a < b")
    assert not finder.passes("[")
    finder.feed("<")
    assert not finder.passes("a")
    finder.feed(f"= {CALL}")
    assert not finder.passes("a")
    finder.feed("a")
    assert finder.passes("a")


def test_no_marker_is_the_beginning_of_another_that_counts_in_the_same_place() -> None:
    """Else what a text says would depend on how it is cut."""
    together = [tuple(OPENERS)]
    together += [(*OPENERS, *closers) for closers in STRAY_CLOSERS.values()]
    for row in DIALECTS:
        together += [
            tuple(filter(None, (row.call, *row.closers))),
            tuple(filter(None, (row.key, row.call_end, *row.closers))),
            tuple(filter(None, (row.key, row.value_end))),
            row.name_ends,
        ]
    for markers in together:
        assert not [pair for pair in permutations(markers, 2) if pair[1].startswith(pair[0])]


def test_dialects_that_share_an_opener_differ_in_what_follows() -> None:
    for rows in OPENERS.values():
        begins = "".join(row.begins for row in rows)
        assert len(set(begins)) == len(begins)
        assert [row.begins for row in rows].count("") <= 1
        assert all(row.begins for row in rows[:-1]) or len(rows) == 1


def test_every_row_has_a_case() -> None:
    openers = [opener for row in dialects.DIALECTS for opener in row.openers]
    assert not [opener for opener in openers if not any(case.text.startswith(opener) for case in CASES)]
