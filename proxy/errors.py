"""What can go wrong, as a tree. Every leaf knows how a client is told.

ProxyError                   status  code
├── RequestError                400  invalid_request
│   ├── MalformedError          400  malformed_request
│   ├── CredentialError         401  invalid_api_key
│   ├── ForeignSiteError        403  foreign_site
│   ├── PathError               404  not_found
│   ├── ModelError              404  model_not_found
│   ├── MethodError             405  method_not_allowed
│   ├── RequestTimeoutError     408  request_timeout
│   ├── BodySizeError           413  request_too_large
│   └── HeaderSizeError         431  header_too_large
├── UnavailableError            503  unavailable
│   ├── CapacityError           503  overloaded
│   └── StoppedError            503  shutting_down
└── UpstreamError               502  upstream_error
    ├── UnreachableError        502  upstream_unreachable
    ├── BrokenError             502  upstream_broken
    └── SilentError             504  upstream_timeout
"""

from __future__ import annotations

from typing import Self

from proxy import chat


class ProxyError(Exception):
    """An error that the proxy itself raises; its message is written for the user of the client."""

    status = 500
    type = "proxy_error"
    code = "internal_error"
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def __init__(self, message: str, *, param: str | None = None) -> None:
        """Say what happened and what to do about it; `param` names the field at fault."""
        super().__init__(message)
        self.message = message
        self.param = param

    def body(self) -> bytes:
        """Return the OpenAI error envelope."""
        return chat.error_body(self.message, self.type, self.code, self.param)


class RequestError(ProxyError):
    """The request cannot be served as it is."""

    status = 400
    type = "proxy_request_error"
    code = "invalid_request"


class MalformedError(RequestError):
    """What came is not HTTP/1.1, or not in a form that is served."""

    code = "malformed_request"


class CredentialError(RequestError):
    """The request has no key that opens the proxy."""

    status = 401
    code = "invalid_api_key"
    headers = ((b"www-authenticate", b"Bearer"),)  # RFC 9110, 15.5.2


class ForeignSiteError(RequestError):
    """A browser asks for the operator's page on behalf of a site that is not this page."""

    status = 403
    code = "foreign_site"


class PathError(RequestError):
    """The path is not one that the proxy forwards."""

    status = 404
    code = "not_found"


class ModelError(RequestError):
    """No model server is configured for the model."""

    status = 404
    code = "model_not_found"


class MethodError(RequestError):
    """The path does not take this method."""

    status = 405
    code = "method_not_allowed"
    headers = ((b"allow", b"POST, OPTIONS"),)


class RequestTimeoutError(RequestError):
    """The client took too long to send its request; what is left of it is not read."""

    status = 408
    code = "request_timeout"
    headers = ((b"connection", b"close"),)

    @classmethod
    def after(cls, limit_s: float) -> Self:
        """Return the error for a request that was not complete in this time."""
        return cls(
            f"The request was not complete after {limit_s:g} seconds "
            "(timeouts.requestSeconds in the proxy's configuration)."
        )


class BodySizeError(RequestError):
    """The request body is larger than allowed."""

    status = 413
    code = "request_too_large"
    headers = ((b"connection", b"close"),)

    @classmethod
    def beyond(cls, max_bytes: int) -> Self:
        """Return the error for a body of more than this."""
        return cls(
            f"The request body is larger than {max_bytes} bytes (maxBodyBytes in the proxy's configuration)."
        )


class HeaderSizeError(RequestError):
    """The head of the request is larger than allowed."""

    status = 431
    code = "header_too_large"
    headers = ((b"connection", b"close"),)


class UnavailableError(ProxyError):
    """The proxy serves no request now; another one of it, or this one later, will."""

    status = 503
    code = "unavailable"
    headers: tuple[tuple[bytes, bytes], ...] = ((b"retry-after", b"1"),)


class CapacityError(UnavailableError):
    """As many requests are being served as are allowed."""

    code = "overloaded"


class StoppedError(UnavailableError):
    """The proxy stops, and did not wait for the request any longer."""

    code = "shutting_down"
    headers = ((b"retry-after", b"1"), (b"connection", b"close"))


class UpstreamError(ProxyError):
    """The model server did not give an answer."""

    status = 502
    type = "proxy_upstream_error"
    code = "upstream_error"


class UnreachableError(UpstreamError):
    """No connection to the model server could be made."""

    code = "upstream_unreachable"


class BrokenError(UpstreamError):
    """The model server broke off, or what it sent is not HTTP."""

    code = "upstream_broken"


class SilentError(UpstreamError):
    """The model server sent nothing for too long."""

    status = 504
    code = "upstream_timeout"
