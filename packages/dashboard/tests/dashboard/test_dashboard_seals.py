"""Logins outlive the process: a sealed cookie is known by every replica with the key, and by no other."""

from pathlib import Path
from typing import Any

import pytest

from pykruise.cli.errors import CommandError
from pykruise.dashboard.access import DashboardUser, FullAccess
from pykruise.dashboard.seals import MOST, Seal, key_of, own_key
from pykruise.dashboard.sessions import LASTS_S, DashboardSession, LoginError, Sessions

KEY = b"k" * 32
DAY = LASTS_S


class Wall:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Door:
    """Accepts the good tokens."""

    def __init__(self, *good: str) -> None:
        self.good = set(good)

    async def enter(self, token: str, now: float) -> DashboardSession:
        if token not in self.good:
            raise LoginError("no")

        async def is_good() -> bool:
            return token in self.good

        async def close() -> None:
            return None

        client: Any = None
        return DashboardSession(
            user=DashboardUser(name=token),
            access=FullAccess(),
            client=client,
            is_good=is_good,
            close=close,
            begun=now,
            used=now,
            reviewed=now,
        )

    async def enter_again(self, token: str, now: float) -> DashboardSession:
        return await self.enter(token, now)

    def seal_facts(self, token: str) -> str:
        return token


def replica(door: Door, wall: Wall, *, key: bytes = KEY, audience: str = "https://a") -> Sessions:
    return Sessions(door, clock=lambda: 0.0, seal=Seal(key, audience), wall_clock=wall)


async def test_another_replica_with_the_same_key_accepts_the_cookie() -> None:
    door, wall = Door("ann"), Wall()
    cookie = await replica(door, wall).log_in("ann")
    session = await replica(door, wall).find_by_cookie(cookie)
    assert session is not None
    assert session.user.name == "ann"
    assert "ann" not in cookie


@pytest.mark.parametrize("other", [{"key": b"x" * 32}, {"audience": "https://b"}])
async def test_another_key_or_cluster_rejects_the_cookie(other: Any) -> None:
    door, wall = Door("ann"), Wall()
    cookie = await replica(door, wall).log_in("ann")
    assert await replica(door, wall, **other).find_by_cookie(cookie) is None
    assert await replica(door, wall).find_by_cookie(f"{cookie[:-2]}AA") is None
    assert await replica(door, wall).find_by_cookie("nonsense") is None


def test_the_name_of_the_cookie_differs_between_clusters_and_is_the_same_for_all_replicas() -> None:
    name = Seal(KEY, "https://a").cookie_name
    assert name == Seal(KEY, "https://a").cookie_name
    # browsers do not distinguish ports: dashboards of two clusters on one machine keep both cookies
    assert name != Seal(KEY, "https://b").cookie_name
    assert name != Seal(b"x" * 32, "https://a").cookie_name
    # with another key for each start, each start replaces the cookie of the previous one
    starts = [Seal(key, "https://a", is_key_kept=False) for key in (KEY, b"x" * 32)]
    assert starts[0].cookie_name == starts[1].cookie_name


async def test_a_cookie_of_a_revoked_token_is_rejected() -> None:
    door, wall = Door("ann"), Wall()
    cookie = await replica(door, wall).log_in("ann")
    door.good.clear()
    assert await replica(door, wall).find_by_cookie(cookie) is None


async def test_a_login_ends_after_a_day_on_every_replica() -> None:
    door, wall = Door("ann"), Wall()
    cookie = await replica(door, wall).log_in("ann")
    wall.now += DAY / 2
    session = await replica(door, wall).find_by_cookie(cookie)
    assert session is not None
    assert session.begun == -DAY / 2  # half of the day is over, also for this replica
    wall.now += DAY / 2 + 1
    assert await replica(door, wall).find_by_cookie(cookie) is None


async def test_a_logout_ends_that_login_only() -> None:
    door, wall = Door("ann"), Wall()
    sessions = replica(door, wall)
    cookie, other = await sessions.log_in("ann"), await sessions.log_in("ann")
    await sessions.log_out(cookie)
    assert await sessions.find_by_cookie(cookie) is None
    assert await sessions.find_by_cookie(other) is not None


async def test_a_token_too_long_for_a_cookie_is_kept_only_in_memory() -> None:
    long = "t" * MOST
    door, wall = Door(long), Wall()
    sessions = replica(door, wall)
    cookie = await sessions.log_in(long)
    assert len(cookie) < 100
    assert await sessions.find_by_cookie(cookie) is not None
    assert await replica(door, wall).find_by_cookie(cookie) is None


def test_the_key_of_a_laptop_is_created_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    key = own_key(tmp_path)
    assert own_key(tmp_path) == key
    path = tmp_path / "pykruise" / "dashboard.key"
    assert path.stat().st_mode & 0o077 == 0
    path.chmod(0o644)
    assert own_key(tmp_path) != key  # other users may have read it


def test_a_key_that_is_too_short_or_missing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"short")
    for name in ("key", "none"):
        with pytest.raises(CommandError, match="--session-key"):
            key_of(tmp_path / name)
