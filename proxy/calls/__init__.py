"""Tool calls in text: find them in thinking, type their arguments, make them calls of the answer.

    text -> Finder -> CallBlock, Call -> Recovery -> Recovered

`dialects` is the table of how models write calls, `reader` reads one block by it.
"""
