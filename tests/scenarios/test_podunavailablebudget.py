"""A budget with its controller, its webhook steps and the workloads that ask it, on both clusters."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pykruise.cli.explain import read_and_explain
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kinds.gates import Gates
from pykruise.kinds.podunavailablebudget.kind import KIND
from pykruise.kinds.podunavailablebudget.types import POD_UNAVAILABLE_BUDGETS
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kube.errors import ForbiddenError, TooManyRequestsError
from pykruise.kube.ids import Key
from pykruise.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, PODS, Resource
from pykruise.manager.settings import ManagerSettings
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.budgets import UPDATED_S, budget_name_of
from pykruise.sandbox.nodes.faults import Rule
from support.scenario import Object, Stage, cloneset, pod_watch, rolling
from support.sidecarsets import container, sidecarset

BOTH_GATES = ManagerSettings(gates=Gates.of(PodUnavailableBudgetUpdateGate=True))


def budget(resource: Resource = CLONE_SETS, **spec: Any) -> Object:
    """A budget for the workload `web`."""
    reference = {"apiVersion": resource.api_version, "kind": resource.kind, "name": "web"}
    return {
        "apiVersion": POD_UNAVAILABLE_BUDGETS.api_version,
        "kind": POD_UNAVAILABLE_BUDGETS.kind,
        "metadata": {"name": "pub"},
        "spec": {"targetRef": reference, **spec},
    }


async def figures(stage: Stage) -> tuple[int, int, int, int]:
    """Figures of the budget's status: total, desired, current, allowed."""
    result = (await stage.get("pub", resource=POD_UNAVAILABLE_BUDGETS)).get("status") or {}
    names = ("totalReplicas", "desiredAvailable", "currentAvailable", "unavailableAllowed")
    return tuple(result.get(name, -1) for name in names)  # type: ignore[return-value]


async def becomes(stage: Stage, *wanted: int) -> None:
    async def is_so() -> bool:
        return await figures(stage) == wanted

    await stage.until(is_so, what=f"a status of {wanted}")


async def are_assigned(stage: Stage, name: str) -> None:
    async def is_so() -> bool:
        pods = await stage.pods()
        return len(pods) == 4 and {budget_name_of(pod) for pod in pods} == {name}

    await stage.until(is_so, what=f"4 pods that are assigned to PodUnavailableBudget {name}")


async def evict(stage: Stage, name: str, **options: Any) -> None:
    body: Object = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    if options:
        body["deleteOptions"] = options
    await stage.client.create(PODS, stage.namespace, body, name=name, subresource="eviction")


async def test_the_next_pod_may_be_disrupted_only_after_the_last_is_replaced(stage: Stage) -> None:
    """podunavailablebudget cases 36, 52, 53, 65 and 66"""
    # given
    await stage.start_manager()
    await stage.create(budget(maxUnavailable=1), resource=POD_UNAVAILABLE_BUDGETS)
    await stage.create(cloneset(replicas=4))
    await becomes(stage, 4, 3, 4, 1)
    first, second, third = [pod.name for pod in await stage.pods()][:3]
    # when a dry run goes first
    await evict(stage, first, dryRun=["All"])
    assert await figures(stage) == (4, 3, 4, 1)
    # and then one pod, whose successor takes its time
    stage.kubelets.set_rules([Rule(image="nginx:1", start_s=8)])
    await stage.delete(first, resource=PODS)
    # then no other
    with pytest.raises(ForbiddenError, match="pub unavailable allowed is negative"):
        await stage.delete(second, resource=PODS)
    with pytest.raises(TooManyRequestsError, match="pub unavailable allowed is negative"):
        await evict(stage, third)
    with pytest.raises(ForbiddenError):
        await stage.client.delete(PODS, stage.namespace, second, dry_run=True)
    # until it serves
    stage.kubelets.set_rules([])
    await becomes(stage, 4, 3, 4, 1)
    await evict(stage, third)


async def test_the_next_budget_protects_the_pods_of_a_deleted_budget(stage: Stage) -> None:
    # given pods of a loose budget, which a stricter budget covers too
    await stage.start_manager()
    loose = budget()
    loose["metadata"]["name"] = "loose"
    loose["spec"] = {"maxUnavailable": "100%", "selector": {"matchLabels": {"app": "web"}}}
    await stage.create(loose, resource=POD_UNAVAILABLE_BUDGETS)
    await asyncio.sleep(2)
    await stage.create(cloneset(replicas=4))
    await are_assigned(stage, "loose")
    await stage.create(budget(maxUnavailable=1), resource=POD_UNAVAILABLE_BUDGETS)
    await becomes(stage, 4, 3, 4, 1)
    # when
    await stage.delete("loose", resource=POD_UNAVAILABLE_BUDGETS)
    await are_assigned(stage, "pub")
    # then
    first, second = [pod.name for pod in await stage.pods()][:2]
    await stage.delete(first, resource=PODS)
    with pytest.raises(ForbiddenError, match="pub unavailable allowed is negative"):
        await stage.delete(second, resource=PODS)


@pytest.mark.node
async def test_a_scale_down_and_a_missing_workload_free_the_budget(stage: Stage) -> None:
    """podunavailablebudget cases 30 and 32"""
    await stage.start_manager()
    await stage.create(budget(maxUnavailable="50%"), resource=POD_UNAVAILABLE_BUDGETS)
    await becomes(stage, 0, 0, 0, 0)
    await stage.create(cloneset(replicas=4))
    await becomes(stage, 4, 2, 4, 2)
    await stage.scale("web", 2)
    await becomes(stage, 2, 1, 2, 1)


@pytest.mark.node
async def test_pods_of_a_deployment_are_annotated_by_its_name(stage: Stage) -> None:
    """podunavailablebudget cases 33 and 56"""
    labels = {"app": "web"}
    deployment: Object = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
            },
        },
    }
    # given pods that were there before the budget
    await stage.create(deployment, resource=DEPLOYMENTS)

    async def are_there() -> bool:
        return len(await stage.pods()) == 3

    await stage.until(are_there)
    await stage.start_manager()
    # when
    await stage.create(budget(DEPLOYMENTS, minAvailable=2), resource=POD_UNAVAILABLE_BUDGETS)
    # then
    await becomes(stage, 3, 2, 3, 1)
    assert {budget_name_of(pod) for pod in await stage.pods()} == {"pub"}


@pytest.mark.long_on_real
@pytest.mark.not_in_brief("it waits for records to run out, which virtual time shows as well")
async def test_a_bad_image_takes_one_pod_and_the_rollout_waits_for_a_good_one(stage: Stage) -> None:
    """podunavailablebudget cases 61 and 62"""
    await stage.start_manager(settings=BOTH_GATES)
    await stage.create(budget(maxUnavailable=1), resource=POD_UNAVAILABLE_BUDGETS)
    workload = cloneset(replicas=4)
    workload["spec"]["updateStrategy"] = rolling(podUpdatePolicy="InPlaceIfPossible", maxUnavailable="100%")
    await stage.create(workload)
    await becomes(stage, 4, 3, 4, 1)
    # when an image comes that never gets ready
    stage.kubelets.set_rules([Rule(image="nginx:bad", never_ready=True)])
    await stage.set_image("web", "nginx:bad")
    await becomes(stage, 4, 3, 3, 0)
    # then it is said what has spent the budget
    key = Key(stage.namespace, "pub")
    explanation = await read_and_explain(stage.client, key, now=stage.clock(), kind=KIND, settings=BOTH_GATES)
    assert "was allowed to be updated" in explanation.done[0]
    await asyncio.sleep(UPDATED_S + 5)
    # then one pod is out, and the others wait
    assert await figures(stage) == (4, 3, 3, 0)
    assert sorted(images(await stage.pods())) == ["nginx:1", "nginx:1", "nginx:1", "nginx:bad"]
    explanation = await read_and_explain(stage.client, key, now=stage.clock(), kind=KIND, settings=BOTH_GATES)
    assert explanation.headline == "3 of 4 pods serve, 3 are required: no pod may be disrupted"
    assert explanation.next[0] == "the next pod may be disrupted when 1 more pod serves"
    # and when a good one comes, all get it
    await stage.set_image("web", "nginx:2")

    async def all_have_it() -> bool:
        return images(await stage.pods()) == ["nginx:2"] * 4

    await stage.until(all_have_it)
    await becomes(stage, 4, 3, 4, 1)


def images(pods: Sequence[PodView]) -> list[str]:
    """Images in the specs of the active pods."""
    return [pod.containers[0].image for pod in pods if pod.is_active]


ROLLOUT = Resource("example.org", "v1", "rollouts", "Rollout")


def definition_of_rollouts(*, has_scale: bool = True) -> Object:
    paths = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, **({"scale": paths} if has_scale else {})},
    }
    names = {"plural": "rollouts", "singular": "rollout", "kind": "Rollout", "listKind": "RolloutList"}
    return {
        "metadata": {"name": "rollouts.example.org"},
        "spec": {"group": ROLLOUT.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


@pytest.mark.sandbox_only  # the kind would be visible in the whole cluster
async def test_pods_of_an_unknown_kind_are_found_by_its_scale_with_the_generated_rights(stage: Stage) -> None:
    """podunavailablebudget case 35"""
    # given a workload whose pods do not name it
    await stage.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition_of_rollouts())
    body: Object = {
        "apiVersion": ROLLOUT.api_version,
        "kind": ROLLOUT.kind,
        "metadata": {"name": "web"},
        "spec": {"replicas": 3},
    }
    await stage.create(body, resource=ROLLOUT)
    await stage.merge("web", {"status": {"selector": "app=web"}}, resource=ROLLOUT, subresource="status")
    for number in range(3):
        pod: Object = {
            "metadata": {"name": f"web-{number}", "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
        }
        await stage.create(pod, resource=PODS)
    await stage.start_manager()
    # when
    await stage.create(budget(ROLLOUT, maxUnavailable=1), resource=POD_UNAVAILABLE_BUDGETS)
    # then
    await becomes(stage, 3, 2, 3, 1)
    assert {budget_name_of(pod) for pod in await stage.pods()} == {"pub"}
    # and it is looked at again and again
    await stage.merge("web", {"spec": {"replicas": 2}}, resource=ROLLOUT)
    await becomes(stage, 2, 1, 3, 2)


@pytest.mark.sandbox_only  # the kind would be visible in the whole cluster
async def test_the_replica_count_of_a_whitelisted_kind_is_read_from_its_spec(stage: Stage) -> None:
    """podunavailablebudget 6.3, row 7"""
    # given a workload without a scale, on the white list, which its administrator lets the manager read
    await stage.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition_of_rollouts(has_scale=False))
    listed = '{"workloads":[{"Group":"example.org","Version":"v1","Kind":"Rollout"}]}'
    data = {"PPS_Watch_Custom_Workload_WhiteList": listed}
    await stage.client.create(
        CONFIG_MAPS, "kruise-system", {"metadata": {"name": "kruise-configuration"}, "data": data}
    )
    body: Object = {
        "apiVersion": ROLLOUT.api_version,
        "kind": ROLLOUT.kind,
        "metadata": {"name": "web"},
        "spec": {"replicas": 2},
    }
    await stage.create(body, resource=ROLLOUT)
    uid = (await stage.get("web", resource=ROLLOUT))["metadata"]["uid"]
    owner = {"apiVersion": ROLLOUT.api_version, "kind": ROLLOUT.kind, "name": "web", "uid": uid}
    for number in range(2):
        metadata = {
            "name": f"web-{number}",
            "labels": {"app": "web"},
            "ownerReferences": [{**owner, "controller": True}],
        }
        await stage.create(
            {"metadata": metadata, "spec": {"containers": [{"name": "main", "image": "nginx:1"}]}},
            resource=PODS,
        )
    await stage.start_manager(stage.client.transport)
    # when
    await stage.create(budget(ROLLOUT, maxUnavailable=1), resource=POD_UNAVAILABLE_BUDGETS)
    # then
    await becomes(stage, 2, 1, 2, 1)
    # and a workload without spec.replicas wants no pods
    await stage.merge("web", {"spec": {"replicas": None}}, resource=ROLLOUT)
    await becomes(stage, 0, 0, 0, 0)


@pytest.mark.parametrize("replicas", [10, pytest.param(100, marks=pytest.mark.sandbox_only)])
async def test_surplus_pods_after_a_scale_down_are_deleted_within_the_budget(
    stage: Stage, replicas: int
) -> None:
    """podunavailablebudget case 58"""
    # given pods of which a tenth may be out
    await stage.start_manager()
    await stage.create(budget(maxUnavailable="10%"), resource=POD_UNAVAILABLE_BUDGETS)
    await stage.create(cloneset(replicas=replicas))
    await becomes(stage, replicas, replicas * 9 // 10, replicas, replicas // 10)
    half = replicas // 2
    desired = half - (half + 9) // 10
    async with pod_watch(stage) as seen:
        seen.watch_from_now()
        # when half of them are wanted
        await stage.scale("web", half)
        await becomes(stage, half, desired, half, half - desired)
        await stage.settled(replicas=half)
    # then never fewer served than must
    assert seen.fewest_available is not None
    assert seen.fewest_available >= desired


@pytest.mark.long_on_real
@pytest.mark.node
async def test_a_sidecarset_and_a_cloneset_that_update_the_same_pods_stay_within_the_budget_together(
    stage: Stage,
) -> None:
    """podunavailablebudget case 63"""
    # given pods with sidecars, of which one may be out; both would update them all at once
    await stage.start_manager(settings=BOTH_GATES)
    own = {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}}
    all_at_once = {"type": "RollingUpdate", "maxUnavailable": "100%"}
    log = sidecarset("log", container("log", "log:1"), namespaceSelector=own, updateStrategy=all_at_once)
    await stage.create(log, resource=SIDECAR_SETS)
    await stage.create(budget(maxUnavailable=1), resource=POD_UNAVAILABLE_BUDGETS)
    workload = cloneset(replicas=4)
    workload["spec"]["updateStrategy"] = rolling(podUpdatePolicy="InPlaceIfPossible", maxUnavailable="100%")
    await stage.create(workload)
    await becomes(stage, 4, 3, 4, 1)
    async with pod_watch(stage) as seen:
        seen.watch_from_now()
        # when both change
        await stage.merge("log", {"spec": {"containers": [container("log", "log:2")]}}, resource=SIDECAR_SETS)
        await stage.set_image("web", "nginx:2")

        async def all_have_both() -> bool:
            result = [
                {container.name: container.image for container in pod.containers}
                for pod in await stage.pods()
            ]
            wanted = {"main": "nginx:2", "log": "log:2"}
            return result == [wanted] * 4 and await figures(stage) == (4, 3, 4, 1)

        await stage.until(all_have_both, what="four pods with both images")
    # then never more than one was out
    assert seen.fewest_available == 3
    assert seen.created == 4
