"""Several managers that share the work: each key is worked on by one, whoever comes, goes or lags behind."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.membership import MembershipStats, slot_lease
from pykruise.kube.resources import LEASES
from pykruise.kube.slots import SLOTS
from pykruise.manager.manager import Manager
from support.faults import FaultyTransport, Refuse, requests, workload_writes
from support.scenario import Audience, Stage, cloneset, rolling
from support.silenced import SilencedTransport

SETS = 6
REPLICAS = 4
LEASE_S = 15.0


def stats_of(manager: Manager) -> MembershipStats:
    assert manager.membership is not None
    return manager.membership.stats()


def are_shared(managers: Sequence[Manager]) -> bool:
    """Whether each has its part of the slots, and all slots are held."""
    held = [stats_of(one).held for one in managers]
    share = -(-SLOTS // len(managers))
    return sum(map(len, held)) == SLOTS == len(frozenset().union(*held)) and max(map(len, held)) <= share


async def members(stage: Stage, count: int) -> list[Manager]:
    """So many managers at work, each with its share."""
    found = [await stage.start_manager(identity=f"manager-{number}", members=count) for number in range(count)]
    await stage.until(lambda: are_shared(found))
    return found


async def sets_under_way(stage: Stage, *, replicas: int = REPLICAS) -> None:
    """CloneSets in several slots, with a rollout that has begun."""
    for number in range(SETS):
        await stage.create(
            cloneset(f"set-{number}", replicas=replicas, updateStrategy=rolling(maxUnavailable=1))
        )
    for number in range(SETS):
        await stage.settled(f"set-{number}", replicas=replicas)
    for number in range(SETS):
        await stage.set_image(f"set-{number}", "nginx:2")


async def all_settled(stage: Stage, *, replicas: int = REPLICAS) -> None:
    for number in range(SETS):
        await stage.settled(f"set-{number}", replicas=replicas)


async def test_every_manager_works_and_every_object_has_one(stage: Stage) -> None:
    managers = await members(stage, 4)
    await sets_under_way(stage)
    await all_settled(stage)
    assert sum(one.stats().controllers["cloneset"].reconciles > 0 for one in managers) > 1
