"""Linux namespaces: who may make them, entering those of a process, and sockets in another network than one's own."""

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
    """The command line that runs a command in the namespaces of a process; paths in it must be absolute."""
    return ["nsenter", f"--target={pid}", *namespaces, "--wd=/", "--", *command]


def child_of(pid: int) -> int | None:
    """The first child of a process, such as what nsenter and unshare wait for; None: it has none."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(children[0]) if children else None


def new_network() -> None:
    """Give this process a network namespace of its own. It has nothing but a loopback that is down."""
    _check(_libc.unshare(CLONE_NEWNET))


@contextmanager
def network(namespace: int) -> Iterator[None]:
    """Sockets that this thread makes inside the block belong to that namespace (a file of /proc/*/ns/net).

    There must be no await inside.
    """
    with open(OWN, "rb") as own:
        _check(_libc.setns(namespace, CLONE_NEWNET))
        try:
            yield
        finally:
            _check(_libc.setns(own.fileno(), CLONE_NEWNET))


def tcp_socket(namespace: int) -> socket.socket:
    """A non-blocking TCP socket of that network namespace."""
    with network(namespace):
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setblocking(False)
    return made


def _check(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
