"""Built-in controllers with random failures of writes: they reach the right state, and count everything once."""

import asyncio
import random

import pytest

from pykruise.kube.resources import (
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    JOBS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from support.faults import (
    Answer,
    DropAnswer,
    DropRequest,
    FaultyTransport,
    Refuse,
    Request,
    RequestFault,
    writes,
)
from support.sandbox import Object, Place, small_cluster


def workload(kind: str, name: str, **spec: object) -> Object:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": f"{name}:1"}]},
            },
            **spec,
        },
    }


def job() -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "sum"}]}}
    spec = {"completions": 4, "parallelism": 2, "completionMode": "Indexed", "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"}, "spec": spec}


async def is_well(place: Place) -> bool:
    """Whether all workloads have settled."""
    web = (await place.get(DEPLOYMENTS, "web"))["status"]
    db = (await place.get(STATEFUL_SETS, "db"))["status"]
    done = (await place.get(JOBS, "sum")).get("status", {})
    return bool(
        web.get("availableReplicas") == web.get("replicas") == 3
        and db.get("availableReplicas") == db.get("replicas") == 3
        and any(condition["type"] == "Complete" for condition in done.get("conditions", ()))
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_controllers_reach_the_same_state_despite_failing_writes(seed: int) -> None:
    async with small_cluster(seed=seed) as place:
        # given controllers whose writes fail one time in four, before or after they take effect
        rng = random.Random(seed)
        kinds = (Answer(500), Answer(409), Answer(429), DropRequest(), DropAnswer(), Refuse())
        is_stormy = True

        def fault(_: Request) -> RequestFault | None:
            return rng.choice(kinds) if is_stormy and rng.random() < 0.25 else None

        client = place.cluster.controllers.client
        faulty = FaultyTransport(client.transport)
        faulty.on(writes(), fault)
        client.transport = faulty
        # when
        claim = {
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        await place.create(DEPLOYMENTS, workload("Deployment", "web"))
        await place.create(
            STATEFUL_SETS, workload("StatefulSet", "db", serviceName="db", volumeClaimTemplates=[claim])
        )
        await place.create(JOBS, job())
        await asyncio.sleep(120)
        is_stormy = False
        await place.until(lambda: is_well(place), within_s=900)
        await asyncio.sleep(30)
        # then no object exists twice
        names = await place.names(PODS)
        assert len([name for name in names if name.startswith("web-")]) == 3
        assert sorted(name for name in names if name.startswith("db-")) == ["db-0", "db-1", "db-2"]
        assert len(await place.names(REPLICA_SETS)) == 1
        assert len(await place.names(CONTROLLER_REVISIONS)) == 1
        assert len(await place.names(PERSISTENT_VOLUME_CLAIMS)) == 3
        assert (await place.get(STATEFUL_SETS, "db"))["status"]["collisionCount"] == 0
        assert "collisionCount" not in (await place.get(DEPLOYMENTS, "web"))["status"]
        # and each index was counted once
        status = (await place.get(JOBS, "sum"))["status"]
        assert (status["succeeded"], status["completedIndexes"]) == (4, "0-3")
        assert status["uncountedTerminatedPods"] == {}
