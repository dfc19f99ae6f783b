from __future__ import annotations

from proxy.rules import Rule
from proxy.splitter import Channel, Splitter


def test_after_the_end_text_passes_untouched() -> None:
    splitter = Splitter(Rule())
    splitter.feed("<think>r</think>\n ")
    assert splitter.finish() == []
    after = splitter.feed("\n\n  x <think>y</think>")
    assert [(span.channel, span.text) for span in after] == [(Channel.CONTENT, "\n\n  x <think>y</think>")]
