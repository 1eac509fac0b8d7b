"""Generic ephemeral volumes: a claim for each, that lives and goes with its pod.

pod with `ephemeral` volumes ──▶ POST persistentvolumeclaims/<pod>-<volume>, owned by the pod

The claim is bound like any other; the garbage collector takes it when the pod is gone. A claim of that name that
somebody else made is left alone, the pod waits, and an event says why. Rule: Kubernetes' ephemeral volume controller.
"""

from typing import Any

from pykruise.kube.cache import Change
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.errors import AlreadyExistsError, ApiError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.owners import owner_reference
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.runtime.objects import DocumentView, project_document
from pykruise.sandbox.controllers.base import Loop, Shared
from pykruise.sandbox.controllers.volume_choice import stranger
from pykruise.sandbox.pod_view import PodView

__all__ = ["EphemeralVolumes"]


class EphemeralVolumes(Loop):
    """Makes the claims of pods' ephemeral volumes."""

    name = "ephemeral-volumes"
    component = "ephemeral_volume"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.claims = shared.cache(PERSISTENT_VOLUME_CLAIMS)
        self.claims.subscribe(self._on_claim)
        shared.pods.subscribe(self._on_pod)

    def _on_pod(self, change: Change[PodView]) -> None:
        if change.new is not None and change.new.own_claims and change.old is None:
            self.queue.add(change.new.key)

    def _on_claim(self, change: Change[DocumentView]) -> None:
        if change.new is None:
            for pod in self.shared.pods.by_index("claim", (change.key.namespace, change.key.name)):
                self.queue.add(pod.key)

    async def sync(self, key: Key) -> float | None:
        pod = self.shared.pods.get(key)
        if pod is None or pod.is_deleting or not pod.own_claims:
            return None
        try:
            found = project_document(await self.shared.client.get(PODS, key.namespace, key.name))
        except NotFoundError:
            return None
        if found.uid != pod.uid:
            return None
        for volume in found.spec.get("volumes") or ():
            if volume.get("ephemeral") is not None:
                await self._make(pod, found, volume)
        return None

    async def _make(self, pod: PodView, found: DocumentView, volume: Document) -> None:
        name = f"{pod.name}-{volume['name']}"
        known = self.claims.get(Key(pod.namespace, name))
        if known is not None:
            if why := stranger(known, pod):
                self._failed(found, volume, why)
            return
        try:
            await self.writer.create(PERSISTENT_VOLUME_CLAIMS, pod.namespace, _claim(pod, name, volume))
        except AlreadyExistsError:
            there = await self.shared.client.get(PERSISTENT_VOLUME_CLAIMS, pod.namespace, name)
            if why := stranger(project_document(there), pod):
                self._failed(found, volume, why)
        except ApiError as err:
            self._failed(found, volume, f"create PVC {name}: {err}")
            raise

    def _failed(self, found: DocumentView, volume: Document, why: str) -> None:
        text = f"ephemeral volume {volume['name']}: {why}"
        self.tell(PODS, found, "FailedBinding", text, warning=True)


def _claim(pod: PodView, name: str, volume: Document) -> Document:
    template: dict[str, Any] = volume["ephemeral"].get("volumeClaimTemplate") or {}
    own = template.get("metadata") or {}
    owner = owner_reference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid)
    metadata = {field: own[field] for field in ("labels", "annotations") if own.get(field)}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {**metadata, "name": name, "ownerReferences": [owner]},
        "spec": deep_copy(template.get("spec") or {}),
    }
