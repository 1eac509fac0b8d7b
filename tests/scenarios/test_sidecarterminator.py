"""Sidecars of a job end when its main containers are done (gate SidecarTerminator)."""

from typing import Any

import pytest

from pykruise.kinds.gates import Gates
from pykruise.kinds.sidecarterminator.plan import REQUESTS
from pykruise.kube.documents import Document
from pykruise.kube.resources import PODS
from pykruise.manager.settings import ManagerSettings
from pykruise.sandbox.nodes.faults import Rule
from support.scenario import Stage

TERMINATOR = ManagerSettings(gates=Gates.of(SidecarTerminator=True))
KILL = {"name": "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT", "value": "true"}
IGNORE = {"name": "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE", "value": "true"}


def job_pod(*env: Document, policy: str = "Never") -> Document:
    """A pod that runs to completion, with a sidecar `log`."""
    containers: list[dict[str, Any]] = [
        {"name": "main", "image": "main"},
        {"name": "log", "image": "log", "env": list(env)},
    ]
    return {
        "metadata": {"name": "job-x", "labels": {"job": "x"}},
        "spec": {"restartPolicy": policy, "containers": containers},
    }


async def ended(stage: Stage, *, code: int, env: list[Document]) -> list[Document]:
    """Run a job's pod until its main container has ended; returns the ContainerRecreateRequests."""
    stage.kubelets.set_rules([Rule(container="main", exit_code=code, after_s=0.5)])
    await stage.start_manager(settings=TERMINATOR)
    await stage.create(job_pod(*env), resource=PODS)
    result: list[Document] = await stage.until(lambda: stage.stored(REQUESTS), what="a request is made")
    return result


@pytest.mark.parametrize("code", [0, 1])
async def test_a_pod_gets_one_request_with_its_running_sidecar(stage: Stage, code: int) -> None:
    """sidecarset cases 82 and 85"""
    (request,) = await ended(stage, code=code, env=[KILL])
    pod = await stage.get("job-x", resource=PODS)
    assert request["metadata"]["name"] == f"sidecar-termination-{pod['metadata']['uid']}"
    assert [container["name"] for container in request["spec"]["containers"]] == ["log"]
    assert request["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
    # when the pod changes again
    await stage.merge("job-x", {"metadata": {"labels": {"touched": "yes"}}}, resource=PODS)
    (event,) = await stage.until(lambda: stage.events("SidecarTerminator"))
    # then
    assert "log using crr" in event["message"]
    assert len(await stage.stored(REQUESTS)) == 1


async def test_the_phase_is_that_of_the_main_container_when_the_sidecars_exit_is_ignored(
    stage: Stage,
) -> None:
    """sidecarset case 87"""
    await ended(stage, code=0, env=[KILL, IGNORE])

    async def is_final() -> bool:
        status = (await stage.get("job-x", resource=PODS))["status"]
        kinds = {condition["type"] for condition in status.get("conditions") or ()}
        return status["phase"] == "Succeeded" and "SidecarTerminated" in kinds

    await stage.until(is_final, what="the pod succeeded")


async def test_nothing_is_ended_without_the_gate(stage: Stage) -> None:
    stage.kubelets.set_rules([Rule(container="main", exit_code=0, after_s=0.5)])
    await stage.start_manager()
    await stage.create(job_pod(KILL), resource=PODS)

    async def main_has_ended() -> bool:
        statuses = (await stage.get("job-x", resource=PODS))["status"].get("containerStatuses") or []
        return any("terminated" in status["state"] for status in statuses if status["name"] == "main")

    await stage.until(main_has_ended)
    assert await stage.stored(REQUESTS) == []
