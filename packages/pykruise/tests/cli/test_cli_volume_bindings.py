"""Volumes that bind pods to nodes, read with the rights of the user."""

from typing import Any, cast

import orjson
import pytest

from pykruise.cli.insight.volume_bindings import list_volume_bindings
from pykruise.kube.client.client import Client
from pykruise.kube.errors import ErrorStatus, ForbiddenError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
    Resource,
)

POD = Key("shop", "db-0")
ELSEWHERE = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-7"]}


class Listing:
    def __init__(self, items: list[bytes]) -> None:
        self.items = items


class Cluster:
    """A pod with a claim; `nodes` and `volumes`: None when the user may not list them."""

    def __init__(
        self, claim: dict[str, Any], nodes: list[str] | None, volumes: list[dict[str, Any]] | None
    ) -> None:
        volume = {"persistentVolumeClaim": {"claimName": "data"}}
        terms = [{"matchExpressions": [ELSEWHERE]}]
        self._objects: dict[Resource, dict[str, Any]] = {
            PODS: {"metadata": {"name": "db-0"}, "spec": {"volumes": [volume]}},
            PERSISTENT_VOLUME_CLAIMS: {
                "metadata": {"namespace": "shop", "name": "data"},
                "spec": claim,
            },
            PERSISTENT_VOLUMES: {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}},
            STORAGE_CLASSES: {
                "metadata": {"name": claim.get("storageClassName", "")},
                "provisioner": claim.get("storageClassName"),
                "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["eu-9"]}]}],
            },
        }
        self._lists: dict[Resource, list[dict[str, Any]] | None] = {
            NODES: None if nodes is None else [{"metadata": {"name": name}} for name in nodes],
            PERSISTENT_VOLUMES: volumes,
        }

    async def get(self, resource: Resource, _namespace: str, _name: str) -> bytes:
        if resource not in self._objects:
            raise NotFoundError(ErrorStatus(code=404))
        return orjson.dumps(self._objects[resource])

    async def list(self, resource: Resource) -> Listing:
        items = self._lists[resource]
        if items is None:
            raise ForbiddenError(ErrorStatus(code=403))
        return Listing(list(map(orjson.dumps, items)))


async def words_of(
    claim: dict[str, Any], nodes: list[str] | None, volumes: list[dict[str, Any]] | None = None
) -> str:
    client = cast("Client", Cluster(claim, nodes, volumes))
    bindings = await list_volume_bindings(client, [POD])
    return bindings[POD].words if POD in bindings else ""


async def test_a_volume_that_no_node_can_mount_is_reported() -> None:
    assert "no node can mount volume pv of PVC data" in await words_of({"volumeName": "pv"}, ["node-1"])


async def test_a_storage_class_whose_topologies_no_node_has_is_named() -> None:
    assert "allowedTopologies of storage class zonal" in await words_of({"storageClassName": "zonal"}, ["a"])


async def test_no_binding_is_reported_to_a_user_who_may_not_list_nodes() -> None:
    assert await words_of({"volumeName": "pv"}, None) == ""
    assert await words_of({"storageClassName": "zonal"}, None) == ""


BY_HAND = "kubernetes.io/no-provisioner"
CLAIM = {
    "storageClassName": BY_HAND,
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "2Gi"}},
}


def volume(**changed: Any) -> dict[str, Any]:
    """A free volume that fits CLAIM, except for the changed fields."""
    spec = {"storageClassName": BY_HAND, "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}}
    return {"metadata": {"name": "pv"}, "spec": {**spec, **changed}, "status": {"phase": "Available"}}


async def test_a_storage_class_without_a_provisioner_is_named_without_any_right_on_nodes() -> None:
    assert "only a person can create one" in await words_of(CLAIM, None, [])


async def test_no_binding_is_reported_for_volumes_that_the_user_may_not_list() -> None:
    assert await words_of(CLAIM, None) == ""


@pytest.mark.parametrize(
    "unfit",
    [
        {"storageClassName": "other"},
        {"accessModes": ["ReadOnlyMany"]},
        {"capacity": {"storage": "1Gi"}},
        {"volumeMode": "Block"},
        {"claimRef": {"namespace": "shop", "name": "other"}},
        {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [ELSEWHERE]}]}}},
    ],
)
async def test_a_free_volume_is_missing_only_if_none_fits(unfit: dict[str, Any]) -> None:
    assert "no volume of storage class" in await words_of(CLAIM, ["node-1"], [volume(**unfit)])
    assert await words_of(CLAIM, ["node-1"], [volume(**unfit), volume()]) == ""
    reserved = volume(claimRef={"namespace": "shop", "name": "data"})
    assert await words_of(CLAIM, ["node-1"], [volume(**unfit), reserved]) == ""
