"""Claims and volumes: a default class, volumes made on demand, binding, growth, and protection while in use.

PersistentVolumeClaim ──▶ Claims:  class ──▶ a volume found or made ──▶ bound ──▶ grown
PersistentVolume      ──▶ Volumes: phase, reclaim policy when its claim is gone
both                  ──▶ protection finalizers come off when nothing uses them

Claims of classes that wait for their first pod are bound when the scheduler has chosen (volume_choice.py).

Volumes are paper: the provisioner of the default class makes objects and nothing else. Rules: Kubernetes'
persistent volume controller, resizer and protection controllers. Of classes with other provisioners, claims
wait for volumes that somebody makes.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from pykruise.kube.cache import Change
from pykruise.kube.documents import Document, get_path
from pykruise.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.quantities import parse_quantity
from pykruise.kube.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from pykruise.runtime.objects import DocumentView, project_document
from pykruise.sandbox.controllers.base import Loop, Shared
from pykruise.sandbox.controllers.volume_choice import (
    NO_PROVISIONER,
    SELECTED_NODE,
    allows,
    best_volume,
    reference_to,
    size_of,
    waits_for_pod,
)
from pykruise.sandbox.nodes import NodeView
from pykruise.sandbox.pod_view import PodView

__all__ = ["PROVISIONER", "STORAGE_CLASSES", "Claims", "DefaultClass", "Volumes"]

PROVISIONER: Final = "paper.sandbox.pykruise.io"
IS_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
CLAIM_FINALIZER: Final = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER: Final = "kubernetes.io/pv-protection"
_BOUND: Final = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}


def default_class(classes: Sequence[DocumentView]) -> DocumentView | None:
    """The newest class that is marked as default."""
    marked = [one for one in classes if one.annotations.get(IS_DEFAULT) == "true"]
    return max(marked, key=lambda one: (one.created_at, one.name), default=None)


def volume_for(claim: DocumentView, storage_class: DocumentView, node: NodeView | None = None) -> Document:
    """A volume made for a claim; `node`: the one at which it is to be used first, if that is known."""
    name = f"pvc-{claim.uid}"
    terms = _topology(storage_class, node)
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": {"pv.kubernetes.io/provisioned-by": storage_class.doc["provisioner"]},
        },
        "spec": {
            "accessModes": claim.spec.get("accessModes") or ["ReadWriteOnce"],
            "capacity": {"storage": get_path(claim.spec, "resources", "requests", "storage")},
            "claimRef": reference_to(claim),
            "csi": {"driver": storage_class.doc["provisioner"], "volumeHandle": name},
            "persistentVolumeReclaimPolicy": storage_class.doc.get("reclaimPolicy", "Delete"),
            "storageClassName": storage_class.name,
            "volumeMode": claim.spec.get("volumeMode", "Filesystem"),
            **affinity,
        },
    }


def _topology(storage_class: DocumentView, node: NodeView | None) -> list[Document]:
    """Where a volume of the class can be used: at the node it is made for, or wherever the class allows."""
    terms = storage_class.doc.get("allowedTopologies") or ()
    found = []
    for term in terms:
        wanted = term.get("matchLabelExpressions") or ()
        if node is not None and not allows(term, node.labels):
            continue
        values = {
            one["key"]: [node.labels[one["key"]]] if node is not None else list(one.get("values") or ())
            for one in wanted
        }
        found.append(
            {"matchExpressions": [{"key": key, "operator": "In", "values": of} for key, of in values.items()]}
        )
        if node is not None:
            break
    return found


class DefaultClass(Loop):
    """Makes the class `standard` in a cluster that has none, once."""

    name = "storage-class"
    component = "persistentvolume-controller"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, workers=1)
        self.cache = shared.cache(STORAGE_CLASSES)
        self.queue.add(Key("", "standard"))

    async def sync(self, key: Key) -> float | None:
        if len(self.cache):
            return None
        doc = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": key.name, "annotations": {IS_DEFAULT: "true"}},
            "provisioner": PROVISIONER,
            "allowVolumeExpansion": True,
        }
        with suppress(AlreadyExistsError):
            await self.writer.create(STORAGE_CLASSES, "", doc)
        return None


class Claims(Loop):
    """Binds claims to volumes, grows them, and lets them go when no pod uses them."""

    name = "claims"
    component = "persistentvolume-controller"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.cache = self.watch(PERSISTENT_VOLUME_CLAIMS)
        self.volumes = shared.cache(PERSISTENT_VOLUMES)
        self.classes = shared.cache(STORAGE_CLASSES)
        self.volumes.subscribe(self._on_volume)
        self.classes.subscribe(self._on_class)
        shared.pods.subscribe(self._on_pod)

    def _on_volume(self, change: Change[DocumentView]) -> None:
        for view in (change.old, change.new):
            reference = (view.spec.get("claimRef") or {}) if view is not None else {}
            if reference:
                self.queue.add(Key(reference.get("namespace") or "", reference.get("name") or ""))
        if change.new is not None and not change.new.spec.get("claimRef"):
            self._wake_pending()

    def _on_class(self, change: Change[DocumentView]) -> None:
        self._wake_pending()

    def _wake_pending(self) -> None:
        for claim in self.cache.values():
            if claim.status.get("phase") != "Bound":
                self.queue.add(claim.key)

    def _on_pod(self, change: Change[PodView]) -> None:
        """A pod that comes makes a claim wanted; one that goes may have been its last user."""
        old, new = change.old, change.new
        if old is None or new is None or new.is_over != old.is_over or new.node_name != old.node_name:
            for name in (new or old or _NOBODY).claims:
                self.queue.add(Key(change.key.namespace, name))

    async def sync(self, key: Key) -> float | None:
        claim = self.cache.get(key)
        if claim is None:
            return None
        if claim.is_deleting:
            await self._let_go(claim)
            return None
        if CLAIM_FINALIZER not in claim.finalizers:
            patch: Document = {"metadata": {"finalizers": [*claim.finalizers, CLAIM_FINALIZER]}}
            await self.shared.merge(PERSISTENT_VOLUME_CLAIMS, claim, patch)
            return 0.0
        with suppress(NotFoundError):
            await self._bind(claim)
        return None

    async def _let_go(self, claim: DocumentView) -> None:
        """Take the protection off a claim that is being deleted when no pod uses it.

        Rule: Kubernetes' claim protection; a pod that has no node yet does not use anything.
        """
        if CLAIM_FINALIZER not in claim.finalizers:
            return
        if any(pod.node_name and not pod.is_over for pod in self._users(claim)):
            return
        left = [one for one in claim.finalizers if one != CLAIM_FINALIZER]
        with suppress(NotFoundError):
            await self.shared.merge(
                PERSISTENT_VOLUME_CLAIMS, claim, {"metadata": {"finalizers": left or None}}
            )

    def _users(self, claim: DocumentView) -> list[PodView]:
        """Pods that use it; who only has an ephemeral volume of its name does not."""
        return [
            pod
            for pod in self.shared.pods.by_index("claim", (claim.namespace, claim.name))
            if claim.name not in pod.own_claims or claim.owner_uid == pod.uid
        ]

    async def _bind(self, claim: DocumentView) -> None:
        name = claim.spec.get("volumeName")
        if claim.status.get("phase") == "Bound" and name:
            volume = self.volumes.get(Key("", name))
            if volume is None:
                await self.shared.patch_status(
                    PERSISTENT_VOLUME_CLAIMS, claim, {**claim.status, "phase": "Lost"}
                )
            else:
                await self._grow(claim, volume)
            return
        storage_class = self._class_of(claim)
        if claim.spec.get("storageClassName") is None and storage_class is not None:
            # A default class is filled in later, too. Rule: retroactive default StorageClass assignment.
            patch = {"spec": {"storageClassName": storage_class.name}}
            await self.shared.merge(PERSISTENT_VOLUME_CLAIMS, claim, patch)
            return
        volumes = list(self.volumes.values())
        if waits_for_pod(claim, storage_class):
            # Only what the scheduler chose for it, or what somebody made for it.
            volumes = [one for one in volumes if one.spec.get("claimRef")]
        volume = best_volume(claim, volumes)
        if volume is None:
            volume = await self._provision(claim, storage_class)
        if volume is not None:
            await self._bind_to(claim, volume)

    def _class_of(self, claim: DocumentView) -> DocumentView | None:
        name = claim.spec.get("storageClassName")
        if name is None:
            return default_class(self.classes.values())
        return self.classes.get(Key("", name))

    async def _provision(
        self, claim: DocumentView, storage_class: DocumentView | None
    ) -> DocumentView | None:
        if storage_class is None:
            self._tell_no_class(claim)
            return None
        provisioner = storage_class.doc.get("provisioner")
        selected = claim.annotations.get(SELECTED_NODE)
        if waits_for_pod(claim, storage_class) and not selected:
            self._tell_waiting(claim)
            return None
        if claim.spec.get("selector") or claim.spec.get("volumeName"):
            return None
        if provisioner == NO_PROVISIONER:
            text = f"no volume plugin matched name: {provisioner}"
            self.tell(PERSISTENT_VOLUME_CLAIMS, claim, "ProvisioningFailed", text, warning=True)
            return None
        if provisioner != PROVISIONER:
            text = (
                f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or "
                "manually by the system administrator. If volume creation is delayed, please verify that the "
                "provisioner is running and correctly registered."
            )
            self.tell(PERSISTENT_VOLUME_CLAIMS, claim, "ExternalProvisioning", text)
            return None
        node = self.shared.nodes.get(Key("", selected)) if selected else None
        doc = volume_for(claim, storage_class, node)
        with suppress(AlreadyExistsError):
            await self.writer.create(PERSISTENT_VOLUMES, "", doc)
        text = f"Successfully provisioned volume {doc['metadata']['name']}"
        self.tell(PERSISTENT_VOLUME_CLAIMS, claim, "ProvisioningSucceeded", text)
        return self.volumes.get(Key("", doc["metadata"]["name"]))

    def _tell_no_class(self, claim: DocumentView) -> None:
        if name := claim.spec.get("storageClassName"):
            text = f'storageclass.storage.k8s.io "{name}" not found'
            self.tell(PERSISTENT_VOLUME_CLAIMS, claim, "ProvisioningFailed", text, warning=True)
        elif not claim.spec.get("volumeName"):
            text = "no persistent volumes available for this claim and no storage class is set"
            self.tell(PERSISTENT_VOLUME_CLAIMS, claim, "FailedBinding", text)

    def _tell_waiting(self, claim: DocumentView) -> None:
        """For what a claim waits that is bound when a pod gets its node."""
        pending = sorted(pod.name for pod in self._users(claim) if not pod.node_name and not pod.is_over)
        if not pending:
            text = "waiting for first consumer to be created before binding"
            self.tell(PERSISTENT_VOLUME_CLAIMS, claim, "WaitForFirstConsumer", text)
            return
        what = "pod" if len(pending) == 1 else "pods"
        text = f"waiting for {what} {','.join(pending)} to be scheduled"
        self.tell(PERSISTENT_VOLUME_CLAIMS, claim, "WaitForPodScheduled", text)

    async def _bind_to(self, claim: DocumentView, volume: DocumentView) -> None:
        if (volume.spec.get("claimRef") or {}).get("uid") != claim.uid:
            patch: Document = {
                "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
                "spec": {"claimRef": reference_to(claim)},
            }
            await self.shared.merge(PERSISTENT_VOLUMES, volume, patch)
        annotations: dict[str, str] = {**_BOUND}
        if provisioner := volume.annotations.get("pv.kubernetes.io/provisioned-by"):
            annotations["volume.kubernetes.io/storage-provisioner"] = provisioner
        if claim.spec.get("volumeName") != volume.name:
            patch = {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume.name}}
            await self.shared.merge(PERSISTENT_VOLUME_CLAIMS, claim, patch)
            claim = self.cache.get(claim.key) or claim
        status = {
            **claim.status,
            "phase": "Bound",
            "accessModes": volume.spec.get("accessModes"),
            "capacity": volume.spec.get("capacity"),
        }
        await self.shared.patch_status(PERSISTENT_VOLUME_CLAIMS, claim, status)

    async def _grow(self, claim: DocumentView, volume: DocumentView) -> None:
        """Make the volume as large as the claim asks, if its class allows that."""
        wanted = get_path(claim.spec, "resources", "requests", "storage", default="0")
        storage_class = self._class_of(claim)
        grows = storage_class is not None and storage_class.doc.get("allowVolumeExpansion") is True
        is_ours = volume.annotations.get("pv.kubernetes.io/provisioned-by") == PROVISIONER
        if grows and is_ours and parse_quantity(wanted) > size_of(volume):
            patch = {"spec": {"capacity": {"storage": wanted}}}
            await self.shared.merge(PERSISTENT_VOLUMES, volume, patch)
            volume = self.volumes.get(volume.key) or volume
        if claim.status.get("capacity") != volume.spec.get("capacity"):
            status = {**claim.status, "capacity": volume.spec.get("capacity")}
            await self.shared.patch_status(PERSISTENT_VOLUME_CLAIMS, claim, status)
            text = "MountVolume.NodeExpandVolume succeeded for volume"
            self.tell(PERSISTENT_VOLUME_CLAIMS, claim, "FileSystemResizeSuccessful", text)


class Volumes(Loop):
    """Tells the phase of volumes, and reclaims those whose claim is gone."""

    name = "volumes"
    component = "persistentvolume-controller"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.cache = self.watch(PERSISTENT_VOLUMES)
        self.claims = shared.cache(PERSISTENT_VOLUME_CLAIMS)
        self.claims.subscribe(self._on_claim)

    def _on_claim(self, change: Change[DocumentView]) -> None:
        view = change.new or change.old
        if view is not None and view.spec.get("volumeName"):
            self.queue.add(Key("", view.spec["volumeName"]))

    async def sync(self, key: Key) -> float | None:
        volume = self.cache.get(key)
        if volume is None:
            return None
        phase = await self._phase(volume)
        if volume.is_deleting:
            if VOLUME_FINALIZER in volume.finalizers and phase != "Bound":
                left = [one for one in volume.finalizers if one != VOLUME_FINALIZER]
                with suppress(NotFoundError):
                    await self.shared.merge(
                        PERSISTENT_VOLUMES, volume, {"metadata": {"finalizers": left or None}}
                    )
            return None
        if VOLUME_FINALIZER not in volume.finalizers:
            patch: Document = {"metadata": {"finalizers": [*volume.finalizers, VOLUME_FINALIZER]}}
            await self.shared.merge(PERSISTENT_VOLUMES, volume, patch)
            return 0.0
        with suppress(NotFoundError, ConflictError):
            await self.shared.patch_status(PERSISTENT_VOLUMES, volume, {**volume.status, "phase": phase})
            is_ours = volume.annotations.get("pv.kubernetes.io/provisioned-by") == PROVISIONER
            if phase == "Released" and is_ours and volume.spec["persistentVolumeReclaimPolicy"] == "Delete":
                await self.writer.delete(PERSISTENT_VOLUMES, volume.key, uid=volume.uid)
        return None

    async def _phase(self, volume: DocumentView) -> str:
        reference = volume.spec.get("claimRef") or {}
        if not reference.get("uid"):
            return "Available"
        claim = self.claims.get(Key(reference.get("namespace") or "", reference.get("name") or ""))
        if claim is None or claim.uid != reference["uid"]:
            return "Released" if await self._is_gone(reference) else "Bound"
        return "Bound"

    async def _is_gone(self, reference: Document) -> bool:
        """Asked live: the cache of claims may be behind that of volumes."""
        try:
            raw = await self.shared.client.get(
                PERSISTENT_VOLUME_CLAIMS, reference.get("namespace") or "", reference.get("name") or ""
            )
        except NotFoundError:
            return True
        return project_document(raw).uid != str(reference["uid"])


_NOBODY: Final = PodView()
