"""The generated ValidatingAdmissionPolicy keeps each agent to its own node's objects, which RBAC cannot."""

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Any, Final

import pytest

from pykruise.agent.rules.rights import rights_of_agent
from pykruise.kinds.containerrecreaterequest.types import CONTAINER_RECREATE_REQUESTS
from pykruise.kinds.containerrecreaterequest.view import NODE_LABEL
from pykruise.kube.client.client import Client
from pykruise.kube.documents import decode, get_path
from pykruise.kube.errors import AlreadyExistsError, ForbiddenError, InvalidError
from pykruise.kube.http.transport import HttpTransport
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS, Resource
from pykruise.manager.daemon import own_node_policy
from pykruise.manager.settings import NAMESPACE
from pykruise.pods.images.node_images import NODE_IMAGES
from pykruise.pods.probes.api import NODE_POD_PROBES
from pykruise.sandbox.apiserver.access.users import User
from pykruise.sandbox.local import LocalTransport
from support.busy_keys import BusyPlace, busy_cluster
from support.control_plane import connection
from support.sandbox import pod
from testbed.control_plane import ControlPlane

Object = dict[str, Any]

AGENT: Final = f"system:serviceaccount:{NAMESPACE}:kruise-daemon"
REFUSED: Final = (ForbiddenError, InvalidError)


def policies() -> list[tuple[Resource, Object]]:
    policies = []
    for document in own_node_policy(namespace=NAMESPACE):
        kind = document["kind"]
        plural = kind.lower()[:-1] + "ies" if kind.endswith("y") else f"{kind.lower()}s"
        resource = Resource("admissionregistration.k8s.io", "v1", plural, kind, namespaced=False)
        policies.append((resource, document))
    return policies


def agent_of(place: BusyPlace, node: str) -> Client:
    """An agent with the token of its pod."""
    extra = {"authentication.kubernetes.io/node-name": (node,)} if node else {}
    user = User(name=AGENT, groups=("system:masters", "system:authenticated"), extra=extra)
    return Client(LocalTransport(place.cluster.server, user=user))


async def report(client: Client, resource: Resource, name: str) -> None:
    """A write of the status, as agents make it."""
    where = "default" if resource.namespaced else ""
    body = {"metadata": {"annotations": {"seen": "yes"}}, "status": {"desired": 1, "phase": "Pending"}}
    await client.patch(resource, where, name, body, patch_type=PatchType.MERGE, subresource="status")


async def have_objects(place: BusyPlace) -> dict[Resource, tuple[str, str]]:
    """Resource that agents write → the names of its object for node-1, and for node-2."""
    for node in ("node-1", "node-2"):
        await place.create(PODS, {**pod(f"on-{node}"), "spec": {**pod("x")["spec"], "nodeName": node}})
        request = {
            "apiVersion": CONTAINER_RECREATE_REQUESTS.api_version,
            "kind": CONTAINER_RECREATE_REQUESTS.kind,
            "metadata": {"name": f"on-{node}", "labels": {NODE_LABEL: node}},
            "spec": {"podName": "gone", "containers": [{"name": "main"}]},
        }
        await place.create(CONTAINER_RECREATE_REQUESTS, request)
    for resource in (NODE_IMAGES, NODE_POD_PROBES):
        await place.until(lambda resource=resource: place.exists(resource, "node-2"), within_s=300)
    pairs = dict.fromkeys((NODE_IMAGES, NODE_POD_PROBES), ("node-1", "node-2"))
    return {
        **pairs,
        **dict.fromkeys((PODS, CONTAINER_RECREATE_REQUESTS), ("on-node-1", "on-node-2")),
    }


async def test_an_agent_writes_only_objects_about_its_node() -> None:
    async with busy_cluster(reviewed=False, nodes=2) as place:
        for resource, document in policies():
            await place.client.create(resource, "", document)
        known = await have_objects(place)
        agent, copied = agent_of(place, "node-1"), agent_of(place, "")
        for resource, (own, other) in known.items():
            await report(agent, resource, own)
            for client, name in ((agent, other), (copied, own)):
                with pytest.raises(REFUSED, match="kruise-daemon-own-node"):
                    await report(client, resource, name)
        # and other clients are not restricted
        await report(place.client, NODE_IMAGES, "node-2")
        # the policy covers all resources that agents may write, except events
        written = {right.plural for right in rights_of_agent() if "patch" in right.verbs} - {"events"}
        assert written == {resource.plural for resource in known}


@pytest.mark.real
async def test_a_real_api_server_understands_and_keeps_the_policy(real_plane: ControlPlane | None) -> None:
    assert real_plane is not None
    open_ = connection(real_plane.kubeconfig)
    async with AsyncExitStack() as stack:
        transport = HttpTransport(open_)
        stack.push_async_callback(transport.close)
        client = Client(transport)
        for resource, document in policies():
            with suppress(AlreadyExistsError):
                await client.create(resource, "", document)
            stack.push_async_callback(client.delete, resource, "", document["metadata"]["name"])
        for node in ("own-node", "other-node"):
            body = {
                "apiVersion": NODE_IMAGES.api_version,
                "kind": NODE_IMAGES.kind,
                "metadata": {"name": node},
            }
            await client.create(NODE_IMAGES, "", {**body, "spec": {}})
            stack.push_async_callback(client.delete, NODE_IMAGES, "", node)
        headers = [
            *open_.headers,
            ("Impersonate-User", AGENT),
            ("Impersonate-Group", "system:masters"),
            ("Impersonate-Extra-authentication.kubernetes.io%2Fnode-name", "own-node"),
        ]
        agents = HttpTransport(replace(open_, headers=headers))
        stack.push_async_callback(agents.close)
        agent = Client(agents)

        # when the policy holds, which takes a moment after its creation
        async def is_kept() -> bool:
            try:
                await report(agent, NODE_IMAGES, "other-node")
            except REFUSED as error:
                return "agents may only write nodeimages of their own node" in str(error)
            return False

        async with asyncio.timeout(30):
            while not await is_kept():
                await asyncio.sleep(0.5)
        # then the agent can write its own objects, and no expression has a warning
        await report(agent, NODE_IMAGES, "own-node")
        policy, document = policies()[0]
        stored = decode(await client.get(policy, "", document["metadata"]["name"]))
        checked = get_path(stored, "status", "typeChecking", "expressionWarnings", default=[])
        assert checked == []
