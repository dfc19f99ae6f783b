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
_BOM = b"\xef\xbb\xbf"
_TAIL = 3  # an end is at most four bytes: the last three may be the beginning of one


class Event(NamedTuple):
    """One event: the bytes it came as, and the data in it (None when it has no data line)."""

    raw: bytes
    data: bytes | None


def encode(data: bytes, origin: Event | None = None) -> Event:
    """Make an event that carries `data`, which holds no line break.

    With an origin, the lines of that event other than its data stay as they are, in place.
    """
    if origin is None or is_plain(origin.raw):
        return Event(b"data: %b\n\n" % data, data)
    lines: list[bytes] = []
    written = False
    for line in _LINE.findall(origin.raw):
        if _field(line.removeprefix(_BOM)) is None:
            lines.append(line)
        elif not written:
            lines.append(b"data: %b%b" % (data, line[len(line.rstrip(b"\r\n")) :]))
            written = True
    return Event(b"".join(lines), data)


class Decoder:
    """Cuts a byte stream into events, wherever the network cut it."""

    def __init__(self, max_event_bytes: int) -> None:
        """Give up, with `overflow`, on an event that grows past this many bytes."""
        self._max_event_bytes = max_event_bytes
        self._buffer = b""
        self._scanned = 0
        self._after_cr = False
        self.overflow = False
        """An event is larger than allowed; what has come of it is kept back."""

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next bytes; return the events that they complete."""
        if not self._buffer and not self._after_cr and chunk.endswith(b"\n\n") and b"\r" not in chunk:
            return [_read(part + b"\n\n") for part in chunk[:-2].split(b"\n\n")]
        buffer = self._buffer + chunk
        events = []
        start = 0
        scan = self._scanned
        while True:
            if self._after_cr and start < len(buffer):
                # The LF of a CRLF whose CR ended the event before: it is no line of its own.
                scan = max(scan, start + (buffer[start : start + 1] == b"\n"))
                self._after_cr = False
            end = _END.search(buffer, scan)
            if end is None:
                break
            events.append(_read(buffer[start : end.end()]))
            start = scan = end.end()
            self._after_cr = buffer[start - 1 : start] == b"\r"
        self._buffer = buffer[start:]
        self._scanned = max(scan - start, len(self._buffer) - _TAIL, 0)
        self.overflow = len(self._buffer) > self._max_event_bytes
        return events

    def finish(self) -> list[Event]:
        """End the stream: a last event may lack its blank line, which it is given."""
        rest, self._buffer, self._scanned = self._buffer, b"", 0
        if not rest.strip(b"\r\n"):
            return []
        return [_read(rest + (b"\n" if rest.endswith((b"\n", b"\r")) else b"\n\n"))]


def is_plain(raw: bytes) -> bool:
    """Tell whether the event is one data line, the way model servers write it."""
    return raw.startswith(b"data: ") and raw.find(b"\n") == len(raw) - 2 and b"\r" not in raw


def _read(raw: bytes) -> Event:
    if is_plain(raw):
        return Event(raw, raw[6:-2])
    found = [value for line in _LINE.findall(raw.removeprefix(_BOM)) if (value := _field(line)) is not None]
    return Event(raw, b"\n".join(found) if found else None)


def _field(line: bytes) -> bytes | None:
    """Return the value of a data line, None for any other line."""
    name, _, value = line.rstrip(b"\r\n").partition(b":")
    return value.removeprefix(b" ") if name == b"data" else None
