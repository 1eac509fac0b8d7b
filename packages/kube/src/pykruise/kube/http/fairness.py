"""Shares a server among its clients, and chooses the connection to close when the server is full.

connections, requests, bytes of bodies ──▶ ServerRoom: a share for each peer ──▶ True, False, or a connection to evict

Pure. One address never holds more than `share` of anything, so a single client cannot use up a server. A connection
that does not fit replaces an idle one: of the same address if that address has used up its share, otherwise of the
address with the most connections. Among the idle connections of this address, it replaces the one that has been idle
longest. A body that does not fit replaces the body that began to arrive first. A request that is being answered is
never ended for a new request: the new request is rejected.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

import msgspec

__all__ = ["Holder", "ServerRoom"]


class Holder(Protocol):
    """The attributes of a connection that ServerRoom reads."""

    @property
    def is_busy(self) -> bool:
        """Whether one of its requests is being answered."""
        ...

    @property
    def body_begun(self) -> float | None:
        """Time at which the arriving body began, in seconds of any clock; None: no body is arriving."""
        ...


HolderT = TypeVar("HolderT", bound=Holder)


class _Held(msgspec.Struct):
    """Resources that one connection holds."""

    peer: str
    requests: int = 0
    size: int = 0


class _Share(Generic[HolderT]):
    """Resources that all connections of one address hold."""

    def __init__(self) -> None:
        self.connections: dict[HolderT, None] = {}
        """The connections, the least recently used first."""
        self.bodies: dict[HolderT, None] = {}
        """Connections that hold bytes of bodies, the oldest first."""
        self.requests = 0
        self.size = 0


class ServerRoom(Generic[HolderT]):
    """Capacity of a server. A limit of 0 means no limit.

    `connections` and `requests` limit their number, `size` limits the bytes of bodies. `share` is the part of each
    limit that one address may hold.
    """

    def __init__(self, *, connections: int = 0, requests: int = 0, size: int = 0, share: float = 1.0) -> None:
        self._most_connections, self._most_requests, self._most_size = connections, requests, size
        self._of_one = [max(1, int(most * share)) for most in (connections, requests, size)]
        self._held: dict[HolderT, _Held] = {}
        self._shares: dict[str, _Share[HolderT]] = {}
        self._bodies: dict[HolderT, None] = {}
        self.requests = 0
        """Requests that are being answered."""
        self.size = 0
        """Size of all bodies, in bytes."""

    def __iter__(self) -> Iterator[HolderT]:
        return iter(tuple(self._held))

    def __len__(self) -> int:
        return len(self._held)

    @property
    def has_no_place_for_requests(self) -> bool:
        """Whether the requests of all clients together have reached their limit."""
        return 0 < self._most_requests <= self.requests

    # ── connections ──────────────────────────────────────────────────────────

    def enter(self, connection: HolderT, peer: str, *, evict: Callable[[HolderT], object]) -> bool:
        """Add a connection. `evict` closes the one that it replaces. Returns False when every connection that it
        could replace is busy.
        """
        share = self._shares.get(peer)
        most = self._most_connections
        if most and share is not None and len(share.connections) >= self._of_one[0]:
            victim = _find_idle_connection(share)
        elif most and len(self._held) >= most:
            by_size = sorted(self._shares.values(), key=lambda share: -len(share.connections))
            victim = next(
                (holder_t for share in by_size if (holder_t := _find_idle_connection(share)) is not None),
                None,
            )
        else:
            self._add(connection, peer)
            return True
        if victim is None:
            return False
        self.leave(victim)
        evict(victim)
        self._add(connection, peer)
        return True

    def make_room(self, *, evict: Callable[[HolderT], object]) -> None:
        """Close a connection of the address that has most of them, to free a resource that is not counted here."""
        largest = max(self._shares.values(), key=lambda share: len(share.connections), default=None)
        victim = _find_idle_connection(largest) if largest is not None else None
        if victim is not None:
            self.leave(victim)
            evict(victim)

    def _add(self, connection: HolderT, peer: str) -> None:
        self._held[connection] = _Held(peer)
        self._shares.setdefault(peer, _Share()).connections[connection] = None

    def use(self, connection: HolderT) -> None:
        """Note that a whole request arrived on the connection."""
        held = self._held.get(connection)
        if held is not None:
            connections = self._shares[held.peer].connections
            del connections[connection]
            connections[connection] = None

    def leave(self, connection: HolderT) -> None:
        """Release everything that the connection holds. Later calls for it have no effect."""
        held = self._held.pop(connection, None)
        if held is None:
            return
        share = self._shares[held.peer]
        del share.connections[connection]
        self._count_requests(share, requests=-held.requests)
        self._resize(connection, held, -held.size)
        if not share.connections:
            del self._shares[held.peer]

    # ── requests ─────────────────────────────────────────────────────────────

    def begin(self, connection: HolderT) -> bool:
        """Count a request that has arrived with its body. Returns False when there is no room for it."""
        held = self._held.get(connection)
        if held is None:
            return False
        share = self._shares[held.peer]
        has_used_its_share = self._most_requests > 0 and share.requests >= self._of_one[1]
        if has_used_its_share or self.has_no_place_for_requests:
            return False
        held.requests += 1
        self._count_requests(share, requests=1)
        return True

    def end(self, connection: HolderT) -> None:
        """Count a request as answered."""
        held = self._held.get(connection)
        if held is not None:
            held.requests -= 1
            self._count_requests(self._shares[held.peer], requests=-1)

    # ── bytes of bodies ──────────────────────────────────────────────────────

    def hold(self, connection: HolderT, size: int, *, evict: Callable[[HolderT], object]) -> bool:
        """Hold `size` more bytes of a body. `evict` gives up bodies that began earlier, and releases their bytes.

        Returns False if there is no room, and no other arriving body began earlier.
        """
        held = self._held.get(connection)
        if held is None:
            return False
        share, most = self._shares[held.peer], self._most_size
        while most:
            if share.size + size > self._of_one[2]:
                slowest = _find_slowest(share.bodies)
            elif self.size + size > most:
                slowest = _find_slowest(self._bodies)
            else:
                break
            if slowest is None or _read_begin_time(connection) <= _read_begin_time(slowest):
                return False
            evict(slowest)
            if slowest.body_begun is not None:
                return False
        self._resize(connection, held, size)
        return True

    def release(self, connection: HolderT, size: int) -> None:
        """Release some bytes that the connection holds."""
        held = self._held.get(connection)
        if held is not None:
            self._resize(connection, held, -min(size, held.size))

    def _count_requests(self, share: _Share[HolderT], *, requests: int) -> None:
        share.requests += requests
        self.requests += requests

    def _resize(self, connection: HolderT, held: _Held, size: int) -> None:
        share = self._shares[held.peer]
        held.size += size
        share.size += size
        self.size += size
        for bodies in (share.bodies, self._bodies):
            if held.size:
                bodies.setdefault(connection)
            else:
                bodies.pop(connection, None)


def _find_idle_connection(share: _Share[HolderT]) -> HolderT | None:
    return next((connection for connection in share.connections if not connection.is_busy), None)


def _find_slowest(bodies: Iterable[HolderT]) -> HolderT | None:
    return next((body for body in bodies if body.body_begun is not None), None)


def _read_begin_time(holder: Holder) -> float:
    return holder.body_begun or 0.0
