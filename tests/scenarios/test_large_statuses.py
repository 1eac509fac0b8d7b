"""Objects of every kind among many pods, nodes and namespaces with the longest names, while a webhook of others refuses
what the manager does for them with 100 kB of text: no status is much larger than its spec.

Time is virtual: minutes pass.
"""

import asyncio
import json
from typing import Any, Final

import pytest
from test_refused_creations import CASES

from pykruise.kinds import find_kind, list_kinds
from pykruise.kinds.imagepulljob.types import IMAGE_PULL_JOBS
from pykruise.kinds.resourcedistribution.types import RESOURCE_DISTRIBUTIONS
from pykruise.kinds.uniteddeployment.workloads import CLONE_SET
from pykruise.kube.admission import AdmissionAnswer, AdmissionRequest, ResourceRule, ReviewRule
from pykruise.kube.clock import format_time
from pykruise.kube.documents import decode
from pykruise.kube.errors import ErrorStatus
from pykruise.kube.resources import NAMESPACES, NODES, PODS, Resource
from support.busy_keys import MANAGER, BusyPlace, busy_cluster
from support.sandbox import pod
from support.uniteddeployments import united_document

Object = dict[str, Any]

LONG: Final = " ".join(f"spec.containers[{number}]: not allowed" for number in range(3_000))
MOST_MORE: Final = 320 * 1024
MANY: Final = 300
NAMESPACE_COUNT: Final = 450
"""Number of namespaces with names of 63 characters: a large cluster."""


async def refuse(request: AdmissionRequest) -> AdmissionAnswer:
    """Refuse the manager's creations and deletions."""
    is_refused = request.username == MANAGER and request.operation in ("CREATE", "DELETE")
    is_event = request.resource.kind in ("Event", "Lease")
    refusal = ErrorStatus(code=403, reason="Forbidden", message=LONG)
    return AdmissionAnswer(refusal=refusal if is_refused and not is_event else None)


REFUSING: Final = ReviewRule(
    name="refuses.example.com",
    path="/refuse",
    mutating=False,
    rules=(
        ResourceRule(
            groups=("*",), versions=("*",), resources=("*",), operations=("CREATE", "UPDATE", "DELETE")
        ),
    ),
    reviewer=refuse,
)


def long_name(begin: str, number: int, *, most: int = 250) -> str:
    return f"{begin}{number:04}-".ljust(most - 1, "x") + "y"


async def add_nodes(place: BusyPlace) -> None:
    for number in range(MANY):
        condition = {
            "type": "Ready",
            "status": "True",
            "lastTransitionTime": format_time(place.cluster.clock()),
        }
        await place.create(NODES, {"metadata": {"name": long_name("node", number), "labels": {}}})
        await place.merge(
            NODES, long_name("node", number), {"status": {"conditions": [condition]}}, subresource="status"
        )


def document(resource: Resource, spec: Object) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "web"},
        "spec": spec,
    }


def size_beyond_spec(stored: Object) -> int:
    return len(json.dumps(stored.get("status", {}))) - len(json.dumps(stored.get("spec", {})))


WEB: Final = {"matchLabels": {"app": "web"}}
TARGET: Final = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet", "name": "web"}
CONTAINER: Final = {"name": "side", "image": "nginx:1"}
ALONE: Final[dict[str, Object]] = {
    "AdvancedCronJob": {
        "schedule": "* * * * *",
        "template": {
            "jobTemplate": {
                "spec": {
                    "template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}},
                }
            }
        },
    },
    "ContainerRecreateRequest": {"podName": long_name("web", 0, most=200), "containers": [{"name": "main"}]},
    "EphemeralJob": {
        "selector": WEB,
        "template": {"ephemeralContainers": [{**CONTAINER, "targetContainerName": "main"}]},
    },
    "ImagePullJob": {"image": "nginx:1", "completionPolicy": {"type": "Always"}},
    "PersistentPodState": {
        "targetRef": TARGET,
        "requiredPersistentTopology": {"keys": ["kubernetes.io/hostname"]},
    },
    "PodProbeMarker": {
        "selector": WEB,
        "probes": [
            {
                "name": "idle",
                "containerName": "main",
                "podConditionType": "a/b",
                "probe": {"exec": {"command": ["a"]}},
            }
        ],
    },
    "PodUnavailableBudget": {"selector": WEB, "maxUnavailable": 1},
    "ResourceDistribution": {
        "resource": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}},
        "targets": {"allNamespaces": True},
    },
    "SidecarSet": {"selector": WEB, "containers": [CONTAINER]},
    "WorkloadSpread": {"targetRef": TARGET, "subsets": [{"name": "a", "maxReplicas": 5}, {"name": "b"}]},
}
"""Specs of kinds that create no pods, or not at once; CASES has the other kinds."""
MANY_PARTS: Final[dict[str, Object]] = {
    "ImageListPullJob": {
        "images": [f"nginx:{number}" for number in range(255)],
        "completionPolicy": {"type": "Always"},
    },
    "UnitedDeployment": united_document(CLONE_SET, [{"name": f"subset-{number}"} for number in range(100)])[
        "spec"
    ],
}
"""Specs of kinds whose statuses have an entry for each part of the spec."""
OF_NODES: Final = {"NodeImage", "NodePodProbe"}
"""Kinds whose objects the manager creates, and whose statuses agents write."""
SILENT: Final = {"ContainerRecreateRequest", "PodProbeMarker", *OF_NODES}
"""Kinds without a status of the manager here: a request waits for an agent, a marker reports only its generation."""


def document_of(kind: str) -> Object:
    if kind in MANY_PARTS:
        return document(find_kind(kind).resource, MANY_PARTS[kind])
    for case in CASES.values():
        if case.resource.kind == kind:
            return case.document
    return document(find_kind(kind).resource, ALONE[kind])


def test_all_kinds_are_here() -> None:
    makers = {case.resource.kind for case in CASES.values()}
    assert makers | ALONE.keys() | OF_NODES == {kind.resource.kind for kind in list_kinds() if kind.versions}


@pytest.mark.parametrize("kind", [kind.resource.kind for kind in list_kinds() if kind.versions])
async def test_no_status_is_much_larger_than_the_spec(kind: str) -> None:
    resource = find_kind(kind).resource
    async with busy_cluster(reviewed=False, further=[REFUSING]) as place:
        pods = [pod(long_name("web", number, most=200), labels={"app": "web"}) for number in range(MANY // 2)]
        for entry in pods:
            await place.create(PODS, entry)
        if kind not in OF_NODES:
            await place.create(resource, document_of(kind))
        # when
        await asyncio.sleep(300)
        # then
        listed = [decode(raw) for raw in (await place.client.list(resource)).items]
        assert [item["metadata"]["name"] for item in listed if size_beyond_spec(item) > MOST_MORE] == []
        assert all(item.get("status") for item in listed if kind not in SILENT)
        assert place.tracebacks.kept == []


async def test_all_namespaces_that_fail_are_counted_and_named() -> None:
    async with busy_cluster(reviewed=False, further=[REFUSING], nodes=0) as place:
        for number in range(NAMESPACE_COUNT):
            await place.create(NAMESPACES, {"metadata": {"name": long_name("n", number, most=63)}})
        resource = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}}
        spec = {"resource": resource, "targets": {"allNamespaces": True}}
        await place.create(RESOURCE_DISTRIBUTIONS, document(RESOURCE_DISTRIBUTIONS, spec))
        # when
        await asyncio.sleep(120)
        # then
        stored = await place.get(RESOURCE_DISTRIBUTIONS, "web")
        assert stored["status"]["failed"] >= NAMESPACE_COUNT
        assert size_beyond_spec(stored) <= MOST_MORE
        (named_ones,) = [
            condition for condition in stored["status"]["conditions"] if condition.get("failedNamespaces")
        ]
        assert len(named_ones["failedNamespaces"]) == stored["status"]["failed"]


async def test_all_nodes_that_fail_are_counted_and_named() -> None:
    async with busy_cluster(reviewed=False, nodes=0) as place:
        await add_nodes(place)
        await asyncio.sleep(60)  # until each has its NodeImage
        spec = {
            "image": "nginx:1",
            "parallelism": MANY,
            "pullPolicy": {"timeoutSeconds": 20, "backoffLimit": 0},
            "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 30},
        }
        await place.create(IMAGE_PULL_JOBS, document(IMAGE_PULL_JOBS, spec))
        # when no agent pulls
        await asyncio.sleep(120)
        # then
        stored = await place.get(IMAGE_PULL_JOBS, "web")
        assert stored["status"]["failed"] == MANY
        assert len(stored["status"]["failedNodes"]) == MANY
        assert size_beyond_spec(stored) <= MOST_MORE
