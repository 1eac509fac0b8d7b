"""Linux namespaces: check whether they can be created, enter those of a process, open sockets in another network."""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

CLONE_NEWNET = 0x40000000
ALL = ("--mount", "--uts", "--ipc", "--net", "--pid")
OWN = "/proc/self/ns/net"

_libc = ctypes.CDLL(None, use_errno=True)


def enter(pid: int, command: Sequence[str], *, namespaces: Sequence[str] = ALL) -> list[str]:
    """Return the command line that runs a command in the namespaces of a process. Paths in it must be absolute."""
    return ["nsenter", f"--target={pid}", *namespaces, "--wd=/", "--", *command]


def child_of(pid: int) -> int | None:
    """Return the first child of a process, for example the child that nsenter or unshare waits for; None: it has no
    child.
    """
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(children[0]) if children else None


def enter_new_network() -> None:
    """Move this process to a new network namespace. It has only a loopback, which is down."""
    _check(_libc.unshare(CLONE_NEWNET))


@contextmanager
def enter_network(namespace: int) -> Iterator[None]:
    """Sockets that this thread opens inside the block belong to that namespace (a file of /proc/*/ns/net).

    The block must not contain an await.
    """
    with open(OWN, "rb") as own:
        _check(_libc.setns(namespace, CLONE_NEWNET))
        try:
            yield
        finally:
            _check(_libc.setns(own.fileno(), CLONE_NEWNET))


def open_tcp_socket(namespace: int) -> socket.socket:
    """Open a non-blocking TCP socket in that network namespace."""
    with enter_network(namespace):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setblocking(False)
    return made


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
