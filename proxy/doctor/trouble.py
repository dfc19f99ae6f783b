"""What went wrong between doctor and a server, as one sentence that says what to do about it."""

from __future__ import annotations

import errno
import socket
import ssl
from typing import TYPE_CHECKING

from proxy.errors import SilentError, UnreachableError

if TYPE_CHECKING:
    from proxy.errors import UpstreamError

CONNECT_S = 5.0
"""Seconds to connect."""

_NO_ACCESS = (401, 403)
_REDIRECTS = range(300, 400)
_SERVER_ERRORS = 500


class TroubleError(Exception):
    """Nothing can be found out; the message is for the person at the terminal."""


class ListError(TroubleError):
    """The server gives no list of models; one that is named may answer all the same."""


def explain_failure(error: UpstreamError, url: str) -> TroubleError:
    """Return what a failure to connect, or to get any answer, means."""
    cause = error.__cause__
    if isinstance(error, SilentError):
        return TroubleError(
            f"{url} took no connection within {CONNECT_S:g} seconds: check host, port, and firewalls between."
        )
    if not isinstance(error, UnreachableError):
        return TroubleError(f"What listens at {url} is no HTTP server, or wants https://. {error.message}")
    if isinstance(cause, ssl.SSLCertVerificationError):
        return TroubleError(
            f"The certificate of {url} is not trusted ({cause.verify_message}): name a file with its "
            "issuer in SSL_CERT_FILE."
        )
    if isinstance(cause, ssl.SSLError):
        return TroubleError(f"{url} does not speak TLS: try it with http://.")
    if isinstance(cause, socket.gaierror):
        return TroubleError(f"The host of {url} is not known: check its name.")
    # A name with several addresses: asyncio makes one error of theirs, in words.
    if isinstance(cause, ConnectionRefusedError) or f"[Errno {errno.ECONNREFUSED}]" in str(cause):
        return TroubleError(f"Nothing listens at {url}: start the model server, or check host and port.")
    if isinstance(cause, FileNotFoundError):
        return TroubleError(f"There is no socket file at {url}: start the model server, or check the path.")
    reason = getattr(cause, "strerror", None) or cause or error.message
    return TroubleError(f"{url} cannot be reached ({reason}): check host and port.")


def explain_access(url: str, status: int, *, key_given: bool) -> TroubleError | None:
    """Return what a refused key means; None for any other status."""
    if status not in _NO_ACCESS:
        return None
    if key_given:
        return TroubleError(f"{url} refuses the key ({status}): check the variable that --api-key-env names.")
    return TroubleError(
        f"{url} wants an API key ({status}): name the environment variable that holds it with --api-key-env."
    )


def explain_list(url: str, status: int, location: str | None) -> ListError:
    """Return what it means that `/v1/models` gave no list of models."""
    if status in _REDIRECTS:
        where = f" to {location}" if location else ""
        return ListError(f"{url} redirects{where} ({status}): give the address that it leads to.")
    if status >= _SERVER_ERRORS:
        return ListError(
            f"{url} fails at /v1/models ({status}): wait until it has loaded its model, or read its log."
        )
    return ListError(
        f"{url} is no OpenAI-compatible server: /v1/models gave no list of models ({status}). "
        "Give the address without a path behind it, or name a model with --model."
    )
