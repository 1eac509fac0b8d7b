"""Operations of users, other controllers and machines on a simulated cluster.

Operation of a script ──▶ Operations.do() ──▶ requests by `user`, or changes of nodes and kubelets

An operation that is no longer possible (no such pod or object, rejected by admission) is skipped.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from pykruise.kinds.cloneset.types import CLONE_SETS
from pykruise.kube.client.client import Client
from pykruise.kube.documents import decode
from pykruise.kube.errors import ApiError, ForbiddenError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NODES, PODS, Resource
from pykruise.sandbox.nodes.faults import Rule
from pykruise.sandbox.nodes.kubelet import Kubelets
from pykruise.sandbox.nodes.specs import NodeSpec
from simulation.operations_config import ConfigOperations
from simulation.operations_copies import CopyOperations
from simulation.operations_debugging import DebuggingOperations
from simulation.operations_of_jobs import JobOperations
from simulation.operations_probes import ProbeOperations
from simulation.operations_recreations import RecreationOperations
from simulation.script import Operation

__all__ = ["Operations"]

Object = dict[str, Any]

AGAIN_S = 5.0
"""Seconds between a client's retries of a rejected request."""
REFUSED_AT_MOST = 12
"""Number of tries to remove a released pod: for a minute, in which all faults end."""


class Operations(
    JobOperations,
    CopyOperations,
    ConfigOperations,
    DebuggingOperations,
    RecreationOperations,
    ProbeOperations,
):
    """Operations on one cluster, with the user's client. `first`: the workload as it was created at the start.

    `beside`: the object that acts on its pods, with its resource, or None.
    """

    def __init__(
        self,
        client: Client,
        kubelets: Kubelets,
        *,
        resource: Resource,
        namespace: str,
        name: str,
        first: Object,
        beside: tuple[Resource, Object] | None = None,
    ) -> None:
        self._beside = beside
        self._resource = resource
        self._client = client
        self._kubelets = kubelets
        self._namespace = namespace
        self._name = name
        self._first = first
        self._nodes_down: set[str] = set()
        self._cordoned: set[str] = set()
        self._tainted: set[str] = set()
        self._left: set[str] = set()
        self._held: set[str] = set()
        self._rules: list[Rule] = []
        self._nodes = kubelets.read_stats().nodes
        """Nodes at the start; numbers of nodes in scripts refer to them."""

    async def do(self, operation: Operation) -> None:
        """Carry out the operation; a rejection by the API server is ignored."""
        action: Callable[..., Awaitable[None]] = getattr(self, f"_{operation.do}")
        try:
            await action(**operation.args)
        except ApiError:
            return

    async def heal(self) -> None:
        """Every fault of nodes and images ends."""
        for node in sorted(self._nodes_down - self._left):
            self._kubelets.start_node(node)
        for node in sorted(self._tainted - self._left):
            await self._taint_node(node, [])
        for node in sorted(self._cordoned - self._left):
            await self._cordon(node, cordoned=False)
        await self.do(Operation(0.0, "free_copies"))
        self._rules = []
        self._kubelets.set_rules(())

    # ── users, with the workload ─────────────────────────────────────────────

    async def _scale(self, replicas: int) -> None:
        await self._merge({"spec": {"replicas": replicas}})

    async def _image(self, tag: int, sidecar: bool = False) -> None:
        """Change the image of the (first) container."""
        template = decode(await self._client.get(self._resource, self._namespace, self._name))["spec"][
            "template"
        ]
        containers = template["spec"]["containers"]
        containers[1 if sidecar and len(containers) > 1 else 0]["image"] = f"app:{tag}"
        await self._merge({"spec": {"template": {"spec": {"containers": containers}}}})

    async def _env(self, value: int) -> None:
        """Change an environment variable, which requires new pods."""
        template = decode(await self._client.get(self._resource, self._namespace, self._name))["spec"][
            "template"
        ]
        containers = template["spec"]["containers"]
        containers[0]["env"] = [{"name": "SETTING", "value": str(value)}]
        await self._merge({"spec": {"template": {"spec": {"containers": containers}}}})

    async def _node_selector(self, pool: str | None) -> None:
        """Change the node selector of the template."""
        await self._merge({"spec": {"template": {"spec": {"nodeSelector": {"sim/pool": pool}}}}})

    async def _rolling(self, **fields: Any) -> None:
        await self._merge({"spec": {"updateStrategy": {"rollingUpdate": fields}}})

    async def _strategy(self, type: str, alone: bool = False) -> None:
        """Change the type of the update strategy. `alone`: remove rollingUpdate, which the type does not allow."""
        rolling = {"rollingUpdate": None} if alone else {}
        await self._merge({"spec": {"updateStrategy": {"type": type, **rolling}}})

    async def _limit_scaling(self, limit: int | None) -> None:
        await self._merge({"spec": {"scaleStrategy": {"maxUnavailable": limit}}})

    async def _reserve(self, ordinals: list[int | str]) -> None:
        await self._merge({"spec": {"reserveOrdinals": ordinals}})

    async def _retain(self, scaled: str, deleted: str) -> None:
        """Change the retention policy of PVCs."""
        policy = {"whenScaled": scaled, "whenDeleted": deleted}
        await self._merge({"spec": {"persistentVolumeClaimRetentionPolicy": policy}})

    async def _list_to_delete(self, pods: list[int]) -> None:
        names = [name for number in pods if (name := await self._pod(number))]
        await self._merge({"spec": {"scaleStrategy": {"podsToDelete": sorted(set(names))}}})

    async def _spec(self, **fields: Any) -> None:
        """Change fields of the spec."""
        await self._merge({"spec": fields})

    async def _annotate(self, value: int) -> None:
        await self._merge({"metadata": {"annotations": {"note": str(value)}}})

    async def _note(self, annotations: dict[str, str | None]) -> None:
        await self._merge({"metadata": {"annotations": annotations}})

    async def _delete_set(self, policy: str = "Background") -> None:
        await self._client.delete(self._resource, self._namespace, self._name, propagation=policy)

    async def _create_set(self) -> None:
        await self._client.create(self._resource, self._namespace, self._first)

    # ── users, with the subsets of a UnitedDeployment ────────────────────────

    async def _united_image(self, tag: int) -> None:
        """Change the image of the container."""
        containers = [{"name": "main", "image": f"app:{tag}"}]
        template = {"cloneSetTemplate": {"spec": {"template": {"spec": {"containers": containers}}}}}
        await self._merge({"spec": {"template": template}})

    async def _united_partition(self, subset: str, value: int) -> None:
        await self._merge({"spec": {"updateStrategy": {"manualUpdate": {"partitions": {subset: value}}}}})

    async def _united_subsets(self, subsets: list[Object]) -> None:
        """Replace the subsets, and remove the partitions of removed subsets."""
        names = [subset["name"] for subset in subsets]
        result = decode(await self._client.get(self._resource, self._namespace, self._name))
        manual = (result["spec"].get("updateStrategy") or {}).get("manualUpdate") or {}
        dropped = {name: None for name in manual.get("partitions") or {} if name not in names}
        strategy = {"updateStrategy": {"manualUpdate": {"partitions": dropped}}} if dropped else {}
        await self._merge({"spec": {"topology": {"subsets": subsets}, **strategy}})

    async def _scale_workload(self, number: int, replicas: int) -> None:
        """A person scales the workload of a subset by hand."""
        if name := await self._workload(number):
            patch = {"spec": {"replicas": replicas}}
            await self._client.patch(CLONE_SETS, self._namespace, name, patch, patch_type=PatchType.MERGE)

    async def _delete_workload(self, number: int) -> None:
        """A person deletes the workload of a subset."""
        if name := await self._workload(number):
            await self._client.delete(CLONE_SETS, self._namespace, name, propagation="Background")

    async def _workload(self, number: int) -> str:
        listed = [decode(raw) for raw in (await self._client.list(CLONE_SETS, self._namespace)).items]
        names = sorted(entry["metadata"]["name"] for entry in listed)
        return str(names[number % len(names)]) if names else ""

    # ── users, with the object that acts on the workload's pods ───────────────

    async def _create_beside(self) -> None:
        """Create the object that acts on the pods. The start of a simulation calls this too."""
        resource, document = self._the_beside()
        await self._client.create(resource, self._beside_namespace(), document)

    async def _delete_beside(self) -> None:
        resource, document = self._the_beside()
        await self._client.delete(resource, self._beside_namespace(), document["metadata"]["name"])

    async def _subset(self, number: int, most: int | str | None) -> None:
        """Change the maximum of one subset of the WorkloadSpread."""
        subsets = (await self._read_beside())["spec"]["subsets"]
        subsets[number % len(subsets)]["maxReplicas"] = most
        await self._merge_beside({"spec": {"subsets": subsets}})

    async def _budget(self, **fields: Any) -> None:
        """Change the amount of the budget."""
        amounts = {"maxUnavailable": None, "minAvailable": None}
        await self._merge_beside({"spec": {**amounts, **fields}})

    async def _sidecar(self, field: str, value: Any) -> None:
        """Change the image of the (first) sidecar, or its environment, which requires a new pod."""
        containers = (await self._read_beside())["spec"]["containers"]
        containers[0][field] = value
        await self._merge_beside({"spec": {"containers": containers}})

    async def _canary_pods(self, number: int, tag: int) -> None:
        """This number of pods gets another image of the (first) sidecar, and new pods get the current sidecars."""
        beside = await self._read_beside()
        if not (revision := (beside.get("status") or {}).get("latestRevision")):
            return
        containers = beside["spec"]["containers"]
        containers[0]["image"] = f"log:{tag}"
        spec = {"containers": containers, "injectionStrategy": {"revision": {"revisionName": revision}}}
        annotations = {"pykruise.io/updated-pods": str(number)}
        await self._merge_beside({"metadata": {"annotations": annotations}, "spec": spec})

    async def _note_beside(self, annotations: dict[str, str | None]) -> None:
        await self._merge_beside({"metadata": {"annotations": annotations}})

    async def _sidecar_strategy(self, **fields: Any) -> None:
        await self._merge_beside({"spec": {"updateStrategy": fields}})

    async def _remember(self, **fields: Any) -> None:
        """Change the node labels and annotations that the PersistentPodState records."""
        await self._merge_beside({"spec": fields})

    # ── users and controllers, with pods ─────────────────────────────────────

    async def _mark(self, pod: int) -> None:
        await self._patch_pod(pod, {"metadata": {"labels": {"apps.kruise.io/specified-delete": ""}}})

    async def _delete_pod(self, pod: int, now: bool = False) -> None:
        if name := await self._pod(pod):
            await self._client.delete(PODS, self._namespace, name, grace_period_s=0 if now else None)

    async def _evict(self, pod: int) -> None:
        if name := await self._pod(pod):
            await self._evict_named(name)

    async def _relabel(self, pod: int) -> None:
        """Change the labels of the pod, so that it leaves its workload."""
        await self._patch_pod(pod, {"metadata": {"labels": {"app": "another-app"}}})

    async def _label_pod(self, pod: int, labels: dict[str, str]) -> None:
        await self._patch_pod(pod, {"metadata": {"labels": labels}})

    async def _strip(self, pod: int, label: str) -> None:
        """Another client removes a label that is not its own."""
        await self._patch_pod(pod, {"metadata": {"labels": {label: None}}})

    async def _remove_released(self) -> None:
        """Pods that have left their workload are cleared away, as soon as their budget lets them go."""
        for raw in (await self._client.list(PODS, self._namespace)).items:
            metadata = decode(raw)["metadata"]
            if metadata["labels"].get("app") == "another-app":
                await self._delete_at_last(metadata["name"])

    async def _delete_at_last(self, name: str) -> None:
        for _ in range(REFUSED_AT_MOST):
            try:
                await self._client.delete(PODS, self._namespace, name, grace_period_s=0)
                return
            except ForbiddenError:
                await asyncio.sleep(AGAIN_S)

    async def _address(self, pod: int, value: str) -> None:
        """Another client writes an annotation on a pod that the PersistentPodState records."""
        await self._patch_pod(pod, {"metadata": {"annotations": {"address": value}}})

    async def _cost(self, pod: int, cost: int) -> None:
        annotation = {"controller.kubernetes.io/pod-deletion-cost": str(cost)}
        await self._patch_pod(pod, {"metadata": {"annotations": annotation}})

    async def _touch(self, pod: int, times: int) -> None:
        """Another writer that does not stop: every write moves the resourceVersion."""
        for number in range(times):
            await self._patch_pod(pod, {"metadata": {"annotations": {"touched": str(number)}}})
            await asyncio.sleep(0.05)

    async def _stale_condition(self, pod: int) -> None:
        """Another writer's stale status undoes the readiness gate's condition."""
        conditions = [{"type": "InPlaceUpdateReady", "status": "False"}]
        await self._patch_pod(pod, {"status": {"conditions": conditions}}, subresource="status")

    # ── machines ─────────────────────────────────────────────────────────────

    async def _drain(self, node: int, patience_s: float = 0.0) -> None:
        """Cordon the node, and evict all its pods; rejected evictions are retried for this time."""
        name = self._node(node)
        await self._cordon(name, cordoned=True)
        await self._evict_all(name)
        for _ in range(int(patience_s / AGAIN_S)):
            await asyncio.sleep(AGAIN_S)
            if name in self._cordoned:
                await self._evict_all(name)

    async def _evict_all(self, name: str) -> None:
        for raw in (await self._client.list(PODS, self._namespace)).items:
            pod = decode(raw)
            if pod["spec"].get("nodeName") == name:
                try:
                    await self._evict_named(pod["metadata"]["name"])
                except ApiError:
                    continue

    async def _uncordon(self, node: int) -> None:
        await self._cordon(self._node(node), cordoned=False)

    async def _node_down(self, node: int) -> None:
        name = self._node(node)
        self._nodes_down.add(name)
        self._kubelets.stop_node(name)

    async def _node_up(self, node: int) -> None:
        name = self._node(node)
        if name in self._nodes_down:
            self._nodes_down.discard(name)
            self._kubelets.start_node(name)

    async def _node_lost(self, node: int) -> None:
        """The node is deleted, and its pods are deleted by force."""
        await self._node_down(node)
        for raw in (await self._client.list(PODS, self._namespace)).items:
            pod = decode(raw)
            if pod["spec"].get("nodeName") == self._node(node):
                await self._client.delete(PODS, self._namespace, pod["metadata"]["name"], grace_period_s=0)

    async def _taint(self, node: int, effect: str) -> None:
        """Pods that do not tolerate it are no longer scheduled to the node; with NoExecute they are deleted."""
        name = self._node(node)
        self._tainted.add(name)
        await self._taint_node(name, [{"key": "sim/taint", "effect": effect}])

    async def _untaint(self, node: int) -> None:
        await self._taint_node(self._node(node), [])

    async def _label_node(self, node: int, value: str | None) -> None:
        """Labels that a template's node selector may use."""
        patch = {"metadata": {"labels": {"sim/pool": value}}}
        await self._client.patch(NODES, "", self._node(node), patch, patch_type=PatchType.MERGE)

    async def _join(self, number: int) -> None:
        """Add a node."""
        self._kubelets.add_node(NodeSpec(name=f"extra-{number}", labels={"sim/pool": "a"}))

    async def _leave(self, node: int) -> None:
        """A node and its kubelet are removed permanently."""
        name = self._node(node)
        self._left.add(name)
        self._kubelets.stop_node(name)
        await self._client.delete(NODES, "", name)

    async def _bad_image(self, tag: int, how: str, name: str = "app") -> None:
        """Containers of this image do not become ready, cannot be pulled, or end."""
        ways: dict[str, Any] = {
            "never ready": {"never_ready": True},
            "pull": {"image_pull_error": True},
            "crash": {"exit_code": 1, "after_s": 5.0},
            "slow": {"start_s": 40.0},
            "slow pull": {"pull_s": 40.0},
            "endless pull": {"pull_s": 1e6},
        }
        self._rules.append(Rule(image=f"{name}:{tag}", **ways[how]))
        self._kubelets.set_rules(self._rules)

    async def _fix_images(self) -> None:
        self._rules = []
        self._kubelets.set_rules(())

    # ── inside ───────────────────────────────────────────────────────────────

    def _the_beside(self) -> tuple[Resource, Object]:
        assert self._beside is not None
        return self._beside

    def _beside_namespace(self) -> str:
        return self._namespace if self._the_beside()[0].namespaced else ""

    async def _read_beside(self) -> Object:
        resource, document = self._the_beside()
        data = await self._client.get(resource, self._beside_namespace(), document["metadata"]["name"])
        return dict(decode(data))

    async def _merge_beside(self, patch: Object) -> None:
        resource, document = self._the_beside()
        await self._client.patch(
            resource,
            self._beside_namespace(),
            document["metadata"]["name"],
            patch,
            patch_type=PatchType.MERGE,
        )

    async def _merge(self, patch: Object) -> None:
        await self._client.patch(
            self._resource, self._namespace, self._name, patch, patch_type=PatchType.MERGE
        )

    async def _patch_pod(self, number: int, patch: Object, *, subresource: str = "") -> None:
        if name := await self._pod(number):
            await self._client.patch(
                PODS,
                self._namespace,
                name,
                patch,
                patch_type=PatchType.STRATEGIC,
                subresource=subresource,
            )

    async def _pod(self, number: int) -> str:
        """The name of one of the existing pods; empty if there is none."""
        result = [decode(raw) for raw in (await self._client.list(PODS, self._namespace)).items]
        names = [pod["metadata"]["name"] for pod in result if "deletionTimestamp" not in pod["metadata"]]
        return names[number % len(names)] if names else ""

    def _node(self, number: int) -> str:
        return f"node-{number % self._nodes + 1}"

    async def _cordon(self, node: str, *, cordoned: bool) -> None:
        (self._cordoned.add if cordoned else self._cordoned.discard)(node)
        patch = {"spec": {"unschedulable": cordoned or None}}
        await self._client.patch(NODES, "", node, patch, patch_type=PatchType.MERGE)

    async def _taint_node(self, node: str, taints: list[Object]) -> None:
        patch = {"spec": {"taints": taints or None}}
        await self._client.patch(NODES, "", node, patch, patch_type=PatchType.MERGE)

    async def _evict_named(self, name: str) -> None:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        await self._client.create(PODS, self._namespace, body, name=name, subresource="eviction")
