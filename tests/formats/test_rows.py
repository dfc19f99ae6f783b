"""Each row of the table under every cut and every start, next to texts that almost are its markers."""

from __future__ import annotations

import pytest

from proxy.rules import TAG_SETS, Rule, Start, TagSet, Unterminated, Whitespace
from tests.examples import IS_FULL, share_of
from tests.formats.rows import ALL, EACH_ONCE, PAIRS, ROWS, C, R, near_misses, pair_id, split
from tests.wire import streams

pytestmark = pytest.mark.share

openers = pytest.mark.parametrize(
    ("row", "opener"), [(row, opener) for row in ALL for opener in row.openers], ids=pair_id
)
closers = pytest.mark.parametrize(
    ("row", "closer"), [(row, closer) for row in ALL for closer in row.closers], ids=pair_id
)
pairs = pytest.mark.parametrize(("row", "opener", "closer"), PAIRS if IS_FULL else EACH_ONCE, ids=pair_id)


def rule(row: TagSet, start: Start = Start.LEADING, **options: object) -> Rule:
    return Rule(tags=row, start=start, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("row", "opener", "closer"), PAIRS, ids=pair_id)
@pytest.mark.parametrize("start", [Start.LEADING, Start.IMPLICIT, Start.ANYWHERE])
def test_a_leading_block(row: TagSet, opener: str, closer: str, start: Start) -> None:
    assert split(f"{opener}r 🤔{closer}é x", rule(row, start)) == [(R, "r 🤔"), (C, "é x")]


@pairs
def test_white_space_around_a_leading_block(row: TagSet, opener: str, closer: str) -> None:
    text = f" \n{opener}\nr\n{closer}\n\n  x\n"
    assert split(text, rule(row)) == [(R, "\nr\n"), (C, "  x\n")]
    exact = rule(row, whitespace=Whitespace.EXACT)
    assert split(text, exact) == [(R, "\nr\n"), (C, " \n\n\n  x\n")]


@pairs
def test_an_empty_block(row: TagSet, opener: str, closer: str) -> None:
    assert split(f"{opener}\n\n{closer}\n\nx", rule(row)) == [(C, "x")]


@pairs
def test_a_block_that_the_prompt_opened(row: TagSet, opener: str, closer: str) -> None:
    implicit = rule(row, Start.IMPLICIT)
    assert split(f"r1 r2{closer}x", implicit) == [(R, "r1 r2"), (C, "x")]
    assert split(f"{closer}x", implicit) == [(C, "x")]
    assert split(f"\n{closer}\n\nx", implicit) == [(C, "x")]
    assert split(f"r {opener}s{closer}x", implicit) == [(R, f"r {opener}s"), (C, "x")]
    assert split("r", implicit) == [(R, "r")]


@pairs
def test_a_block_behind_text(row: TagSet, opener: str, closer: str) -> None:
    text = f"Say. {opener}r{closer} y"
    assert split(text, rule(row)) == [(C, text)]
    assert split(text, rule(row, Start.ANYWHERE)) == [(C, "Say. "), (R, "r"), (C, " y")]
    code = f"`{opener}r{closer}` y"
    assert split(code, rule(row, Start.ANYWHERE)) == [(C, code)]


@pairs
def test_later_blocks(row: TagSet, opener: str, closer: str) -> None:
    text = f"{opener}1{closer}a {opener}2{closer}b\n{opener}3{closer}c"
    later = [(R, "1"), (C, "a "), (R, "2"), (C, "b\n"), (R, "3"), (C, "c")]
    assert split(text, rule(row)) == later
    assert split(text, rule(row, interleaved=False)) == [(R, "1"), (C, text.partition(closer)[2])]
    code = f"{opener}1{closer}`{opener}`"
    assert split(code, rule(row)) == [(R, "1"), (C, f"`{opener}`")]


@pairs
def test_a_nested_opener(row: TagSet, opener: str, closer: str) -> None:
    text = f"{opener}a{opener}b{closer}.{closer}d{closer}e"
    assert split(text, rule(row)) == [(R, f"a{opener}b"), (C, f".d{closer}e")]


@pairs
def test_a_block_that_never_closes(row: TagSet, opener: str, closer: str) -> None:
    text = f"{opener}r{closer[:-1]}"
    assert split(text, rule(row), cut=True) == [(R, f"r{closer[:-1]}")]
    assert split(text, rule(row, unterminated=Unterminated.CONTENT)) == [(C, text)]


@openers
def test_half_an_opener(row: TagSet, opener: str) -> None:
    closer = row.closers[0]
    for end in range(1, len(opener)):
        half = opener[:end]
        assert split(half, rule(row)) == [(C, half)]
        later = split(f"{opener}r{closer}x {half}", rule(row), every_two_cut=0)
        assert later == [(R, "r"), (C, f"x {half}")]


@openers
def test_what_is_almost_an_opener_begins_nothing(row: TagSet, opener: str) -> None:
    closer = row.closers[0]
    for near in near_misses(opener, row):
        assert split(f"{near}r", rule(row), every_two_cut=0) == [(C, f"{near}r")]
        text = f"a {near}r"
        assert split(text, rule(row, Start.ANYWHERE), every_two_cut=0) == [(C, text)]
        later = split(f"{opener}r{closer}x\n{near}y", rule(row), every_two_cut=0)
        assert later == [(R, "r"), (C, f"x\n{near}y")]


@closers
def test_what_is_almost_a_closer_ends_nothing(row: TagSet, closer: str) -> None:
    opener = row.openers[0]
    for near in near_misses(closer, row):
        expected = [(R, f"r{near}s"), (C, "x")]
        assert split(f"{opener}r{near}s{closer}x", rule(row), every_two_cut=0) == expected
        assert split(f"r{near}s{closer}x", rule(row, Start.IMPLICIT), every_two_cut=0) == expected


@pytest.mark.parametrize("row", ALL, ids=pair_id)
def test_every_marker_has_near_misses(row: TagSet) -> None:
    for marker in (*row.openers, *row.closers):
        assert len(near_misses(marker, row)) >= 3


@pytest.mark.parametrize("row", ROWS, ids=pair_id)
def test_other_rows_markers_are_text(row: TagSet) -> None:
    own = {marker.casefold() for marker in (*row.openers, *row.closers)}
    for other in ROWS:
        for opener, closer in zip(other.openers, other.closers, strict=True):
            if opener.casefold() not in own and closer.casefold() not in own:
                text = f"{opener}r{closer}x"
                assert split(text, rule(row)) == [(C, text)]


def stream(text: str) -> bytes:
    """The text as vLLM sends it, a character at a time, with the characters themselves on the wire."""
    first = streams.event(streams.chunk(streams.choice({"role": "assistant", "content": ""})))
    last = streams.event(streams.chunk(streams.choice({}, finish="stop")))
    return first + b"".join(map(streams.say, text)) + last + streams.DONE


def inside_characters(raw: bytes) -> list[int]:
    """The places at which a cut goes through a character."""
    return [place for place, byte in enumerate(raw) if byte & 0xC0 == 0x80]


@pytest.mark.parametrize("row", ALL, ids=pair_id)
@pytest.mark.parametrize("start", [Start.LEADING, Start.IMPLICIT, Start.ANYWHERE])
def test_on_the_wire(row: TagSet, start: Start) -> None:
    text = f"{row.openers[-1]}é◁r🤔{row.closers[0]}🤔 é▷x"
    raw = stream(text)
    places = inside_characters(raw)
    assert len(places) >= 10
    expected = [("reasoning_content", "é◁r🤔"), ("content", "🤔 é▷x")]
    for cuts in [[], range(len(raw)), places, *([place] for place in share_of(places))]:
        out = streams.rewrite(raw, rule(row, start), cuts)
        assert streams.fold_spans(out) == expected, cuts


K3_OPEN, K3_CLOSE = "<|open|>response<|sep|>", "<|close|>response<|sep|>"
K3_END = "<|close|>message<|sep|>"
K3_T = "<|open|>think<|sep|>r<|close|>think<|sep|>"
COHERE_T = "<|START_THINKING|>r<|END_THINKING|>"
T = "<think>r</think>"

WRAPPED = [
    # name, text, reasoning, content
    ("hunyuan", "<think>\nr\n</think>\n<answer>\nx\n</answer>", "\nr\n", "x"),
    ("hunyuan", T + "<answer>x</answer>", "r", "x"),
    ("hunyuan", T + "<answer>\r\nx\r\n</answer>", "r", "x"),
    ("hunyuan", T + "<answer>\rx\r</answer>", "r", "x"),
    ("hunyuan", T + "<answer>\n\n  x\n\n</answer>", "r", "  x\n"),
    ("hunyuan", T + "\n\n<answer>x</answer>y", "r", "xy"),
    ("hunyuan", T + "<answer>x</answer>\ny", "r", "x\ny"),
    ("hunyuan", T + "<answer>x</answer><answer>y</answer>", "r", "x<answer>y</answer>"),
    ("hunyuan", T + "<answer>x<answer>y</answer>", "r", "x<answer>y"),
    ("hunyuan", T + "<answer>x", "r", "x"),
    ("hunyuan", T + "<answer>\nx\n", "r", "x\n"),
    ("hunyuan", T + "<answer>x\n</answe", "r", "x\n</answe"),
    ("hunyuan", T + "<answer></answer>", "r", ""),
    ("hunyuan", T + "<answer>\n</answer>", "r", ""),
    ("hunyuan", T + "a<answer>x</answer>", "r", "a<answer>x</answer>"),
    ("hunyuan", T + "a\n<answer>\nx\n</answer>", "r", "a\n<answer>\nx\n</answer>"),
    ("hunyuan", T + "x</answer>", "r", "x</answer>"),
    ("hunyuan", T + "<answers>x", "r", "<answers>x"),
    ("hunyuan", T + "<answer >x", "r", "<answer >x"),
    ("hunyuan", T + "<ANSWER>x</ANSWER>", "r", "<ANSWER>x</ANSWER>"),
    ("hunyuan", T + "<answer>`</answer>` y</answer>", "r", "`</answer>` y"),
    # Behind a fence, which its line's end closes: the tag is not on that line.
    ("hunyuan", T + "\n<answer>\n```py\nx\n```\n</answer>", "r", "```py\nx\n```"),
    ("hunyuan", T + "<answer>\r\n```\r\nx\r\n```\r\n</answer>", "r", "```\r\nx\r\n```"),
    ("hunyuan", T + "<answer>\n~~~\nx\n  ~~~ </answer>y", "r", "~~~\nx\n  ~~~ y"),
    ("hunyuan", T + "<answer>\n```\nx\n```\n\n</answer>", "r", "```\nx\n```\n"),
    ("hunyuan", T + "<answer>\n```\n</answer>\n```\n</answer>", "r", "```\n</answer>\n```"),
    ("hunyuan", T + "<answer>```\nx\n``` y</answer>\n```\n</answer>", "r", "```\nx\n``` y</answer>\n```"),
    ("hunyuan", T + "<answer>\n```\nx\n```\n</answe", "r", "```\nx\n```\n</answe"),
    # A stray backtick.
    ("hunyuan", T + "<answer>a ` b\nx\n</answer>", "r", "a ` b\nx"),
    ("hunyuan", T + "<answer>a ` b </answer> c\n</answer>", "r", "a ` b </answer> c"),
    # White space before the tag is not the answer's own.
    ("hunyuan", T + "\n <answer>\nx\n</answer>", "r", "x"),
    ("hunyuan", T + "  <answer>  x</answer>", "r", "  x"),
    ("hunyuan", T + "<response>x</response>", "r", "<response>x</response>"),
    ("hunyuan", "<think>a <answer>b</answer></think>x", "a <answer>b</answer>", "x"),
    ("hunyuan", "<answer>x</answer>", "", "<answer>x</answer>"),
    ("hunyuan", "<think>\n\n</think>\n<answer>\nx\n</answer>", "", "x"),
    ("ernie", "<think>\nr\n</think>\n\n<response>\nx\n</response>", "\nr\n", "x"),
    ("ernie", T + "<response>\n```\nx\n```</response>", "r", "```\nx\n```"),
    ("ernie", T + "\n\nx", "r", "x"),
    ("ernie", T + "<response>\nx <response>", "r", "x <response>"),
    ("ernie", T + "<answer>x</answer>", "r", "<answer>x</answer>"),
    ("cohere", COHERE_T + "<|START_RESPONSE|>x<|END_RESPONSE|>", "r", "x"),
    ("cohere", COHERE_T + "<|START_TEXT|>x<|END_TEXT|>", "r", "x"),
    ("cohere", COHERE_T + "\n<|START_TEXT|>\nx\n<|END_TEXT|>", "r", "x\n"),
    ("cohere", "<|START_RESPONSE|>x<|END_RESPONSE|>", "", "x"),
    ("cohere", "<|START_TEXT|>x<|END_TEXT|>", "", "x"),
    ("cohere", COHERE_T + "  <|END_TEXT|>  x", "r", "    x"),
    ("cohere", "x<|END_RESPONSE|>", "", "x"),
    ("cohere", "x<|END_TEXT|>", "", "x"),
    ("cohere", "x", "", "x"),
    ("cohere", COHERE_T + "x", "r", "x"),
    ("cohere", COHERE_T + "<|START_RESPONSE|>`x<|END_RESPONSE|>", "r", "`x"),
    ("cohere", COHERE_T + "<|START_RESPONSE|>a<|START_RESPONSE|>b", "r", "a<|START_RESPONSE|>b"),
    ("cohere", COHERE_T + "a<|START_RESPONSE|>b", "r", "a<|START_RESPONSE|>b"),
    ("cohere", "a<|START_RESPONSE|>b", "", "a<|START_RESPONSE|>b"),
    ("cohere", COHERE_T + "<|START_RESPONS|>x<|END_RESPONS", "r", "<|START_RESPONS|>x<|END_RESPONS"),
    ("kimi-k3", K3_T + K3_OPEN + "x" + K3_CLOSE + K3_END, "r", "x"),
    ("kimi-k3", K3_T + K3_OPEN + "\nx\n" + K3_CLOSE, "r", "x\n"),
    ("kimi-k3", K3_OPEN + "x" + K3_CLOSE + K3_END, "", "x"),
    ("kimi-k3", "x" + K3_CLOSE + K3_END, "", "x"),
    ("kimi-k3", "x" + K3_END, "", "x"),
    ("kimi-k3", "x<|close|>", "", "x<|close|>"),
    ("kimi-k3", "x<|close|>response", "", "x<|close|>response"),
    ("kimi-k3", "```\nx" + K3_CLOSE + K3_END, "", "```\nx"),
    ("kimi-k3", K3_T + "x", "r", "x"),
    ("kimi-k3", K3_T, "r", ""),
]


@pytest.mark.parametrize(("name", "text", "thought", "content"), WRAPPED)
def test_a_wrapped_answer(name: str, text: str, thought: str, content: str) -> None:
    expected = [piece for piece in ((R, thought), (C, content)) if piece[1]]
    assert split(text, rule(TAG_SETS[name])) == expected


@pytest.mark.parametrize(("name", "text", "thought", "content"), [case for case in WRAPPED if case[2]])
def test_a_wrapped_answer_to_a_prompt_that_opened(name: str, text: str, thought: str, content: str) -> None:
    expected = [piece for piece in ((R, thought), (C, content)) if piece[1]]
    implicit = rule(TAG_SETS[name], Start.IMPLICIT)
    assert split(text, implicit) == expected
    opener = TAG_SETS[name].openers[0]
    assert split(text.removeprefix(opener), implicit) == expected


def test_a_wrapped_answer_keeps_its_white_space_with_exact() -> None:
    exact = Whitespace.EXACT
    hunyuan = rule(TAG_SETS["hunyuan"], whitespace=exact)
    assert split(T + "\n\n<answer>\n\n x \n\n</answer>\n", hunyuan) == [(R, "r"), (C, "\n\n\n x \n\n")]
    for end in ("\n", "\r", "\r\n"):
        inside = split(f"{T}<answer>{end}{end}x{end}{end}</answer>", hunyuan)
        assert inside == [(R, "r"), (C, f"{end}x{end}")]
    cohere = rule(TAG_SETS["cohere"], whitespace=exact)
    text = COHERE_T + "\n<|START_TEXT|>\nx\n<|END_TEXT|>\n"
    assert split(text, cohere) == [(R, "r"), (C, "\n\nx\n\n")]


M3 = [
    ("</mm:think>x", [(C, "x")]),
    ("\n </mm:think>\n\nx", [(C, "x")]),
    ("</mm:think></mm:think>x", [(C, "</mm:think>x")]),
    ("x</mm:think>y", [(C, "x</mm:think>y")]),
    ("</mm:thinkx", [(C, "</mm:thinkx")]),
    ("</mm:think", [(C, "</mm:think")]),
    ("</mm:think>", []),
    ("</mm:think><mm:think>r</mm:think>x", [(R, "r"), (C, "x")]),
    ("</mm:think>a\n<mm:think>r</mm:think>x", [(C, "a\n"), (R, "r"), (C, "x")]),
]


@pytest.mark.parametrize(
    ("text", "pieces", "start"),
    [
        (text, pieces, start)
        for text, pieces in M3
        for start in (Start.LEADING, Start.IMPLICIT, Start.ANYWHERE)
        # Where the prompt opened the thinking, anything else before the closer is thought.
        if start is not Start.IMPLICIT or text.lstrip().startswith("</mm:think>")
    ],
)
def test_a_stray_closer_of_minimax_m3(text: str, pieces: list[tuple[object, str]], start: Start) -> None:
    assert split(text, rule(TAG_SETS["minimax-m3"], start)) == pieces


@pytest.mark.parametrize("row", [row for row in ROWS if not row.stray_closer], ids=pair_id)
def test_a_stray_closer_of_any_other_row_is_text(row: TagSet) -> None:
    for closer in row.closers:
        assert split(f"{closer}x", rule(row)) == [(C, f"{closer}x")]


def test_a_marker_that_ends_another() -> None:
    row = next(row for row in ALL if row.name == "ends alike")
    assert split("x<a>r</a>y", rule(row)) == [(R, "r"), (C, "y")]
    assert split("<a>rx</a>y", rule(row)) == [(R, "r"), (C, "y")]
    assert split("<a>r</a>yx<a>s</a>z", rule(row)) == [(R, "r"), (C, "y"), (R, "s"), (C, "z")]
    assert split("xx<a>r</a>y", rule(row)) == [(C, "xx<a>r</a>y")]
    assert split("x<b", rule(row)) == [(C, "x<b")]
