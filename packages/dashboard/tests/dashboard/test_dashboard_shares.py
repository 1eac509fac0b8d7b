"""One user of a shared dashboard cannot block the others: limits per user for sessions, open pages and connections."""

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import orjson
import pytest

from pykruise.cli.errors import CommandError
from pykruise.dashboard.access import DashboardUser, FullAccess
from pykruise.dashboard.assets import Assets
from pykruise.dashboard.board import Board
from pykruise.dashboard.plan_queue import PlanQueue
from pykruise.dashboard.server import LIMITS, STREAMS_OF_USER, About, Opened, Server
from pykruise.dashboard.sessions import MOST, MOST_OF_USER, DashboardSession, Sessions, TokenDoor
from pykruise.kube.client.client import Client
from pykruise.kube.client.transport import Response
from pykruise.kube.config.connection import Connection
from pykruise.kube.http.app import Streamed
from pykruise.kube.http.wire import WireRequest

NOBODY: Any = None


class Door:
    """Logs in every token as a user of that name."""

    def __init__(self) -> None:
        self.closed = 0

    async def enter(self, token: str, now: float) -> DashboardSession:
        async def is_good() -> bool:
            return True

        async def close() -> None:
            self.closed += 1

        user = DashboardUser(name=token, uid="", groups=(), extra={})
        return DashboardSession(
            user=user,
            access=FullAccess(),
            client=NOBODY,
            is_good=is_good,
            close=close,
            begun=now,
            used=now,
            reviewed=now,
        )


class Clock:
    now = 0.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


# ── sessions ─────────────────────────────────────────────────────────────────


async def test_a_user_with_too_many_logins_ends_only_their_own_sessions() -> None:
    door = Door()
    sessions = Sessions(door, clock=Clock())
    honest = await sessions.log_in("honest")
    cookies = [await sessions.log_in("greedy") for _ in range(2 * MOST)]
    assert await sessions.find_by_cookie(honest) is not None
    good = [cookie for cookie in cookies if await sessions.find_by_cookie(cookie) is not None]
    assert good == cookies[-MOST_OF_USER:]
    assert door.closed == 2 * MOST - MOST_OF_USER


async def test_a_full_session_table_drops_a_session_of_the_user_with_most() -> None:
    sessions = Sessions(Door(), clock=Clock())
    lonely = await sessions.log_in("lonely")
    for number in range(MOST):
        await sessions.log_in(f"user-{number // 2}")
    assert await sessions.find_by_cookie(lonely) is not None


async def test_all_sessions_share_one_tls_context() -> None:
    made: list[Connection] = []

    class Transport:
        async def close(self) -> None: ...

    class ScriptedReviews:
        """An API server that accepts every token."""

        async def request(self, request: Any) -> Response:
            status = {"authenticated": True, "user": {"username": "alice"}}
            return Response(201, {}, orjson.dumps({"status": status}))

    def transport_for(connection: Connection) -> Any:
        made.append(connection)
        return Transport()

    reviews: Any = ScriptedReviews()
    connection = Connection(server="https://api", ssl_context=ssl.create_default_context())
    door = TokenDoor(Client(reviews), connection, clock=Clock(), transport_for=transport_for)
    for number in range(3):
        await door.enter(f"token-{number}", 0.0)
    assert len({id(connection.ssl_context) for connection in made}) == 1
    assert made[0].ssl_context is not connection.ssl_context


# ── open pages ───────────────────────────────────────────────────────────────


class Pages:
    """Pages with one stream; counts how often it is open."""

    def __init__(self) -> None:
        self.open_now = 0

    def open(self, _query: Any, _session: DashboardSession) -> Opened:
        self.open_now += 1

        def close() -> None:
            self.open_now -= 1

        return Opened(Board(), close, lambda: True)

    def read_status(self) -> dict[str, Any]:
        return {}

    async def plan(self, *_: Any) -> dict[str, Any]:
        return {}

    rights = act = plan


def request(cookie: str) -> WireRequest:
    return WireRequest("GET", "/api/stream", {"page": "overview"}, {"cookie": f"pykruise={cookie}"})


async def test_open_pages_per_user_are_limited_and_a_closed_page_frees_its_slot() -> None:
    sessions, pages = Sessions(Door(), clock=Clock()), Pages()
    server = Server(pages, sessions, Assets(), About(version="1", cluster="c", mode="cluster"))
    greedy, honest = await sessions.log_in("greedy"), await sessions.log_in("honest")
    answers = [await server.answer(request(greedy)) for _ in range(520)]
    streams: list[Streamed] = [answer for answer in answers if not isinstance(answer, Response)]
    assert len(streams) == STREAMS_OF_USER == pages.open_now
    assert {answer.status for answer in answers if isinstance(answer, Response)} == {429}
    assert not isinstance(await server.answer(request(honest)), Response)
    # when one is closed, even twice
    await streams[0].aclose()
    await streams[0].aclose()
    # then one more can be opened
    again = [await server.answer(request(greedy)) for _ in range(2)]
    assert [isinstance(item, Response) for item in again] == [False, True]


# ── plans ────────────────────────────────────────────────────────────────────


class Plans:
    """Work that ends when the test releases it."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.release = asyncio.Event()

    def of(self, user: str) -> Callable[[], Coroutine[Any, Any, str]]:
        async def work() -> str:
            self.begun.append(user)
            await self.release.wait()
            return user

        return work


async def ask(queue: PlanQueue, plans: Plans, user: str) -> "asyncio.Task[str]":
    """A question of the user, which has begun or waits for its turn."""
    task = asyncio.create_task(queue.run(user, plans.of(user)))
    for _ in range(5):
        await asyncio.sleep(0)
    return task


async def test_a_user_who_disconnects_repeatedly_has_one_plan_at_a_time() -> None:
    queue, plans = PlanQueue(2), Plans()
    # given a user whose browser disconnects during each question
    for _ in range(10):
        task = await ask(queue, plans, "greedy")
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert plans.begun == ["greedy"]
    # when another user asks, there is a place
    honest = await ask(queue, plans, "honest")
    assert plans.begun == ["greedy", "honest"]
    # and a third user waits until a plan has ended
    late = await ask(queue, plans, "late")
    assert plans.begun == ["greedy", "honest"]
    plans.release.set()
    assert (await honest, await late) == ("honest", "late")
    # then the first user may ask again
    assert await (await ask(queue, plans, "greedy")) == "greedy"


async def test_the_error_of_a_plan_reaches_its_user_and_frees_the_place() -> None:
    queue = PlanQueue(1)

    async def fail() -> None:
        raise CommandError("no such field")

    for _ in range(3):
        with pytest.raises(CommandError, match="no such field"):
            await queue.run("ann", fail)


def test_no_address_has_more_than_a_share_of_the_connections() -> None:
    assert LIMITS.share <= 0.25
    assert LIMITS.share * LIMITS.connections >= 4 * STREAMS_OF_USER  # a proxy serves several users
