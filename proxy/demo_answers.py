"""What the demo models say, and how their text is cut into tokens.

Every answer is about the thing that it shows, so that reading along explains the proxy. The models
are rows of `MODELS`; the demo server plays any of them the same way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Model:
    """One demo model: a name, and what it answers.

    A conversation's first question gets the first answer, the second question the second one, and
    so on in turn; choice `i` of a request is `i` answers further on. `split_tags` says that the
    model's tokenizer has no token for a tag and writes it in pieces.
    """

    name: str
    answers: tuple[str, ...]
    split_tags: bool = False

    def answer(self, question: int, choice: int) -> tuple[str, ...]:
        """Return the tokens for the `question`-th question (from 0) and choice index `choice`."""
        text = self.answers[(question + choice) % len(self.answers)]
        return cut_tokens(text, split_tags=self.split_tags)


_WORDS = r"</?|>\n*| ?\w{1,7}| ?([^\w\s<>])\1*|\n+| +|\s"
_PIECES = re.compile(_WORDS)
_PIECES_WITH_TAGS = re.compile(r"</?think>|" + _WORDS)


def cut_tokens(text: str, *, split_tags: bool = False) -> tuple[str, ...]:
    """Cut `text` into pieces of the size of a tokenizer's; joined, they are the text again.

    With `split_tags` a tag is three pieces (`<`, `think`, `>` and the line breaks after it), else one.
    Before a character outside the basic plane stands an empty piece: byte-level tokenizers spell
    such a character in several tokens, and vLLM sends no text until the last of them.
    """
    pieces: list[str] = []
    for match in (_PIECES if split_tags else _PIECES_WITH_TAGS).finditer(text):
        piece = match[0]
        if max(piece) > "\uffff":
            pieces.append("")
        pieces.append(piece)
    return tuple(pieces)


_THINKER = (
    """\
<think>
A greeting, then. First a plan: say what is on the screen, pause to think once more, and finish.
These lines are thinking, so they should turn up apart from the answer.
</think>

Hello! This is the half of my answer that was meant for you. The other half came first, between two \
tags that the proxy took away.
<think>
Half-way. Was that clear? A picture may help: one stream → two channels. I will end on that.
</think>
Picture a river with two currents 🌊: thoughts drift in one, words in the other, and neither waits \
for its neighbour.
""",
    """\
<think>
A second question, so a second answer. Nothing naïve this time: name the rule that is at work.
</think>

A thought may come at any point, as long as its tag begins a line.
<think>
Like this one. It took my tokenizer three tokens to open it: that should not matter either.
</think>
You have just seen one arrive between two paragraphs. It was cut out live, token by token, without \
holding up the words before it. ✨
""",
)

_CODER = (
    """\
<think>
They want code. I am going to quote the tags in it, which is a trap: a careless splitter cuts the \
answer in two right there.
</think>

This keeps what comes after the last closing tag:

```python
def answer(text: str) -> str:
    return text.rpartition("</think>")[2].lstrip()


print(answer("<think>2 + 2, carry nothing</think> 4"))
```

Both `<think>` and `</think>` stay where they are: inside code, a tag is only text.
""",
    """\
<think>
Something for the shell, with a tag on a line of its own. Even there, code is code.
</think>

To see what a model wrote before anyone tidied it up:

~~~sh
cat <<'END'
<think>
is the café open?
</think>
Yes, until six.
END
~~~

Count the opening tags with `grep -c '<think>'`. It finds one, and it is still here to be found.
""",
)

_PLAIN_TAGS = (
    """\
<think>
Nobody put this model on the list, so the proxy will not even look inside. My thoughts are public.
</think>

See the tags above? Every byte of this answer passed through as it came. Add `demo/plain-tags` to \
`inlineThinkTagModels` and ask again: the first paragraph moves to a field of its own. 🚪
""",
)

_IMPLICIT = (
    """\
The chat template has already written the opening tag into the prompt, so my very first word is a \
thought. All that I have to do is to close what I never opened: 思考, then the tag.
</think>

No opening tag came over the wire, only a closing one. A proxy that is told so (`start: implicit`) \
knows where the thinking began: at the beginning.
""",
)

MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model("demo/thinker", _THINKER, split_tags=True),
        Model("demo/coder", _CODER),
        Model("demo/plain-tags", _PLAIN_TAGS),
        Model("demo/implicit", _IMPLICIT, split_tags=True),
    )
}
"""The demo models, by name: interleaved thinking, code that quotes tags, the one that is meant to be
left off the list, and the one whose chat template opens the block."""
