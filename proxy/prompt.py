"""Where an answer begins: what the request, and the prompt made from it, say about that.

A chat template may end the prompt inside a block of thinking, or not, and only the request tells which:
it can switch thinking off, bind the output to a grammar from its first token, or end in the beginning
of an answer. What the request leaves open, `Start.AUTO` leaves to the prompt itself.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from proxy.markers import Kind, compile_markers
from proxy.rules import Start
from proxy.splitter import Splitter

if TYPE_CHECKING:
    from proxy.rules import Rule, TagSet

PROMPT_TEXT = "prompt_text"
"""The field in which vLLM (0.21.0 and later) returns the prompt when `return_prompt_text` asks for it."""

OFF_SWITCHES = (
    ("enable_thinking", False),
    ("thinking", False),
    ("reasoning", False),
    ("thinking_mode", "disabled"),
)
"""Arguments of chat templates that switch thinking off, in order: Qwen's and GLM's, DeepSeek's and Kimi's,
Command A's, MiniMax-M3's."""

ON_SWITCHES = (("enable_thinking", True), ("thinking", True), ("thinking_mode", "enabled"))
"""Those that switch it on where that is not the default."""

_OFF_EFFORTS = ("none", "no_think")
"""Efforts that are none; the second is Hunyuan's."""

_PATTERNS = ("regex", "grammar", "guided_regex", "guided_grammar", "ebnf")
"""Names, in a request or in its `structured_outputs`, of grammars that are written as text."""

_GRAMMARS = (
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "regex",
    "ebnf",
    "json_schema",
)
"""Fields that bind the output to a grammar: those of older vLLM, and SGLang's. In newer vLLM one field,
`structured_outputs`, holds them all."""

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def decide_start(document: dict[str, Any], rule: Rule) -> Rule:
    """Return the rule with its start settled as far as the request settles it.

    `AUTO` stays where the prompt has to decide: it is the truth about a switch too, since there are
    templates that know none.
    """
    inside_prompt = rule.start in (Start.IMPLICIT, Start.AUTO)
    prefilled = _prefilled(document)
    if prefilled is None and not inside_prompt:
        return rule
    if _is_bound(document, rule.tags):
        return replace(rule, start=Start.LEADING) if inside_prompt else rule
    if prefilled is not None:
        # The client began the answer itself: only it knows where.
        before = Start.LEADING if inside_prompt else rule.start
        return _continue(prefilled, replace(rule, start=before), closed=inside_prompt)
    if rule.start is Start.IMPLICIT and _is_off(document):
        return replace(rule, start=Start.LEADING)
    return rule


def settle_start(rule: Rule, prompt: object) -> Rule:
    """Return the rule for an answer to this prompt; anything but a text says that the server did not tell."""
    inside = isinstance(prompt, str) and compile_markers(rule.tags).ends_open(prompt)
    return replace(rule, start=Start.IMPLICIT if inside else Start.LEADING)


def ask(document: dict[str, Any], rule: Rule, *, finds_calls: bool = False) -> dict[str, Any]:
    """Return the request with what the rule needs from the server; the same object if that is nothing.

    Servers drop special tokens from the text unless told not to, and may put spaces between two of
    them. Tags and (`finds_calls`) tool calls may be written with such tokens. What the client set itself
    stays.
    """
    missing: dict[str, Any] = {}
    if (rule.tags.special or finds_calls) and document.get("skip_special_tokens") is None:
        missing["skip_special_tokens"] = False
    if _has_composed_markers(rule.tags) and document.get("spaces_between_special_tokens") is None:
        missing["spaces_between_special_tokens"] = False
    if rule.start is Start.AUTO and not asks_for_prompt(document):
        missing["return_prompt_text"] = True
    return document | missing if missing else document


def asks_for_prompt(document: dict[str, Any]) -> bool:
    """Tell whether the client itself wants the prompt's text returned.

    Servers read 1 and "true" as true; what else there may be is theirs to judge.
    """
    return document.get("return_prompt_text") not in (None, False)


def _has_composed_markers(tags: TagSet) -> bool:
    return tags.special and any(opener.count("|>") > 1 for opener in tags.openers)


def _prefilled(document: dict[str, Any]) -> str | None:
    """Return the beginning of the answer that the client wrote, if the model is to go on from it."""
    messages = document.get("messages")
    if not document.get("continue_final_message") or not isinstance(messages, list) or not messages:
        return None
    last = messages[-1]
    if not isinstance(last, dict) or last.get("role") != "assistant":
        return None
    content = last.get("content")
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        content = "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _continue(prefilled: str, rule: Rule, *, closed: bool) -> Rule:
    """Return the rule for an answer that goes on from what the client wrote.

    With `closed` the thinking may have ended in front of that, so that a later block can be open in it.
    """
    ends_open = _ends_open(prefilled, rule)
    if ends_open:
        prefilled = prefilled.rstrip() + "\n"  # in front of a line break an opener counts at once
    # With `anywhere` what comes may stand in code that began in it, without a block.
    if rule.start is Start.ANYWHERE or _reads(prefilled, rule).engaged:
        return replace(rule, prefill=prefilled)
    behind = replace(rule, prefill=f"{rule.tags.openers[0]}.{rule.tags.closers[0]}{prefilled}")
    if (closed or ends_open) and _reads(behind.prefill, rule).inside:
        return behind
    return replace(rule, start=Start.IMPLICIT) if ends_open else rule


def _reads(prefilled: str, rule: Rule) -> Splitter:
    splitter = Splitter(rule)
    splitter.feed(prefilled)
    return splitter


def _ends_open(prefilled: str, rule: Rule) -> bool:
    """Tell whether it ends in an opener outside code: who mentions a tag goes on, or ends the code first."""
    if not compile_markers(rule.tags).ends_open(prefilled):
        return False
    return _reads(prefilled + "\n", replace(rule, start=Start.ANYWHERE)).inside


def _is_off(document: dict[str, Any]) -> bool:
    """Tell whether the request switches thinking off."""
    arguments = document.get("chat_template_kwargs")
    if isinstance(arguments, dict) and any(arguments.get(name) == off for name, off in OFF_SWITCHES):
        return True
    thinking, reasoning = document.get("thinking"), document.get("reasoning")
    return (
        document.get("reasoning_effort") in _OFF_EFFORTS
        or (isinstance(thinking, dict) and thinking.get("type") == "disabled")
        or (isinstance(reasoning, dict) and reasoning.get("effort") in _OFF_EFFORTS)
    )


def _is_bound(document: dict[str, Any], tags: TagSet) -> bool:
    """Tell whether a grammar holds from the first token, so that the answer cannot begin with thinking.

    One that writes a closer itself describes the thinking along with the answer.
    """
    format_ = document.get("response_format")
    if isinstance(format_, dict) and str(format_.get("type")).startswith("json"):
        return True
    if _is_forced(document.get("tool_choice")):
        return True
    nested = document.get("structured_outputs")
    grammars = {name: document.get(name) for name in _GRAMMARS} | (nested if isinstance(nested, dict) else {})
    given = {name: grammar for name, grammar in grammars.items() if _says_something(grammar)}
    return bool(given) and not any(_writes_closer(given.get(name), tags) for name in _PATTERNS)


def _is_forced(tool_choice: Any) -> bool:
    """Tell whether the answer has to be a tool call: some tool, or a named one."""
    if not isinstance(tool_choice, dict):
        return bool(tool_choice == "required")
    allowed = tool_choice.get("allowed_tools")
    return not isinstance(allowed, dict) or allowed.get("mode") == "required"


def _says_something(grammar: Any) -> bool:
    """Tell whether a field says something; an empty JSON schema does."""
    return grammar not in (None, False, "", [])


def _writes_closer(pattern: Any, tags: TagSet) -> bool:
    if not isinstance(pattern, str):
        return False
    found = compile_markers(tags).find(Kind.CLOSE, _ESCAPE.sub(r"\1", pattern), 0)
    return found is not None and found.kind is Kind.CLOSE
