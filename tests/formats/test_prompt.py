"""Where an answer begins: every exception to `implicit` and `auto`, and what is asked of the server."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from proxy.prompt import ask, decide_start, settle_start
from proxy.request import make_plan, read_chat
from proxy.rules import TAG_SETS, History, Rule, Start, Unterminated, Whitespace
from proxy.splitter import Channel, Splitter

IMPLICIT = Rule(start=Start.IMPLICIT)
AUTO = Rule(start=Start.AUTO)
OPEN = (Start.IMPLICIT, Start.AUTO)
USER = {"role": "user", "content": "why"}


def start(rule: Rule, **fields: Any) -> Start:
    return decide_start({"model": "m", "messages": [USER], **fields}, rule).start


OFF = [
    {"chat_template_kwargs": {"enable_thinking": False}},
    {"chat_template_kwargs": {"thinking": False}},
    {"chat_template_kwargs": {"thinking": False, "enable_thinking": True}},
    {"chat_template_kwargs": {"thinking_mode": "disabled"}},
    {"chat_template_kwargs": {"reasoning": False}},
    {"reasoning_effort": "none"},
    {"reasoning_effort": "no_think"},
    {"reasoning": {"effort": "none"}},
    {"thinking": {"type": "disabled"}},
]
NOT_OFF = [
    {},
    {"chat_template_kwargs": None},
    {"chat_template_kwargs": "enable_thinking"},
    {"chat_template_kwargs": {}},
    {"chat_template_kwargs": {"enable_thinking": True}},
    {"chat_template_kwargs": {"enable_thinking": None}},
    {"chat_template_kwargs": {"thinking": True, "thinking_mode": "enabled"}},
    {"enable_thinking": None},
    {"reasoning_effort": "low"},
    {"reasoning_effort": None},
    {"reasoning": {"effort": "high"}},
    {"reasoning": "none"},
    {"thinking": {"type": "enabled"}},
    {"thinking": False, "chat_template_kwargs": []},
]
BOUND = [
    {"response_format": {"type": "json_object"}},
    {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}},
    {"structured_outputs": {"json": {"type": "object"}}},
    {"structured_outputs": {"json": {}}},
    {"structured_outputs": {"regex": "[0-9]+", "json": None}},
    {"structured_outputs": {"choice": ["yes", "no"]}},
    {"structured_outputs": {"grammar": 'root ::= "a"'}},
    {"structured_outputs": {"json_object": True}},
    {"structured_outputs": {"regex": "<think>[a-z]+"}},
    {"guided_json": {}},
    {"guided_json": {"type": "object"}},
    {"guided_regex": "[0-9]+"},
    {"guided_choice": ["a", "b"]},
    {"guided_grammar": 'root ::= "a"'},
    {"regex": "[a-z]+"},
    {"ebnf": 'root ::= "a"'},
    {"json_schema": "{}"},
    {"tool_choice": "required"},
    {"tool_choice": {"type": "function", "function": {"name": "f"}}},
    {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}}},
]
NOT_BOUND = [
    {"response_format": None},
    {"response_format": {}},
    {"response_format": {"type": "text"}},
    {"response_format": {"type": "structural_tag", "structures": [], "triggers": []}},
    {"structured_outputs": None},
    {"structured_outputs": {}},
    {"structured_outputs": {"json": None, "json_object": False}},
    {"guided_json": None},
    {"guided_choice": []},
    {"guided_decoding_backend": "xgrammar"},
    {"regex": ""},
    {"tool_choice": "auto"},
    {"tool_choice": "none"},
    {"tool_choice": None},
    {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}},
    # A grammar that writes the closer describes the thinking too.
    {"structured_outputs": {"regex": "[a-z ]{8}\\n</think>\\n\\n[a-z]+"}},
    {"structured_outputs": {"regex": "[a-z ]{8}\\n<\\/think>[a-z]+"}},
    {"structured_outputs": {"grammar": 'root ::= "a" "</think>" "b"'}},
    {"guided_regex": "[a-z]+</think>[a-z]+"},
    {"ebnf": 'root ::= "</think>"'},
]


@pytest.mark.parametrize("fields", OFF, ids=str)
def test_thinking_switched_off_is_not_implicit(fields: dict[str, Any]) -> None:
    assert start(IMPLICIT, **fields) is Start.LEADING


@pytest.mark.parametrize("fields", OFF, ids=str)
def test_with_auto_the_prompt_tells_what_a_switch_did(fields: dict[str, Any]) -> None:
    assert start(AUTO, **fields) is Start.AUTO


@pytest.mark.parametrize("fields", [*NOT_OFF, *NOT_BOUND], ids=str)
def test_all_else_leaves_the_start_as_it_is(fields: dict[str, Any]) -> None:
    for mode in Start:
        assert start(Rule(start=mode), **fields) is mode


@pytest.mark.parametrize("fields", BOUND, ids=str)
def test_a_grammar_from_the_first_token_leaves_no_room_for_thinking(fields: dict[str, Any]) -> None:
    for mode in Start:
        assert start(Rule(start=mode), **fields) is (Start.LEADING if mode in OPEN else mode)


def test_the_closer_in_a_grammar_is_that_of_the_rule() -> None:
    fields = {"structured_outputs": {"regex": "[a-z]+\\[/THINK\\][a-z]+"}}
    assert start(IMPLICIT, **fields) is Start.LEADING
    assert start(replace(IMPLICIT, tags=TAG_SETS["mistral"]), **fields) is Start.IMPLICIT


def prefilled(content: Any, rule: Rule, **fields: Any) -> Start:
    """Where an answer goes on: `IMPLICIT` stands for inside a block, however that came about."""
    document = {
        "messages": [USER, {"role": "assistant", "content": content}],
        "continue_final_message": True,
        **fields,
    }
    decided = decide_start(document, rule)
    return Start.IMPLICIT if Splitter(decided).inside else decided.start


def go_on(rule: Rule, content: str, continuation: str) -> tuple[str, str]:
    """The reasoning and the content of an answer that goes on from this content."""
    messages = [USER, {"role": "assistant", "content": content}]
    splitter = Splitter(decide_start({"messages": messages, "continue_final_message": True}, rule))
    spans = splitter.feed(continuation) + splitter.finish()
    return tuple(  # type: ignore[return-value]  # of two
        "".join(span.text for span in spans if span.channel is channel)
        for channel in (Channel.REASONING, Channel.CONTENT)
    )


PREFILLED = [
    ("<think>so far", True),
    ("\n<think>", True),
    ("<think>a</think>b\n<think>c", True),
    ("Sure, let me think.\n<think>\n", True),
    ("Sure: <think>", True),
    ("<think>a</think>Hi <think>", True),
    ("The tag is `<think>", False),
    ("Like this:\n```\n<think>\n", False),
    ("<think>a</think>b", False),
    ("<think>\n\n</think>\n\n", False),
    ("Sure, ", False),
    ("a</think>b", False),
    ("", False),
    (None, False),
    (7, False),
    ([{"type": "text", "text": "<think>so far"}], True),
    ([{"type": "text", "text": "<th"}, {"type": "text", "text": "ink>so"}], True),
    ([{"type": "text", "text": "<think>a</think>"}, {"type": "text", "text": "b"}], False),
    ([{"type": "image_url", "image_url": {}}, 7, {"type": "text", "text": None}], False),
    ([], False),
]


@pytest.mark.parametrize(("content", "inside"), PREFILLED, ids=str)
def test_a_prefilled_turn_says_where_its_answer_goes_on(content: Any, inside: bool) -> None:
    for mode in Start:
        rule = Rule(start=mode)
        otherwise = Start.LEADING if mode in OPEN else mode
        assert prefilled(content, rule) is (Start.IMPLICIT if inside else otherwise)


@pytest.mark.parametrize(
    ("content", "read"),
    [
        ("<think>a</think>Hello", True),
        ("<think>a</think>b\n<think>c", True),
        ("Hello", False),
        ("", False),
    ],
)
@pytest.mark.parametrize("mode", [mode for mode in Start if mode is not Start.ANYWHERE])
def test_a_block_that_the_client_closed_is_behind_the_answer(mode: Start, content: str, read: bool) -> None:
    messages = [USER, {"role": "assistant", "content": content}]
    document = {"model": "m", "messages": messages, "continue_final_message": True}
    assert decide_start(document, Rule(start=mode)).prefill == (content if read else "")


def test_code_that_the_client_began_goes_on_in_the_answer() -> None:
    rule = Rule(start=Start.ANYWHERE)
    assert go_on(rule, "The tag is `", "<think>` is it. <think>r</think>y") == ("r", "<think>` is it. y")


EXACT = {"whitespace": Whitespace.EXACT}
KEPT = {"unterminated": Unterminated.CONTENT}


@pytest.mark.parametrize(
    ("mode", "content", "continuation", "heard", "fields"),
    [
        # Visible text before the block: it is no leading one, and what stands behind it stays.
        ("anywhere", "Hello\n<think>a", " b</think>\n\n    y", (" b", "\n\n    y"), {}),
        ("implicit", "<think>a</think>\nHello\n<think>q", " b</think>\n\n    y", (" b", "\n\n    y"), {}),
        ("implicit", "Hello\n<think>q", " b</think>\n\n    y", (" b", "\n\n    y"), {}),
        ("auto", "Hello\n<think>\n", "b</think>\n\n    y", ("b", "\n\n    y"), {}),
        ("leading", "Hello\n<think>", "b</think>\n\n    y", ("b", "\n\n    y"), {}),
        ("leading", "<think>a", "b</think>\n\n    y", ("b", "    y"), {}),
        ("leading", "<think>", "\n\nb</think>\n\ny", ("\n\nb", "y"), {}),
        ("leading", " <think>a", "b</think>\n\ny", ("b", "\n\ny"), EXACT),
        # Openers inside what the client wrote count.
        ("implicit", "<think>a <think> b", "c</think>d</think>e</think>", ("c", "de</think>"), {}),
        ("leading", "<think>a <think>", "c</think>d</think>e", ("c", "de"), {}),
        ("leading", "<think>a", "<think>c</think>d</think>e", ("<think>c", "de"), {}),
        # The opener that the client wrote may come once more.
        ("leading", "<think>\n", "<think>c</think>d</think>e", ("c", "d</think>e"), {}),
        # A block that never closes is given back without what the client has.
        ("leading", "<think>a", "b", ("", "b"), KEPT),
        ("leading", "<think>a", "b</think>c", ("b", "c"), KEPT),
        # Prose goes on as prose.
        ("leading", "Hello\n<think>a", " b</think>y", ("", " b</think>y"), {}),
        ("implicit", "The tag <think> opens", " b</think>y", ("", " b</think>y"), {}),
        ("leading", "<think>a</think>The tag <think> opens", " b</think>y", ("", " b</think>y"), {}),
        # Without later blocks there is one, and it has to lead; what a beginning ends in counts still.
        ("implicit", "Hello\n<think>a", " b</think>y", ("", " b</think>y"), {"interleaved": False}),
        ("implicit", "Hello\n<think>", "b</think>y", ("b", "y"), {"interleaved": False}),
        ("implicit", "<think>a", "b</think>y<think>c", ("b", "y<think>c"), {"interleaved": False}),
    ],
)
def test_the_state_in_which_the_client_left_its_beginning(
    mode: str, content: str, continuation: str, heard: tuple[str, str], fields: dict[str, Any]
) -> None:
    assert go_on(Rule(start=Start(mode), **fields), content, continuation) == heard


def test_anywhere_sees_an_open_block_anywhere_in_a_prefilled_turn() -> None:
    text = "Sure. <think>so"
    assert prefilled(text, Rule(start=Start.ANYWHERE)) is Start.IMPLICIT
    assert prefilled(text, Rule()) is Start.LEADING


def test_a_prefilled_turn_is_read_in_the_tags_of_the_rule() -> None:
    kimi = Rule(tags=TAG_SETS["kimi"])
    assert prefilled("◁think▷so", kimi) is Start.IMPLICIT
    assert prefilled("<think>so", kimi) is Start.LEADING


def test_what_the_client_wrote_wins_over_a_switch_and_loses_against_a_grammar() -> None:
    assert prefilled("<think>a", IMPLICIT, reasoning_effort="none") is Start.IMPLICIT
    for mode in OPEN:
        assert (
            prefilled("<think>a", Rule(start=mode), response_format={"type": "json_object"}) is Start.LEADING
        )


@pytest.mark.parametrize("continued", [False, None, 0])
def test_a_last_assistant_turn_that_is_not_continued_says_nothing(continued: Any) -> None:
    assert prefilled("<think>a", AUTO, continue_final_message=continued) is Start.AUTO
    assert prefilled("a</think>b", IMPLICIT, continue_final_message=continued) is Start.IMPLICIT


@pytest.mark.parametrize("messages", [None, [], "x", [7], [USER], [{"role": "assistant"}, USER]])
def test_without_a_last_assistant_turn_there_is_nothing_prefilled(messages: Any) -> None:
    assert start(AUTO, messages=messages, continue_final_message=True) is Start.AUTO


def test_a_block_that_history_puts_back_counts() -> None:
    body = {
        "model": "m",
        "continue_final_message": True,
        "messages": [USER, {"role": "assistant", "reasoning": "r", "content": "a"}],
    }
    plan = make_plan(read_chat(json.dumps(body).encode()), Rule(start=Start.AUTO, history=History.INLINE))
    assert plan.rule.start is Start.LEADING
    assert not plan.hides_prompt


PROMPTS = [
    ("think", "<|im_start|>assistant\n<think>", True),
    ("think", "<|im_start|>assistant\n<think>\n", True),
    ("think", "a<think>\r\n \t\u200b\n", True),
    ("think", "a<THINK >", True),
    ("think", "a<think>\n\n</think>\n\n", False),
    ("think", "a<think></think>", False),
    ("think", "a</think>", False),
    ("think", "a<think>b", False),
    ("think", "a<thinker>", False),
    ("think", "a<think", False),
    ("think", "<|im_start|>assistant\n", False),
    ("think", "", False),
    ("think", None, False),
    ("think", ["<think>"], False),
    ("gemma4", "a<|channel>thought\n", True),
    ("gemma4", "a<|channel>thought\n\n", True),
    ("gemma4", "a<|channel>thought", False),
    ("gemma4", "a<|channel>thought\n<channel|>", False),
    ("kimi-k3", "a<|open|>think<|sep|>", True),
    ("kimi-k3", "a<|open|>response<|sep|>", False),
    ("k2-horizon", "a<ifm|think_fast>\n", True),
    ("mistral", "a<think>", False),
    ("granite-3.2", "a Here's my thought process:\n", True),
]


@pytest.mark.parametrize(("tags", "prompt", "inside"), PROMPTS, ids=str)
def test_the_prompt_decides(tags: str, prompt: Any, inside: bool) -> None:
    settled = settle_start(Rule(start=Start.AUTO, tags=TAG_SETS[tags]), prompt)
    assert settled.start is (Start.IMPLICIT if inside else Start.LEADING)


@pytest.mark.parametrize("row", TAG_SETS.values(), ids=lambda row: row.name)
def test_every_opener_of_every_row_opens_at_the_end_of_a_prompt(row: Any) -> None:
    rule = Rule(start=Start.AUTO, tags=row)
    for opener in row.openers:
        assert settle_start(rule, "user: why\n" + opener).start is Start.IMPLICIT
        assert settle_start(rule, "user: why\n" + opener + "\n").start is Start.IMPLICIT
        assert settle_start(rule, opener + "x").start is Start.LEADING
        for closer in row.closers:
            assert settle_start(rule, f"{opener}\n\n{closer}\n\n").start is Start.LEADING


def test_an_opener_that_is_far_back_in_the_prompt_is_not_its_end() -> None:
    assert settle_start(AUTO, "<think>" + "x" * 100_000).start is Start.LEADING


SPECIAL = [row.name for row in TAG_SETS.values() if row.special]
KEPT = {"skip_special_tokens": False}


@pytest.mark.parametrize("tags", SPECIAL)
def test_special_tokens_are_asked_for_unless_the_client_said(tags: str) -> None:
    rule = Rule(tags=TAG_SETS[tags])
    asked = ask({"model": "m"}, rule)
    assert asked["skip_special_tokens"] is False
    assert ask({"model": "m", "skip_special_tokens": None}, rule)["skip_special_tokens"] is False
    for said in (True, False):
        assert ask({"model": "m", "skip_special_tokens": said}, rule)["skip_special_tokens"] is said


def test_a_marker_of_two_tokens_is_asked_for_without_spaces_inside() -> None:
    k3 = Rule(tags=TAG_SETS["kimi-k3"])
    assert ask({}, k3) == KEPT | {"spaces_between_special_tokens": False}
    assert ask({"spaces_between_special_tokens": True}, k3)["spaces_between_special_tokens"] is True
    assert ask({}, Rule(tags=TAG_SETS["mistral"])) == KEPT


def test_the_prompt_is_asked_for_with_auto_only() -> None:
    for mode in Start:
        assert ask({}, Rule(start=mode)) == ({"return_prompt_text": True} if mode is Start.AUTO else {})


@pytest.mark.parametrize("rule", [Rule(), IMPLICIT, Rule(start=Start.ANYWHERE)])
def test_a_request_from_which_nothing_is_needed_is_the_same_object(rule: Rule) -> None:
    document = {"model": "m", "messages": [USER]}
    assert ask(document, rule) is document


BODY = b'{ "model":"m", "messages" : [{"role":"user","content":"\\u00e9"}], "temperature":1.0 }'


@pytest.mark.parametrize("rule", [Rule(), IMPLICIT, Rule(start=Start.ANYWHERE)])
def test_nothing_needed_leaves_the_bytes(rule: Rule) -> None:
    request = read_chat(BODY)
    plan = make_plan(request, rule)
    assert plan.body is request.body
    assert not plan.hides_prompt


def test_a_settled_auto_leaves_the_bytes() -> None:
    body = b'{"model":"m","response_format":{"type":"json_object"}}'
    plan = make_plan(read_chat(body), AUTO)
    assert (plan.body, plan.rule.start, plan.hides_prompt) == (body, Start.LEADING, False)


@pytest.mark.parametrize(
    ("said", "sent", "hides"),
    [(None, True, True), (False, True, True), (True, True, False), (1, 1, False), ("true", "true", False)],
)
def test_the_prompt_is_hidden_from_who_did_not_ask_for_it(said: Any, sent: Any, hides: bool) -> None:
    for body in ({"model": "m", "return_prompt_text": said}, {"model": "m"} if said is None else None):
        if body is not None:
            plan = make_plan(read_chat(json.dumps(body).encode()), AUTO)
            assert json.loads(plan.body) == {"model": "m", "return_prompt_text": sent}
            assert plan.hides_prompt is hides


def test_what_is_added_stands_behind_what_came() -> None:
    rule = Rule(start=Start.AUTO, tags=TAG_SETS["mistral"])
    plan = make_plan(read_chat(b'{"z":[1,{}],"model":"m"}'), rule)
    assert plan.body == b'{"z":[1,{}],"model":"m","skip_special_tokens":false,"return_prompt_text":true}'
