"""ResourceDistributions in scenarios: one that distributes a Secret to the test's own namespaces."""

import base64
from collections.abc import Mapping
from typing import Any

from pykruise.kinds.gates import Gates
from pykruise.kinds.resourcedistribution.types import RESOURCE_DISTRIBUTIONS
from pykruise.kube.documents import decode
from pykruise.kube.errors import NotFoundError
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import NAMESPACES, SECRETS, Resource
from pykruise.manager.settings import ManagerSettings
from support.scenario import Object, Stage

DISTRIBUTING = ManagerSettings(gates=Gates.of(ResourceDistributionGate=True))


def encoded(text: str) -> str:
    """The text, encoded as in the data of a Secret."""
    return base64.b64encode(text.encode()).decode()


def secret(name: str, text: str = "1", **metadata: Any) -> Object:
    """A Secret without a namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, **metadata},
        "data": {"token": encoded(text)},
    }


class Distribution:
    """A ResourceDistribution named after the stage, and namespaces whose names begin with the stage's."""

    def __init__(self, stage: Stage, *, kind: Resource = SECRETS) -> None:
        self.stage = stage
        self.kind = kind
        self.name = stage.namespace
        self.label = {"team": stage.namespace}

    def namespace(self, short: str) -> str:
        """The whole name of a namespace."""
        return f"{self.stage.namespace}-{short}"

    async def add_namespace(self, short: str, *, labels: Mapping[str, str] | None = None) -> str:
        """Create a namespace; without `labels`, one that the distribution's selector selects."""
        name = self.namespace(short)
        metadata = {"name": name, "labels": self.label if labels is None else labels}
        await self.stage.client.create(NAMESPACES, "", {"metadata": metadata})
        return name

    async def create(self, resource: Object | None = None, **targets: Any) -> Object:
        """The distribution; its targets are by default all namespaces with its label."""
        doc = {
            "apiVersion": RESOURCE_DISTRIBUTIONS.api_version,
            "kind": RESOURCE_DISTRIBUTIONS.kind,
            "metadata": {"name": self.name},
            "spec": {
                "resource": resource or secret(self.name),
                "targets": targets or {"namespaceSelector": {"matchLabels": self.label}},
            },
        }
        return decode(await self.stage.client.create(RESOURCE_DISTRIBUTIONS, "", doc))

    async def change(self, spec: Object) -> None:
        """Merge-patch its spec."""
        await self.stage.client.patch(
            RESOURCE_DISTRIBUTIONS, "", self.name, {"spec": spec}, patch_type=PatchType.MERGE
        )

    async def copy(self, short: str) -> Object | None:
        """The stored copy in a namespace, or None."""
        try:
            return decode(await self.stage.client.get(self.kind, self.namespace(short), self.name))
        except NotFoundError:
            return None

    async def token(self, short: str) -> str | None:
        """The value in the copy, or None."""
        copy = await self.copy(short)
        return None if copy is None else base64.b64decode(copy["data"]["token"]).decode()

    async def status(self) -> Object:
        """Status of the distribution; empty before the first one."""
        doc = decode(await self.stage.client.get(RESOURCE_DISTRIBUTIONS, "", self.name))
        status: Object = doc.get("status") or {}
        return status

    async def until_counted(self, *, desired: int, succeeded: int, failed: int = 0) -> Object:
        """Wait for these figures, about the newest spec; returns the status."""

        async def is_counted() -> Object | None:
            doc = decode(await self.stage.client.get(RESOURCE_DISTRIBUTIONS, "", self.name))
            status: Object = doc.get("status") or {}
            shown = {key: status.get(key) for key in ("desired", "succeeded", "failed", "observedGeneration")}
            wanted = {
                "desired": desired,
                "succeeded": succeeded,
                "failed": failed,
                "observedGeneration": doc["metadata"]["generation"],
            }
            return status if shown == wanted else None

        result: Object = await self.stage.until(is_counted, what=f"{desired}, {succeeded}, {failed}")
        return result

    async def failed(self, condition: str) -> list[str]:
        """Namespaces that a condition names."""
        for item in (await self.status()).get("conditions") or ():
            if item["type"] == condition:
                result: list[str] = item.get("failedNamespaces") or []
                return result
        return []
