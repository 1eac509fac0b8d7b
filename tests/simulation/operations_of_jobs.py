"""Operations of users and other controllers on jobs, on their pods and children, and on other jobs.

Operation of a script ──▶ Operations.do() (operations.py) ──▶ these
"""

from typing import Any

from pykruise.kube.client.client import Client
from pykruise.kube.documents import decode
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import JOBS, PODS, Resource
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS

__all__ = ["JobOperations"]

Object = dict[str, Any]


class JobOperations:
    """A part of Operations."""

    _client: Client
    _resource: Resource
    _namespace: str
    _name: str
    _first: Object

    def _node(self, number: int) -> str:
        raise NotImplementedError

    async def _original_pod(self, node: int) -> None:
        """A pod that OpenKruise's manager has created for a node of the BroadcastJob, before the switch to
        pykruise."""
        job = decode(await self._client.get(self._resource, self._namespace, self._name))
        uid, template = job["metadata"]["uid"], job["spec"]["template"]
        owner = {
            "apiVersion": f"{self._resource.group}/v1alpha1",
            "kind": self._resource.kind,
            "name": self._name,
            "uid": uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        field = {"key": "metadata.name", "operator": "In", "values": [self._node(node)]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        labels = {"broadcastjob-name": self._name, "broadcastjob-controller-uid": uid}
        pod = {
            "metadata": {
                "name": f"{self._name}-original-{node}",
                "labels": {**template["metadata"]["labels"], **labels},
                "ownerReferences": [owner],
            },
            "spec": {**template["spec"], "affinity": affinity},
        }
        await self._client.create(PODS, self._namespace, pod)

    async def _end_child(self, number: int, how: str) -> None:
        """A Job ends, as its controller reports it: once; the write is rejected if the Job has just ended."""
        result = await self._job(number)
        if result and not result.get("status", {}).get("conditions"):
            now = result["metadata"]["creationTimestamp"]
            status = {"startTime": now, "conditions": [{"type": how, "status": "True"}]}
            if how == "Complete":
                status["completionTime"] = now
            await self._client.patch(
                JOBS,
                self._namespace,
                result["metadata"]["name"],
                {"metadata": {"resourceVersion": result["metadata"]["resourceVersion"]}, "status": status},
                patch_type=PatchType.MERGE,
                subresource="status",
            )

    async def _delete_child(self, number: int) -> None:
        if result := await self._job(number):
            await self._client.delete(
                JOBS, self._namespace, result["metadata"]["name"], propagation="Background"
            )

    async def _job(self, number: int) -> Object | None:
        result = [decode(raw) for raw in (await self._client.list(JOBS, self._namespace)).items]
        return dict(result[number % len(result)]) if result else None

    async def _create_job(self, name: str, **fields: Any) -> None:
        """Another job that differs from the first in these fields."""
        spec = {**self._first["spec"], **fields}
        await self._client.create(
            self._resource, self._namespace, {**self._first, "metadata": {"name": name}, "spec": spec}
        )

    async def _delete_job(self, name: str) -> None:
        await self._client.delete(self._resource, self._namespace, name, propagation="Background")

    async def _delete_pull_job(self, number: int) -> None:
        """A person deletes an ImagePullJob of a list."""
        listed = (await self._client.list(IMAGE_PULL_JOBS, self._namespace)).items
        names = sorted(decode(raw)["metadata"]["name"] for raw in listed)
        if names:
            await self._client.delete(IMAGE_PULL_JOBS, self._namespace, names[number % len(names)])

    async def _create_pod(self, number: int, node: int, pool: str = "a") -> None:
        """A pod without an owner on a node."""
        labels = {"app": self._name, "pool": pool}
        spec = {"nodeName": self._node(node), "containers": [{"name": "main", "image": "other:1"}]}
        pod = {"metadata": {"name": f"pod-{number}", "labels": labels}, "spec": spec}
        await self._client.create(PODS, self._namespace, pod)

    async def _remove_failed(self) -> None:
        """Delete the failed pods."""
        for raw in (await self._client.list(PODS, self._namespace)).items:
            pod = decode(raw)
            if pod.get("status", {}).get("phase") == "Failed":
                await self._client.delete(PODS, self._namespace, pod["metadata"]["name"], grace_period_s=0)
