"""Ports and locks of this machine."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from pathlib import Path

from devassist.cli.context import Stop


def lock_holder(directory: Path) -> str | None:
    """The pid of who drives runs on the directory, None when nobody does."""
    try:
        handle = os.open(directory / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.read(handle, 32).decode(errors="replace").strip() or "unknown"
    else:
        return None
    finally:
        os.close(handle)


def bound(host: str, port: int) -> list[socket.socket]:
    """A bound socket for each address of ``host`` that this machine has; all at one port. Raises Stop."""
    sockets: list[socket.socket] = []
    failure: OSError | None = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise Stop(f"{host} is no address of this machine: {error.strerror}") from None
    for family, _, _, _, address in dict.fromkeys(found):
        place = (address[0], port or (sockets[0].getsockname()[1] if sockets else 0), *address[2:])
        try:
            sockets.append(_bound(family, place))
        except OSError as error:
            failure = error
            if error.errno != errno.EADDRNOTAVAIL:
                break
    if sockets and (failure is None or failure.errno == errno.EADDRNOTAVAIL):
        return sockets
    for each in sockets:
        each.close()
    raise _refused(host, port, failure)


def _bound(family: int, address: tuple[object, ...]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


def _refused(host: str, port: int, failure: OSError | None) -> Stop:
    code = failure.errno if failure else None
    if code == errno.EADDRINUSE:
        return Stop(f"port_in_use: port {port} of {host} is in use; choose another one with --port (0: any free one)")
    if code == errno.EACCES:
        return Stop(f"port_not_allowed: this user may not listen on port {port}; choose one from 1024 on with --port")
    why = failure.strerror if failure else "it has no address"
    return Stop(f"{host} port {port} cannot be listened on: {why}")
