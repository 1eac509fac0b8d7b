"""A Go program with client-go's leader election and pykruise's managers hold one Lease in turn, never together."""

import asyncio
import signal
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pykruise.kube.resources import LEASES
from support.go_elector import build, go_candidate
from support.go_programs import has_go
from support.scenario import Stage, cloneset
from testbed.control_plane import ControlPlane

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not has_go(), reason="there is no Go to build with"),
    pytest.mark.not_in_brief("test_kube_leases.py holds fields and times of the Lease to those of client-go"),
]

LEASE_S = 15.0
LATE_S = 2 * 2.0 * 1.2 + 2.0
"""Seconds for two reads of the Lease, and for delays of a busy machine."""


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("elector"))


async def lease_of(stage: Stage) -> dict[str, Any]:
    spec: dict[str, Any] = (await stage.get("kruise-manager", resource=LEASES))["spec"]
    return spec


@pytest.mark.long_on_real
async def test_the_lease_moves_between_python_and_go_with_one_holder_at_a_time(
    stage: Stage, plane: ControlPlane, program: Path
) -> None:
    """operations case 14: Leases that Go clients accept"""
    loop = asyncio.get_running_loop()
    flags = {"kubeconfig": str(plane.kubeconfig), "namespace": stage.namespace}
    # given a manager that leads, and a Go program that waits
    first = await stage.start_manager(identity="python-1")
    await stage.until(lambda: first.is_leading)
    await stage.create(cloneset(replicas=1))
    await stage.settled(replicas=1)
    async with go_candidate(program, **flags, identity="go-1") as go:
        record = (await go.sees("python-1"))["record"]
        # then client-go reads every field of what was written
        spec = await lease_of(stage)
        assert record["leaseDurationSeconds"] == spec["leaseDurationSeconds"] == LEASE_S
        assert record["leaderTransitions"] == spec["leaseTransitions"] == 0
        assert moment(record["acquireTime"]) <= moment(spec["acquireTime"])
        assert moment(spec["acquireTime"]) - moment(record["acquireTime"]) < 1.0  # client-go keeps seconds
        assert moment(record["renewTime"]) >= moment(record["acquireTime"])
        # when the manager is killed
        await stage.kill_manager(first)
        killed_at = loop.time()
        await go.leads()
        # then the Go program leads once the Lease has run out
        assert LEASE_S - 3.0 < loop.time() - killed_at < LEASE_S + LATE_S
        assert (await lease_of(stage))["leaseTransitions"] == 1
        # and a manager waits as long as it renews
        second = await stage.start_manager(identity="python-2")
        await second.wait_synced()
        await stage.scale("web", 2)
        await asyncio.sleep(LEASE_S + 3.0)
        assert not second.is_leading
        assert len(await stage.pods()) == 1
        # when it gives the Lease back
        await go.end(signal.SIGTERM)
        ended_at = loop.time()
        await stage.until(lambda: second.is_leading)
        # then the manager is next, at once
        assert loop.time() - ended_at < LATE_S
        assert {line["says"] for line in go.lines} == {"sees", "leads", "leads no more"}
    await stage.settled(replicas=2)
    # when a manager gives it back to another Go program, which is killed then
    async with go_candidate(program, **flags, identity="go-2") as go:
        await go.sees("python-2")
        await stage.stop_manager(second)
        stopped_at = loop.time()
        await go.leads()
        assert loop.time() - stopped_at < LATE_S
        third = await stage.start_manager(identity="python-3")
        await third.wait_synced()
        await go.end(signal.SIGKILL)
        killed_at = loop.time()
        await stage.until(lambda: third.is_leading)
        assert LEASE_S - 3.0 < loop.time() - killed_at < LEASE_S + LATE_S
    # then each change of hands was counted, by the one that made it
    assert (await lease_of(stage))["leaseTransitions"] == 4


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
