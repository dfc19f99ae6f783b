"""The page: one file with its styles and scripts inside, which asks nobody else for anything."""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from proxy.headers import Headers

_FILE = Path(__file__).with_name("page.html")
_INLINE = re.compile(rb"<(style|script)>(.*?)</\1>", re.DOTALL)


class Document(NamedTuple):
    """What is sent for the page."""

    fields: Headers
    body: bytes


@cache
def read_document() -> Document:
    """Return the page with the policy that fits it: nothing runs that does not stand in it.

    The policy names the digest of each style and script (https://www.w3.org/TR/CSP3/#external-hash), and
    with trusted types (https://w3c.github.io/trusted-types/) browsers refuse to make markup from text.
    """
    body = _FILE.read_bytes()
    hashes: dict[bytes, list[str]] = {b"style": [], b"script": []}
    for kind, inline in _INLINE.findall(body):
        hashes[kind].append(f"'sha256-{b64encode(sha256(inline).digest()).decode()}'")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"style-src {' '.join(hashes[b'style'])}",
            f"script-src {' '.join(hashes[b'script'])}",
            "img-src data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    fields = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
        (b"content-security-policy", policy.encode()),
        (b"cache-control", b"no-cache"),
        *GUARDS,
    ]
    return Document(fields, body)


GUARDS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
"""Fields of everything below `/_proxy/`: it is for the page alone."""
