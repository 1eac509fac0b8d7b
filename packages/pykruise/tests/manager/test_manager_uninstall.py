"""Objects that would be lost with the manager's namespace."""

from typing import Any

from pykruise.kube.resources import CONFIG_MAPS, NAMESPACES, PODS, SECRETS
from pykruise.manager.install import Installation, build_manifests
from pykruise.manager.uninstall import FOREIGN, find_foreign_objects
from pykruise.sandbox.cluster import ClusterSettings
from support.sandbox import small_cluster

PLACE = "platform"


def named(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": PLACE}, **fields}


async def test_objects_of_other_programs_in_the_namespace_are_found() -> None:
    async with small_cluster(ClusterSettings(nodes=0, controllers=())) as place:
        client = place.client
        await client.create(NAMESPACES, "", {"metadata": {"name": PLACE}})
        # given an installation, objects of the cluster and of Helm, and a pod that another object owns
        by_kind = {resource.kind: resource for resource in FOREIGN}
        for document in build_manifests(Installation(namespace=PLACE, client_authority="kruise-clients")):
            if document["metadata"].get("namespace") == PLACE and document["kind"] in by_kind:
                await client.create(by_kind[document["kind"]], PLACE, document)
        await client.create(CONFIG_MAPS, PLACE, named("kube-root-ca.crt"))
        await client.create(SECRETS, PLACE, named("sh.helm.release.v1.x.v1", type="helm.sh/release.v1"))
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}
        pod = {"containers": [{"name": "main", "image": "nginx:1"}]}
        owned = named("web-x", spec=pod)
        owned["metadata"]["ownerReferences"] = [owner]
        await client.create(PODS, PLACE, owned)
        assert await find_foreign_objects(client, PLACE) == []
        # when other programs have objects there
        await client.create(CONFIG_MAPS, PLACE, named("important"))
        await client.create(PODS, PLACE, named("db", spec=pod))
        await client.create(SECRETS, "default", {"metadata": {"name": "elsewhere", "namespace": "default"}})
        # then
        losses = {loss.resource: loss.objects for loss in await find_foreign_objects(client, PLACE)}
        assert losses == {PODS: ("platform/db",), CONFIG_MAPS: ("platform/important",)}
