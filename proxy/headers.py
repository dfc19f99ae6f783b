"""Which header fields travel, in either direction.

Hop-by-hop fields (RFC 9110, 7.6.1) end here, and so do those that `Connection` names. The length is
written anew for the request, whose body is always complete here; cookies are not forwarded: they belong
to the host that the client knows.
"""

from __future__ import annotations

import re

Headers = list[tuple[bytes, bytes]]
"""Header fields in order, names in lower case."""

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
CREDENTIALS = frozenset({b"authorization", b"x-api-key"})
"""Fields in which clients send their key."""

CONDITIONS = frozenset(
    {b"if-match", b"if-none-match", b"if-modified-since", b"if-unmodified-since", b"if-range", b"range"}
)
"""Fields that ask for an answer under a condition, or for a part of it (RFC 9110, 13 and 14)."""

_NOT_UPSTREAM = frozenset(
    {b"host", b"content-length", b"expect", b"cookie", b"http2-settings", b"x-request-id"}
)
_NOT_DOWNSTREAM = frozenset({b"set-cookie", b"x-request-id"})
DIGESTS = frozenset({b"content-md5", b"content-digest", b"repr-digest", b"digest"})
"""Fields that hold for the very bytes of a body."""

_OF_THE_BODY = DIGESTS | {b"content-length", b"content-encoding", b"etag"}
_OF_THE_STREAM = frozenset({b"cache-control", b"x-accel-buffering"})
CORS_PREFIX = b"access-control-"
"""Begins the fields that say which web pages may read an answer."""
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")


def find(headers: Headers, name: bytes) -> bytes | None:
    """Return the first value of a field, None without one."""
    for key, value in headers:
        if key == name:
            return value
    return None


def is_delimited(headers: Headers) -> bool:
    """Tell whether a body says where it ends, rather than ending with its connection."""
    return find(headers, b"content-length") is not None or find(headers, b"transfer-encoding") is not None


def is_open_ended(headers: Headers) -> bool:
    """Tell whether something can be put between two parts of a body: it has no length, and is not coded."""
    return not any(key in (b"content-length", b"content-encoding") for key, _ in headers)


def is_request_id(value: bytes) -> bool:
    """Tell whether an id that a client sent is fit to be written to headers and logs."""
    return _REQUEST_ID.fullmatch(value) is not None


def is_preflight(method: str, headers: Headers) -> bool:
    """Tell whether a browser asks what it may ask (https://fetch.spec.whatwg.org/#cors-preflight-request)."""
    return (
        method == "OPTIONS"
        and find(headers, b"origin") is not None
        and find(headers, b"access-control-request-method") is not None
        and not is_delimited(headers)
    )


def without(headers: Headers, names: frozenset[bytes]) -> Headers:
    """Return the fields less those of these names."""
    return [field for field in headers if field[0] not in names]


def for_upstream(
    headers: Headers,
    *,
    host: bytes,
    body_bytes: int,
    request_id: bytes,
    identity: bool,
    api_key: str | None = None,
) -> Headers:
    """Return the fields of a request to the model server.

    Args:
        headers: the client's fields.
        host: the upstream's authority.
        body_bytes: the length of the body that is sent.
        request_id: the id under which the request is known here.
        identity: ask for an answer without compression, because it will be read.
        api_key: the upstream's key: it takes the place of whatever the client sent as one.
    """
    dropped = _NOT_UPSTREAM | {b"accept-encoding"} if identity else _NOT_UPSTREAM
    if api_key is not None:
        dropped |= CREDENTIALS
    kept = [(b"host", host), *_end_to_end(headers, dropped), (b"x-request-id", request_id)]
    if identity:
        kept.append((b"accept-encoding", b"identity"))
    if api_key is not None:
        kept.append((b"authorization", b"Bearer " + api_key.encode()))
    if body_bytes or is_delimited(headers):
        kept.append((b"content-length", b"%d" % body_bytes))
    return kept


def for_client(
    headers: Headers,
    *,
    request_id: bytes,
    stream: bool,
    rewritten: bool,
    own_cors: bool,
    secret: bytes | None = None,
) -> Headers:
    """Return the fields of an answer to the client.

    Args:
        headers: the model server's fields.
        request_id: the id under which the request is known here.
        stream: the answer is a stream of events, which nothing on the way may buffer.
        rewritten: the body is another one: what describes the old one goes, its length included.
        own_cors: cross-origin rules are made here: the server's own, often "anyone", must not widen them.
        secret: what no field may tell; one that does is dropped.
    """
    dropped = _NOT_DOWNSTREAM
    if stream:
        dropped |= _OF_THE_STREAM
    if rewritten:
        dropped |= _OF_THE_BODY
    kept = _end_to_end(headers, dropped)
    if own_cors:
        kept = [field for field in kept if not field[0].startswith(CORS_PREFIX)]
    if secret is not None:
        kept = [field for field in kept if secret not in field[1]]
    if stream:
        kept += [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
    return [*kept, (b"x-request-id", request_id)]


def _end_to_end(headers: Headers, dropped: frozenset[bytes]) -> Headers:
    named: set[bytes] = set()
    for key, value in headers:
        if key == b"connection":
            named.update(token.strip().lower() for token in value.split(b","))
    return [
        (key, value)
        for key, value in headers
        if key not in _HOP_BY_HOP and key not in dropped and key not in named
    ]
