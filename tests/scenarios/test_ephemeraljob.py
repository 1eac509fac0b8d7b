"""EphemeralJobs on a cluster: containers for debugging in running pods, a few at a time."""

from typing import Any

import pytest

from pykruise.cli.explain import read_and_explain
from pykruise.kinds.ephemeraljob.kind import KIND
from pykruise.kinds.ephemeraljob.types import EPHEMERAL_JOBS
from pykruise.kube.documents import decode
from pykruise.kube.errors import InvalidError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.sandbox.nodes.faults import Rule
from support.ephemeral_world import container
from support.faults import DropAnswer, FaultyTransport, patches
from support.scenario import Object, Stage, cloneset

PODS_COUNT = 6


def ephemeral_job(**spec: Any) -> Object:
    template = {"ephemeralContainers": spec.pop("containers", [container()])}
    return {
        "apiVersion": EPHEMERAL_JOBS.api_version,
        "kind": EPHEMERAL_JOBS.kind,
        "metadata": {"name": "look"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec},
    }


async def with_pods(stage: Stage, count: int = PODS_COUNT) -> None:
    await stage.create(cloneset(replicas=count))
    await stage.settled(replicas=count)


async def phase(stage: Stage, *wanted: str) -> Object:
    async def is_there() -> Object | None:
        status: Object = (await stage.get("look", resource=EPHEMERAL_JOBS)).get("status") or {}
        return status if status.get("phase") in wanted else None

    phase: Object = await stage.until(is_there)
    return phase


async def containers(stage: Stage) -> dict[str, list[str]]:
    """Name of a pod → its ephemeral containers."""
    return {
        pod["metadata"]["name"]: [
            container["name"] for container in pod["spec"].get("ephemeralContainers") or ()
        ]
        for pod in await stage.stored(PODS)
    }


@pytest.mark.node
async def test_every_pod_gets_the_containers_a_few_at_a_time(stage: Stage) -> None:
    """containers case 32"""
    await stage.start_manager()
    await with_pods(stage)
    most = 0

    async def is_over() -> Object | None:
        nonlocal most
        pods = await stage.stored(PODS)
        most = max(most, sum(_is_active(pod) for pod in pods))
        status: Object = (await stage.get("look", resource=EPHEMERAL_JOBS)).get("status") or {}
        return status if status.get("phase") == "Succeeded" else None

    await stage.create(ephemeral_job(parallelism=2, replicas=PODS_COUNT - 1), resource=EPHEMERAL_JOBS)
    status = await stage.until(is_over)

    assert (status["match"], status["succeeded"], status["failed"]) == (PODS_COUNT - 1, PODS_COUNT - 1, 0)
    assert most <= 2
    assert sorted(await _counts(stage)) == [0] + [1] * (PODS_COUNT - 1)
    # and the pods are as they were
    await stage.settled(replicas=PODS_COUNT)


def _is_active(pod: Object) -> bool:
    has_one = bool(pod["spec"].get("ephemeralContainers"))
    statuses = pod["status"].get("ephemeralContainerStatuses") or ()
    return has_one and not any("terminated" in status["state"] for status in statuses)


async def _counts(stage: Stage) -> list[int]:
    return [len(names) for names in (await containers(stage)).values()]


async def test_containers_that_fail_make_the_job_fail(stage: Stage) -> None:
    """containers case 36"""
    stage.kubelets.set_rules([Rule(container="debug", exit_code=1, after_s=0.5)])
    await stage.start_manager()
    await with_pods(stage, 2)
    await stage.create(ephemeral_job(parallelism=2), resource=EPHEMERAL_JOBS)
    status = await phase(stage, "Failed")
    assert status["failed"] == 2


async def test_explain_reports_progress_without_pods_of_other_owners(stage: Stage) -> None:
    # given
    await stage.start_manager()
    await with_pods(stage)
    await stage.create(ephemeral_job(parallelism=2), resource=EPHEMERAL_JOBS)
    await phase(stage, "Succeeded")
    # when
    explanation = await read_and_explain(
        stage.client, Key(stage.namespace, "look"), now=stage.clock(), kind=KIND
    )
    # then
    assert explanation.verdict == "done"
    assert [wait for wait in explanation.waits if wait.pods] == []


@pytest.mark.node
async def test_a_finished_job_is_deleted_after_its_ttl(stage: Stage) -> None:
    """containers case 40"""
    await stage.start_manager()
    await with_pods(stage, 1)
    await stage.create(ephemeral_job(ttlSecondsAfterFinished=2), resource=EPHEMERAL_JOBS)

    async def is_gone() -> bool:
        return not await stage.exists("look", resource=EPHEMERAL_JOBS)

    await stage.until(is_gone)
    assert await _counts(stage) == [1]


async def test_a_field_that_ephemeral_containers_cannot_have_is_refused(stage: Stage) -> None:
    """containers case 34"""
    with pytest.raises(InvalidError, match=r"spec\.template\.ephemeralContainers\[0\]\.ports"):
        await stage.create(
            ephemeral_job(containers=[container(ports=[{"containerPort": 80, "protocol": "TCP"}])]),
            resource=EPHEMERAL_JOBS,
        )


async def test_a_job_without_policies_gets_those_of_the_api_server_in_its_pods(stage: Stage) -> None:
    """containers case 34: as with OpenKruise's released charts, which do not register the webhook"""
    await stage.start_manager()
    await with_pods(stage, 1)
    policies = {"imagePullPolicy": None, "terminationMessagePolicy": None}
    await stage.create(ephemeral_job(containers=[container(**policies)]), resource=EPHEMERAL_JOBS)
    await phase(stage, "Succeeded")
    pods = (await stage.client.list(PODS, stage.namespace)).items
    injected = decode(pods[0])["spec"]["ephemeralContainers"][0]
    assert (injected["imagePullPolicy"], injected["terminationMessagePolicy"]) == ("IfNotPresent", "File")


@pytest.mark.node
async def test_a_lost_answer_injects_no_container_twice(stage: Stage) -> None:
    faulty = FaultyTransport(stage.manager_transport())
    faulty.on(patches("/ephemeralcontainers"), DropAnswer(), None, DropAnswer())
    await stage.start_manager(faulty)
    await with_pods(stage, 3)
    await stage.create(ephemeral_job(parallelism=3), resource=EPHEMERAL_JOBS)
    await phase(stage, "Succeeded")
    assert await _counts(stage) == [1, 1, 1]
    stored = [decode(item) for item in (await stage.client.list(PODS, stage.namespace)).items]
    assert all(len(pod["status"]["ephemeralContainerStatuses"]) == 1 for pod in stored)
