"""Whether a browser asks for the page itself, or a foreign site asks in its name.

A site can make its visitors' browsers send requests to a proxy that only they can reach, and a name of its
own can lead to that proxy (DNS rebinding), so that the browser takes both for one. Against the first stand
the fields that browsers set and scripts cannot, against the second that only such names count that nobody
on the internet can own. A key does as well: a foreign site does not have it.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from proxy import headers
from proxy.errors import ForeignSiteError

if TYPE_CHECKING:
    from proxy.headers import Headers

_PRIVATE_SUFFIXES = (".localhost", ".local", ".internal", ".home.arpa")
"""Names that the public DNS never has: RFC 6761, RFC 6762, RFC 8375, and ICANN's resolution of 2024-07-29."""


def check_site(fields: Headers, *, has_keys: bool) -> None:
    """Let a request of the page pass, and one that comes from no browser.

    Args:
        fields: the header fields of the request.
        has_keys: the request needed a key to come this far.

    Raises:
        ForeignSiteError: another site asks, or the page is open to all under a name that others can own.
    """
    host = (headers.find(fields, b"host") or b"").decode("latin-1").lower()
    site = headers.find(fields, b"sec-fetch-site")
    origin = headers.find(fields, b"origin")
    # https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header; `none` is an address that was typed in.
    # Browsers send it to trustworthy addresses only: without it the origin has to do.
    if site not in (None, b"same-origin", b"none"):
        raise ForeignSiteError("Only the page itself may ask for this.")
    if site is None and origin is not None and _authority(origin.decode("latin-1")) != host:
        raise ForeignSiteError("Only the page itself may ask for this.")
    if not has_keys and not is_private(host):
        raise ForeignSiteError(
            "Without apiKeys the page works under an IP address, localhost, a name without dots, or one that "
            "ends in .local, .internal or .home.arpa: other names can be made to lead here by anybody. "
            "Set apiKeys to use it under this name."
        )


def is_private(host: str) -> bool:
    """Tell whether a `Host`, perhaps with a port, is an address or a name that the public DNS never has."""
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return False
    if not name:
        return False
    try:
        ip_address(name)
    except ValueError:
        return "." not in name or name.endswith(_PRIVATE_SUFFIXES)
    return True


def _authority(origin: str) -> str | None:
    """Return the host and port of an origin; None for `null`."""
    scheme, separator, authority = origin.lower().partition("://")
    return authority if separator and scheme in ("http", "https") else None
