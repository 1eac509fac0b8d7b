"""Built-in controllers do the same with their kinds in the sandbox and on the real control plane."""

from collections.abc import Mapping
from typing import Any

import pytest

from pykruise.kube.documents import decode, get_path
from pykruise.kube.errors import NotFoundError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from pykruise.sandbox.controllers.endpoints import ENDPOINT_SLICES
from pykruise.sandbox.nodes.faults import Rule
from support.scenario import Stage

Object = dict[str, Any]

VOLATILE = {"lastTransitionTime", "lastProbeTime", "lastUpdateTime", "startTime", "completionTime"}


def workload(kind: str, name: str, **spec: Any) -> Object:
    """A workload whose pods stop at once."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "main", "image": "web:1"}],
                },
            },
            **spec,
        },
    }


async def create(stage: Stage, resource: Resource, doc: Object) -> Object:
    return decode(await stage.client.create(resource, stage.namespace, doc))


async def settled(stage: Stage, resource: Resource, name: str, **wanted: Any) -> Object:
    """Wait until the status shows all of this; returns it without times."""
    result: list[Object] = []

    async def is_so() -> bool:
        status = (await stage.get(name, resource=resource)).get("status") or {}
        result[:] = [status]
        return all(status.get(field) == value for field, value in wanted.items())

    await stage.until(is_so)
    return without_times(result[0])


def without_times(value: Any) -> Any:
    match value:
        case dict():
            return {name: without_times(item) for name, item in value.items() if name not in VOLATILE}
        case list():
            return [without_times(item) for item in value]
        case _:
            return value


async def pods(stage: Stage, app: str) -> dict[str, Object]:
    """The pods of a workload by name."""
    listed = await stage.client.list(PODS, stage.namespace, label_selector=f"app={app}")
    return {doc["metadata"]["name"]: doc for doc in map(decode, listed.items)}


def images(images: Mapping[str, Object]) -> list[str]:
    return sorted(doc["spec"]["containers"][0]["image"] for doc in images.values())


async def set_image(stage: Stage, resource: Resource, name: str, image: str) -> None:
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}
    await stage.client.patch(resource, stage.namespace, name, patch, patch_type=PatchType.STRATEGIC)


async def test_a_stateful_set_updates_above_its_partition(stage: Stage) -> None:
    # given
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    doc = workload("StatefulSet", "db", replicas=3, serviceName="db", updateStrategy=strategy)
    await create(stage, STATEFUL_SETS, doc)
    status = await settled(stage, STATEFUL_SETS, "db", readyReplicas=3)
    assert sorted(await pods(stage, "db")) == ["db-0", "db-1", "db-2"]
    revision = status["currentRevision"]
    # when
    await set_image(stage, STATEFUL_SETS, "db", "web:2")
    status = await settled(stage, STATEFUL_SETS, "db", updatedReplicas=2, readyReplicas=3)
    # then
    assert images(await pods(stage, "db")) == ["web:1", "web:2", "web:2"]
    assert status["currentRevision"] == revision != status["updateRevision"]
    assert {name: status[name] for name in ("replicas", "currentReplicas", "availableReplicas")} == {
        "replicas": 3,
        "currentReplicas": 1,
        "availableReplicas": 3,
    }
    labels = (await pods(stage, "db"))["db-2"]["metadata"]["labels"]
    labels = {name: text for name, text in labels.items() if "topology" not in name}  # of nodes, since 1.35
    assert labels == {
        "app": "db",
        "apps.kubernetes.io/pod-index": "2",
        "controller-revision-hash": status["updateRevision"],
        "statefulset.kubernetes.io/pod-name": "db-2",
    }


async def test_a_daemon_set_is_on_every_node_and_rolls(stage: Stage) -> None:
    # given
    nodes = len((await stage.client.list(NODES)).items)
    await create(stage, DAEMON_SETS, workload("DaemonSet", "agent"))
    status = await settled(stage, DAEMON_SETS, "agent", numberAvailable=nodes)
    assert status == {
        "currentNumberScheduled": nodes,
        "desiredNumberScheduled": nodes,
        "numberAvailable": nodes,
        "numberMisscheduled": 0,
        "numberReady": nodes,
        "observedGeneration": 1,
        "updatedNumberScheduled": nodes,
    }
    rolls = await pods(stage, "agent")
    assert len({doc["spec"]["nodeName"] for doc in rolls.values()}) == nodes
    # when
    await set_image(stage, DAEMON_SETS, "agent", "web:2")
    await settled(
        stage, DAEMON_SETS, "agent", observedGeneration=2, updatedNumberScheduled=nodes, numberAvailable=nodes
    )
    # then
    assert images(await pods(stage, "agent")) == ["web:2"] * nodes


async def test_a_daemon_set_surges_without_losing_a_pod(stage: Stage) -> None:
    # given
    nodes = len((await stage.client.list(NODES)).items)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await create(stage, DAEMON_SETS, workload("DaemonSet", "agent", updateStrategy=strategy))
    await settled(stage, DAEMON_SETS, "agent", numberAvailable=nodes)
    # when
    await set_image(stage, DAEMON_SETS, "agent", "web:2")
    most = 0

    async def has_rolled() -> bool:
        nonlocal most
        result = await pods(stage, "agent")
        alive = [doc for doc in result.values() if "deletionTimestamp" not in doc["metadata"]]
        # then an old pod is deleted only after its successor is available
        assert len(alive) >= nodes
        most = max(most, len(alive))
        return images(result) == ["web:2"] * nodes

    await stage.until(has_rolled)
    assert most == nodes + 1
    status = await settled(stage, DAEMON_SETS, "agent", updatedNumberScheduled=nodes, numberAvailable=nodes)
    assert status["desiredNumberScheduled"] == nodes


def job(name: str, image: str, **spec: Any) -> Object:
    containers = [{"name": "main", "image": image}]
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"restartPolicy": "Never", "containers": containers},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


async def test_jobs_complete_and_fail_with_the_same_status(stage: Stage) -> None:
    # given
    assert stage.kubelets is not None
    stage.kubelets.set_rules([Rule(image="bad:1", exit_code=3)])
    # when
    await create(stage, JOBS, job("sum", "good:1", completions=3, parallelism=2, completionMode="Indexed"))
    await create(stage, JOBS, job("fail", "bad:1", backoffLimit=0))
    # then
    status = await settled(stage, JOBS, "sum", succeeded=3)
    status = await ended(stage, "sum")
    assert status == {
        "completedIndexes": "0-2",
        "conditions": [
            condition(
                "SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods"
            ),
            condition("Complete", "CompletionsReached", "Reached expected number of succeeded pods"),
        ],
        "ready": 0,
        "succeeded": 3,
        "terminating": 0,
        "uncountedTerminatedPods": {},
    }
    text = "Job has reached the specified backoff limit"
    assert await ended(stage, "fail") == {
        "conditions": [
            condition("FailureTarget", "BackoffLimitExceeded", text),
            condition("Failed", "BackoffLimitExceeded", text),
        ],
        "failed": 1,
        "ready": 0,
        "terminating": 0,
        "uncountedTerminatedPods": {},
    }


async def test_indexes_of_jobs_fail_and_succeed_by_their_own_rules(stage: Stage) -> None:
    # given
    assert stage.kubelets is not None
    stage.kubelets.set_rules(
        [
            Rule(pod="some-1-*", exit_code=3),
            Rule(pod="few-2-*", exit_code=0, after_s=600),
            Rule(pod="none-0-*", exit_code=42),
            Rule(pod="none-*", exit_code=0, after_s=600),
        ]
    )
    three = {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}
    codes = {"operator": "In", "values": [42]}
    rules = {"rules": [{"action": "FailIndex", "onExitCodes": codes}]}
    # when
    await create(stage, JOBS, job("some", "x:1", **three, backoffLimitPerIndex=1))
    few = {"rules": [{"succeededCount": 2}]}
    await create(stage, JOBS, job("few", "x:1", **three, successPolicy=few))
    none = {"backoffLimitPerIndex": 3, "maxFailedIndexes": 0, "podFailurePolicy": rules}
    await create(stage, JOBS, job("none", "x:1", **three, **none))
    # then an index that failed twice fails the job when the others are done
    status = await ended(stage, "some")
    assert {
        field: status[field] for field in ("completedIndexes", "failedIndexes", "succeeded", "failed")
    } == {
        "completedIndexes": "0,2",
        "failedIndexes": "1",
        "succeeded": 2,
        "failed": 2,
    }
    assert status["conditions"] == [
        condition("FailureTarget", "FailedIndexes", "Job has failed indexes"),
        condition("Failed", "FailedIndexes", "Job has failed indexes"),
    ]
    counts = {
        doc["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"]
        for name, doc in (await pods(stage, "some")).items()
        if name.startswith("some-1-")
    }
    assert counts == {"0", "1"}
    # and two of three are enough where the policy says so
    status = await ended(stage, "few")
    assert (status["succeeded"], status.get("failed", 0), status["completedIndexes"]) == (2, 0, "0,1")
    assert status["conditions"] == [
        condition("SuccessCriteriaMet", "SuccessPolicy", "Matched rules at index 0"),
        condition("Complete", "SuccessPolicy", "Matched rules at index 0"),
    ]
    # and one index too many ends everything: pods that are cut short have failed, their indexes have not
    status = await ended(stage, "none")
    assert (status["failedIndexes"], status["failed"], status["conditions"][-1]["reason"]) == (
        "0",
        3,
        "MaxFailedIndexesExceeded",
    )


def condition(kind: str, reason: str, message: str) -> Object:
    return {"type": kind, "status": "True", "reason": reason, "message": message}


async def ended(stage: Stage, name: str) -> Object:
    """The status of a job that has ended, without times."""
    result: list[Object] = []

    async def is_over() -> bool:
        status = (await stage.get(name, resource=JOBS)).get("status") or {}
        result[:] = [status]
        return any(
            condition["type"] in ("Complete", "Failed") for condition in status.get("conditions") or ()
        )

    await stage.until(is_over)
    status: Object = without_times(result[0])
    return status


@pytest.mark.all_controllers
async def test_a_service_and_a_budget_follow_the_pods_of_a_deployment(stage: Stage) -> None:
    # given
    selector = {"app": "web"}
    await create(stage, DEPLOYMENTS, workload("Deployment", "web", replicas=3))
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    await create(
        stage, SERVICES, {"metadata": {"name": "web"}, "spec": {"selector": selector, "ports": ports}}
    )
    budget = {
        "metadata": {"name": "web"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector}},
    }
    await create(stage, POD_DISRUPTION_BUDGETS, budget)
    # when
    status = await settled(stage, POD_DISRUPTION_BUDGETS, "web", currentHealthy=3, expectedPods=3)
    # then
    assert {
        name: status[name] for name in ("desiredHealthy", "disruptionsAllowed", "observedGeneration")
    } == {
        "desiredHealthy": 2,
        "disruptionsAllowed": 1,
        "observedGeneration": 1,
    }
    assert status["conditions"][0]["reason"] == "SufficientPods"

    async def all_ready() -> bool:
        outcome = await slices(stage)
        return (
            len(outcome) == 1
            and [endpoint["conditions"] for endpoint in outcome[0]["endpoints"]]
            == [{"ready": True, "serving": True, "terminating": False}] * 3
        )

    await stage.until(all_ready)
    (result,) = await slices(stage)
    assert result["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    addresses = {get_path(doc, "status", "podIP") for doc in (await pods(stage, "web")).values()}
    assert {endpoint["addresses"][0] for endpoint in result["endpoints"]} == addresses


async def slices(stage: Stage) -> list[Object]:
    try:
        listed = await stage.client.list(
            ENDPOINT_SLICES, stage.namespace, label_selector="kubernetes.io/service-name=web"
        )
    except NotFoundError:
        return []
    return [{"endpoints": [], **decode(raw)} for raw in listed.items]
