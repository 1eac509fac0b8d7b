"""Many deletions of pods at once, through several webhooks: never more pods are out of service than the budget allows.

On both clusters, over HTTPS, through three replicas, with the budget's controller at work.
"""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.budget_race import REFUSED, race
from support.webhook_place import Place, webhook_place
from testbed.control_plane import ControlPlane

# Sockets and TLS are real, and so is time.
pytestmark = pytest.mark.real_time

_log = logging.getLogger(__name__)

PODS_IN_ALL = 200
LET_GO = 20
GOING = 64


@pytest.fixture
async def place(quiet_plane: ControlPlane | None, tmp_path: Path) -> AsyncIterator[Place]:
    async with webhook_place(quiet_plane, tmp_path) as place:
        yield place


async def test_64_parallel_disruptions_through_three_replicas_never_exceed_the_budget(
    place: Place,
) -> None:
    """podunavailablebudget cases 36 and 66"""
    # given 200 pods that serve, of which 20 may be out; when 64 are to go at once
    raced = await race(place, pods=PODS_IN_ALL, going=GOING, let_go=LET_GO, replicas=3)
    # then never more were out, and in the end all went
    assert raced.fewest >= PODS_IN_ALL - LET_GO
    assert raced.answers["admitted"] == GOING
    # and no request was refused for another reason than that the budget was spent
    assert set(raced.answers) <= {"admitted", REFUSED}
    # and every replica reviewed some of them
    assert all(raced.asked)
    # and each write of the budget's status let at least one pod go, or was repeated after a conflict
    assert raced.writes - raced.conflicts <= GOING
    assert raced.writes <= raced.decisions
    _log.info(
        "%d asked, %d admitted, fewest serving %d; %d status writes (%d conflicts), %.2f s, CPU %.1f ms each",
        *(raced.decisions, GOING, raced.fewest, raced.writes, raced.conflicts, raced.seconds),
        1e3 * raced.cpu_s / raced.decisions,
    )
