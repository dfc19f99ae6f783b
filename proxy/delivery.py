"""What was written to a client and has not reached it yet."""

from __future__ import annotations

import fcntl
import struct
import termios
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


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
