"""Limits of a full server: the connection that is closed for another one. No sockets."""

import pytest

from pykruise.kube.http.fairness import ServerRoom


class Guest:
    """A connection; `begun` is the time when its body began to arrive, None if no body arrives."""

    def __init__(self, name: str, *, begun: float | None = None, is_busy: bool = False) -> None:
        self.name = name
        self.body_begun = begun
        self.is_busy = is_busy

    def __repr__(self) -> str:
        return self.name


class Closed(list[Guest]):
    """The evicted connections. Evicts them as a server does: the body is dropped, and its bytes are released."""

    def __init__(self, room: ServerRoom[Guest], held: dict[Guest, int] | None = None) -> None:
        super().__init__()
        self._room = room
        self._held = held or {}

    def __call__(self, guest: Guest) -> None:
        self.append(guest)
        guest.body_begun = None
        self._room.release(guest, self._held.get(guest, 0))


def filled(room: ServerRoom[Guest], peer: str, count: int) -> list[Guest]:
    guests = [Guest(f"{peer}-{number}") for number in range(count)]
    closed = Closed(room)
    assert all(room.enter(guest, peer, evict=closed) for guest in guests)
    assert not closed
    return guests


def test_a_new_connection_replaces_the_least_recently_used_connection() -> None:
    # given a full server, whose connections have all sent a request once
    room = ServerRoom[Guest](connections=3)
    first, second, third = filled(room, "a", 3)
    for guest in (third, first, second):
        room.use(guest)
    # when
    closed = Closed(room)
    assert room.enter(Guest("new"), "b", evict=closed)
    # then
    assert closed == [third]
    assert len(room) == 3


def test_a_connection_whose_request_is_being_answered_is_not_closed_for_another_one() -> None:
    room = ServerRoom[Guest](connections=2)
    first, second = filled(room, "a", 2)
    first.is_busy = second.is_busy = True
    closed = Closed(room)
    assert not room.enter(Guest("new"), "b", evict=closed)
    assert closed == []
    second.is_busy = False
    assert room.enter(Guest("newer"), "b", evict=closed)
    assert closed == [second]


def test_a_client_with_its_full_share_of_connections_loses_one_for_each_new_one() -> None:
    # given
    room = ServerRoom[Guest](connections=10, share=0.5)
    (honest,) = filled(room, "api-server", 1)
    flood = filled(room, "pod", 5)
    # when
    closed = Closed(room)
    for number in range(100):
        assert room.enter(Guest(f"more-{number}"), "pod", evict=closed)
    # then
    assert closed[:5] == flood
    assert len(closed) == 100
    assert honest not in closed


def test_a_full_server_takes_from_the_address_with_the_most() -> None:
    room = ServerRoom[Guest](connections=4, share=0.75)
    (honest,) = filled(room, "api-server", 1)
    flood = filled(room, "pod", 3)
    closed = Closed(room)
    assert room.enter(Guest("another"), "api-server-2", evict=closed)
    assert closed == [flood[0]]
    assert honest not in closed


def test_one_address_gets_its_share_of_requests_and_no_more() -> None:
    # given
    room = ServerRoom[Guest](requests=4, share=0.5)
    flood, (honest, other) = filled(room, "pod", 4), filled(room, "api-server", 2)
    # when
    begun = [room.begin(guest) for guest in flood]
    # then
    assert begun == [True, True, False, False]
    assert not room.has_no_place_for_requests
    assert room.begin(honest)
    assert room.begin(other)
    assert room.has_no_place_for_requests
    # and a request that was answered, or whose connection was lost, frees its place
    room.end(flood[0])
    room.leave(flood[1])
    assert (room.requests, room.begin(flood[2]), room.begin(flood[3])) == (2, True, True)


def test_bodies_that_do_not_fit_evict_the_slowest_bodies() -> None:
    # given
    room = ServerRoom[Guest](size=100)
    slow, slower, whole = Guest("slow", begun=2.0), Guest("slower", begun=1.0), Guest("whole")
    held = {slower: 30, slow: 30, whole: 40}
    closed = Closed(room, held)
    for guest, size in held.items():
        assert room.enter(guest, guest.name, evict=closed)
        assert room.hold(guest, size, evict=closed)
    new = Guest("new", begun=3.0)
    assert room.enter(new, "new", evict=closed)
    # when
    assert room.hold(new, 50, evict=closed)
    # then
    assert closed == [slower, slow]
    assert room.size == 90
    # and a complete body stays
    assert not room.hold(new, 50, evict=closed)


def test_the_slowest_body_of_all_is_itself_refused() -> None:
    room = ServerRoom[Guest](size=10)
    fast, slow = Guest("fast", begun=9.0), Guest("slow", begun=1.0)
    closed = Closed(room)
    for guest in (fast, slow):
        assert room.enter(guest, "a", evict=closed)
    assert room.hold(fast, 8, evict=closed)
    assert not room.hold(slow, 8, evict=closed)
    assert closed == []


def test_bodies_of_one_address_take_no_room_from_those_of_another() -> None:
    # given an address that has sent its share of bytes, all of them later than the honest one's
    room = ServerRoom[Guest](size=100, share=0.5)
    closed = Closed(room)
    flood = [Guest(f"flood-{number}", begun=50.0 + number) for number in range(5)]
    for guest in flood:
        assert room.enter(guest, "pod", evict=closed)
        assert room.hold(guest, 10, evict=closed)
    honest = Guest("honest", begun=1.0)
    assert room.enter(honest, "api-server", evict=closed)
    # when
    assert room.hold(honest, 50, evict=closed)
    more = Guest("more", begun=99.0)
    assert room.enter(more, "pod", evict=closed)
    closed = Closed(room, dict.fromkeys(flood, 10))
    assert room.hold(more, 10, evict=closed)
    # then
    assert closed == [flood[0]]
    assert room.size == 100


def test_a_closed_connection_holds_nothing_and_gets_nothing() -> None:
    room = ServerRoom[Guest](connections=2, requests=2, size=10)
    (guest,) = filled(room, "a", 1)
    closed = Closed(room)
    assert room.begin(guest)
    assert room.hold(guest, 5, evict=closed)
    # when
    room.leave(guest)
    room.leave(guest)
    # then
    assert (len(room), room.requests, room.size, list(room)) == (0, 0, 0, [])
    assert not room.begin(guest)
    assert not room.hold(guest, 1, evict=closed)
    room.use(guest)
    room.end(guest)
    room.release(guest, 5)
    assert (room.requests, room.size) == (0, 0)


@pytest.mark.parametrize("count", [100, 1000])
def test_the_next_connection_to_evict_is_selected_without_a_scan(count: int) -> None:
    # given
    room = ServerRoom[Guest](connections=count)
    looks = 0

    class Counted(Guest):
        @property
        def is_busy(self) -> bool:
            nonlocal looks
            looks += 1
            return False

        @is_busy.setter
        def is_busy(self, value: bool) -> None:
            pass

    closed = Closed(room)
    for number in range(3 * count):
        assert room.enter(Counted(str(number)), "a", evict=closed)
    assert looks == len(closed) == 2 * count
