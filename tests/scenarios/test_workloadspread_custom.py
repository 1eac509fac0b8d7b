"""Workloads of kinds that pykruise does not know: by the white list, their scale subresource, or paths."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from pykruise.kinds.workloadspread.readers import WHITE_LIST_KEY
from pykruise.kinds.workloadspread.types import WORKLOAD_SPREADS
from pykruise.kube.client.transport import Transport
from pykruise.kube.errors import AlreadyExistsError, InvalidError, NotFoundError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, Resource
from pykruise.manager.settings import NAMESPACE
from pykruise.pods.view.keys import MATCHED_SPREAD_ANNOTATION
from pykruise.pods.workload.allowed_workloads import CONFIGURATION
from support.control_plane import grant
from support.scenario import Object, Stage

TRAINING = Resource("example.org", "v1", "trainings", "Training")
SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}


@pytest.fixture
async def allowed(stage: Stage, request: pytest.FixtureRequest) -> AsyncIterator[Transport | None]:
    """Allow the manager to read the kind, as an administrator has to; yields the manager's transport, None: the usual
    one. In the sandbox, the manager has only the generated rights, so it gets the administrator's transport.
    """
    if request.config.getoption("--cluster") != "real":
        yield stage.client.transport
        return
    await grant(stage.client, READERS)
    yield None
    # The kind and the white list belong to the whole cluster.
    with contextlib.suppress(NotFoundError):
        await stage.client.delete(CUSTOM_RESOURCE_DEFINITIONS, "", definition()["metadata"]["name"])
    with contextlib.suppress(NotFoundError):
        await stage.client.delete(CONFIG_MAPS, NAMESPACE, CONFIGURATION)


_RBAC = {"apiGroup": "rbac.authorization.k8s.io"}
READERS: tuple[Object, ...] = (
    {
        "kind": "ClusterRole",
        "metadata": {"name": "kruise-manager-trainings"},
        "rules": [{"apiGroups": [TRAINING.group], "resources": [TRAINING.plural], "verbs": ["get"]}],
    },
    {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "kruise-manager-trainings"},
        "roleRef": {**_RBAC, "kind": "ClusterRole", "name": "kruise-manager-trainings"},
        "subjects": [{"kind": "ServiceAccount", "name": "kruise-manager", "namespace": NAMESPACE}],
    },
)
"""Objects that docs/workloadspread.md asks administrators to create."""


def definition() -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "metadata": {"name": "trainings.example.org"},
        "spec": {
            "group": TRAINING.group,
            "scope": "Namespaced",
            "names": {
                "plural": "trainings",
                "kind": "Training",
                "singular": "training",
                "listKind": "TrainingList",
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}, "scale": SCALE},
                }
            ],
        },
    }


async def white_list(stage: Stage, **entry: Any) -> None:
    """Put the kind on the white list."""
    listed = {"workloads": [{"Group": TRAINING.group, "Kind": TRAINING.kind, **entry}]}
    body = {"metadata": {"name": CONFIGURATION}, "data": {WHITE_LIST_KEY: orjson.dumps(listed).decode()}}
    with contextlib.suppress(AlreadyExistsError):
        await stage.client.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
    try:
        await stage.client.create(CONFIG_MAPS, NAMESPACE, body)
    except AlreadyExistsError:
        await stage.client.patch(CONFIG_MAPS, NAMESPACE, CONFIGURATION, body, patch_type=PatchType.MERGE)


async def training(stage: Stage, **spec: Any) -> Object:
    async def is_defined() -> bool:
        try:
            await stage.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", definition())
        except AlreadyExistsError:
            return False  # it belongs to the previous test, and terminates
        return True

    await stage.until(is_defined)
    doc = {
        "apiVersion": TRAINING.api_version,
        "kind": TRAINING.kind,
        "metadata": {"name": "web"},
        "spec": spec,
    }

    async def is_served() -> Object | None:
        try:
            return await stage.create(doc, resource=TRAINING)
        except NotFoundError:
            return None

    result: Object = await stage.until(is_served)
    return result


async def pod_of(stage: Stage, owner: Object, name: str, role: str) -> Object:
    reference = {
        "apiVersion": TRAINING.api_version,
        "kind": TRAINING.kind,
        "name": "web",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    body = {
        "metadata": {"name": name, "labels": {"app": "web", "role": role}, "ownerReferences": [reference]},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    }
    return await stage.create(body, resource=PODS)


def spread(*subsets: Object, **spec: Any) -> Object:
    target = {"apiVersion": TRAINING.api_version, "kind": TRAINING.kind, "name": "web"}
    return {
        "apiVersion": WORKLOAD_SPREADS.api_version,
        "kind": WORKLOAD_SPREADS.kind,
        "metadata": {"name": "ws"},
        "spec": {"targetRef": target, "subsets": list(subsets), **spec},
    }


HALVES = ({"name": "a", "maxReplicas": "30%"}, {"name": "b"})


async def subset_status(stage: Stage) -> dict[str, tuple[int, int]]:
    result = await stage.get("ws", resource=WORKLOAD_SPREADS)
    entries = (result.get("status") or {}).get("subsetStatuses") or []
    return {entry["name"]: (entry["replicas"], entry["missingReplicas"]) for entry in entries}


async def test_a_kind_must_be_on_the_list(stage: Stage, allowed: Transport | None) -> None:
    """workloadspread case 49, with the list read again"""
    with pytest.raises(InvalidError):
        await stage.create(spread(*HALVES), resource=WORKLOAD_SPREADS)
    await white_list(stage)
    await asyncio.sleep(6)
    await stage.create(spread(*HALVES), resource=WORKLOAD_SPREADS)


async def test_replica_paths_decide_how_many_pods_are_expected(
    stage: Stage, allowed: Transport | None
) -> None:
    """workloadspread case 66"""
    # given 10 workers and 2 others
    await white_list(stage)
    owner = await training(stage, groups=[{"replicas": 2}, {"replicas": 10}])
    await stage.start_manager(allowed)
    workers = {
        "selector": {"matchLabels": {"role": "worker"}},
        "replicasPathList": ["spec.groups.1.replicas"],
    }
    await stage.create(spread(*HALVES, targetFilter=workers), resource=WORKLOAD_SPREADS)
    # when
    placed = [await pod_of(stage, owner, f"worker-{item}", "worker") for item in range(4)]
    other = await pod_of(stage, owner, "ps-0", "ps")
    # then 30 % of 10 are of the first subset, and the others are left alone
    subsets = [
        orjson.loads(entry["metadata"]["annotations"][MATCHED_SPREAD_ANNOTATION])["subset"]
        for entry in placed
    ]
    assert subsets == ["a", "a", "a", "b"]
    assert MATCHED_SPREAD_ANNOTATION not in (other["metadata"].get("annotations") or {})

    async def is_counted() -> bool:
        return await subset_status(stage) == {"a": (3, 0), "b": (1, -1)}

    await stage.until(is_counted)


async def test_a_path_that_leads_nowhere_changes_nothing(stage: Stage, allowed: Transport | None) -> None:
    """workloadspread case 67"""
    await white_list(stage)
    await training(stage, replicas=3)
    await stage.start_manager(allowed)
    nowhere = {"replicasPathList": ["spec.none"]}
    await stage.create(spread(*HALVES, targetFilter=nowhere), resource=WORKLOAD_SPREADS)
    await asyncio.sleep(5)
    assert await subset_status(stage) == {}


async def test_the_scale_subresource_decides_how_many_pods_are_wanted(
    stage: Stage, allowed: Transport | None
) -> None:
    # given a kind without a path on the list
    await white_list(stage)
    owner = await training(stage, replicas=10)
    await stage.start_manager(allowed)
    await stage.create(spread(*HALVES), resource=WORKLOAD_SPREADS)
    # when
    await pod_of(stage, owner, "worker-0", "worker")

    # then the share is of its replicas
    async def is_counted() -> bool:
        return await subset_status(stage) == {"a": (1, 2), "b": (0, -1)}

    await stage.until(is_counted)
    # when it is scaled
    await stage.merge("web", {"spec": {"replicas": 20}}, resource=TRAINING)

    async def follows() -> bool:
        return await subset_status(stage) == {"a": (1, 5), "b": (0, -1)}

    await stage.until(follows)
