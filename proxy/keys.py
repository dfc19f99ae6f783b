"""The keys that open the proxy.

Only their digests are compared, each with all of its bytes, so that the time an answer takes says
nothing about a key. What opened the proxy is taken out of the request: it is nobody else's business.
"""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING

from proxy.headers import CREDENTIALS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.headers import Headers

_BEARER = b"bearer"


class Keys:
    """The keys of one configuration; without any, the proxy is open."""

    def __init__(self, keys: Iterable[str]) -> None:
        """Take the keys as they were configured."""
        self._digests = [sha256(key.encode()).digest() for key in keys]

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._digests)

    def admit(self, headers: Headers) -> bool:
        """Tell whether a request may come in: as `Authorization: Bearer KEY` or `x-api-key: KEY`."""
        if not self._digests:
            return True
        found = False
        for name, value in headers:
            if name == b"x-api-key":
                found |= self._knows(value.strip())
            elif name == b"authorization":
                scheme, _, token = value.strip().partition(b" ")
                found |= scheme.lower() == _BEARER and self._knows(token.strip())
        return found

    def strip(self, headers: Headers) -> Headers:
        """Return the fields without the credentials that are keys of the proxy, whatever their scheme."""
        if not self._digests:
            return headers
        return [
            (name, value)
            for name, value in headers
            if name not in CREDENTIALS or not self._knows(value.strip().rpartition(b" ")[2])
        ]

    def _knows(self, token: bytes) -> bool:
        digest = sha256(token).digest()
        found = False
        for known in self._digests:
            found |= compare_digest(known, digest)
        return found
