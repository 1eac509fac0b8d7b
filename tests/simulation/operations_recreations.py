"""Operations of users that concern a ContainerRecreateRequest: they create and withdraw it, and hold pods themselves.

Operation of a script ──▶ Operations.do() ──▶ RecreationOperations: requests by `user`
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from pykruise.kinds.containerrecreaterequest.types import CONTAINER_RECREATE_REQUESTS
from pykruise.kube.client.client import Client
from pykruise.kube.documents import decode
from pykruise.kube.errors import ConflictError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS

__all__ = ["RecreationOperations"]

Holders = list[dict[str, str]]

HOLDER = {"userAgent": "sim", "key": "user"}
GATE = "KruisePodReady"


class RecreationOperations:
    """A part of `Operations`."""

    _client: Client
    _namespace: str

    async def _pod(self, number: int) -> str:
        raise NotImplementedError

    async def _ask(
        self,
        name: str,
        pod: int,
        containers: list[dict[str, Any]],
        labels: dict[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """Request the recreation of a pod's containers."""
        document = {
            "apiVersion": CONTAINER_RECREATE_REQUESTS.api_version,
            "kind": CONTAINER_RECREATE_REQUESTS.kind,
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"podName": await self._pod(pod), "containers": containers, **spec},
        }
        await self._client.create(CONTAINER_RECREATE_REQUESTS, self._namespace, document)

    async def _withdraw(self, name: str) -> None:
        await self._client.delete(CONTAINER_RECREATE_REQUESTS, self._namespace, name)

    async def _change_request(self, name: str, **fields: Any) -> None:
        """A person tries to change a request."""
        await self._client.patch(
            CONTAINER_RECREATE_REQUESTS, self._namespace, name, fields, patch_type=PatchType.MERGE
        )

    async def _hold(self, pod: int, seconds: float) -> None:
        """Another client keeps a pod out of service for a while."""
        if name := await self._pod(pod):
            await self._change_holders(name, lambda holders: [*holders, HOLDER])
            await asyncio.sleep(seconds)
            await self._change_holders(
                name,
                lambda holders: [holder for holder in holders if holder["userAgent"] != HOLDER["userAgent"]],
            )

    async def _change_holders(self, pod: str, change: Callable[[Holders], Holders]) -> None:
        while True:
            result = decode(await self._client.get(PODS, self._namespace, pod))
            if not any(gate["conditionType"] == GATE for gate in result["spec"].get("readinessGates") or ()):
                return
            conditions = {
                condition["type"]: condition for condition in result["status"].get("conditions") or ()
            }
            before = json.loads(conditions.get(GATE, {}).get("message") or "[]")
            holders = sorted(change(before), key=lambda item: (item["userAgent"], item["key"]))
            condition = {
                "type": GATE,
                "status": "False" if holders else "True",
                "message": json.dumps(holders),
            }
            patch = {
                "metadata": {"resourceVersion": result["metadata"]["resourceVersion"]},
                "status": {"conditions": [condition]},
            }
            try:
                await self._client.patch(
                    PODS, self._namespace, pod, patch, patch_type=PatchType.STRATEGIC, subresource="status"
                )
                return
            except ConflictError:
                continue
