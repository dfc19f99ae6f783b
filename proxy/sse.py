"""Server-sent events, as bytes that keep their place.

Reads the event stream format of the WHATWG HTML standard (section 9.2): lines end in LF, CR or CRLF,
an event ends at a blank line, a byte order mark may stand at the very start. Unlike a client, a proxy
has to give back what it does not understand: every event keeps the bytes it came as, comments and
blank lines included, and the events together are the stream.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_END = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LINE = re.compile(rb"[^\r\n]*(?>\r\n|\n|\r|\Z)")
BOM = b"\xef\xbb\xbf"
"""The byte order mark, which is an event of its own here."""

_TAIL = 2  # what may be the beginning of an end is one line break, and that is at most CR and LF


class Event(NamedTuple):
    """One event: the bytes it came as, and the data in it (None when it has no data line)."""

    raw: bytes
    data: bytes | None


def encode(data: bytes, origin: Event | None = None) -> Event:
    """Make an event that carries `data`, which holds no line break.

    With an origin, the lines of that event other than its data stay as they are, in place.
    """
    if origin is None or _is_plain(origin.raw):
        return Event(b"data: %b\n\n" % data, data)
    lines: list[bytes] = []
    written = False
    for line in _LINE.findall(origin.raw):
        if _field(line) is None:
            lines.append(line)
        elif not written:
            lines.append(b"data: %b%b" % (data, line[len(line.rstrip(b"\r\n")) :]))
            written = True
    return Event(b"".join(lines), data)


def is_bare(event: Event) -> bool:
    """Tell whether the event has no line other than data: no comment, name or id goes with it."""
    return _is_plain(event.raw) or all(
        line in (b"", b"\n", b"\r", b"\r\n") or _field(line) is not None for line in _LINE.findall(event.raw)
    )


class Decoder:
    """Cuts a byte stream into events, wherever the network cut it."""

    def __init__(self, max_event_bytes: int) -> None:
        """Give up, with `overflow`, on an event of more than this many bytes."""
        self._max_event_bytes = max_event_bytes
        self._buffer = bytearray()
        self._scanned = 0
        self._begun = False  # the byte order mark, or its absence, is behind us
        self._after_cr = False  # the last event ended in a CR, of which the LF may be still to come
        self.overflow = False
        """An event was larger than allowed. It is not given out, nor is anything behind it."""

    @property
    def at_boundary(self) -> bool:
        """Whether what comes next is the beginning of an event."""
        return self._begun and not (self._buffer or self._after_cr or self.overflow)

    def take(self, chunk: bytes) -> Event | None:
        """Take the next bytes if they are one event as servers write it, and return it; else take nothing.

        So come most streams: an event in each read.
        """
        if self._buffer or self._after_cr or self.overflow or not _is_plain(chunk):
            return None
        if len(chunk) > self._max_event_bytes or not chunk.endswith(b"\n\n"):
            return None
        self._begun = True
        return Event(chunk, chunk[6:-2])

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next bytes; return the events that they complete."""
        if self._is_whole(chunk):
            return [_read(part + b"\n\n") for part in chunk[:-2].split(b"\n\n")]
        if self.overflow:
            return []
        buffer = self._buffer
        buffer += chunk
        events: list[Event] = []
        start = 0
        if not self._begun:
            if len(buffer) < len(BOM) and BOM.startswith(buffer):
                return []
            self._begun = True
            if buffer.startswith(BOM):
                # An event of its own, so that no other has to mind it.
                events.append(Event(BOM, None))
                start = len(BOM)
        if self._after_cr and buffer:
            self._after_cr = False
            if buffer.startswith(b"\n"):
                # By itself as well: whatever becomes of the next event, it stays behind its CR.
                events.append(Event(b"\n", None))
                start = 1
        scan = max(start, self._scanned)
        while True:
            found = _END.search(buffer, scan)
            end = found.end() if found else len(buffer)
            self.overflow = end - start > self._max_event_bytes
            if not found or self.overflow:
                break
            events.append(_read(bytes(buffer[start:end])))
            self._after_cr = buffer[end - 1] == ord("\r")
            start = scan = end
        del buffer[: len(buffer) if self.overflow else start]
        self._scanned = max(scan - start, len(buffer) - _TAIL, 0)
        return events

    def finish(self) -> list[Event]:
        """End the stream: a last event may lack its blank line, which it is given."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._scanned = 0
        if not rest.strip(b"\r\n"):
            return [Event(rest, None)] if rest else []
        return [_read(rest + (b"\n" if rest.endswith(b"\n") else b"\n\n"))]

    def _is_whole(self, chunk: bytes) -> bool:
        """Tell whether the chunk is whole events as servers write them: the way they mostly come."""
        return (
            chunk.endswith(b"\n\n")
            and not chunk.endswith(b"\n\n\n")
            and self.at_boundary
            and len(chunk) <= self._max_event_bytes
            and b"\r" not in chunk
        )


def _is_plain(raw: bytes) -> bool:
    """Tell whether the event is one data line, the way model servers write it."""
    return raw.startswith(b"data: ") and raw.find(b"\n") == len(raw) - 2 and b"\r" not in raw


def _read(raw: bytes) -> Event:
    if _is_plain(raw):
        return Event(raw, raw[6:-2])
    found = [value for line in _LINE.findall(raw) if (value := _field(line)) is not None]
    return Event(raw, b"\n".join(found) if found else None)


def _field(line: bytes) -> bytes | None:
    """Return the value of a data line, None for any other line."""
    name, _, value = line.rstrip(b"\r\n").partition(b":")
    return value.removeprefix(b" ") if name == b"data" else None
