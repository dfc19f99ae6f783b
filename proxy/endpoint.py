"""Where the proxy listens: sockets on a host and port, or a socket file."""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.settings import Listen

BACKLOG = 2048
"""Connections that may wait to be accepted; the system cuts it to its own limit (net.core.somaxconn)."""

MODE = 0o660
"""Of a socket file: its owner and group may connect, which takes the right to write."""


class Endpoint:
    """Listening sockets, and their address in one line."""

    def __init__(self, listen: Listen) -> None:
        """Bind them and begin to listen.

        Raises:
            OSError: the address cannot be had; its text names the address.
        """
        self._file: tuple[Path, tuple[int, ...]] | None = None
        self.sockets: list[socket.socket] = []
        where = listen.uds or f"{listen.host}:{listen.port}"
        try:
            if listen.uds is not None:
                self._bind_file(Path(listen.uds))
                self.url = f"unix:{listen.uds}"
            else:
                self._bind_host(listen.host, listen.port)
                host, port = self.sockets[0].getsockname()[:2]
                self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            for sock in self.sockets:
                sock.listen(BACKLOG)
                sock.setblocking(False)
        except OSError as error:
            self.close()
            self.remove()
            reason = error.strerror or str(error)
            raise OSError(
                error.errno, f"cannot listen on {where}: {reason[:1].lower()}{reason[1:]}"
            ) from None

    def close(self) -> None:
        """Close the sockets; other processes may still have them open."""
        for sock in self.sockets:
            sock.close()

    def remove(self) -> None:
        """Remove the socket file, unless another one stands in its place."""
        if self._file is not None:
            path, made = self._file
            with suppress(OSError):
                if _identify(path) == made:
                    path.unlink()

    def _bind_host(self, host: str, port: int) -> None:
        """Bind every address of a host, and the same port on each."""
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        missing: OSError | None = None
        for family, kind, protocol, _, address in dict.fromkeys(found):
            sock = socket.socket(family, kind, protocol)
            self.sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                sock.bind((address[0], port, *address[2:]))
            except OSError as error:
                # A name such as localhost may stand for an IPv6 address on a machine that has none.
                if error.errno != errno.EADDRNOTAVAIL:
                    raise
                missing = error
                self.sockets.pop().close()
            else:
                port = sock.getsockname()[1]
        if missing is not None and not self.sockets:
            raise missing

    def _bind_file(self, path: Path) -> None:
        _clear(path)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sockets.append(sock)
        sock.bind(os.fspath(path))
        self._file = path, _identify(path)
        # Nobody can connect before `listen`, so there is no moment with other rights.
        path.chmod(MODE)


def _identify(path: Path) -> tuple[int, ...]:
    """Return what tells a file from a later one of its name, even one that got the same inode."""
    found = path.lstat()
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _clear(path: Path) -> None:
    """Remove a socket file that a process left behind which is gone.

    Raises:
        OSError: somebody listens there, or it is no socket.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EEXIST, "there is a file that is no socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except BlockingIOError:
            pass  # its queue is full: it is alive
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
