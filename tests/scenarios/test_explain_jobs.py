"""`explain`, `plan` and `simulate` of BroadcastJobs and AdvancedCronJobs: nodes that wait and the reason, the next
time of a schedule, and its runs in a month."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pykruise.cli.explain import read_and_explain
from pykruise.cli.insight.explanations import Explanation
from pykruise.cli.insight.generic import forecast_any
from pykruise.cli.simulate import Conditions, SimulatedTarget, run_simulate
from pykruise.kinds.advancedcronjob.kind import KIND as CRON_JOB
from pykruise.kinds.advancedcronjob.types import ADVANCED_CRON_JOBS
from pykruise.kinds.broadcastjob.kind import KIND as BROADCAST_JOB
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kube.client.client import Client
from pykruise.kube.ids import Key
from pykruise.kube.resources import RESOURCE_QUOTAS
from pykruise.plans.progress import Phase
from pykruise.pods.reasons import Code
from pykruise.sandbox.nodes.faults import Rule
from support.broadcastjobs import NAME, Broadcast
from support.daemonsets import Pool
from support.scenario import Object, Stage


async def said_of(stage: Stage, name: str = NAME) -> Explanation:
    kind = BROADCAST_JOB if name == NAME else CRON_JOB
    return await read_and_explain(stage.client, Key(stage.namespace, name), now=stage.clock(), kind=kind)


async def test_explain_reports_which_nodes_wait_and_which_do_not_match(stage: Stage, pool: Pool) -> None:
    broadcast = Broadcast(stage, pool)
    stage.kubelets.set_rules([Rule(labels=f"app={NAME}", exit_code=0, after_s=1e6)])
    await stage.start_manager()
    await pool.cordon(pool.nodes[0])
    await broadcast.create(parallelism=1)
    await broadcast.counts(active=1, desired=3)

    explanation = await said_of(stage)

    waits = {wait.code: wait for wait in explanation.waits}
    assert explanation.verdict == "waiting"
    assert "on 3 nodes: 0 succeeded, 0 failed, 1 active" in explanation.headline
    assert pool.nodes[0] in waits[Code.UNFIT_NODE].pods
    assert any("unschedulable" in wait.words for wait in explanation.waits if pool.nodes[0] in wait.pods)
    held = {name for wait in explanation.waits if wait.code == Code.PARALLELISM for name in wait.pods}
    assert held == set(pool.nodes[2:])


async def test_explain_names_the_failed_pod_that_pauses_a_job(stage: Stage, pool: Pool) -> None:
    broadcast = Broadcast(stage, pool)
    stage.kubelets.set_rules([Rule(node=pool.nodes[0], exit_code=3)])
    await stage.start_manager()
    await broadcast.create(failurePolicy={"type": "Pause"})
    await broadcast.phase("paused")
    await broadcast.counts(succeeded=3, failed=1)

    explanation = await said_of(stage)

    assert (explanation.verdict, explanation.phase) == ("waiting", Phase.DEGRADED)
    (failed,) = explanation.waits
    assert "exit code 3" in failed.words
    assert "set spec.paused of BroadcastJob" in failed.remedy


async def test_explain_reports_a_finished_job_as_done(stage: Stage, pool: Pool) -> None:
    broadcast = Broadcast(stage, pool)
    await stage.start_manager()
    await broadcast.create()
    await broadcast.phase("completed")

    assert (await said_of(stage)).verdict == "done"


async def test_explain_names_a_node_that_got_no_pod_after_the_end_of_the_job(
    stage: Stage, pool: Pool
) -> None:
    broadcast = Broadcast(stage, pool)
    await stage.start_manager()
    await pool.cordon(pool.nodes[0])
    await broadcast.create()
    await broadcast.phase("completed")

    explanation = await said_of(stage)

    assert (explanation.verdict, explanation.phase, explanation.cause) == (
        "done",
        Phase.COMPLETED,
        Code.UNFIT_NODE,
    )
    (wait,) = explanation.waits
    assert wait.pods == (pool.nodes[0],)
    assert wait.words.startswith("it got no pod: ")
    assert wait.remedy.endswith("then create the job again, if it must run on this node too")


async def test_explain_reports_that_kept_jobs_use_up_the_quota_for_jobs(stage: Stage) -> None:
    body = {"metadata": {"name": "objects"}, "spec": {"hard": {"count/jobs.batch": "2"}}}
    await stage.create(body, resource=RESOURCE_QUOTAS)
    await stage.start_manager()
    container = {"name": "main", "image": "job:1"}
    pod = {"restartPolicy": "Never", "containers": [container]}
    template = {"jobTemplate": {"spec": {"template": {"spec": pod}}}}
    schedule = {"schedule": "* * * * *", "template": template}
    stage.kubelets.set_rules([Rule(image="job:1", exit_code=0, after_s=1)])
    await stage.create({**cron(), "spec": schedule}, resource=ADVANCED_CRON_JOBS)
    await asyncio.sleep(200)

    explanation = await said_of(stage, "often")

    assert explanation.cause == Code.QUOTA
    wait = explanation.waits[0]
    assert "ResourceQuota objects counts 2 Jobs; 2 of them have ended and are kept" in wait.words
    assert wait.remedy.startswith(
        "set spec.successfulJobsHistoryLimit to 1 and spec.failedJobsHistoryLimit to 0; or raise count/jobs.batch of"
        " ResourceQuota objects to at least 5 "
    )
    spec = {"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0}
    await stage.merge("often", {"spec": spec}, resource=ADVANCED_CRON_JOBS)
    await asyncio.sleep(600)
    assert (await said_of(stage, "often")).phase is Phase.HEALTHY


@pytest.mark.virtual_time("two minutes")
async def test_explain_names_the_controller_that_must_remove_its_finalizer(stage: Stage) -> None:
    await stage.start_manager()
    document = cron()
    document["metadata"]["finalizers"] = ["example.com/archive"]
    await stage.create(document, resource=ADVANCED_CRON_JOBS)
    await asyncio.sleep(10)
    await stage.delete("often", resource=ADVANCED_CRON_JOBS)
    assert (await said_of(stage, "often")).cause == Code.TERMINATING_OBJECT
    await asyncio.sleep(100)

    explanation = await said_of(stage, "often")

    assert (explanation.cause, explanation.phase) == (Code.FINALIZER, Phase.DEGRADED)
    assert (
        "the controller that is responsible for example.com/archive must remove it"
        in explanation.waits[0].remedy
    )


async def test_plan_shows_which_pods_a_job_would_create(stage: Stage, pool: Pool) -> None:
    document = Broadcast(stage, pool).to_document(parallelism=2)
    key = Key(stage.namespace, NAME)

    outlook = await forecast_any(stage.client, BROADCAST_JOB, document, key, stage.clock(), None)

    made = [(fate.do, fate.pod) for batch in outlook.batches for fate in batch.fates]
    assert made == [
        ("create Pod", f"node {node} has not run a pod of the job yet") for node in pool.nodes[:2]
    ]
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


async def test_explain_reports_the_next_run_and_what_blocks_it(stage: Stage) -> None:
    await stage.start_manager()
    await stage.create(cron(), resource=ADVANCED_CRON_JOBS)

    async def is_seen() -> bool:
        result = await stage.get("often", resource=ADVANCED_CRON_JOBS)
        return bool((result.get("status") or {}).get("type"))

    await stage.until(is_seen)
    running = await said_of(stage, "often")
    await stage.merge("often", {"spec": {"paused": True}}, resource=ADVANCED_CRON_JOBS)
    paused = await said_of(stage, "often")

    assert running.verdict == "done"
    assert running.waits[0].words.startswith("the next run is due at 20")
    assert (paused.verdict, paused.waits[0].remedy) == ("paused", "set spec.paused to false")


async def simulated(stage: Stage, target: str, **conditions: str) -> dict[str, object]:
    """JSON output of `pykruise simulate` with the stage's cluster."""

    @asynccontextmanager
    async def reach(_path: Path | None, _context: str | None) -> AsyncIterator[tuple[Client, str]]:
        yield stage.client, stage.namespace

    said: list[str] = []
    await run_simulate(
        None,
        target=SimulatedTarget(name=target),
        changes=[],
        conditions=Conditions(**conditions),
        svg=None,
        output="json",
        say=said.append,
        now=stage.clock(),
        reach=reach,
    )
    (result,) = json.loads(said[0])
    return dict(result)


async def test_simulate_continues_from_the_state_of_a_live_schedule(stage: Stage) -> None:
    # given a schedule whose first child runs
    stage.kubelets.set_rules([Rule(exit_code=0, after_s=1e6)])
    await stage.start_manager()
    await stage.create(cron(schedule="@every 10s"), resource=ADVANCED_CRON_JOBS)

    async def has_made_one() -> bool:
        outcome = await stage.get("often", resource=ADVANCED_CRON_JOBS)
        return bool((outcome.get("status") or {}).get("active"))

    await stage.until(has_made_one)
    spec = {"concurrencyPolicy": "Forbid", "schedule": "@every 1h"}
    await stage.merge("often", {"spec": spec}, resource=ADVANCED_CRON_JOBS)
    live = await stage.get("often", resource=ADVANCED_CRON_JOBS)
    before = {child["metadata"]["name"] for child in await stage.stored(BROADCAST_JOBS)}
    # when what runs would go on for 90 minutes
    result = await simulated(stage, "acj/often", takes="90m", lasts="3h")
    # then the first time waits for what runs now, and the cluster knows nothing of it
    first, second, *_ = result["fates"]  # type: ignore[misc]
    assert (first["do"], round(first["late_s"], -2)) == ("start", 1800.0)
    assert (second["do"], second["code"]) == ("skip", "JobAlreadyActive")
    assert first["name"] in second["why"]
    assert (await stage.get("often", resource=ADVANCED_CRON_JOBS))["spec"] == live["spec"]
    assert {child["metadata"]["name"] for child in await stage.stored(BROADCAST_JOBS)} == before


async def test_simulate_plays_a_live_job(stage: Stage, pool: Pool) -> None:
    broadcast = Broadcast(stage, pool)
    await broadcast.create(pod={"nodeSelector": None})

    result = await simulated(stage, f"bcj/{NAME}", takes="5s")

    assert result["is_job"]
    assert "completed on 3 nodes: 3 succeeded" in result["end"]["headline"]  # type: ignore[index]
    assert not await broadcast.pods()
