"""Take a secret out of an answer: an upstream that repeats what it was sent must not give its key away."""

from __future__ import annotations

from typing import Protocol


class Source(Protocol):
    """A body that is read piece by piece."""

    async def read(self) -> bytes:
        """Return the next bytes, nothing at the end."""
        ...


class Masked:
    """A body in which each byte of a secret is an asterisk, so that its length stays what it was."""

    def __init__(self, source: Source, secret: bytes) -> None:
        """Read from a body that is not compressed."""
        self._source = source
        self._secret = secret
        self._mask = b"*" * len(secret)
        self._held = b""  # may be the beginning of the secret

    async def read(self) -> bytes:
        """Return the next bytes, nothing at the end; raises what the source raises."""
        while data := await self._source.read():
            data = (self._held + data).replace(self._secret, self._mask)
            kept = len(data) - self._begun(data)
            data, self._held = data[:kept], data[kept:]
            if data:
                return data
        held, self._held = self._held, b""
        return held

    def _begun(self, data: bytes) -> int:
        """Return how many bytes at the end may be the beginning of the secret."""
        if data[-1] not in self._secret:  # the rule: an event ends in a line break
            return 0
        longest = min(len(self._secret) - 1, len(data))
        return next((size for size in range(longest, 0, -1) if data.endswith(self._secret[:size])), 0)


def mask(source: Source, secret: str | None) -> Source:
    """Return the body without the secret, if there is one."""
    return source if secret is None else Masked(source, secret.encode())
