"""Find complete tool calls in the reasoning text of one turn.

House rules: text in, pieces out; no input makes it raise; nothing is lost; the pieces and what is left in
`run` give the text back, however it was cut.

Theory of operation. Text goes out at once, but for three things: what can still become an opener; a block
from its opener on, until it is complete or proves to be none; and the `run`: complete blocks with nothing
visible behind them, which a turn that ends here left for someone to execute. Visible text shows that they
were drafts: they go out, in order, before it.

What began like a block and was malformed is read again behind its first character: a real call may stand
in it. Reading again is paid for by text that came (`REREADS`), so hostile text costs no more than its
length. A block that the text or the limit cut off is not read again: what stands in it may be quoted.
"""

from __future__ import annotations

from proxy.calls.call import CallBlock
from proxy.calls.dialects import OPENERS, STRAY_CLOSERS
from proxy.calls.literals import compile_literals
from proxy.calls.reader import BlockReader
from proxy.lines import VISIBLE

BLOCK_LIMIT = 64 * 1024
"""Code points of a block; a longer one is reasoning."""

RUN_LIMIT = 1024 * 1024
"""Code points of blocks held at the end; more of them are drafts, up to the next visible text."""

HEAD_LIMIT = 4096
"""Code points of white space held before anything visible, as in `splitter.SPACE_LIMIT`."""

REREADS = 4
"""How many times the text that came may be read again in all."""

Piece = str | CallBlock
"""Reasoning text, or a block that is reasoning as well: a draft."""

_WINDOW = 1024
"""Code points that a reader is shown at first; more than a name with its layout."""

_OPENERS = compile_literals(tuple(OPENERS))


class Finder:
    """The machine for the reasoning of one turn."""

    def __init__(self) -> None:
        """Begin before the first text."""
        self._text = ""  # what came and is not consumed
        self._at = 0  # where in it reading goes on
        self._base = 0  # the code points that came before it
        self._reader: BlockReader | None = None
        self._reread = 0  # code points read again
        self._head = True  # nothing visible yet
        self._overrun = False  # the run was too long
        self._stray: tuple[str, ...] = ()  # what may close the call before, which stands alone
        self._held = 0  # code points in the run
        self._out: list[Piece] = []
        self.run: list[Piece] = []
        """What ends the text so far: complete blocks and white space; at its beginning, white space only."""

    def feed(self, text: str) -> list[Piece]:
        """Take the next piece of text; return what is certain to stay reasoning."""
        self._text += text
        self._read(final=False)
        return self._take()

    def passes(self, text: str) -> bool:
        """Tell at a glance that `feed` would return this text as it is; False when it has to look."""
        return not (self._text or self._reader or self.run or self._head or _OPENERS.begins_in(text))

    def finish(self) -> list[Piece]:
        """End the text; return the rest of it that is certain, without the blocks that end it: see `run`."""
        self._read(final=True)
        return self._take()

    def _take(self) -> list[Piece]:
        out, self._out = self._out, []
        return out

    def _read(self, *, final: bool) -> None:
        while self._read_block(final=final) if self._reader else self._read_text(final=final):
            pass
        self._base += self._at
        self._text = self._text[self._at :]
        self._at = 0

    def _read_text(self, *, final: bool) -> bool:
        hit = self._find(final=final)
        if hit is None:
            return False
        if hit in OPENERS:
            self._stray = ()
            self._reader = BlockReader(hit)
        else:
            self._close_stray(hit)
        return True

    def _find(self, *, final: bool) -> str | None:
        """Consume text up to the next marker that counts, and that one; None where there is none yet."""
        literals = compile_literals((*OPENERS, *self._stray)) if self._stray else _OPENERS
        hit = literals.find(self._text, self._at)
        if hit and not hit.literal and final:
            hit = None
        until = hit.start if hit else len(self._text)
        self._write(self._text[self._at : until])
        self._at = until + (len(hit.literal) if hit else 0)
        return hit.literal or None if hit else None

    def _read_block(self, *, final: bool) -> bool:
        reader = self._reader
        if reader is None:
            return False
        left, room = len(self._text) - self._at, BLOCK_LIMIT - reader.size
        # In windows that grow: most of what begins like a block is none, which shows soon.
        window = min(left, room, max(_WINDOW, reader.size))
        text = self._text[self._at : self._at + window]
        read = reader.read(text, 0)
        self._at += read
        if reader.done:
            self._reader = None
            self._keep(reader.block)
        elif reader.failed:
            self._reader = None
            self._give_up(reader)
        elif window == room or (final and window == left):
            self._reader = None
            self._write(reader.raw + text[read:])
            self._at += window - read
        else:
            return window < left
        return True

    def _give_up(self, reader: BlockReader) -> None:
        """Take what was malformed for text: only its first character, when the rest can be read again."""
        raw = reader.raw
        if self._reread + reader.size > REREADS * (self._base + self._at):
            self._write(raw)
            return
        self._reread += reader.size
        start = self._at - reader.size
        if start < 0:
            # It began in text that came earlier.
            self._base += start
            self._text = raw + self._text[self._at :]
            start = 0
        self._at = start + 1
        self._write(raw[0])

    # Writing

    def _keep(self, block: CallBlock) -> None:
        self._stray = STRAY_CLOSERS.get(block.opener, ())
        if self._overrun:
            self._out.append(block)
        else:
            self._hold(block, len(block.raw))

    def _close_stray(self, closer: str) -> None:
        """Add a closer, and the white space before it, to the call in front of it."""
        self._stray = ()
        tail = [closer]
        while self.run:
            piece = self.run.pop()
            if isinstance(piece, CallBlock):
                self._held += len(closer)
                self.run.append(piece._replace(raw="".join((piece.raw, *reversed(tail)))))
                return
            tail.append(piece)
        self._write("".join(reversed(tail)))

    def _write(self, text: str) -> None:
        if not text:
            return
        if VISIBLE.search(text):
            self._stray = ()
            self._release()
            self._head = self._overrun = False
            self._out.append(text)
        elif self._head or self.run:
            self._hold(text, len(text))
        else:
            self._out.append(text)

    def _hold(self, piece: Piece, size: int) -> None:
        self.run.append(piece)
        self._held += size
        if isinstance(piece, CallBlock):
            self._head = False
        elif self._head and self._held > HEAD_LIMIT:
            self._release()
            self._head = False
        if self._held > RUN_LIMIT:
            self._release()
            self._overrun = True

    def _release(self) -> None:
        self._out += self.run
        self.run = []
        self._held = 0
