"""Operations of users that concern an EphemeralJob: pods without an owner, and debug containers in them.

Operation of a script ──▶ Operations.do() ──▶ DebuggingOperations: requests by `user`
"""

from typing import Any

from pykruise.kube.client.client import Client
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS

__all__ = ["DebuggingOperations"]


class DebuggingOperations:
    """A part of `Operations`."""

    _client: Client
    _namespace: str

    async def _pod(self, number: int) -> str:
        raise NotImplementedError

    async def _create_named_pod(self, name: str, **labels: str) -> None:
        containers = [{"name": "main", "image": "app:1"}]
        document = {"metadata": {"name": name, "labels": labels}, "spec": {"containers": containers}}
        await self._client.create(PODS, self._namespace, document)

    async def _debug(self, pod: int, container: str, job: str | None = None) -> None:
        """A container of a user, or of another job (its uid), in a pod."""
        if name := await self._pod(pod):
            env = [{"name": "KRUISE_EJOB_ID", "value": job}] if job else []
            given: dict[str, Any] = {"name": container, "image": "debug:1", "env": env}
            await self._client.patch(
                PODS,
                self._namespace,
                name,
                {"spec": {"ephemeralContainers": [given]}},
                patch_type=PatchType.STRATEGIC,
                subresource="ephemeralcontainers",
            )
