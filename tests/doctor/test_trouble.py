"""What went wrong, in words that help."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest

from proxy.doctor.trouble import explain_access, explain_failure
from proxy.errors import BrokenError, SilentError, UnreachableError, UpstreamError

URL = "https://models.test"


def certificate_error() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "self-signed certificate"
    return error


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (certificate_error(), ("self-signed certificate", "SSL_CERT_FILE")),
        (ssl.SSLError(1, "WRONG_VERSION_NUMBER"), ("does not speak TLS", "http://")),
        (socket.gaierror(-2, "Name or service not known"), ("not known", "check its name")),
        (
            ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
            ("Nothing listens", "start the model server"),
        ),
        (OSError(f"Multiple exceptions: [Errno {errno.ECONNREFUSED}] a, b"), ("Nothing listens",)),
        (FileNotFoundError(errno.ENOENT, "No such file"), ("no socket file",)),
        (OSError(errno.EHOSTUNREACH, "No route to host"), ("No route to host", "check host and port")),
        (None, ("cannot be reached (why)",)),
    ],
)
def test_no_connection(cause: Exception | None, words: tuple[str, ...]) -> None:
    error = UnreachableError("why")
    error.__cause__ = cause
    told = str(explain_failure(error, URL))
    assert URL in told
    for word in words:
        assert word in told
    # Nobody who runs doctor has a configuration yet.
    assert "configuration" not in told


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SilentError("timeouts.connectSeconds"), "within 5 seconds"),
        (BrokenError("Odd bytes."), "no HTTP server"),
    ],
)
def test_no_answer(error: UpstreamError, words: str) -> None:
    told = str(explain_failure(error, URL))
    assert words in told
    assert "timeouts." not in told


@pytest.mark.parametrize("key_given", [False, True])
def test_access(key_given: bool) -> None:
    for status in (401, 403):
        assert "--api-key-env" in str(explain_access(URL, status, key_given=key_given))
    assert explain_access(URL, 404, key_given=key_given) is None
