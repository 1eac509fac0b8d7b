"""The real Agent between an API server in virtual time and a FakeRuntime.

async with agent_stage() as stage:
    await stage.ask({"nginx": [tag("1.9")]})
    await stage.until(lambda: stage.phase("nginx", "1.9") == "Succeeded")
"""

import asyncio
import json
import random
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pykruise.agent.agent import Agent
from pykruise.agent.cri.runtimes import Runtime, Runtimes
from pykruise.agent.flags import AgentGates as AgentGates
from pykruise.agent.flags import AgentSettings
from pykruise.agent.rules.image_pulls import NODE_IMAGES
from pykruise.agent.rules.probe_checks import NODE_POD_PROBES
from pykruise.agent.rules.recreations import REQUESTS
from pykruise.kinds import build_crds
from pykruise.kinds.gates import Gates
from pykruise.kube.client.client import Client
from pykruise.kube.client.metered import MeteredTransport
from pykruise.kube.clock import format_time
from pykruise.kube.documents import decode
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, PODS, Resource
from pykruise.manager.daemon import DAEMON, build_daemon_roles
from pykruise.manager.settings import NAMESPACE, SECRETS_NAMESPACE
from pykruise.sandbox.cluster import ClusterSettings
from support.fake_runtime import FakeRuntime
from support.faults import FaultyTransport
from support.sandbox import Object, Place, small_cluster

NODE = "node-a"

_KINDS = ("NodeImage", "NodePodProbe", "ContainerRecreateRequest")


def tag(
    name: str, *, version: int = 0, policy: str = "", owners: Sequence[Object] = (), **pull: Any
) -> Object:
    """One tag of an image that a NodeImage requests; `pull`: fields of pullPolicy."""
    return {
        "tag": name,
        "version": version,
        "createdAt": "2026-01-01T00:00:00Z",
        "imagePullPolicy": policy,
        "ownerReferences": list(owners),
        "pullPolicy": {"ttlSecondsAfterFinished": 300, **pull},
    }


def pull_secret(name: str, **users: str) -> Object:
    """A Secret with `user:password` by registry."""
    auths = {where: {"auth": b64encode(user.encode()).decode()} for where, user in users.items()}
    text = b64encode(json.dumps({"auths": auths}).encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": text},
    }


class AgentStage(Place):
    """An agent and its node, with methods for tests."""

    def __init__(self, place: Place, runtime: FakeRuntime) -> None:
        super().__init__(place.cluster)
        self.runtime = runtime
        self.metered = MeteredTransport(
            place.cluster.make_transport(f"system:serviceaccount:{NAMESPACE}:{DAEMON}")
        )
        self.faulty = FaultyTransport(self.metered)
        self.agent: Agent | None = None
        self._task: asyncio.Task[None] | None = None
        self._seed = 1
        self.clock_step_s = 0.0
        """Seconds by which the agent's clock was set forward."""

    @property
    def now(self) -> float:
        return self.cluster.clock()

    def stamp(self) -> str:
        return format_time(self.now)

    # ── the agent ────────────────────────────────────────────────────────────

    async def start_agent(self, **settings: Any) -> Agent:
        settings.setdefault("gates", AgentGates())
        rng = random.Random(self._seed)
        self._seed += 1
        client = Client(self.faulty, clock=self.cluster.clock, rng=rng)
        runtimes = Runtimes([Runtime(self.runtime.name, self.runtime)])  # type: ignore[arg-type]
        self.agent = Agent(
            client,
            runtimes,
            AgentSettings(node=NODE, runtime_dir=Path("/nowhere"), **settings),
            clock=lambda: self.cluster.clock() + self.clock_step_s,
            rng=rng,
        )
        self._task = asyncio.create_task(self.agent.run())
        await self.until(lambda: not any(self.agent.list_problems().values()) if self.agent else False)
        return self.agent

    async def stop_agent(self) -> None:
        if self.agent is not None and self._task is not None:
            self.agent.stop()
            await self._task
        self.agent = self._task = None

    async def kill_agent(self) -> None:
        """Kill the agent in the middle of its work."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.agent = self._task = None

    # ── images ───────────────────────────────────────────────────────────────

    async def ask(
        self, images: Mapping[str, Sequence[Object]], *, secrets: Sequence[Object] = (), **image: Any
    ) -> None:
        """Request these images, and no others, in the node's NodeImage."""
        spec = {
            "images": {
                name: {"tags": list(tags), **({"pullSecrets": list(secrets)} if secrets else {}), **image}
                for name, tags in images.items()
            }
        }
        if not await self.exists(NODE_IMAGES, NODE):
            await self.create(
                NODE_IMAGES,
                {
                    "apiVersion": NODE_IMAGES.api_version,
                    "kind": "NodeImage",
                    "metadata": {"name": NODE},
                    "spec": spec,
                },
            )
            return
        stored = await self.get(NODE_IMAGES, NODE)
        await self.client.update(NODE_IMAGES, "", NODE, {**stored, "spec": spec})

    async def node_image_status(self) -> Object:
        return (await self.get(NODE_IMAGES, NODE)).get("status") or {}

    async def tag_status(self, image: str, name: str) -> Object:
        result = (await self.node_image_status()).get("imageStatuses") or {}
        tags = (result.get(image) or {}).get("tags") or ()
        return next((tag for tag in tags if tag["tag"] == name), {})

    async def ends(self, image: str, name: str, *, within_s: float = 600.0) -> Object:
        """The status of a tag when it has ended."""

        async def has_ended() -> bool:
            return "completionTime" in await self.tag_status(image, name)

        await self.until(has_ended, within_s=within_s)
        return await self.tag_status(image, name)

    # ── pods ─────────────────────────────────────────────────────────────────

    async def run_pod(
        self,
        name: str,
        *containers: str,
        env: Sequence[Object] = (),
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
        is_ours: bool = True,
    ) -> Object:
        """A pod on the node whose containers run."""
        owner = {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "CloneSet",
            "name": "web",
            "uid": "11111111-2222-3333-4444-555555555555",
            "controller": True,
        }
        names = containers or ("app",)
        made = await self.create(
            PODS,
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "labels": dict(labels or {}),
                    "annotations": dict(annotations or {}),
                    "ownerReferences": [owner] if is_ours else [],
                },
                "spec": {
                    "nodeName": NODE,
                    "containers": [{"name": name, "image": "nginx:1", "env": list(env)} for name in names],
                },
            },
        )
        uid = made["metadata"]["uid"]
        for text in names:
            self.runtime.run_container(text, pod_uid=uid, pod=name)
        await self.play_kubelet(name)
        return await self.get(PODS, name)

    async def play_kubelet(self, name: str, *, ready: bool = True, **condition: str) -> None:
        """Set the pod's status to the state of the runtime. `condition`: type=status."""
        stored = await self.get(PODS, name)
        uid = stored["metadata"]["uid"]
        statuses = []
        for container in stored["spec"]["containers"]:
            fake_container = self.runtime.newest(container["name"], uid)
            is_running = fake_container.state == "running"
            statuses.append(
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "",
                    "ready": ready and is_running,
                    "restartCount": fake_container.attempt,
                    "containerID": f"{self.runtime.name}://{fake_container.id}",
                    "state": {"running": {"startedAt": format_time(fake_container.started_at)}}
                    if is_running
                    else {},
                }
            )
        conditions = [{"type": kind, "status": status} for kind, status in condition.items()]
        await self.patch(
            PODS,
            name,
            {
                "status": {
                    "phase": "Running",
                    "podIP": "10.0.0.9",
                    "containerStatuses": statuses,
                    "conditions": conditions,
                }
            },
            subresource="status",
        )

    async def patch(self, resource: Any, name: str, body: Object, *, subresource: str = "") -> Object:
        namespace = "default" if resource.namespaced else ""
        return decode(
            await self.client.patch(
                resource, namespace, name, body, patch_type=PatchType.MERGE, subresource=subresource
            )
        )

    # ── requests ─────────────────────────────────────────────────────────────

    async def request_recreation(self, name: str, pod: Object, *containers: str, **strategy: Any) -> Object:
        """A ContainerRecreateRequest as admission leaves it."""
        uid = pod["metadata"]["uid"]
        details = strategy.pop("details", {})
        wanted = []
        for container in containers or ("app",):
            fake_container = self.runtime.newest(container, uid)
            context = {
                "containerID": f"{self.runtime.name}://{fake_container.id}",
                "restartCount": fake_container.attempt,
            }
            wanted.append({"name": container, "statusContext": context, **details.get(container, {})})
        return await self.create(
            REQUESTS,
            {
                "apiVersion": REQUESTS.api_version,
                "kind": "ContainerRecreateRequest",
                "metadata": {
                    "name": name,
                    "labels": {
                        "crr.apps.kruise.io/node-name": NODE,
                        "crr.apps.kruise.io/pod-uid": uid,
                        "crr.apps.kruise.io/active": "true",
                    },
                },
                "spec": {
                    "podName": pod["metadata"]["name"],
                    "containers": wanted,
                    "strategy": {"failurePolicy": "Fail", **strategy},
                },
            },
        )

    async def mirror(self, name: str, *, ready: bool = True) -> None:
        """Copy the pod's containers into the request's snapshot, as the manager does."""
        asked = await self.get(REQUESTS, name)
        uid = asked["metadata"]["labels"]["crr.apps.kruise.io/pod-uid"]
        snapshot = [
            {
                "name": container["name"],
                "ready": ready,
                "restartCount": fake_container.attempt,
                "containerID": f"{self.runtime.name}://{fake_container.id}",
            }
            for container in asked["spec"]["containers"]
            if (fake_container := self.runtime.newest(container["name"], uid)).state == "running"
        ]
        await self.patch(
            REQUESTS, name, {"status": {"containerStatusSnapshot": snapshot}}, subresource="status"
        )

    async def recreation(self, name: str) -> Object:
        return (await self.get(REQUESTS, name)).get("status") or {}

    async def phases(self, name: str) -> Mapping[str, str]:
        states = (await self.recreation(name)).get("containerRecreateStates") or ()
        return {state["name"]: state["phase"] for state in states}

    # ── probes ───────────────────────────────────────────────────────────────

    async def ask_probes(self, pod: Object, *probes: Object, ip: str = "") -> None:
        """Request these probes of one pod in the node's NodePodProbe."""
        entry = {
            "name": pod["metadata"]["name"],
            "namespace": "default",
            "uid": pod["metadata"]["uid"],
            "IP": ip,
            "probes": list(probes),
        }
        spec = {"podProbes": [entry]}
        if await self.exists(NODE_POD_PROBES, NODE):
            stored = await self.get(NODE_POD_PROBES, NODE)
            await self.client.update(NODE_POD_PROBES, "", NODE, {**stored, "spec": spec})
            return
        await self.create(
            NODE_POD_PROBES,
            {
                "apiVersion": NODE_POD_PROBES.api_version,
                "kind": "NodePodProbe",
                "metadata": {"name": NODE},
                "spec": spec,
            },
        )

    async def probe_states(self) -> Mapping[str, Object]:
        status = (await self.get(NODE_POD_PROBES, NODE)).get("status") or {}
        return {
            state["name"]: state
            for pod in status.get("podProbeStatuses") or ()
            for state in pod["probeStates"]
        }


def _rbac(kind: str) -> Resource:
    group = "rbac.authorization.k8s.io"
    return Resource(group, "v1", f"{kind.lower()}s", kind, namespaced=not kind.startswith("Cluster"))


@asynccontextmanager
async def agent_stage(
    *, starts: bool = True, has_events: bool = True, **settings: Any
) -> AsyncIterator[AgentStage]:
    """An agent at work on the node `node-a`, which has no kubelet: tests play it."""
    async with small_cluster(ClusterSettings(nodes=0, controllers=(), rbac=True)) as place:
        for crd in build_crds():
            if crd["spec"]["names"]["kind"] in _KINDS:
                await place.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
        await place.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SECRETS_NAMESPACE}}
        )
        for role in build_daemon_roles(Gates.of(), namespace=NAMESPACE):
            await place.create(_rbac(role["kind"]), role, namespace=role["metadata"].get("namespace", ""))
        stage = AgentStage(place, FakeRuntime(place.cluster.clock, has_events=has_events))
        if starts:
            await stage.start_agent(**settings)
        try:
            yield stage
        finally:
            await stage.kill_agent()
        assert not stage.metered.missing_rights, "the agents' role lacks a right"
