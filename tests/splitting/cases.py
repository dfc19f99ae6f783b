"""The table: what goes in, under which rule, and what must come out.

Each sentence of the specification has at least one row here. `R` is reasoning out, `C` is content out, and `CALL`
among the expected spans is where a `tool_calls` delta comes; the input is then a tuple with the text around it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from proxy.rules import Rule, Start, Unterminated, Whitespace
from proxy.splitter import Channel

Piece = tuple[Channel, str]


def R(text: str) -> Piece:  # noqa: N802 - the specification's own notation
    return Channel.REASONING, text


def C(text: str) -> Piece:  # noqa: N802 - the specification's own notation
    return Channel.CONTENT, text


class Call:
    """A `tool_calls` delta among the expected spans."""


CALL = Call()

DEFAULT = Rule()
EXACT = replace(DEFAULT, whitespace=Whitespace.EXACT)
SINGLE = replace(DEFAULT, interleaved=False)
PLAIN = replace(DEFAULT, code_aware=False)
GIVE_BACK = replace(DEFAULT, unterminated=Unterminated.CONTENT)
GIVE_BACK_EXACT = replace(GIVE_BACK, whitespace=Whitespace.EXACT)
IMPLICIT = replace(DEFAULT, start=Start.IMPLICIT)
IMPLICIT_EXACT = replace(IMPLICIT, whitespace=Whitespace.EXACT)
IMPLICIT_GIVE_BACK = replace(IMPLICIT, unterminated=Unterminated.CONTENT)
ANYWHERE = replace(DEFAULT, start=Start.ANYWHERE)
ANYWHERE_EXACT = replace(ANYWHERE, whitespace=Whitespace.EXACT)
ANYWHERE_SINGLE = replace(ANYWHERE, interleaved=False)
ANYWHERE_PLAIN = replace(ANYWHERE, code_aware=False)
ANYWHERE_GIVE_BACK = replace(ANYWHERE, unterminated=Unterminated.CONTENT)


@dataclass(frozen=True)
class Case:
    """One row: `parts` are the texts between the interrupts, `expected` what comes out for each of them."""

    name: str
    rule: Rule
    parts: tuple[str, ...]
    expected: tuple[tuple[Piece, ...], ...]
    cut: bool = False


def row(
    name: str, rule: Rule, text: str | tuple[str, ...], *expected: Piece | Call, cut: bool = False
) -> Case:
    parts: list[tuple[Piece, ...]] = [()]
    for piece in expected:
        if isinstance(piece, Call):
            parts.append(())
        else:
            parts[-1] += (piece,)
    texts = (text,) if isinstance(text, str) else text
    assert len(texts) == len(parts), name
    return Case(name, rule, texts, tuple(parts), cut)


def cut(name: str, rule: Rule, text: str, *expected: Piece) -> Case:
    """A turn that did not end by itself: length, a stop string, an error, a broken connection."""
    return row(name, rule, text, *expected, cut=True)


T = "<think>r</think>"
"""A leading block, as in the specification's examples."""

MARKERS = [
    row("plain block", DEFAULT, "<think>r</think>x", R("r"), C("x")),
    row("nothing", DEFAULT, ""),
    row("no marker", DEFAULT, "Hello, world.\n", C("Hello, world.\n")),
    row("thinking", DEFAULT, "<thinking>r</thinking>x", R("r"), C("x")),
    row("reasoning", DEFAULT, "<reasoning>r</reasoning>x", R("r"), C("x")),
    row("thought", DEFAULT, "<thought>r</thought>x", R("r"), C("x")),
    row("any closer closes any opener", DEFAULT, "<think>r</thinking>x", R("r"), C("x")),
    row("any closer closes any opener, back", DEFAULT, "<reasoning>r</thought>x", R("r"), C("x")),
    row("case does not matter", DEFAULT, "<THINK>r</ThInKiNg>x", R("r"), C("x")),
    row("kelvin sign is no k, opener", DEFAULT, "<thin\u212a>r</think>x", C("<thin\u212a>r</think>x")),
    row("kelvin sign is no k, closer", DEFAULT, "<think>r</thin\u212a>x</think>y", R("r</thin\u212a>x"), C("y")),
    row("dotless i is no i", DEFAULT, "<th\u0131nk>r</think>x", C("<th\u0131nk>r</think>x")),
    row("long s is no s", DEFAULT, "<rea\u017foning>r</think>x", C("<rea\u017foning>r</think>x")),
    row("padding", DEFAULT, "<think \t>r</think\t >x", R("r"), C("x")),
    row("64 of padding", DEFAULT, f"<think{' ' * 64}>r</think{chr(9) * 64}>x", R("r"), C("x")),
    row("65 of padding, opener", DEFAULT, f"<think{' ' * 65}>r{T}", C(f"<think{' ' * 65}>r{T}")),
    row("65 of padding, closer", DEFAULT, f"<think>r</think{' ' * 65}>x", R(f"r</think{' ' * 65}>x")),
    row("padding is not a line break", DEFAULT, "<think\n>r</think>x", C("<think\n>r</think>x")),
    row("padding is not other white space", DEFAULT, "<think\u00a0>r</think>x", C("<think\u00a0>r</think>x")),
    row("no padding before the name", DEFAULT, "< think>r</think>x", C("< think>r</think>x")),
    row("no padding behind the slash", DEFAULT, "<think>r</ think></think>x", R("r</ think>"), C("x")),
    row("no padding before the slash", DEFAULT, "<think>r< /think></think>x", R("r< /think>"), C("x")),
    row("no attributes", DEFAULT, '<think a="b">r</think>x', C('<think a="b">r</think>x')),
    row("think-tank", DEFAULT, "<think-tank>r</think>x", C("<think-tank>r</think>x")),
    row("thinker", DEFAULT, "<thinker>r</think>x", C("<thinker>r</think>x")),
    row("think/", DEFAULT, "<think/>r</think>x", C("<think/>r</think>x")),
    row("thinkin", DEFAULT, "<thinkin>r</think>x", C("<thinkin>r</think>x")),
    row("thinkings", DEFAULT, "<thinkings>r</think>x", C("<thinkings>r</think>x")),
    row("thoughts", DEFAULT, "<thoughts>r</think>x", C("<thoughts>r</think>x")),
    row("reason", DEFAULT, "<reason>r</reason>x", C("<reason>r</reason>x")),
    row("near misses of a closer", DEFAULT, "<think></thinker></think/></think-></th</think>x",
        R("</thinker></think/></think-></th"), C("x")),
    row("near miss runs into a marker", DEFAULT, "<think>a</thi</think>x", R("a</thi"), C("x")),
    row("angle brackets before an opener", DEFAULT, f"<<think>r</think>x", C("<<think>r</think>x")),
    row("angle brackets before a closer", DEFAULT, "<think>r<</<</think>x", R("r<</<"), C("x")),
    row("other tags", DEFAULT, "<think>a <b>c</b> d</think><div>x</div>", R("a <b>c</b> d"), C("<div>x</div>")),
]  # fmt: skip

WHITE_SPACE_AND_LINES = [
    row("white space before the block", DEFAULT, " \t\r\n\x0b\x0c\u00a0\u2028\u3000<think>r</think>x", R("r"), C("x")),
    row("BOM and zero width space are white", DEFAULT, "\ufeff\u200b<think>r</think>x", R("r"), C("x")),
    row("zero width joiner is not white", DEFAULT, "\u200d<think>r</think>x", C("\u200d<think>r</think>x")),
    row("BOM and zero width space at the head", DEFAULT, "<think>\ufeff\u200b\n</think>x", C("x")),
    row("lone CR is a line break", DEFAULT, T + "a\r<think>b</think>c", R("r"), C("a\r"), R("b"), C("c")),
    row("CRLF is a line break", DEFAULT, T + "a\r\n<think>b</think>c", R("r"), C("a\r\n"), R("b"), C("c")),
    *(
        row(f"U+{ord(other):04X} is no line break", DEFAULT, f"{T}a{other}<think>b", R("r"), C(f"a{other}<think>b"))
        for other in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
    ),
    row("CRLF counts once", DEFAULT, T + "`a\r\n<think>`b", R("r"), C("`a\r\n<think>`b")),
    row("CR CR is a blank line", DEFAULT, T + "`a\r\r<think>b</think>c", R("r"), C("`a\r\r"), R("b"), C("c")),
    row("CR and LF with a block between are one break", DEFAULT, T + "a\r<think>b</think>\n`c\r<think>`",
        R("r"), C("a\r"), R("b"), C("\n`c\r<think>`")),
]  # fmt: skip

LEADING = [
    row("prose first", DEFAULT, "Sure. <think>x</think> y", C("Sure. <think>x</think> y")),
    row("prose first, whatever it says later", DEFAULT, f"Sure.\n{T}\n{T}", C(f"Sure.\n{T}\n{T}")),
    row("a closer first", DEFAULT, "</think>r</think>x", C("</think>r</think>x")),
    row("white space is not lost without a block", DEFAULT, " \n\n Sure.", C(" \n\n Sure.")),
    row("white space alone", DEFAULT, " \n\n ", C(" \n\n ")),
    row("opener in code first", DEFAULT, "`<think>r</think>`", C("`<think>r</think>`")),
    row("4096 before an opener", DEFAULT, " " * 4096 + T + "x", R("r"), C("x")),
    row("4097 before an opener", DEFAULT, " " * 4097 + T + "x", C(" " * 4097 + T + "x")),
    row("4096 before an opener, exact", EXACT, "\n" * 4096 + T + "x", R("r"), C("\n" * 4096 + "x")),
    row("4097 before an opener, exact", EXACT, "\n" * 4097 + T + "x", C("\n" * 4097 + T + "x")),
    row("4096 and then nothing", DEFAULT, " " * 4096, C(" " * 4096)),
    row("4097 and then nothing", DEFAULT, " " * 4097, C(" " * 4097)),
]  # fmt: skip

NESTED = [
    row("nested opener, orphan closer", DEFAULT, "<think>a<think>b</think>c</think>d", R("a<think>b"), C("cd")),
    row("nested opener, no orphan", DEFAULT, "<think>a<think>b</think>c", R("a<think>b"), C("c")),
    row("a further orphan is literal", DEFAULT, "<think>a<think>b</think>c</think>d</think>e",
        R("a<think>b"), C("cd</think>e")),
    row("two nested, two orphans", DEFAULT, "<think><think><think>b</think>c</thought>d</THINK>e</think>",
        R("<think><think>b"), C("cde</think>")),
    row("an orphan without a nested opener", DEFAULT, T + "a</think>b", R("r"), C("a</think>b")),
    row("an orphan in code is literal", DEFAULT, "<think>a<think>b</think>c`</think>`d</think>e",
        R("a<think>b"), C("c`</think>`de")),
    row("an orphan in code without code awareness", PLAIN, "<think>a<think>b</think>c`</think>`d</think>e",
        R("a<think>b"), C("c``d</think>e")),
    row("an orphan in a fence", DEFAULT, "<think>a<think>b</think>~~~\n</think>\n~~~\n</think>e",
        R("a<think>b"), C("~~~\n</think>\n~~~\ne")),
    row("orphans with one block only", SINGLE, "<think>a<think>b</think>c</think>d</think>e",
        R("a<think>b"), C("cd</think>e")),
    row("an orphan in code with one block only", SINGLE, "<think>a<think>b</think>`</think>`</think>e",
        R("a<think>b"), C("`</think>`e")),
    row("orphans are counted over blocks", DEFAULT,
        "<think>a<think>b</think>c\n<think>d<think>e</think>f</think>g</think>h</think>",
        R("a<think>b"), C("c\n"), R("d<think>e"), C("fgh</think>")),
    row("markdown inside reasoning means nothing", DEFAULT, "<think>`a</think>x", R("`a"), C("x")),
    row("fence inside reasoning means nothing", DEFAULT, "<think>```\na</think>\n<think>b</think>x",
        R("```\nab"), C("x")),
    row("a nested opener in quotes is counted too", DEFAULT, "<think>`<think>`</think>a</think>b",
        R("`<think>`"), C("ab")),
    row("a near miss is not nested", DEFAULT, "<think>a<thinker>b</think>c</think>d",
        R("a<thinker>b"), C("c</think>d")),
    row("an orphan on blank lines before the answer", DEFAULT, "<think>a<think>b</think>\n\n</think>\n\n  x",
        R("a<think>b"), C("  x")),
    row("indentation around a dropped orphan", DEFAULT, "<think>a<think>b</think>\n </think> x",
        R("a<think>b"), C("  x")),
]  # fmt: skip

BLANK_BLOCKS = [
    row("blank block", DEFAULT, "<think>\n\n</think>\n\nx", C("x")),
    row("empty block", DEFAULT, "<think></think>x", C("x")),
    row("blank block, exact", EXACT, "<think>\n\n</think>\n\nx", R("\n\n"), C("\n\nx")),
    row("empty block, exact", EXACT, "<think></think>\n\nx", C("\n\nx")),
    row("white space at the head is kept when text follows", DEFAULT, "<think>\n r\n</think>x", R("\n r\n"), C("x")),
    row("blank later block", DEFAULT, T + "a\n<think> \n</think>b", R("r"), C("a\nb")),
    row("blank later block, exact", EXACT, T + "a\n<think> \n</think>b", R("r"), C("a\n"), R(" \n"), C("b")),
    row("blank block in mid-line", DEFAULT, T + "a <think> </think> b", R("r"), C("a  b")),
    row("blank block before a block", DEFAULT, f"<think>\n</think>\n{T}\n\nx", R("r"), C("x")),
    row("only a blank block", DEFAULT, "<think>\n\n</think>\n\n"),
    row("only a blank block, white space before it", DEFAULT, "\n <think>\n\n</think>\n\n"),
    row("unterminated blank block", DEFAULT, " <think>\n"),
    row("unterminated blank block, exact", EXACT, " <think>\n", R("\n"), C(" ")),
    cut("unterminated blank block, cut off", DEFAULT, "<think>\n"),
    row("nested opener is visible", DEFAULT, "<think>\n<think></think>x", R("\n<think>"), C("x")),
    row("partial closer is visible", DEFAULT, "<think>\n</thin", R("\n</thin")),
    row("4096 at the head", DEFAULT, "<think>" + " " * 4096 + "</think>x", C("x")),
    row("4097 at the head", DEFAULT, "<think>" + " " * 4097 + "</think>x", R(" " * 4097), C("x")),
    row("4096 at the head, then text", DEFAULT, "<think>" + " " * 4096 + "r</think>x", R(" " * 4096 + "r"), C("x")),
    row("4097 at the head, then text", DEFAULT, "<think>" + " " * 4097 + "r</think>x", R(" " * 4097 + "r"), C("x")),
    row("splitting goes on past the head limit", DEFAULT, "<think>" + "\n" * 5000 + f"</think>\n\n x\n{T}y",
        R("\n" * 5000), C(" x\n"), R("r"), C("y")),
    row("4097 at a later head", DEFAULT, T + "a\n<think>" + " " * 4097 + "</think>x",
        R("r"), C("a\n"), R(" " * 4097), C("x")),
]  # fmt: skip

INTERLEAVED = [
    row("mid-line with its closer", DEFAULT, "<think>1</think>a <think>2</think>b", R("1"), C("a "), R("2"), C("b")),
    row("mentioned", DEFAULT, T + "The tag <think> opens", R("r"), C("The tag <think> opens")),
    row("mentioned, then a real block", DEFAULT, T + "The tag <think> opens.\n<think>real</think>x",
        R("r"), C("The tag <think> opens.\n"), R("real"), C("x")),
    row("mentioned, closer in code", DEFAULT, T + "Write <think> then `</think>` after.",
        R("r"), C("Write <think> then `</think>` after.")),
    row("mentioned, closer in code, not code aware", PLAIN, T + "Write <think> then `</think>` after.",
        R("r"), C("Write "), R(" then `"), C("` after.")),
    row("mentioned, closer in a fence", DEFAULT, T + "a <think> b\n```\n</think>\n```\nc",
        R("r"), C("a <think> b\n```\n</think>\n```\nc")),
    row("closer behind a closed fence", DEFAULT, T + "a <think> b\n```\n</think>\n```\nc</think>d",
        R("r"), C("a "), R(" b\n```\n</think>\n```\nc"), C("d")),
    row("line start", DEFAULT, T + "a\n<think>b</think>c", R("r"), C("a\n"), R("b"), C("c")),
    row("line start, indented", DEFAULT, T + "a\n \t\u00a0<think>b", R("r"), C("a\n \t\u00a0"), R("b")),
    row("line start, unterminated", DEFAULT, T + "a\n<think>b", R("r"), C("a\n"), R("b")),
    row("a block does not stand on its line", DEFAULT, T + "a\n<think>b</think> <think>c",
        R("r"), C("a\n"), R("b"), C(" "), R("c")),
    row("reasoning does not stand on a line", DEFAULT, T + "a <think>b\n</think>c <think>d",
        R("r"), C("a "), R("b\n"), C("c <think>d")),
    row("directly behind a closer", DEFAULT, T + "a <think>b</think><think>c", R("r"), C("a "), R("bc")),
    row("not quite behind a closer", DEFAULT, T + "a <think>b</think> <think>c",
        R("r"), C("a "), R("b"), C(" <think>c")),
    row("directly behind a dropped closer", DEFAULT, "<think>a<think>b</think>c</think><think>d",
        R("a<think>b"), C("c"), R("d")),
    row("directly behind a literal closer", DEFAULT, T + "c</think><think>d", R("r"), C("c</think><think>d")),
    row("before LF", DEFAULT, T + "a <think>\nb", R("r"), C("a "), R("\nb")),
    row("before CR", DEFAULT, T + "a <think>\rb", R("r"), C("a "), R("\rb")),
    row("before CRLF", DEFAULT, T + "a <think>\r\nb", R("r"), C("a "), R("\r\nb")),
    row("before a space and a line break", DEFAULT, T + "a <think> \nb", R("r"), C("a <think> \nb")),
    row("before another separator", DEFAULT, T + "a <think>\u2028b", R("r"), C("a <think>\u2028b")),
    row("at the very end", DEFAULT, T + "a <think>", R("r"), C("a <think>")),
    cut("at the very end, cut off", DEFAULT, T + "a <think>", R("r"), C("a ")),
    row("held when the turn ends", DEFAULT, T + "a <think>b", R("r"), C("a <think>b")),
    cut("held when the turn is cut off", DEFAULT, T + "a <think>b", R("r"), C("a "), R("b")),
    cut("two held when the turn is cut off", DEFAULT, T + "a <think>b <think>c", R("r"), C("a "), R("b <think>c")),
    cut("closer in code when the turn is cut off", DEFAULT, T + "a <think>b `</think>` c",
        R("r"), C("a "), R("b `</think>` c")),
    cut("the first expired when the turn is cut off", DEFAULT, f"{T}a <think>{'b' * 8192}<think>c",
        R("r"), C(f"a <think>{'b' * 8192}"), R("c")),
    cut("all expired when the turn is cut off", DEFAULT, f"{T}a <think>{'b' * 8192}", R("r"), C(f"a <think>{'b' * 8192}")),
    row("partial closer held", DEFAULT, T + "a <think>b</thin", R("r"), C("a <think>b</thin")),
    row("two candidates, one closer", DEFAULT, T + "a <think>b <think>c</think>d",
        R("r"), C("a "), R("b <think>c"), C("d")),
    row("a nested one in a hold is counted", DEFAULT, T + "a <think>b <think>c</think>d</think>e</think>f",
        R("r"), C("a "), R("b <think>c"), C("de</think>f")),
    row("the hold wins over the orphans", DEFAULT, "<think>1<think>2</think>a <think>b</think>c</think>d</think>e",
        R("1<think>2"), C("a "), R("b"), C("cd</think>e")),
    row("a real opener ends the hold", DEFAULT, T + "a <think>b\n<think>c</think>d</think>",
        R("r"), C("a <think>b\n"), R("c"), C("d</think>")),
    row("an opener before a break ends the hold", DEFAULT, T + "a <think>b <think>\nc</think>d",
        R("r"), C("a <think>b "), R("\nc"), C("d")),
    row("an opener at a line start in code does not", DEFAULT, T + "a <think>b\n```\n<think>\n```\n</think>d",
        R("r"), C("a "), R("b\n```\n<think>\n```\n"), C("d")),
    row("the limit, kept", DEFAULT, f"{T}a <think>{'b' * (8192 - 15)}</think>c", R("r"), C("a "), R("b" * 8177), C("c")),
    row("the limit, passed", DEFAULT, f"{T}a <think>{'b' * (8193 - 15)}</think>c",
        R("r"), C(f"a <think>{'b' * 8178}</think>c")),
    row("the limit counts padding", DEFAULT, f"{T}a <think>{'b' * (8192 - 16)}</think >c",
        R("r"), C("a "), R("b" * 8176), C("c")),
    row("the limit counts padding, passed", DEFAULT, f"{T}a <think>{'b' * (8192 - 15)}</think >c",
        R("r"), C(f"a <think>{'b' * 8177}</think >c")),
    row("the limit counts code points", DEFAULT, T + "a <think>" + "\U0001f600" * (8192 - 15) + "</think>c",
        R("r"), C("a "), R("\U0001f600" * 8177), C("c")),
    row("the next held opener is the candidate", DEFAULT, f"{T}a <think>{'b' * 5000}<think>{'c' * 4000}</think>d",
        R("r"), C(f"a <think>{'b' * 5000}"), R("c" * 4000), C("d")),
    row("and the next but one", DEFAULT, f"{T}a <think>{'b' * 5000}<think>{'c' * 3000}<think>{'d' * 5171}</think>e",
        R("r"), C(f"a <think>{'b' * 5000}<think>{'c' * 3000}"), R("d" * 5171), C("e")),
    row("openers that expired are not counted", DEFAULT,
        f"{T}a <think>{'b' * 5000}<think>{'c' * 4000}</think>d</think>e",
        R("r"), C(f"a <think>{'b' * 5000}"), R("c" * 4000), C("d</think>e")),
    row("a late closer is an orphan", DEFAULT, f"<think>1<think>2</think>a <think>{'b' * 8192}</think>c",
        R("1<think>2"), C(f"a <think>{'b' * 8192}c")),
    row("expired in prose, then code", DEFAULT, f"{T}a <think>`{'b' * 8192}<think>\n`<think>c</think>d",
        R("r"), C(f"a <think>`{'b' * 8192}<think>\n`"), R("c"), C("d")),
    row("an opener behind the limit in mid-line", DEFAULT, f"{T}a <think>{'b' * 9000} <think>c</think>d",
        R("r"), C(f"a <think>{'b' * 9000} "), R("c"), C("d")),
    row("code state is restored", DEFAULT, T + "a <think>`b` `</think>c\n`<think>`d",
        R("r"), C("a <think>`b` `</think>c\n`<think>`d")),
    row("code state is restored behind inline code", DEFAULT, T + "a `x` <think>b\n\n`q` ~~~</think>c\n<think>d",
        R("r"), C("a `x` "), R("b\n\n`q` ~~~"), C("c\n"), R("d")),
    row("fence state is restored", DEFAULT, T + "a <think>b\n```\nx\n```\n</think>c `<think>` d",
        R("r"), C("a "), R("b\n```\nx\n```\n"), C("c `<think>` d")),
    row("line state is restored", DEFAULT, T + "a <think>b\n</think><think>c</think> <think>d",
        R("r"), C("a "), R("b\nc"), C(" <think>d")),
    row("line state is restored, CR", DEFAULT, T + "`a\r<think>`b <think>c\r</think>d\n\n<think>e",
        R("r"), C("`a\r<think>`b "), R("c\r"), C("d\n\n"), R("e")),
    row("one block only", SINGLE, T + "a\n<think>b</think>c", R("r"), C("a\n<think>b</think>c")),
    row("one block only, directly behind", SINGLE, T + "<think>b</think>c", R("r"), C("<think>b</think>c")),
    row("one block only, blank lines", SINGLE, T + "\n\n  <think>b</think>c", R("r"), C("  <think>b</think>c")),
    row("many blocks", DEFAULT, (T + "x") * 9, *[R("r"), C("x")] * 9),
]  # fmt: skip

CODE = [
    row("inline", DEFAULT, T + "a `<think>` b", R("r"), C("a `<think>` b")),
    row("inline, line start", DEFAULT, T + "`\n<think>` b", R("r"), C("`\n<think>` b")),
    row("inline, next line break", DEFAULT, T + "a `<think>\n` b", R("r"), C("a `<think>\n` b")),
    row("inline, not code aware", PLAIN, T + "a `<think>` b</think>c", R("r"), C("a `"), R("` b"), C("c")),
    row("inline, not code aware, line start", PLAIN, T + "```\n<think>b</think>c", R("r"), C("```\n"), R("b"), C("c")),
    row("behind inline code", DEFAULT, T + "a `b` <think>c</think>d", R("r"), C("a `b` "), R("c"), C("d")),
    row("two backticks", DEFAULT, T + "a ``b`<think>`c`` <think>d</think>e",
        R("r"), C("a ``b`<think>`c`` "), R("d"), C("e")),
    row("a longer run does not close", DEFAULT, T + "a `b``\n<think>c`\n<think>d", R("r"), C("a `b``\n<think>c`\n"), R("d")),
    row("a shorter run does not close", DEFAULT, T + "a ``b`\n<think>c``\n<think>d", R("r"), C("a ``b`\n<think>c``\n"), R("d")),
    row("three in mid-line are inline code", DEFAULT, T + "a ```b\n<think>c``` d\n<think>e",
        R("r"), C("a ```b\n<think>c``` d\n"), R("e")),
    row("inline to a blank line", DEFAULT, T + "a `b\n\n<think>c", R("r"), C("a `b\n\n"), R("c")),
    row("inline to a line of white space", DEFAULT, T + "a `b\n \t\u200b\n<think>c", R("r"), C("a `b\n \t\u200b\n"), R("c")),
    row("inline to a blank line, CR", DEFAULT, T + "a `b\r\r<think>c", R("r"), C("a `b\r\r"), R("c")),
    row("inline to a blank line, CRLF", DEFAULT, T + "a `b\r\n\r\n<think>c", R("r"), C("a `b\r\n\r\n"), R("c")),
    row("inline over one line break", DEFAULT, T + "a `b\nc\n<think>d", R("r"), C("a `b\nc\n<think>d")),
    row("a white line that is not over", DEFAULT, T + "a `b\n  <think>c", R("r"), C("a `b\n  <think>c")),
    row("inline unclosed to the end", DEFAULT, T + "a `b <think>c</think>", R("r"), C("a `b <think>c</think>")),
    row("a backslash does not escape", DEFAULT, T + "a \\`b\n<think>c`", R("r"), C("a \\`b\n<think>c`")),
    row("a marker ends a run that opens", DEFAULT, T + "a `<think>`` b\n<think>", R("r"), C("a `<think>`` b\n<think>")),
    row("a marker ends a run that closes", DEFAULT, T + "`a`<think>b</think>`c\n<think>`d\n<think>e",
        R("r"), C("`a`"), R("b"), C("`c\n<think>`d\n"), R("e")),
    row("a dropped closer ends a run", DEFAULT, "<think>1<think>2</think>`a`</think>`c\n<think>`d\n<think>e",
        R("1<think>2"), C("`a``c\n<think>`d\n"), R("e")),
    row("a marker ends a run of tildes", DEFAULT, T + "a\n~~<think>b</think>~\n<think>c",
        R("r"), C("a\n~~"), R("b"), C("~\n"), R("c")),
    row("single tildes mean nothing", DEFAULT, T + "a ~<think>b</think>~ c", R("r"), C("a ~"), R("b"), C("~ c")),
    row("tildes in mid-line mean nothing", DEFAULT, T + "a ~~~\n<think>b", R("r"), C("a ~~~\n"), R("b")),
    row("two backticks at a line start are inline", DEFAULT, T + "a\n``\n<think>\n``\n<think>b",
        R("r"), C("a\n``\n<think>\n``\n"), R("b")),
    row("fence", DEFAULT, T + "a\n```\n<think>b</think>\n```\n<think>c",
        R("r"), C("a\n```\n<think>b</think>\n```\n"), R("c")),
    row("fence, at the start of the answer", DEFAULT, T + "```\n<think>\n```\n<think>c",
        R("r"), C("```\n<think>\n```\n"), R("c")),
    row("fence, with a language", DEFAULT, T + "```python title\n<think>\n```\n<think>c",
        R("r"), C("```python title\n<think>\n```\n"), R("c")),
    row("fence, marker on the opening line", DEFAULT, T + "```<think>\n```\n<think>c", R("r"), C("```<think>\n```\n"), R("c")),
    row("fence, tildes", DEFAULT, T + "~~~\n<think>\n```\n<think>\n~~~\n<think>c",
        R("r"), C("~~~\n<think>\n```\n<think>\n~~~\n"), R("c")),
    row("fence, tildes with backticks behind", DEFAULT, T + "~~~ `a`\n<think>\n~~~\n<think>c",
        R("r"), C("~~~ `a`\n<think>\n~~~\n"), R("c")),
    row("fence, indented", DEFAULT, T + "- a\n\n        \t```\n<think>\n    ```\n<think>c",
        R("r"), C("- a\n\n        \t```\n<think>\n    ```\n"), R("c")),
    row("fence, blank lines inside", DEFAULT, T + "```\n\n\n<think>\n```\n<think>c", R("r"), C("```\n\n\n<think>\n```\n"), R("c")),
    row("fence, unclosed", DEFAULT, T + "```\n\n<think>a</think>", R("r"), C("```\n\n<think>a</think>")),
    row("fence, closed longer", DEFAULT, T + "```\n<think>\n`````\n<think>c", R("r"), C("```\n<think>\n`````\n"), R("c")),
    row("fence, shorter does not close", DEFAULT, T + "````\n```\n<think>\n````\n<think>c",
        R("r"), C("````\n```\n<think>\n````\n"), R("c")),
    row("fence, white space behind the closing run", DEFAULT, T + "```\n``` \t \n<think>c", R("r"), C("```\n``` \t \n"), R("c")),
    row("fence, text behind the closing run", DEFAULT, T + "```\n``` a\n<think>\n```\n<think>c",
        R("r"), C("```\n``` a\n<think>\n```\n"), R("c")),
    row("fence, other white space behind the closing run", DEFAULT, T + "```\n```\u00a0\n<think>", R("r"), C("```\n```\u00a0\n<think>")),
    row("fence, a run of another kind behind", DEFAULT, T + "```\n```~\n<think>", R("r"), C("```\n```~\n<think>")),
    row("fence, text before the closing run", DEFAULT, T + "```\na ```\n<think>\n```\n<think>c",
        R("r"), C("```\na ```\n<think>\n```\n"), R("c")),
    row("fence, marker behind the closing run", DEFAULT, T + "```\n```<think>\n```\n<think>c",
        R("r"), C("```\n```<think>\n```\n"), R("c")),
    row("fence, marker and spaces behind the closing run", DEFAULT, T + "```\n``` <think>\n<think>", R("r"), C("```\n``` <think>\n<think>")),
    row("fence, CR", DEFAULT, T + "```\r<think>\r```\r<think>c", R("r"), C("```\r<think>\r```\r"), R("c")),
    row("fence, CRLF", DEFAULT, T + "```\r\n<think>\r\n```\r\n<think>c", R("r"), C("```\r\n<think>\r\n```\r\n"), R("c")),
    row("fence, a block between CR and LF", DEFAULT, T + "```\r```\r<think>b</think>\n<think>c",
        R("r"), C("```\r```\r"), R("b"), C("\n"), R("c")),
    row("fence, directly behind a block", DEFAULT, T + "a\n<think>b</think>```\n<think>\n```\n<think>c",
        R("r"), C("a\n"), R("b"), C("```\n<think>\n```\n"), R("c")),
    row("fence, block in its indentation", DEFAULT, T + "a\n <think>b</think> ```\n<think>\n```\n<think>c",
        R("r"), C("a\n "), R("b"), C(" ```\n<think>\n```\n"), R("c")),
    row("a later backtick makes it inline code", DEFAULT, T + "```a``` <think>b</think>c",
        R("r"), C("```a``` "), R("b"), C("c")),
    row("a later backtick makes it inline code, open", DEFAULT, T + "```a`\n\n<think>c", R("r"), C("```a`\n\n"), R("c")),
    row("a later backtick makes it inline code, next line", DEFAULT, T + "```a`\n<think>\nb``` <think>c</think>d",
        R("r"), C("```a`\n<think>\nb``` "), R("c"), C("d")),
    row("a backtick on a later line does not", DEFAULT, T + "```a\n`\n\n<think>\n```\n<think>c",
        R("r"), C("```a\n`\n\n<think>\n```\n"), R("c")),
    row("fence inside inline code", DEFAULT, T + "a `b\n```\n\n<think>\n```\n<think>c",
        R("r"), C("a `b\n```\n\n<think>\n```\n"), R("c")),
    row("fence of tildes inside inline code", DEFAULT, T + "a `b\n~~~\n`<think>\n~~~\n<think>c",
        R("r"), C("a `b\n~~~\n`<think>\n~~~\n"), R("c")),
    row("fence inside inline code of that length", DEFAULT, T + "a ```b\n```\n\n<think>", R("r"), C("a ```b\n```\n\n<think>")),
    row("no fence inside inline code after all", DEFAULT, T + "a `b\n```c` d ``` <think>e</think>f",
        R("r"), C("a `b\n```c` d ``` "), R("e"), C("f")),
    row("code behind a mentioned opener", DEFAULT, T + "a <think>`\n<think>` b", R("r"), C("a <think>`\n<think>` b")),
    row("near markers in code", DEFAULT, T + "`<thi` <think>a</think>b", R("r"), C("`<thi` "), R("a"), C("b")),
    row("indented code is not code", DEFAULT, T + "a\n\n    <think>b", R("r"), C("a\n\n    "), R("b")),
]  # fmt: skip

TIDY = [
    row("blank lines behind the block", DEFAULT, T + "\n\n    code", R("r"), C("    code")),
    row("CRLF", DEFAULT, T + "\r\n\r\nx", R("r"), C("x")),
    row("CR", DEFAULT, T + "\r\rx", R("r"), C("x")),
    row("lines of white space", DEFAULT, T + " \n\t\n\u00a0\n  x", R("r"), C("  x")),
    row("the rest of the closer's line is a line", DEFAULT, T + "  x", R("r"), C("  x")),
    row("the rest of the closer's line, blank", DEFAULT, T + "   \n x", R("r"), C(" x")),
    row("white space that is no line break", DEFAULT, T + "\x0b\u2028\x85x", R("r"), C("\x0b\u2028\x85x")),
    row("lines behind the first visible character", DEFAULT, T + "\n\nx\n\n\ny \n", R("r"), C("x\n\n\ny \n")),
    row("white space to the end", DEFAULT, T + "\n\n  ", R("r")),
    row("white space on the closer's line to the end", DEFAULT, T + "  ", R("r")),
    cut("white space to the end, cut off", DEFAULT, T + "\n\n  ", R("r")),
    row("before the block", DEFAULT, "\n\n  " + T + "x", R("r"), C("x")),
    row("over a block between", DEFAULT, T + "\n\n<think>s</think>\n\n  x", R("rs"), C("  x")),
    row("over blocks between, CR and LF", DEFAULT, T + "\r<think>s</think>\n  x", R("rs"), C("  x")),
    row("indentation around a block between", DEFAULT, T + "\n  <think>s</think> x", R("rs"), C("   x")),
    row("a blank line around a block between", DEFAULT, T + "\n  <think>s</think> \nx", R("rs"), C("x")),
    row("indentation around a block between, to the end", DEFAULT, T + "  <think>s</think>  ", R("rs")),
    row("a later block", DEFAULT, T + "a\n<think>s</think>    x", R("r"), C("a\n"), R("s"), C("    x")),
    row("a later block, blank lines", DEFAULT, T + "a\n\n<think>s</think>\n\nx\n", R("r"), C("a\n\n"), R("s"), C("\n\nx\n")),
    row("a later block, white space to the end", DEFAULT, T + "a\n<think>s</think> \n", R("r"), C("a\n"), R("s"), C(" \n")),
    row("a literal closer is visible", DEFAULT, T + "\n </think>\n", R("r"), C(" </think>\n")),
    row("a partial marker is visible", DEFAULT, T + "\n\n  <thi", R("r"), C("  <thi")),
    row("4096 on a line", DEFAULT, T + "\n" + " " * 4096 + "\nx", R("r"), C("x")),
    row("4096 on a line, then the answer", DEFAULT, T + "\n" + " " * 4096 + "x", R("r"), C(" " * 4096 + "x")),
    row("4097 on a line", DEFAULT, T + "\n" + " " * 4097 + "\n\nx", R("r"), C(" " * 4097 + "\n\nx")),
    row("4097 on a line to the end", DEFAULT, T + "\n" + " " * 4097, R("r"), C(" " * 4097)),
    row("4096 on each of many lines", DEFAULT, T + (" " * 4096 + "\n") * 3 + "x", R("r"), C("x")),
    row("many blank lines", DEFAULT, T + "\n" * 5000 + "x", R("r"), C("x")),
    row("4097 on a line, then a block", DEFAULT, T + " " * 4097 + "<think>s</think>\n\n x\n",
        R("r"), C(" " * 4097), R("s"), C(" x\n")),
    row("4097 on a line, around a block", DEFAULT, T + " " * 4000 + "<think>s</think>" + " " * 97 + "\nx",
        R("rs"), C(" " * 4097 + "\nx")),
    row("4097 on a line, then splitting goes on", DEFAULT, T + " " * 4097 + "\n\nx\n<think>s</think>\ny",
        R("r"), C(" " * 4097 + "\n\nx\n"), R("s"), C("\ny")),
]  # fmt: skip

EXACT_ROWS = [
    row("before the block", EXACT, "\n\n  " + T + "x", R("r"), C("\n\n  x")),
    row("before the block, then a block", EXACT, f"\n {T}{T}x", R("r"), C("\n "), R("r"), C("x")),
    row("behind the block", EXACT, T + "\n\n  x", R("r"), C("\n\n  x")),
    row("to the end", EXACT, T + "\n\n  ", R("r"), C("\n\n  ")),
    row("between blocks", EXACT, T + "\n\n<think>s</think>\n\n  x", R("r"), C("\n\n"), R("s"), C("\n\n  x")),
    row("before an empty block", EXACT, "\n<think></think>x", C("\nx")),
    row("unterminated", EXACT, "\n <think>r", R("r"), C("\n ")),
    cut("unterminated, cut off", EXACT, "\n <think>r", R("r"), C("\n ")),
    row("head of a block", EXACT, "<think>\n r</think>x", R("\n r"), C("x")),
    row("4097 at the head", EXACT, "<think>" + " " * 4097 + "</think>x", R(" " * 4097), C("x")),
    row("not split", EXACT, " \n x" + T, C(" \n x" + T)),
    row("mid-line", EXACT, T + "a <think> s </think> b", R("r"), C("a "), R(" s "), C(" b")),
]  # fmt: skip

ENDS = [
    row("unterminated", DEFAULT, "<think>r", R("r")),
    cut("unterminated, cut off", DEFAULT, "<think>r", R("r")),
    row("unterminated, white space before it", DEFAULT, "\n <think>r\n", R("r\n")),
    row("only an opener", DEFAULT, "<think>"),
    row("only an opener, exact", EXACT, "<think>"),
    row("partial closer in a block", DEFAULT, "<think>r</thi", R("r</thi")),
    row("partial opener first", DEFAULT, "<thi", C("<thi")),
    row("partial opener first, white space before it", DEFAULT, "\n <thi", C("\n <thi")),
    row("partial opener in the content", DEFAULT, T + "a\n<think", R("r"), C("a\n<think")),
    row("partial orphan", DEFAULT, "<think>a<think>b</think>c</think ", R("a<think>b"), C("c</think ")),
    cut("partial opener, cut off", DEFAULT, T + "a\n<think", R("r"), C("a\n<think")),
    row("one angle bracket", DEFAULT, "<", C("<")),
    row("one angle bracket in a block", DEFAULT, "<think><", R("<")),
    row("given back", GIVE_BACK, "<think>r", C("<think>r")),
    cut("given back, cut off", GIVE_BACK, "<think>r", C("<think>r")),
    row("given back with white space", GIVE_BACK, "\n\n <think>\n r \n", C("\n\n <think>\n r \n")),
    row("given back as it was written", GIVE_BACK, "<THINKING\t>r<think>s</thi", C("<THINKING\t>r<think>s</thi")),
    row("given back blank", GIVE_BACK, " <think> \n", C(" <think> \n")),
    row("given back exact", GIVE_BACK_EXACT, "\n\n <think>\n r \n", C("\n\n <think>\n r \n")),
    row("closed, not given back", GIVE_BACK, "\n" + T + "\n\nx", R("r"), C("x")),
    row("closed, not given back, exact", GIVE_BACK_EXACT, "\n" + T + "\n\nx", R("r"), C("\n\n\nx")),
    row("closed, blank", GIVE_BACK, "<think> \n</think>\n\nx", C("x")),
    row("the second given back", GIVE_BACK, T + "x\n  <think>s", R("r"), C("x\n  <think>s")),
    row("the second given back, before the answer", GIVE_BACK, T + "\n\n  <think>s", R("r"), C("  <think>s")),
    row("the second given back, behind a blank one", GIVE_BACK, "<think>\n</think>\n\n<think>s", C("<think>s")),
    row("the second given back, before the answer, exact", GIVE_BACK_EXACT, T + "\n\n  <think>s",
        R("r"), C("\n\n  <think>s")),
    row("the third given back, indentation around the second", GIVE_BACK, f"{T} {T}\t<think>s", R("rr"), C(" \t<think>s")),
    row("mid-line, given back", GIVE_BACK, T + "x <think>s", R("r"), C("x <think>s")),
    cut("mid-line, given back, cut off", GIVE_BACK, T + "x <think>s", R("r"), C("x <think>s")),
    row("mid-line, closed", GIVE_BACK, T + "x <think>s</think>y", R("r"), C("x "), R("s"), C("y")),
    row("nothing to give back", GIVE_BACK, "x <think>s", C("x <think>s")),
]  # fmt: skip

CALLS = [
    row("in a block", DEFAULT, ("<think>a", "b"), R("a"), CALL, C("b")),
    row("in a block, its closer is dropped", DEFAULT, ("<think>a", "b</think>c</think>d"), R("a"), CALL, C("bc</think>d")),
    row("in a block, with a nested opener", DEFAULT, ("<think>a<think>", "b</think>c</think>d</think>"),
        R("a<think>"), CALL, C("bcd</think>")),
    row("in a blank block", DEFAULT, ("<think>\n", "\n</think>\nb"), CALL, C("b")),
    row("in a blank block, exact", EXACT, (" <think>\n", "b"), R("\n"), C(" "), CALL, C("b")),
    row("in a later block", DEFAULT, (T + "x\n<think>a", "b</think>c"), R("r"), C("x\n"), R("a"), CALL, C("bc")),
    row("in a partial closer", DEFAULT, ("<think>a</thi", "nk>b"), R("a</thi"), CALL, C("nk>b")),
    row("in a partial opener", DEFAULT, ("<thi", "nk>b"), C("<thi"), CALL, C("nk>b")),
    row("in a partial later opener", DEFAULT, (T + "a\n<thi", "nk>b"), R("r"), C("a\n<thi"), CALL, C("nk>b")),
    row("blank lines before it", DEFAULT, (T + "\n\n  ", ""), R("r"), CALL),
    row("tidying goes on behind it", DEFAULT, (T + "\n  ", "\n\n  x"), R("r"), CALL, C("  x")),
    row("tidying begins behind it", DEFAULT, ("<think>a", "\n\n  x\n\n"), R("a"), CALL, C("  x\n\n")),
    row("white space before it, exact", EXACT, (T + "\n\n  ", "\n"), R("r"), C("\n\n  "), CALL, C("\n")),
    row("white space in mid-answer", DEFAULT, (T + "x\n\n", "\ny"), R("r"), C("x\n\n"), CALL, C("\ny")),
    row("before anything visible", DEFAULT, ("\n ", "\n<think>r</think>\nx"), C("\n "), CALL, R("r"), C("x")),
    row("before anything visible, exact", EXACT, ("\n ", "\n<think>r</think>x"), C("\n "), CALL, R("r"), C("\nx")),
    row("before everything", DEFAULT, ("", T + "x"), CALL, R("r"), C("x")),
    row("behind prose", DEFAULT, ("a", "\n" + T), C("a"), CALL, C("\n" + T)),
    row("in a hold", DEFAULT, (T + "a <think>b", "c</think>d"), R("r"), C("a <think>b"), CALL, C("c</think>d")),
    row("in a hold, then a block", DEFAULT, (T + "a <think>b", "\n<think>c</think>d"),
        R("r"), C("a <think>b"), CALL, C("\n"), R("c"), C("d")),
    row("at the very end of a mid-line opener", DEFAULT, (T + "a <think>", "\nb"), R("r"), C("a <think>"), CALL, C("\nb")),
    row("given back is a matter of the end", GIVE_BACK, ("\n<think>a", "b</think>c"), R("a"), CALL, C("bc")),
    row("code goes on behind it", DEFAULT, (T + "a `b\n", "<think>`\n<think>c"), R("r"), C("a `b\n"), CALL, C("<think>`\n"), R("c")),
    row("a fence goes on behind it", DEFAULT, (T + "```\n", "<think>\n```\n<think>c"), R("r"), C("```\n"), CALL, C("<think>\n```\n"), R("c")),
    row("a line goes on behind it", DEFAULT, (T + "a ", "<think>c"), R("r"), C("a "), CALL, C("<think>c")),
    row("twice", DEFAULT, ("<think>a", "", "b</think>c</think>"), R("a"), CALL, CALL, C("bc</think>")),
    row("two blocks ended", DEFAULT, ("<think>a", "\n<think>b", "c</think>d</think>e</think>"),
        R("a"), CALL, R("b"), CALL, C("cde</think>")),
    row("one block only", SINGLE, ("<think>a", "<think>b</think>c"), R("a"), CALL, C("<think>bc")),
    row("implicit", IMPLICIT, ("a", "b</think>c</think>"), R("a"), CALL, C("bc</think>")),
    row("implicit, before everything", IMPLICIT, ("", "b</think>c</think>"), CALL, C("bc</think>")),
    row("anywhere, before the first block", ANYWHERE, ("a `b", "<think>` <think>c</think>d"),
        C("a `b"), CALL, C("<think>` "), R("c"), C("d")),
]  # fmt: skip

IMPLICIT_ROWS = [
    row("no opener", IMPLICIT, "r1 r2</think>x", R("r1 r2"), C("x")),
    row("explicit opener", IMPLICIT, "<think>r</think>x", R("r"), C("x")),
    row("explicit opener, another name", IMPLICIT, "<Thinking >r</think>x", R("r"), C("x")),
    row("white space before the opener", IMPLICIT, "\n <think> r</think>x", R("\n  r"), C("x")),
    row("white space without an opener", IMPLICIT, "\n r</think>x", R("\n r"), C("x")),
    row("white space before a blank block", IMPLICIT, "\n<think>\n</think>\n\nx", C("x")),
    row("white space before a blank block, exact", IMPLICIT_EXACT, "\n<think> </think>\nx", R("\n "), C("\nx")),
    row("closer first", IMPLICIT, "</think>x", C("x")),
    row("white space and a closer first", IMPLICIT, " \n</think>\n\nx", C("x")),
    row("unterminated", IMPLICIT, "r1 r2", R("r1 r2")),
    row("unterminated and blank", IMPLICIT, "\n "),
    row("partial closer", IMPLICIT, "r</thi", R("r</thi")),
    row("partial opener", IMPLICIT, " <thi", R(" <thi")),
    row("near opener", IMPLICIT, "<thinker>r</think>x", R("<thinker>r"), C("x")),
    row("a second opener is nested", IMPLICIT, "<think><think>r</think>x</think>y", R("<think>r"), C("xy")),
    row("an opener behind text is nested", IMPLICIT, "a<think>r</think>x</think>y</think>", R("a<think>r"), C("xy</think>")),
    row("the opener that was consumed is not nested", IMPLICIT, "<think>r</think>x</think>y", R("r"), C("x</think>y")),
    row("tidy behind it", IMPLICIT, "r</think>\n\n  x\n\n", R("r"), C("  x\n\n")),
    row("exact behind it", IMPLICIT_EXACT, "\nr</think>\n\n  x", R("\nr"), C("\n\n  x")),
    row("4096 before an opener", IMPLICIT, " " * 4096 + "<think>r</think>x", R(" " * 4096 + "r"), C("x")),
    row("4097 before an opener", IMPLICIT, " " * 4097 + "<think>r</think>x</think>y", R(" " * 4097 + "<think>r"), C("xy")),
    row("4096 before a closer", IMPLICIT, " " * 4096 + "</think>x", C("x")),
    row("4097 before a closer", IMPLICIT, " " * 4097 + "</think>x", R(" " * 4097), C("x")),
    row("given back", IMPLICIT_GIVE_BACK, "\n r1 r2", C("\n r1 r2")),
    row("given back with an opener", IMPLICIT_GIVE_BACK, "\n <think>r", C("\n <think>r")),
    row("not given back", IMPLICIT_GIVE_BACK, "\n <think>r</think>x", R("\n r"), C("x")),
    row("later blocks", IMPLICIT, "r</think>a\n<think>s</think>b <think>t</think>c",
        R("r"), C("a\n"), R("s"), C("b "), R("t"), C("c")),
]  # fmt: skip

ANYWHERE_ROWS = [
    row("mid-line", ANYWHERE, "Sure. <think>x</think> y", C("Sure. "), R("x"), C(" y")),
    row("mid-line, unterminated", ANYWHERE, "Sure. <think>x", C("Sure. "), R("x")),
    row("at the very end", ANYWHERE, "Sure. <think>", C("Sure. ")),
    row("leading", ANYWHERE, "\n <think>r</think>\n\n x", R("r"), C(" x")),
    row("leading, exact", ANYWHERE_EXACT, "\n <think>r</think>\n\n x", R("r"), C("\n \n\n x")),
    row("no block", ANYWHERE, "\n a </think> `b", C("\n a </think> `b")),
    row("in inline code", ANYWHERE, "a `<think>` <think>r</think>x", C("a `<think>` "), R("r"), C("x")),
    row("in a fence", ANYWHERE, "```\n<think>\n```\n<think>r</think>x", C("```\n<think>\n```\n"), R("r"), C("x")),
    row("in code, not code aware", ANYWHERE_PLAIN, "a `<think>` b</think>x", C("a `"), R("` b"), C("x")),
    row("a closer before it is literal", ANYWHERE, "a</think>b<think>r</think>x", C("a</think>b"), R("r"), C("x")),
    row("behind content nothing is tidied", ANYWHERE, "a\n\n<think>r</think>\n\n x", C("a\n\n"), R("r"), C("\n\n x")),
    row("later mid-line openers are held", ANYWHERE, "a <think>r</think>b <think>c", C("a "), R("r"), C("b <think>c")),
    row("later blocks", ANYWHERE, "a <think>r</think>b <think>c</think>d\n<think>e",
        C("a "), R("r"), C("b "), R("c"), C("d\n"), R("e")),
    row("one block only", ANYWHERE_SINGLE, "a <think>r</think>b\n<think>c</think>d", C("a "), R("r"), C("b\n<think>c</think>d")),
    row("4096 at the start", ANYWHERE, " " * 4096 + T + "\n\nx", R("r"), C("x")),
    row("4097 at the start", ANYWHERE, " " * 4097 + T + "\n\nx", C(" " * 4097), R("r"), C("x")),
    row("4097 at the start, exact", ANYWHERE_EXACT, " " * 4097 + T + "\n\nx", C(" " * 4097), R("r"), C("\n\nx")),
    row("white space in mid-text is not held", ANYWHERE, "a" + " " * 5000 + T + "x", C("a" + " " * 5000), R("r"), C("x")),
    row("given back", ANYWHERE_GIVE_BACK, "a <think>r", C("a <think>r")),
    row("given back, leading", ANYWHERE_GIVE_BACK, "\n <think>r", C("\n <think>r")),
    row("code goes on over the block", ANYWHERE, "a <think>`</think>b `<think>` c", C("a "), R("`"), C("b `<think>` c")),
]  # fmt: skip

ODD_TEXT = [
    row("lone surrogates", DEFAULT, "<think>\ud83d</think>\udc00x\ud800", R("\ud83d"), C("\udc00x\ud800")),
    row("NUL and controls", DEFAULT, "<think>\x00\x01</think>\x00\x1b", R("\x00\x01"), C("\x00\x1b")),
    row("astral and combining characters", DEFAULT, "<think>\U0001f914</think>e\u0301\U0001f600", R("\U0001f914"), C("e\u0301\U0001f600")),
]  # fmt: skip

CASES = [
    replace(case, name=f"{group}: {case.name}")
    for group, cases in {
        "markers": MARKERS,
        "lines": WHITE_SPACE_AND_LINES,
        "leading": LEADING,
        "nested": NESTED,
        "blank": BLANK_BLOCKS,
        "interleaved": INTERLEAVED,
        "code": CODE,
        "tidy": TIDY,
        "exact": EXACT_ROWS,
        "ends": ENDS,
        "calls": CALLS,
        "implicit": IMPLICIT_ROWS,
        "anywhere": ANYWHERE_ROWS,
        "odd": ODD_TEXT,
    }.items()
    for case in cases
]
