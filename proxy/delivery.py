"""What was written to a client and has not reached it yet, and when to give up on it.

A connection that is closed on a client which still sends is reset, and takes away what was on its way: so it
is closed when the client has all of it. A client that takes nothing could hold it for ever.
"""

from __future__ import annotations

import asyncio
import fcntl
import struct
import termios

STALL_S = 600.0
"""Seconds for which a client may take nothing of an answer that waits for it: the model server waits, too."""


def count_unsent(transport: asyncio.Transport) -> int:
    """Return how many bytes lie here, or in the kernel without the client's having acknowledged them.

    A kernel that can't tell has none (Linux knows it of TCP and of socket files, see tcp(7) and unix(7)).
    """
    own, sock = transport.get_write_buffer_size(), transport.get_extra_info("socket")
    if sock is None:
        return own
    try:
        answer = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(struct.calcsize("i")))
    except (OSError, ValueError):
        return own
    return own + int(struct.unpack("i", answer)[0])


class Delivery:
    """Watches over what one client takes."""

    __slots__ = ("_end", "_loop", "_stall", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        """Begin without a limit."""
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None

    def end_after(self, pause_s: float, stuck_s: float) -> None:
        """End the connection unless `go_on` is called before.

        Args:
            pause_s: it is closed when all has been sent for so long.
            stuck_s: it is broken off when for so long the client has taken nothing of the rest.
        """
        if self._end is not None:
            self._end.cancel()
        self._end = self._loop.call_later(pause_s, self._look, pause_s, stuck_s, 0, 0.0)

    def go_on(self) -> None:
        """Take note that something happens on the connection."""
        if self._end is not None:
            self._end.cancel()
            self._end = None

    def pause(self) -> None:
        """More waits here than should: the client has to take some of it now."""
        self._stall = self._loop.call_later(STALL_S, self._give_up, count_unsent(self._transport))

    def resume(self) -> None:
        """Take note that it has."""
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _look(self, pause_s: float, stuck_s: float, before: int, been_stuck_s: float) -> None:
        unsent = count_unsent(self._transport)
        been_stuck_s = been_stuck_s + pause_s if unsent == before else 0.0
        if not unsent and not before:
            self._transport.close()
        elif been_stuck_s >= stuck_s:
            self._transport.abort()
        else:
            self._end = self._loop.call_later(pause_s, self._look, pause_s, stuck_s, unsent, been_stuck_s)

    def _give_up(self, before: int) -> None:
        if count_unsent(self._transport) < before:
            self.pause()
        else:
            self._transport.abort()
