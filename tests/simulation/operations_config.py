"""Operations of users on the ConfigMap that a CloneSet follows.

Operation of a script ──▶ Operations.do() ──▶ ConfigOperations: requests by `user`
"""

from pykruise.kube.client.client import Client
from pykruise.kube.errors import AlreadyExistsError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONFIG_MAPS

__all__ = ["ConfigOperations"]

NAME = "app"


class ConfigOperations:
    """A part of `Operations`."""

    _client: Client
    _namespace: str

    async def _write_config(self, value: int) -> None:
        """The ConfigMap has this content from now on."""
        data = {"data": {"key": str(value)}}
        try:
            await self._client.create(CONFIG_MAPS, self._namespace, {"metadata": {"name": NAME}, **data})
        except AlreadyExistsError:
            await self._client.patch(CONFIG_MAPS, self._namespace, NAME, data, patch_type=PatchType.MERGE)

    async def _delete_config(self) -> None:
        await self._client.delete(CONFIG_MAPS, self._namespace, NAME)
