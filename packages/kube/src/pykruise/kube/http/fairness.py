"""Which client of a server holds how much of it, and which connection is closed when there is no more room.

connections, requests, bytes of bodies ──▶ Room: a share for each peer address ──▶ True, False, or what to evict

Pure. One address never holds more than `share` of anything, so a single client cannot use up a server. A connection
that does not fit takes the place of the connection that has been idle for longest: of the same address when that one
has used up its share, else of the address with the most. A body that does not fit takes the place of the one that
has been on its way for longest. A request that is being answered is never ended for another one: the new one is
refused.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, Protocol, TypeVar

import msgspec

__all__ = ["Holder", "ServerRoom"]


class Holder(Protocol):
    """A connection as the room sees it."""

    @property
    def is_busy(self) -> bool:
        """Whether a request of it is being answered."""
        ...

    @property
    def body_begun(self) -> float | None:
        """When the body on its way began to come, in seconds of any clock; None: there is none."""
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
        """The one that was used least recently comes first."""
        self.bodies: dict[HolderT, None] = {}
        """Requests that hold bytes, the oldest first."""
        self.requests = 0
        self.size = 0


class ServerRoom(Generic[HolderT]):
    """Capacity of a server. A limit of 0 is none.

    `connections`, `requests`: how many; `size`: bytes of bodies; `share`: how much of each one address may hold.
    """

    def __init__(self, *, connections: int = 0, requests: int = 0, size: int = 0, share: float = 1.0) -> None:
        self._most_connections, self._most_requests, self._most_size = connections, requests, size
        self._of_one = [max(1, int(most * share)) for most in (connections, requests, size)]
        self._held: dict[HolderT, _Held] = {}
        self._shares: dict[str, _Share[HolderT]] = {}
        self._bodies: dict[HolderT, None] = {}
        self.requests = 0
        """That are being answered."""
        self.size = 0
        """Size of all bodies, in bytes."""

    def __iter__(self) -> Iterator[HolderT]:
        return iter(tuple(self._held))

    def __len__(self) -> int:
        return len(self._held)

    @property
    def has_no_place_for_requests(self) -> bool:
        """Whether all requests together have reached their limit, of all senders."""
        return 0 < self._most_requests <= self.requests

    # ── connections ──────────────────────────────────────────────────────────

    def enter(self, connection: HolderT, peer: str, *, evict: Callable[[HolderT], object]) -> bool:
        """Let a connection in. `evict` closes the one whose place it takes. False: all others are busy."""
        share = self._shares.get(peer)
        most = self._most_connections
        if most and share is not None and len(share.connections) >= self._of_one[0]:
            victim = _least_used(share)
        elif most and len(self._held) >= most:
            by_size = sorted(self._shares.values(), key=lambda share: -len(share.connections))
            victim = next(
                (holder_t for share in by_size if (holder_t := _least_used(share)) is not None), None
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
        """Close one connection of the address with the most, for want of something that is not counted here."""
        largest = max(self._shares.values(), key=lambda share: len(share.connections), default=None)
        victim = _least_used(largest) if largest is not None else None
        if victim is not None:
            self.leave(victim)
            evict(victim)

    def _add(self, connection: HolderT, peer: str) -> None:
        self._held[connection] = _Held(peer)
        self._shares.setdefault(peer, _Share()).connections[connection] = None

    def use(self, connection: HolderT) -> None:
        """Note that a whole request came over it."""
        held = self._held.get(connection)
        if held is not None:
            connections = self._shares[held.peer].connections
            del connections[connection]
            connections[connection] = None

    def leave(self, connection: HolderT) -> None:
        """Give back all it holds. What is done for it later has no effect."""
        held = self._held.pop(connection, None)
        if held is None:
            return
        share = self._shares[held.peer]
        del share.connections[connection]
        self._count(share, requests=-held.requests)
        self._resize(connection, held, -held.size)
        if not share.connections:
            del self._shares[held.peer]

    # ── requests ─────────────────────────────────────────────────────────────

    def begin(self, connection: HolderT) -> bool:
        """Count a request that is there with its body. False: there is no room for one more."""
        held = self._held.get(connection)
        if held is None:
            return False
        share = self._shares[held.peer]
        has_used_its_share = self._most_requests > 0 and share.requests >= self._of_one[1]
        if has_used_its_share or self.has_no_place_for_requests:
            return False
        held.requests += 1
        self._count(share, requests=1)
        return True

    def end(self, connection: HolderT) -> None:
        """Count a request as answered."""
        held = self._held.get(connection)
        if held is not None:
            held.requests -= 1
            self._count(self._shares[held.peer], requests=-1)

    # ── bytes of bodies ──────────────────────────────────────────────────────

    def hold(self, connection: HolderT, size: int, *, evict: Callable[[HolderT], object]) -> bool:
        """Keep `size` more bytes of a body. `evict` gives up others that have been on their way for longer, and
        releases what they held.

        False: there is none, since it is itself the slowest one or all others are whole.
        """
        held = self._held.get(connection)
        if held is None:
            return False
        share, most = self._shares[held.peer], self._most_size
        while most:
            if share.size + size > self._of_one[2]:
                slowest = _slowest(share.bodies)
            elif self.size + size > most:
                slowest = _slowest(self._bodies)
            else:
                break
            if slowest is None or _begun(connection) <= _begun(slowest):
                return False
            evict(slowest)
            if slowest.body_begun is not None:
                return False
        self._resize(connection, held, size)
        return True

    def release(self, connection: HolderT, size: int) -> None:
        """Forget so many bytes of it."""
        held = self._held.get(connection)
        if held is not None:
            self._resize(connection, held, -min(size, held.size))

    def _count(self, share: _Share[HolderT], *, requests: int) -> None:
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


def _least_used(share: _Share[HolderT]) -> HolderT | None:
    return next((connection for connection in share.connections if not connection.is_busy), None)


def _slowest(bodies: Iterable[HolderT]) -> HolderT | None:
    return next((body for body in bodies if body.body_begun is not None), None)


def _begun(holder: Holder) -> float:
    return holder.body_begun or 0.0
