"""Deletion protection through an API server: what carries the label stays, and goes without it."""

import secrets
from typing import Any

import msgspec
import pytest

from pykruise.admission.protection import LABEL
from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client.transport import Request
from pykruise.kube.documents import decode
from pykruise.kube.errors import ForbiddenError, NotFoundError
from pykruise.kube.patches import PatchType
from pykruise.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    Resource,
)
from support.scenario import Object, Stage, cloneset

pytestmark = pytest.mark.needs_admission

INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
OLD_CLONE_SETS = msgspec.structs.replace(CLONE_SETS, version="v1alpha1")

TEMPLATE = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"containers": [{"name": "main", "image": "nginx"}]},
}


def workload(resource: Resource, replicas: int) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "x"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE},
    }


def protected(doc: Object, value: str) -> Object:
    return {**doc, "metadata": {**doc["metadata"], "labels": {LABEL: value}}}


async def refusal(stage: Stage, resource: Resource, name: str, *, namespace: str = "") -> str:
    """The reason of the refusal, without the words that all refusals share; empty: the object was deleted."""
    namespace = (namespace or stage.namespace) if resource.namespaced else ""
    try:
        await stage.client.delete(resource, namespace, name)
    except ForbiddenError as error:
        return str(error).partition(f"ResourcesProtectionDeletion for {LABEL}=")[2]
    return ""


async def set_label(stage: Stage, resource: Resource, name: str, value: str | None) -> None:
    patch = {"metadata": {"labels": {LABEL: value}}}
    namespace = stage.namespace if resource.namespaced else ""
    await stage.client.patch(resource, namespace, name, patch, patch_type=PatchType.MERGE)


@pytest.mark.parametrize(
    "resource", [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, CLONE_SETS, OLD_CLONE_SETS], ids=str
)
async def test_a_protected_workload_stays_until_it_is_scaled_down(stage: Stage, resource: Resource) -> None:
    """admission cases 40, 41 and 43"""
    # given
    await stage.create(protected(workload(resource, 1), "Always"), resource=resource)
    assert await refusal(stage, resource, "x") == "Always"
    await set_label(stage, resource, "x", "Cascading")
    assert await refusal(stage, resource, "x") == "Cascading and replicas 1>0"
    # when it wants no pods any more
    patch = {"spec": {"replicas": 0}}
    await stage.client.patch(resource, stage.namespace, "x", patch, patch_type=PatchType.MERGE)
    # then
    assert await refusal(stage, resource, "x") == ""


async def test_other_values_of_the_label_protect_nothing(stage: Stage) -> None:
    """admission case 41"""
    await stage.create(protected(workload(DEPLOYMENTS, 1), "always"), resource=DEPLOYMENTS)
    assert await refusal(stage, DEPLOYMENTS, "x") == ""


@pytest.mark.parametrize(
    "resource",
    [SERVICES, pytest.param(INGRESSES, marks=pytest.mark.real)],  # the sandbox has no Ingresses
    ids=str,
)
async def test_services_and_ingresses_support_only_always(stage: Stage, resource: Resource) -> None:
    """admission case 42"""
    spec: dict[str, Any] = (
        {"ports": [{"port": 80}]}
        if resource is SERVICES
        else {"defaultBackend": {"service": {"name": "x", "port": {"number": 80}}}}
    )
    await stage.create(protected({"metadata": {"name": "x"}, "spec": spec}, "Always"), resource=resource)
    assert await refusal(stage, resource, "x") == "Always"
    await set_label(stage, resource, "x", "Cascading")
    assert await refusal(stage, resource, "x") == ""


async def test_delete_collection_spares_protected_objects(stage: Stage) -> None:
    """pitfall 13"""
    await stage.create(protected(cloneset(replicas=0), "Always"))
    path = CLONE_SETS.format_path(stage.namespace)
    answer = await stage.client.transport.request(
        Request("DELETE", path, headers={"accept": "application/json"})
    )
    assert answer.status == 403
    assert await stage.exists("web")
    await set_label(stage, CLONE_SETS, "web", None)


async def test_a_namespace_is_protected_by_what_is_in_it(stage: Stage) -> None:
    """admission cases 34, 35, 36 and 37"""
    # given a namespace of its own with a pod in it
    name = f"kept-{secrets.token_hex(4)}"
    await stage.client.create(NAMESPACES, "", protected({"metadata": {"name": name}}, "Always"))
    assert await refusal(stage, NAMESPACES, name) == "Always"
    await set_label(stage, NAMESPACES, name, "Cascading")
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "nginx"}]}}
    pod["spec"]["nodeName"] = "nowhere"  # type: ignore[index]
    await stage.client.create(PODS, name, pod)
    assert await refusal(stage, NAMESPACES, name) == "Cascading and active pods 1>0"
    # when the pod has finished, a bound claim still counts
    done = {"status": {"phase": "Succeeded"}}
    await stage.client.patch(PODS, name, "p", done, patch_type=PatchType.MERGE, subresource="status")
    await _bound_claim(stage, name)
    assert await refusal(stage, NAMESPACES, name) == 'Cascading and "Bound" status pvc 1>0'
    # then without it the namespace may go, and be asked to go again
    await stage.client.delete(PERSISTENT_VOLUME_CLAIMS, name, "c")
    assert await refusal(stage, NAMESPACES, name) == ""
    try:
        await set_label(stage, NAMESPACES, name, "Always")
        assert await refusal(stage, NAMESPACES, name) == ""
    except NotFoundError:
        pass  # it was quick


async def _bound_claim(stage: Stage, namespace: str) -> None:
    """The claim `c`, with a volume made for it."""
    size = {"storage": "1Gi"}
    shared = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    volume = {
        "metadata": {"name": f"{namespace}-v"},
        "spec": {
            **shared,
            "capacity": size,
            "hostPath": {"path": "/x"},
            "claimRef": {"namespace": namespace, "name": "c"},
        },
    }
    await stage.client.create(PERSISTENT_VOLUMES, "", volume)
    claim = {**shared, "volumeName": f"{namespace}-v", "resources": {"requests": size}}
    claims = PERSISTENT_VOLUME_CLAIMS
    await stage.client.create(claims, namespace, {"metadata": {"name": "c"}, "spec": claim})

    async def is_bound() -> bool:
        doc = decode(await stage.client.get(claims, namespace, "c"))
        return bool((doc.get("status") or {}).get("phase") == "Bound")

    await stage.until(is_bound)


async def test_a_crd_is_protected_by_its_objects(stage: Stage) -> None:
    """admission case 39"""
    # given
    group = f"{secrets.token_hex(4)}.example.com"
    name = f"games.{group}"
    schema = {"openAPIV3Schema": {"type": "object"}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "games", "kind": "Game"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    games = Resource(group, "v1", "games", "Game")
    await stage.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", protected(crd, "Cascading"))

    async def is_served() -> bool:
        try:
            await stage.client.list(games, limit=1)
        except NotFoundError:
            return False
        return True

    await stage.until(is_served)
    await stage.create(
        {"apiVersion": f"{group}/v1", "kind": "Game", "metadata": {"name": "chess"}}, resource=games
    )
    # then
    assert await refusal(stage, CUSTOM_RESOURCE_DEFINITIONS, name) == "Cascading and active CRs 1>0"
    await stage.client.delete(games, stage.namespace, "chess")
    assert await refusal(stage, CUSTOM_RESOURCE_DEFINITIONS, name) == ""
