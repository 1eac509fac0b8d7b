"""A rollout always finishes or says why: the cause that keeps a DaemonSet from its spec is named, with the remedy.

In every scenario it recovers by itself once it is put right, and the condition goes.
"""

import asyncio

import msgspec
import pytest

from pykruise.kinds.daemonset.types import DAEMON_SETS
from pykruise.kube.resources import PODS
from pykruise.sandbox.cluster import ClusterSettings
from pykruise.sandbox.nodes.pod_state import KubeletSettings
from support.daemonsets import Pool
from support.faults import Answer, FaultyTransport, posts
from support.kstatus import other_conditions
from support.scenario import Object, Stage, rolling


@pytest.fixture
def cluster_settings(cluster_settings: ClusterSettings) -> ClusterSettings:
    """Nodes renew their Leases, so that the control plane notices a dead node."""
    return msgspec.structs.replace(cluster_settings, kubelet=KubeletSettings())


async def says(pool: Pool, reason: str, *words: str) -> Object:
    """Wait for the condition Waiting with this reason; it has these words in its message."""

    async def found() -> Object | None:
        conditions = (await pool.status()).get("conditions") or []
        return next(
            (
                condition
                for condition in conditions
                if (condition["type"], condition["status"], condition["reason"])
                == ("Waiting", "True", reason)
                and all(word in condition["message"] for word in words)
            ),
            None,
        )

    condition: Object = await pool.stage.until(found, what=f"Waiting: {reason}")
    assert condition["lastTransitionTime"]
    return condition


async def is_quiet(pool: Pool, **expected: int) -> None:
    """Wait until the DaemonSet has converged; then it has no condition left."""
    await pool.settled(**expected)
    assert not other_conditions(await pool.status())


@pytest.mark.parametrize(
    ("held", "reason", "remedy"),
    [
        ({"partition": 3}, "Partition", "lower"),
        ({"paused": True}, "Paused", "paused to false"),
        ({"selector": {"matchLabels": {"example.com/none": "1"}}}, "NodeSelector", "label these nodes"),
    ],
)
async def test_a_rollout_held_by_the_spec_names_the_field(
    stage: Stage, pool: Pool, held: Object, reason: str, remedy: str
) -> None:
    # given
    await stage.start_manager()
    await pool.create(updateStrategy=rolling(**held))
    await is_quiet(pool)
    # when
    await pool.set_image("nginx:2")
    # then
    await says(pool, reason, "of an older template", remedy)
    # when it is let go
    await pool.change(updateStrategy={"rollingUpdate": dict.fromkeys(held)})
    # then
    await is_quiet(pool)


async def test_on_delete_waits_for_a_deletion(stage: Stage, pool: Pool) -> None:
    await stage.start_manager()
    await pool.create(updateStrategy={"type": "OnDelete"})
    await is_quiet(pool)
    await pool.set_image("nginx:2")
    await says(pool, "OnDelete", "4 pods", "delete the pods")
    for pod in await stage.pods():
        await stage.delete(pod.name, resource=PODS)
    await is_quiet(pool)


@pytest.mark.virtual_time("a node is given up after forty seconds")
async def test_a_node_that_is_lost_holds_a_rollout_up_and_is_named(stage: Stage, pool: Pool) -> None:
    """Its pod does not serve and is of the new revision already, so it uses the budget up."""
    # given
    await stage.start_manager()
    await pool.create(updateStrategy=rolling(partition=3))
    await is_quiet(pool)
    await pool.set_image("nginx:2")
    await pool.settled(updated=1)
    last = max(pool.nodes)
    # when the node of the first updated pod is lost
    stage.kubelets.stop_node(last)
    (pod,) = (await pool.by_node())[last]

    async def is_lost() -> bool:
        return not all(pod.is_ready for pod in await stage.pods())

    await stage.until(is_lost)
    await pool.change(updateStrategy=rolling(partition=0))
    # then
    await says(pool, "NodeLost", pod.name, f"its node {last} is not ready", "bring ")
    assert sorted((await pool.images()).values()) == ["nginx:1"] * 3 + ["nginx:2"]
    # when it is given up
    await pool.leave(last)
    await stage.client.delete(PODS, stage.namespace, pod.name, grace_period_s=0)
    # then
    await is_quiet(pool)


async def test_a_refused_write_is_reported_and_not_tried_in_a_circle(stage: Stage, pool: Pool) -> None:
    # given
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty)
    await pool.create()
    await is_quiet(pool)
    message = "exceeded quota: daemons"
    faulty.on(posts("/pods"), lambda _: Answer(403, reason="Forbidden", message=message))
    # when
    await pool.join("late")
    # then it says what, and what to do
    await says(pool, "Quota", "create pods", message, "raise the ResourceQuota")
    before = len(faulty.log)
    await asyncio.sleep(30 if stage.long_s > 60 else stage.long_s)
    # and backs off: a try is a creation, an event or two, and no write of the status
    tries = [
        request
        for request in faulty.log[before:]
        if request.method == "POST" and request.path.endswith("/pods")
    ]
    statuses = [request for request in faulty.log[before:] if request.path.endswith("/status")]
    assert len(tries) <= 12
    assert statuses == []
    # when
    faulty.clear()
    # then
    await is_quiet(pool)


async def test_a_spec_that_admission_would_have_refused(stage: Stage, pool: Pool) -> None:
    # given
    await stage.start_manager()
    await pool.create()
    await is_quiet(pool)
    before = {pod.uid for pod in await stage.pods()}
    # when
    with stage.past_admission():
        await pool.set_image("nginx:2", updateStrategy=rolling(partition="half"))
    # then
    await says(pool, "InvalidSpec", "spec.updateStrategy.rollingUpdate.partition", "half", "correct")
    assert {pod.uid for pod in await stage.pods()} == before
    # when
    await pool.change(updateStrategy=rolling(partition=0))
    # then
    await is_quiet(pool)
    assert (await stage.get("web", resource=DAEMON_SETS))["status"]["numberAvailable"] == 4
