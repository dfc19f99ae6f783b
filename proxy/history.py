"""How the reasoning of earlier assistant turns goes back to the model server.

Clients return reasoning under a name that the server may not read, and chat templates differ in where
they look for it (`docs/history.md`). A mode of the rule says what an assistant message is made into:

    mode                            the message's reasoning
    keep                            stays as the client sent it
    inline                          in front of its content, in the rule's own tags
    reasoning, reasoning_content    under this name, and no other
    drop                            gone

Nothing is changed in place: what stays as it was is the same object afterwards, so that identity tells
whether a request has to be written anew. A message of a shape that nobody documents is the client's
business and the server's, and stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy import chat
from proxy.lines import VISIBLE
from proxy.markers import Kind, compile_markers
from proxy.rules import History, Whitespace

if TYPE_CHECKING:
    from proxy.rules import Rule, TagSet

_BLANK_LINE = "\n\n"
"""What stands between a block and its answer where `tidy` removed what stood there: so do the templates
of Qwen3, Qwen3.5 and MiniMax-M2 write it."""


def convert(document: dict[str, Any], rule: Rule) -> dict[str, Any]:
    """Return the request with its assistant messages as the rule's `history` wants them.

    Args:
        document: a parsed chat completion request; it is not changed.
        rule: the rule of its model.

    Returns:
        The same object when no message changes, else a copy that shares all that stayed.
    """
    messages = document.get("messages")
    if rule.history is History.KEEP or not isinstance(messages, list):
        return document
    made = [_convert_message(message, rule) for message in messages]
    if all(new is old for new, old in zip(made, messages, strict=True)):
        return document
    return document | {"messages": made}


def _convert_message(message: Any, rule: Rule) -> Any:
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return message
    fields = [key for key in message if key in chat.REASONING_FIELDS]
    if not fields or not all(_is_usual(message[name]) for name in fields):
        return message
    if rule.history is History.DROP:
        return {key: value for key, value in message.items() if key not in fields}
    if rule.history is History.INLINE:
        return _put_inline(message, fields, rule)
    return _rename(message, fields, rule.history.value)


def _is_usual(field: Any) -> bool:
    """Tell whether a reasoning field is a string, a list of details, or null."""
    if isinstance(field, list):
        return all(isinstance(detail, dict) for detail in field)
    return field is None or isinstance(field, str)


def _rename(message: dict[str, Any], fields: list[str], target: str) -> dict[str, Any]:
    """Put the reasoning under one name: in that field's place, else in the place of the first there is."""
    given = message.get(target)
    text = given if isinstance(given, str) and given else chat.reasoning_text(message)
    if not text or fields == [target]:
        return message
    place = target if target in fields else fields[0]
    made: dict[str, Any] = {}
    for key, value in message.items():
        if key == place:
            made[target] = text
        elif key not in fields:
            made[key] = value
    return made


def _put_inline(message: dict[str, Any], fields: list[str], rule: Rule) -> dict[str, Any]:
    """Put the reasoning in front of the content; a message without that key gets it in a field's place."""
    content, text = message.get("content"), chat.reasoning_text(message)
    if not _is_content(content):
        return message
    if text and not _begins_with_block(content, rule.tags):
        content = _prepend(_write_block(text, rule.tags), content, rule.whitespace)
    made: dict[str, Any] = {}
    for key, value in message.items():
        if key not in fields:
            made[key] = content if key == "content" else value
        elif text and "content" not in message:
            made["content"] = content
    return made


def _is_content(content: Any) -> bool:
    if isinstance(content, list):
        return all(isinstance(part, dict) for part in content)
    return content is None or isinstance(content, str)


def _begins_with_block(content: str | list[dict[str, Any]] | None, tags: TagSet) -> bool:
    """Tell whether the first visible text is an opener: then the client returned the block itself."""
    texts = [content] if isinstance(content, str) else [part.get("text") for part in content or ()]
    for text in texts:
        if isinstance(text, str) and (visible := VISIBLE.search(text)):
            found = compile_markers(tags).match(Kind.OPEN, text, visible.start())
            return found is not None and found.kind is Kind.OPEN
    return False


def _write_block(text: str, tags: TagSet) -> str:
    """Write a block. How the model spelled its markers is not known any more: the first of each counts."""
    return f"{tags.openers[0]}{text}{tags.closers[0]}"


def _prepend(
    block: str, content: str | list[dict[str, Any]] | None, whitespace: Whitespace
) -> str | list[dict[str, Any]]:
    """Put a block in front of a content of any shape.

    In an array it goes into the first part if that is text and nothing else: servers put a space
    (SGLang) or a line break (vLLM) between parts when the template wants a string.
    """
    if not content:
        return [_text_part(block)] if isinstance(content, list) else block
    if isinstance(content, str):
        # `tidy` never leaves a line break at the head of an answer: content with one is not its work.
        joint = "" if whitespace is Whitespace.EXACT or content[0] in "\r\n" else _BLANK_LINE
        return block + joint + content
    first, *others = content
    if chat.is_text_part(first):
        return [first | {"text": _prepend(block, first["text"], whitespace)}, *others]
    return [_text_part(block), *content]


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
