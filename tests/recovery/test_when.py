"""When calls are made, and when nothing happens: then the answer is that without recovery."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proxy.rules import Rule, Unterminated
from proxy.tools import read_tools
from tests.examples import IS_FULL
from tests.recovery.answers import (
    CLOSED,
    FORMS,
    OPEN,
    PARSED,
    Form,
    Heard,
    Single,
    hear,
    hear_whole,
    streamed,
    whole,
    write_stream,
    write_whole,
)
from tests.toolcalls.cases import CASES, HERMES, MALFORMED, QWEN, READ, TOOLS
from tests.wire.streams import DONE, choice, chunk, event, fold

TIME = "<tool_call>get_time</tool_call>"
UNKNOWN = "<tool_call>rm</tool_call>"
EVERY_FORM = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
BOTH_KINDS = pytest.mark.parametrize("form", FORMS if IS_FULL else [OPEN, PARSED], ids=lambda form: form.name)
"""One of those in which the proxy finds the thinking, and the one in which the server does."""


def hear_both(form: Form, thought: str, content: str = "", finish: str = "stop", **options: Any) -> Heard:
    """What is heard, the same streamed in any pieces and whole."""
    tools, rule = options.get("tools", TOOLS), options.get("rule", form.rule)
    parts = form.parts(thought, content)
    heard = hear_whole(whole(write_whole(parts, finish), rule, tools))
    size = len(parts[0][1])
    for cuts in (range(0), range(size)):
        assert hear(streamed(write_stream(parts, cuts, finish), rule, tools)) == heard
    return heard


def nothing_happens(
    form: Form, thought: str, content: str = "", finish: str = "stop", **options: Any
) -> None:
    """All is heard as without recovery, and there is no call in it."""
    heard = hear_both(form, thought, content, finish, **options)
    assert heard.calls == []
    without = whole(write_whole(form.parts(thought, content), finish), options.get("rule", form.rule), {})
    assert heard == hear_whole(without)
    assert (heard.finish, heard.content.strip()) == (finish, content.strip())


@EVERY_FORM
def test_a_call_is_made(form: Form) -> None:
    heard = hear_both(form, f"I look.\n{QWEN}")
    assert heard == Heard("I look.\n", "", [READ], ["call_0"], "tool_calls")


@EVERY_FORM
@pytest.mark.parametrize(
    ("thought", "reasoning"),
    [
        (f"I look.\n{QWEN}", "I look.\n"),
        (QWEN, ""),
        (f"I look.\n{QWEN} {HERMES}\n", f"I look.\n{QWEN} {HERMES}\n"),
        (f"\n{QWEN}{QWEN}", f"\n{QWEN}{QWEN}"),
    ],
    ids=["one", "one and nothing else", "two", "two and nothing else"],
)
@pytest.mark.parametrize("content", ["", "\n"])
def test_where_one_call_at_most_is_wanted_the_first_is_made(
    form: Form, thought: str, reasoning: str, content: str
) -> None:
    """As vLLM 0.33.0 does; the text of the others is not lost."""
    outside = "" if form is OPEN else content
    heard = hear_both(form, thought, outside, tools=Single(TOOLS))
    assert heard == Heard(reasoning, "", [READ], ["call_0"], "tool_calls")


@EVERY_FORM
@pytest.mark.parametrize("finish", ["length", "content_filter", "abort", "tool_calls"])
def test_another_end_than_stop(form: Form, finish: str) -> None:
    nothing_happens(form, f"a {QWEN}", finish=finish)


@pytest.mark.share
@BOTH_KINDS
@pytest.mark.parametrize("end", ["<tool_c", "<function=re", "</parameter>", "</function>"])
def test_a_call_that_is_cut_off(form: Form, end: str) -> None:
    nothing_happens(form, f"a {QWEN[: QWEN.rindex(end) + len(end)]}")


@pytest.mark.share
@BOTH_KINDS
@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_call(form: Form, text: str) -> None:
    nothing_happens(form, f"a {text}")


@pytest.mark.parametrize("form", [CLOSED, PARSED], ids=lambda form: form.name)
@pytest.mark.parametrize("content", ["Done.", "\n\nDone.", QWEN, "0"])
def test_visible_content(form: Form, content: str) -> None:
    nothing_happens(form, f"a {QWEN}", content)


@pytest.mark.parametrize("form", [CLOSED, PARSED], ids=lambda form: form.name)
def test_blank_content(form: Form) -> None:
    assert hear_both(form, f"a {QWEN}", " \n\t").calls == [READ]


@pytest.mark.share
@BOTH_KINDS
@pytest.mark.parametrize(
    "thought",
    [
        "just thought",
        f"a {QWEN} b",
        f"a {QWEN}\n\nNo, that is not needed.",
        f"First {QWEN}, then {HERMES}: no.",
        f"a `{QWEN}`",
        f"a\n```xml\n{QWEN}\n```",
        "I use <tool_call> and </tool_call> for that.",
        f"a {UNKNOWN}",
        f"a {QWEN}\n{UNKNOWN}",
        f"a {UNKNOWN}\n{QWEN}",
    ],
)
def test_drafts_quotes_and_unknown_names(form: Form, thought: str) -> None:
    nothing_happens(form, thought)


@EVERY_FORM
def test_drafts_before_a_call_stay(form: Form) -> None:
    heard = hear_both(form, f"Maybe {HERMES}? Or {UNKNOWN}. No:\n{QWEN}\n{TIME}\n")
    assert heard.reasoning.rstrip() == f"Maybe {HERMES}? Or {UNKNOWN}. No:"
    assert heard.calls == [READ, ("get_time", {})]


@pytest.mark.parametrize(
    ("tool_choice", "called"),
    [
        (None, True),
        ("auto", True),
        ("none", False),
        ({"type": "function", "function": {"name": "read"}}, True),
        ({"type": "function", "function": {"name": "get_time"}}, False),
    ],
)
@pytest.mark.share
@BOTH_KINDS
def test_tool_choice(form: Form, tool_choice: Any, called: bool) -> None:
    tools = [{"type": "function", "function": {"name": name, "parameters": TOOLS[name]}} for name in TOOLS]
    document = {"tools": tools} | ({} if tool_choice is None else {"tool_choice": tool_choice})
    if called:
        assert hear_both(form, f"a {QWEN}", tools=read_tools(document)).calls == [READ]
    else:
        nothing_happens(form, f"a {QWEN}", tools=read_tools(document))


def test_a_request_without_tools() -> None:
    documents: list[dict[str, Any]] = [{}, {"tools": None}, {"tools": []}]
    for document in documents:
        nothing_happens(OPEN, f"a {QWEN}", tools=read_tools(document))


@pytest.mark.parametrize("content", [QWEN, f"I call:\n{QWEN}"])
def test_a_call_in_the_content_is_no_call_in_the_thinking(content: str) -> None:
    raw = write_stream([("content", content)], range(len(content)))
    assert streamed(raw) == streamed(raw, tools={})
    nothing_happens(PARSED, "a", content)


def test_thinking_that_counts_as_content_calls_nothing() -> None:
    rule = Rule(unterminated=Unterminated.CONTENT)
    heard = hear_both(OPEN, f"a {QWEN}", rule=rule)
    assert (heard.calls, heard.content) == ([], f"<think>a {QWEN}")
    assert hear_both(CLOSED, f"a {QWEN}", rule=rule).calls == [READ]


REAL = {"index": 0, "id": "r", "type": "function", "function": {"name": "get_time", "arguments": "{}"}}
BESIDE = {
    "tool_calls": [REAL],
    "function_call": {"name": "get_time", "arguments": "{}"},
    "refusal": "no",
}


@EVERY_FORM
@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("finish", ["stop", "tool_calls"])
def test_a_turn_that_calls_the_proper_way_or_refuses(form: Form, name: str, finish: str) -> None:
    parts = form.parts(f"a {QWEN}\n")
    answer = write_whole(parts, finish, **{name: BESIDE[name]})
    assert whole(answer, form.rule) == whole(answer, form.rule, {})
    events = write_stream(parts, range(40), finish).removesuffix(DONE).split(b"\n\n")[:-1]
    beside = event(chunk(choice({name: BESIDE[name]})))
    raw = b"\n\n".join([*events[:-1], beside.removesuffix(b"\n\n"), events[-1], b""]) + DONE
    assert fold(streamed(raw, form.rule)) == fold(streamed(raw, form.rule, {}))
    assert hear(streamed(raw, form.rule)).reasoning.startswith(f"a {QWEN}")


@EVERY_FORM
@pytest.mark.parametrize("end", [DONE, b"", b'data: {"error":{"message":"m"}}\n\n'])
def test_a_stream_without_a_finish_reason(form: Form, end: bytes) -> None:
    raw = write_stream(form.parts(f"a {QWEN}"), range(30))
    cut = raw[: raw.rindex(b"data: {")] + end
    made = streamed(cut, form.rule)
    assert fold(made) == fold(streamed(cut, form.rule, {}))
    assert hear(made).reasoning == f"a {QWEN}"
    assert made.endswith(end)


@pytest.mark.parametrize("details", [[{"type": "reasoning.text", "text": "r", "signature": "s"}], {"x": 1}])
def test_details_that_may_be_signed_settle_it(details: Any) -> None:
    given = [{"reasoning": f"a {QWEN}"}, {"reasoning_details": details}, {}]
    raw = b"".join(event(chunk(choice(delta))) for delta in given[:-1])
    raw += event(chunk(choice(given[-1], finish="stop"))) + DONE
    assert fold(streamed(raw)) == fold(streamed(raw, tools={}))
    answer = write_whole(PARSED.parts(f"a {QWEN}"), reasoning_details=details)
    assert whole(answer) == whole(answer, tools={})


def test_content_of_parts_settles_it() -> None:
    parts = [{"type": "text", "text": "x"}]
    given = {"reasoning": f"a {QWEN}"}, {"reasoning": "b", "content": parts}
    raw = b"".join(event(chunk(choice(delta))) for delta in given)
    raw += event(chunk(choice({}, finish="stop"))) + DONE
    made = streamed(raw)
    assert hear(made.replace(b'[{"type":"text","text":"x"}]', b'"x"')) == Heard(
        f"a {QWEN}b", "x", finish="stop"
    )
    answer = write_whole(PARSED.parts(f"a {QWEN}"), content=parts)
    assert whole(answer) == whole(answer, tools={})


def test_every_negative_holds_for_every_dialect() -> None:
    for case in CASES:
        for thought, finish, size in ((f"a {case.text} b", "stop", 1), (f"a {case.text}", "length", 9)):
            parts = PARSED.parts(thought)
            heard = hear(streamed(write_stream(parts, range(0, len(thought), size), finish)))
            assert heard == replace(Heard(), reasoning=thought, finish=finish), case.name
