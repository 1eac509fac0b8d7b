"""BroadcastJobs on a cluster: nodes join, leave and are cordoned during a run, pods fail, a manager is killed."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.errors import InvalidError
from pykruise.kube.resources import PODS
from pykruise.sandbox.nodes.faults import Rule
from support.broadcastjobs import NAME, Broadcast
from support.common_faults import WRITE_FAULTS, changes_of, the_writes
from support.daemonsets import Pool
from support.faults import Answer, DropAnswer, FaultyTransport, Request, conflict, posts, workload_writes
from support.kills import Kill
from support.scenario import Stage


@pytest.fixture
def broadcast(stage: Stage, pool: Pool) -> Broadcast:
    return Broadcast(stage, pool)


def holding(*, code: int = 0, after_s: float = 1e6, node: str = "") -> Rule:
    """The job's containers end with this code after this time."""
    return Rule(labels=f"app={NAME}", node=node, exit_code=code, after_s=after_s)


@pytest.mark.node
async def test_each_node_runs_its_pod_once(stage: Stage, broadcast: Broadcast) -> None:
    """broadcastjob cases 1, 6, 14"""
    await stage.start_manager()

    stored = await broadcast.create()
    status = await broadcast.phase("completed")

    assert stored["spec"]["completionPolicy"]["type"] == "Always"
    assert {name: status[name] for name in ("desired", "active", "succeeded", "failed")} == {
        "desired": 4,
        "active": 0,
        "succeeded": 4,
        "failed": 0,
    }
    assert await broadcast.all_ran_once()
    (completed,) = await stage.until(lambda: stage.events("JobComplete"))
    assert completed.get("count", 1) == 1


async def test_an_unworkable_job_is_refused(stage: Stage, broadcast: Broadcast) -> None:
    """broadcastjob cases 2 and 3"""
    with pytest.raises(InvalidError, match=r"spec\.template\.spec\.restartPolicy"):
        await broadcast.create(pod={"restartPolicy": "Always"})
    with pytest.raises(InvalidError, match=r"spec\.completionPolicy\.ttlSecondsAfterFinished"):
        await broadcast.create(completionPolicy={"type": "Never", "ttlSecondsAfterFinished": 10})


@pytest.mark.node
async def test_never_more_than_parallelism_run(stage: Stage, broadcast: Broadcast) -> None:
    """broadcastjob case 7"""
    await stage.start_manager()
    most = 0

    async def is_over() -> bool:
        nonlocal most
        most = max(most, sum(pod.is_active for pod in await broadcast.pods()))
        return (await broadcast.status()).get("phase") == "completed"

    await broadcast.create(parallelism=2)
    await stage.until(is_over)

    assert most == 2
    assert await broadcast.all_ran_once()


async def test_nodes_join_leave_and_are_cordoned_during_a_run(
    stage: Stage, pool: Pool, broadcast: Broadcast
) -> None:
    """broadcastjob cases 11, 12, 16, 29"""
    # given a job whose pods run on, and a cordoned node
    stage.kubelets.set_rules([holding()])
    await stage.start_manager()
    cordoned, tainted, going = pool.nodes[:3]
    await pool.cordon(cordoned)
    await broadcast.create()
    await broadcast.counts(desired=3, active=3)
    assert cordoned not in await broadcast.nodes()
    # when a node joins, one is tainted, one leaves, and the cordoned one is back
    await pool.join("late")
    await broadcast.counts(desired=4, active=4)
    await pool.taint(tainted, "example.com/x:NoSchedule")
    await broadcast.counts(desired=3, active=3)
    await pool.cordon(cordoned, unschedulable=False)
    await broadcast.counts(desired=4, active=4)
    await pool.leave(going)
    await broadcast.counts(desired=3)
    # then all that are left have their pod, and it is over when those have ended
    stage.kubelets.set_rules([holding(after_s=1.0)])
    status = await broadcast.phase("completed")
    assert (status["desired"], status["succeeded"]) == (3, 3)


async def test_a_failed_pod_stops_the_others(stage: Stage, pool: Pool, broadcast: Broadcast) -> None:
    """broadcastjob case 17"""
    stage.kubelets.set_rules([holding(code=3, after_s=1.0, node=pool.nodes[0]), holding()])
    await stage.start_manager()

    await broadcast.create()
    status = await broadcast.phase("failed")

    assert (status["active"], status["failed"]) == (0, 4)
    (pod,) = await stage.until(lambda: _only_one(broadcast))
    assert pod.target_node == pool.nodes[0]
    assert len(await stage.until(lambda: stage.events("failed pod is found"))) == 1


async def _only_one(broadcast: Broadcast) -> list[object]:
    pods = await broadcast.pods()
    return list(pods) if len(pods) == 1 else []


async def test_a_failure_pauses_the_job_until_a_person_resumes_it(
    stage: Stage, pool: Pool, broadcast: Broadcast
) -> None:
    """broadcastjob cases 19 and 20"""
    # given
    bad = pool.nodes[0]
    stage.kubelets.set_rules([holding(code=3, after_s=0.5, node=bad)])
    await stage.start_manager()
    await broadcast.create(parallelism=1, failurePolicy={"type": "Pause"})
    await stage.until(lambda: stage.events("Paused"))
    await broadcast.phase("paused")
    assert (await broadcast.get())["spec"]["paused"] is True
    # when the error is corrected
    stage.kubelets.set_rules([])
    for pod in await broadcast.pods():
        if pod.phase == "Failed":
            await stage.delete(pod.name, resource=PODS)
    await broadcast.change(paused=False)
    # then
    await broadcast.phase("completed")
    assert await broadcast.all_ran_once()
    assert len(await stage.until(lambda: stage.events("Continue"))) == 1


@pytest.mark.node
@pytest.mark.virtual_time("a deadline of a minute")
async def test_a_deadline_ends_the_job_and_a_restarted_manager_keeps_it(
    stage: Stage, broadcast: Broadcast
) -> None:
    """broadcastjob cases 23 and 24"""
    stage.kubelets.set_rules([holding()])
    await stage.start_manager()
    await broadcast.create(completionPolicy={"type": "Always", "activeDeadlineSeconds": 60})
    await broadcast.counts(active=4)
    began = stage.clock()
    await asyncio.sleep(30)
    await stage.kill_manager()
    await stage.start_manager()

    status = await broadcast.phase("failed")

    assert 55 <= stage.clock() - began <= 62
    assert status["failed"] == 4
    await stage.until(lambda: _is_empty(broadcast))


async def _is_empty(broadcast: Broadcast) -> bool:
    return not await broadcast.pods()


@pytest.mark.node
@pytest.mark.parametrize("ttl", [0, 3])
async def test_a_finished_job_is_deleted_with_its_pods(stage: Stage, broadcast: Broadcast, ttl: int) -> None:
    """broadcastjob case 25"""
    await stage.start_manager()

    await broadcast.create(completionPolicy={"type": "Always", "ttlSecondsAfterFinished": ttl})

    async def is_gone() -> bool:
        return not await stage.exists(NAME, resource=BROADCAST_JOBS) and not await broadcast.pods()

    await stage.until(is_gone)


async def test_a_never_ending_job_runs_on_new_nodes(stage: Stage, pool: Pool, broadcast: Broadcast) -> None:
    """broadcastjob case 15"""
    await stage.start_manager()
    await broadcast.create(completionPolicy={"type": "Never"})
    await broadcast.counts(succeeded=4)

    await pool.join("late")

    status = await broadcast.counts(succeeded=5, desired=5)
    assert status["phase"] == "running"


async def test_a_manually_deleted_pod_is_created_again(
    stage: Stage, pool: Pool, broadcast: Broadcast
) -> None:
    """broadcastjob case 31"""
    stage.kubelets.set_rules([holding()])
    await stage.start_manager()
    await broadcast.create()
    await broadcast.counts(active=4)
    old = await broadcast.pod_of(pool.nodes[0])

    await stage.delete(old.name, resource=PODS)

    async def is_replaced() -> bool:
        pods = [pod for pod in await broadcast.pods() if pod.target_node == pool.nodes[0]]
        return [pod.uid != old.uid for pod in pods] == [True]

    await stage.until(is_replaced)
    assert (await broadcast.status())["phase"] == "running"


async def test_a_creation_that_is_refused_is_reported_and_tried_again(
    stage: Stage, broadcast: Broadcast
) -> None:
    """broadcastjob case 32"""
    faulty = FaultyTransport(stage.manager_transport())
    await stage.start_manager(faulty)
    faulty.on(posts("/pods"), lambda _: Answer(403, reason="Forbidden", message="exceeded quota"))

    await broadcast.create()

    events = await stage.until(lambda: stage.events("FailedCreate"))
    assert "exceeded quota" in events[0]["message"]
    faulty.clear()
    await broadcast.phase("completed")


@pytest.mark.few_on_real(2)
@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("at", range(8))
@pytest.mark.checkered
async def test_a_manager_is_killed_at_any_write(
    stage: Stage, pool: Pool, broadcast: Broadcast, at: int, takes_effect: bool
) -> None:
    """broadcastjob case 33: no node is run twice, none is forgotten"""
    kill = Kill(at, takes_effect=takes_effect)
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(workload_writes(), kill)
    await stage.start_manager(faulty)
    await broadcast.create(parallelism=2)

    async def is_over() -> bool:
        return kill.reached or (await broadcast.status()).get("phase") == "completed"

    await stage.until(is_over)
    await stage.kill_manager()
    await stage.start_manager()

    status = await broadcast.phase("completed")

    assert await broadcast.all_ran_once()
    assert (status["succeeded"], status["desired"]) == (4, 4)


@pytest.mark.few_on_real(1)
@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize("at", range(6))
@pytest.mark.checkered
async def test_a_manager_is_killed_while_a_job_fails(
    stage: Stage, pool: Pool, broadcast: Broadcast, at: int, takes_effect: bool
) -> None:
    """broadcastjob case 35: a job that has failed leaves nothing running, and counts what it stopped"""
    stage.kubelets.set_rules([holding()])
    await stage.start_manager()
    await broadcast.create()
    await broadcast.counts(active=4)
    await stage.kill_manager()
    kill = Kill(at, takes_effect=takes_effect)
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(workload_writes(), kill)
    await stage.start_manager(faulty)
    stage.kubelets.set_rules([holding(code=1, after_s=0.1, node=pool.nodes[0]), holding()])

    async def is_over() -> bool:
        return kill.reached or len(await broadcast.pods()) == 1

    await stage.until(is_over)
    await stage.kill_manager()
    await stage.start_manager()

    status = await broadcast.phase("failed")

    await stage.until(lambda: _only_one(broadcast))
    assert (status["failed"], status["active"]) == (4, 0)


@pytest.mark.few_on_real(2)
@pytest.mark.parametrize("number", [0, 2, 4])
@WRITE_FAULTS
@pytest.mark.checkered
async def test_one_failing_write_does_not_run_a_pod_twice(
    stage: Stage, broadcast: Broadcast, fault: object, number: int
) -> None:
    """broadcastjob cases 33 to 35"""
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(workload_writes(), the_writes(number, number + 5, fault=fault))
    await stage.start_manager(faulty)

    await broadcast.create(parallelism=2)
    await broadcast.phase("completed")

    assert await broadcast.all_ran_once()


@pytest.mark.few_on_real(1)
@pytest.mark.parametrize("number", range(3))
async def test_a_conflicting_status_is_written_after_all(
    stage: Stage, broadcast: Broadcast, number: int
) -> None:
    """broadcastjob case 35"""
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(changes_of("/broadcastjobs"), *[None] * number, conflict())
    await stage.start_manager(faulty)

    await broadcast.create()

    status = await broadcast.phase("completed")
    assert [condition["type"] for condition in status["conditions"]][:1] == ["Complete"]


@pytest.mark.node
@pytest.mark.few_on_real(1)
@pytest.mark.parametrize("kind", [posts])
async def test_creations_whose_answers_are_lost_make_no_second_pod(
    stage: Stage, broadcast: Broadcast, kind: Callable[[str], Callable[[Request], bool]]
) -> None:
    """broadcastjob cases 33 and 34"""
    known: set[bytes | None] = set()

    def once(request: Request) -> DropAnswer | None:
        if request.body in known:
            return None
        known.add(request.body)
        return DropAnswer()

    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(kind("/pods"), once)
    await stage.start_manager(faulty)

    await broadcast.create()
    await broadcast.phase("completed")

    assert await broadcast.all_ran_once()


@pytest.mark.node
async def test_a_run_that_another_manager_began_is_finished_and_no_node_is_run_twice(
    stage: Stage, pool: Pool, broadcast: Broadcast
) -> None:
    """A take-over in the middle: two pods exist, one has ended; their owner references have the older version."""
    # given
    job = await broadcast.create(parallelism=2)
    uid = job["metadata"]["uid"]
    owner = {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "BroadcastJob",
        "name": NAME,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    template = job["spec"]["template"]
    for number, node in enumerate(pool.nodes[:2]):
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        pod = {
            "metadata": {
                "name": f"{NAME}-{number}abcd",
                "labels": {"app": NAME, "broadcastjob-name": NAME, "broadcastjob-controller-uid": uid},
                "ownerReferences": [owner],
            },
            "spec": {**template["spec"], "affinity": affinity},
        }
        await stage.create(pod, resource=PODS)
    first = {pod.uid for pod in await broadcast.pods()}
    # when
    await stage.start_manager()
    # then
    await broadcast.phase("completed")
    assert await broadcast.all_ran_once()
    assert first <= {pod.uid for pod in await broadcast.pods()}


@pytest.mark.node
async def test_a_client_of_the_older_version_sees_the_same_job(stage: Stage, broadcast: Broadcast) -> None:
    await stage.start_manager()
    older = msgspec.structs.replace(BROADCAST_JOBS, version="v1alpha1")
    document = {**broadcast.to_document(parallelism="50%"), "apiVersion": older.api_version}

    await stage.create(document, resource=older)
    await broadcast.phase("completed")

    job = await stage.get(NAME, resource=older)
    assert job["spec"]["parallelism"] == "50%"
    assert job["status"]["succeeded"] == 4


@pytest.mark.node
async def test_a_run_costs_a_creation_a_pod_and_few_statuses(
    stage: Stage, broadcast: Broadcast, pytestconfig: pytest.Config
) -> None:
    metered = MeteredTransport(stage.manager_transport())
    await stage.start_manager(metered)
    await broadcast.create()
    await broadcast.phase("completed")
    await asyncio.sleep(1.0)

    statuses = metered.requests["PATCH broadcastjobs/status"]

    assert metered.requests["POST pods"] == 4
    # Between the answers of a real API server on a busy machine there is time for more statuses.
    assert statuses <= (8 if pytestconfig.getoption("--cluster") == "real" else 6)
