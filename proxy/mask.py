"""Take a secret out of an answer: an upstream that repeats what it was sent must not give its key away."""

from __future__ import annotations


class Mask:
    """Makes each byte of a secret an asterisk, so that the length of a body stays what it was."""

    def __init__(self, secret: str) -> None:
        """Begin a body that is not compressed."""
        self._secret = secret.encode()
        self._mask = b"*" * len(self._secret)
        self._held = b""  # may be the beginning of the secret

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes; return those that are certain."""
        data = (self._held + data).replace(self._secret, self._mask)
        kept = len(data) - self._begun(data)
        self._held = data[kept:]
        return data[:kept]

    def finish(self) -> bytes:
        """End the body; return the rest of it."""
        held, self._held = self._held, b""
        return held

    def _begun(self, data: bytes) -> int:
        """Return how many bytes at the end may be the beginning of the secret."""
        if not data or data[-1] not in self._secret:  # the rule: an event ends in a line break
            return 0
        longest = min(len(self._secret) - 1, len(data))
        return next((size for size in range(longest, 0, -1) if data.endswith(self._secret[:size])), 0)


def cover(body: bytes, secret: str | None) -> bytes:
    """Return a whole body without the secret, if there is one."""
    return body.replace(secret.encode(), b"*" * len(secret.encode())) if secret else body
