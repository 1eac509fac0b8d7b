"""`explain` and `plan` of BroadcastJobs and AdvancedCronJobs: which nodes wait and why, when the next time is."""

import pytest

from pykruise.cli.explain import explained
from pykruise.cli.insight.explaining import Explanation
from pykruise.cli.insight.generic import forecast_any
from pykruise.kinds.advancedcronjob.kind import KIND as CRON_JOB
from pykruise.kinds.advancedcronjob.types import ADVANCED_CRON_JOBS
from pykruise.kinds.broadcastjob.kind import KIND as BROADCAST_JOB
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kube.ids import Key
from pykruise.pods.reasons import Code
from pykruise.sandbox.faults import Rule
from support.broadcastjobs import NAME, Broadcast
from support.daemonsets import Pool
from support.scenario import Object, Stage

pytestmark = pytest.mark.few_controllers


async def said_of(stage: Stage, name: str = NAME) -> Explanation:
    kind = BROADCAST_JOB if name == NAME else CRON_JOB
    return await explained(stage.client, Key(stage.namespace, name), now=stage.clock(), kind=kind)


async def test_explain_says_which_nodes_wait_and_which_do_not_fit(stage: Stage, pool: Pool) -> None:
    broadcast = Broadcast(stage, pool)
    stage.kubelets.set_rules([Rule(labels=f"app={NAME}", exit_code=0, after_s=1e6)])
    await stage.start_manager()
    await pool.cordon(pool.nodes[0])
    await broadcast.create(parallelism=1)
    await broadcast.counts(active=1, desired=3)

    found = await said_of(stage)

    waits = {wait.code: wait for wait in found.waits}
    assert found.verdict == "waiting"
    assert "of 3 nodes 0 succeeded, 0 failed, 1 active" in found.headline
    assert pool.nodes[0] in waits[Code.UNFIT_NODE].pods
    assert any("unschedulable" in wait.words for wait in found.waits if pool.nodes[0] in wait.pods)
    held = {name for wait in found.waits if wait.code == Code.PARALLELISM for name in wait.pods}
    assert held == set(pool.nodes[2:])


async def test_explain_says_who_has_to_resume_a_paused_job(stage: Stage, pool: Pool) -> None:
    broadcast = Broadcast(stage, pool)
    stage.kubelets.set_rules([Rule(node=pool.nodes[0], exit_code=3)])
    await stage.start_manager()
    await broadcast.create(failurePolicy={"type": "Pause"})
    await broadcast.phase("paused")
    await broadcast.counts(succeeded=3, failed=1)

    found = await said_of(stage)

    assert found.verdict == "paused"
    assert "delete the failed pods and set spec.paused to false" in found.waits[0].remedy


async def test_explain_of_a_job_that_is_over_is_done(stage: Stage, pool: Pool) -> None:
    broadcast = Broadcast(stage, pool)
    await stage.start_manager()
    await broadcast.create()
    await broadcast.phase("completed")

    assert (await said_of(stage)).verdict == "done"


async def test_plan_says_which_pods_a_job_would_make(stage: Stage, pool: Pool) -> None:
    document = Broadcast(stage, pool).document(parallelism=2)
    key = Key(stage.namespace, NAME)

    found = await forecast_any(stage.client, BROADCAST_JOB, document, key, stage.clock(), None)

    made = [fate.do for batch in found.batches for fate in batch.fates]
    assert [f"node {node} has not run its pod" for node in pool.nodes[:2]] == made
    assert not await stage.exists(NAME, resource=BROADCAST_JOBS)


def cron(**spec: object) -> Object:
    pod = {"containers": [{"name": "main", "image": "busybox:1"}], "restartPolicy": "Never"}
    return {
        "apiVersion": ADVANCED_CRON_JOBS.api_version,
        "kind": ADVANCED_CRON_JOBS.kind,
        "metadata": {"name": "often"},
        "spec": {
            "schedule": "@every 1h",
            "template": {"broadcastJobTemplate": {"spec": {"template": {"spec": pod}}}},
            **spec,
        },
    }


async def test_explain_says_when_the_next_time_is_and_what_stops_it(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cron(), resource=ADVANCED_CRON_JOBS)

    async def is_seen() -> bool:
        found = await stage.get("often", resource=ADVANCED_CRON_JOBS)
        return bool((found.get("status") or {}).get("type"))

    await stage.until(is_seen)
    running = await said_of(stage, "often")
    await stage.merge("often", {"spec": {"paused": True}}, resource=ADVANCED_CRON_JOBS)
    paused = await said_of(stage, "often")

    assert running.verdict == "done"
    assert running.waits[0].words.startswith("the next time is 20")
    assert (paused.verdict, paused.waits[0].remedy) == ("paused", "set spec.paused to false")
