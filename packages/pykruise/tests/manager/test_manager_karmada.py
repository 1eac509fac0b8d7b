"""Karmada's interpreters of the kinds, run in Lua over objects as the controllers write them."""

from typing import Any

import pytest

from pykruise.kinds import build_crds
from pykruise.manager.karmada import build_interpreters
from support.lua import run_lua

Object = dict[str, Any]
INTERPRETERS = {
    (item["spec"]["target"]["apiVersion"], item["spec"]["target"]["kind"]): item["spec"]["customizations"]
    for item in build_interpreters()
}
V1BETA1, V1ALPHA1 = "apps.kruise.io/v1beta1", "apps.kruise.io/v1alpha1"
KUBE = (
    'package.preload.kube = function() return {accuratePodRequirements = function() return "needs" end} end\n'
)


def call(kind: tuple[str, str], what: str, line: str, **values: Any) -> Any:
    script = f"{KUBE}{INTERPRETERS[kind][what]['luaScript']}\nreturn {line}"
    return run_lua(script, {}, **values)


def cloneset(*, replicas: int = 3, ready: int = 3, generation: int = 2, **spec: Any) -> Object:
    return {
        "apiVersion": V1BETA1,
        "kind": "CloneSet",
        "metadata": {"name": "web", "generation": generation},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "main"}]}}, **spec},
        "status": {
            "observedGeneration": generation,
            "replicas": replicas,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "updatedReplicas": replicas,
            "updatedReadyReplicas": ready,
            "updatedAvailableReplicas": ready,
            "expectedUpdatedReplicas": replicas,
            "labelSelector": "app=web",
        },
    }


def test_every_kind_of_workload_is_listed_in_every_served_version() -> None:
    served = {
        (f"{crd['spec']['group']}/{version['name']}", crd["spec"]["names"]["kind"])
        for crd in build_crds()
        for version in crd["spec"]["versions"]
        if version["served"]
    }
    assert INTERPRETERS.keys() <= served
    workloads = {"CloneSet", "StatefulSet", "DaemonSet", "UnitedDeployment", "BroadcastJob"}
    assert {kind for kind in served if kind[1] in workloads} <= INTERPRETERS.keys()


@pytest.mark.parametrize("kind", INTERPRETERS, ids="-".join)
def test_no_script_fails_for_an_object_without_a_status(kind: tuple[str, str]) -> None:
    bare: Object = {"metadata": {"name": "web", "generation": 1}, "spec": {}}
    assert call(kind, "healthInterpretation", "InterpretHealth(it)", it=bare) in (True, False)
    assert call(kind, "statusReflection", "ReflectStatus(it)", it=bare) == {"generation": 1}
    after = call(
        kind, "statusAggregation", "AggregateStatus(it, items)", it=bare, items=[{"clusterName": "a"}]
    )
    assert "observedGeneration" not in after["status"]


@pytest.mark.parametrize("version", [V1BETA1, V1ALPHA1])
def test_a_workload_is_healthy_when_its_pods_are(version: str) -> None:
    kind = (version, "CloneSet")
    assert call(kind, "healthInterpretation", "InterpretHealth(it)", it=cloneset()) is True
    assert call(kind, "healthInterpretation", "InterpretHealth(it)", it=cloneset(ready=1)) is False


def test_replicas_are_interpreted_and_revised() -> None:
    kind = (V1BETA1, "CloneSet")
    assert call(kind, "replicaResource", "{GetReplicas(it)}", it=cloneset(replicas=7)) == [7, "needs"]
    after = call(kind, "replicaRevision", "ReviseReplica(it, 5)", it=cloneset(replicas=7))
    assert after["spec"]["replicas"] == 5


def test_the_status_of_all_clusters_is_the_sum_of_theirs() -> None:
    # given the reflected statuses of two clusters
    kind = (V1BETA1, "CloneSet")
    items = [
        {
            "clusterName": str(number),
            "status": call(
                kind, "statusReflection", "ReflectStatus(it)", it=cloneset(replicas=number, ready=1)
            ),
        }
        for number in (3, 2)
    ]
    # when
    desired = {"metadata": {"name": "web", "generation": 9}, "spec": {"replicas": 5}}
    after = call(kind, "statusAggregation", "AggregateStatus(it, items)", it=desired, items=items)
    # then
    status = after["status"]
    assert (status["replicas"], status["readyReplicas"], status["labelSelector"]) == (5, 2, "app=web")
    assert status["observedGeneration"] == 9
    # and the sum is unobserved while one cluster has not observed its change
    items[0]["status"]["generation"] = 3
    after = call(kind, "statusAggregation", "AggregateStatus(it, items)", it=desired, items=items)
    assert "observedGeneration" not in after["status"]
