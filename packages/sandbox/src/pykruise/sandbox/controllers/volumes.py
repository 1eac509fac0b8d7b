"""Claims and volumes: a default class, provisioning, binding, expansion, and protection while in use.

PersistentVolumeClaim ──▶ plan_claim():  class ──▶ a volume selected or created ──▶ bound ──▶ expanded
PersistentVolume      ──▶ plan_volume(): phase, reclaim policy when its claim is deleted
both                  ──▶ protection finalizers are removed when nothing uses them

Claims of classes with WaitForFirstConsumer are bound after the scheduler has chosen a node (volume_choice.py).

Volumes are simulated: the provisioner of the default class creates objects and nothing else. Same rules as Kubernetes'
persistent volume controller, resizer and protection controllers. Claims of classes with other provisioners wait until
these provisioners create their volumes.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.cache.cache import Change
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, get_path
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from pykruise.kube.values.quantities import parse_quantity
from pykruise.runtime.control import Control, is_same_object
from pykruise.runtime.objects import DocumentView, make_absent_document, project_document
from pykruise.runtime.operator import Work
from pykruise.runtime.plan import Note, Plan, Step
from pykruise.runtime.read import Around, Read
from pykruise.runtime.wakes import Wake, wake_itself
from pykruise.sandbox.controllers.pods import BY_CLAIM, NODE_VIEWS, POD_VIEWS, make_document_views
from pykruise.sandbox.controllers.steps import (
    CREATE,
    create_object,
    delete_object,
    make_normal_note,
    make_warning_note,
    merge_object,
    run_in_order,
    write_status,
)
from pykruise.sandbox.controllers.volume_choice import (
    NO_PROVISIONER,
    SELECTED_NODE,
    build_claim_reference,
    find_best_volume,
    is_allowed,
    is_waiting_for_pod,
    size_of,
)
from pykruise.sandbox.nodes.specs import SandboxNodeView
from pykruise.sandbox.pod_view import SandboxPodView

__all__ = ["CLAIMS", "DEFAULT_CLASS", "PROVISIONER", "STORAGE_CLASSES", "VOLUMES"]

PROVISIONER: Final = "paper.sandbox.pykruise.io"
IS_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
CLAIM_FINALIZER: Final = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER: Final = "kubernetes.io/pv-protection"
_BOUND: Final = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}


CLAIM_VIEWS: Final = make_document_views(PERSISTENT_VOLUME_CLAIMS)
VOLUME_VIEWS: Final = make_document_views(PERSISTENT_VOLUMES)
CLASS_VIEWS: Final = make_document_views(STORAGE_CLASSES)


# ── default class ────────────────────────────────────────────────────────────


class Classes(msgspec.Struct, frozen=True, kw_only=True):
    """The storage classes at the start of the cluster."""

    wanted: DocumentView
    """Placeholder for the class that may have to be created."""
    has_some: bool
    now: Instant


async def read_classes(wanted: DocumentView, read: Read[Any]) -> Classes:
    """Read the storage classes from caches, without requests."""
    return Classes(wanted=wanted, has_some=bool(read.list_all(CLASS_VIEWS)), now=read.now())


def plan_default_class(seen: Classes) -> Plan:
    """Create the class `standard` in a cluster without classes."""
    if seen.has_some:
        return Plan()
    body = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": seen.wanted.name, "annotations": {IS_DEFAULT: "true"}},
        "provisioner": PROVISIONER,
        "allowVolumeExpansion": True,
    }
    step = create_object(STORAGE_CLASSES, "", body, because="the cluster has no storage class")
    return Plan(stages=run_in_order(CREATE, [step]))


DEFAULT_CLASS: Final = Work(
    resource=STORAGE_CLASSES,
    control=Control(
        name="storage-class",
        component="persistentvolume-controller",
        objects=CLASS_VIEWS,
        wakes=lambda _: (),
        at_start=(Key("", "standard"),),
        absent=make_absent_document,
        snapshot=read_classes,
        object_of=lambda seen: seen.wanted,
        plan=plan_default_class,
        is_current=is_same_object,
    ),
)


# ── claims ───────────────────────────────────────────────────────────────────


class ClaimSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision about one claim needs."""

    claim: DocumentView
    bound: DocumentView | None
    """The volume that the claim names."""
    volumes: Sequence[DocumentView]
    """All volumes, while the claim is not bound."""
    storage_class: DocumentView | None
    """The class that the claim names, or the default class."""
    users: Sequence[SandboxPodView]
    """Pods that use the claim."""
    node: SandboxNodeView | None
    """The node for which the claim's volume must be created."""
    now: Instant


async def read_claim_snapshot(claim: DocumentView, read: Read[Any]) -> ClaimSnapshot:
    """Read a snapshot of a claim from caches, without requests."""
    name, selected = claim.spec.get("volumeName"), claim.annotations.get(SELECTED_NODE)
    is_bound = claim.status.get("phase") == "Bound" and name
    class_name = claim.spec.get("storageClassName")
    return ClaimSnapshot(
        claim=claim,
        bound=read.get(VOLUME_VIEWS, Key("", name)) if name else None,
        volumes=() if is_bound else read.list_all(VOLUME_VIEWS),
        storage_class=(
            default_class(read.list_all(CLASS_VIEWS))
            if class_name is None
            else read.get(CLASS_VIEWS, Key("", class_name))
        ),
        users=[
            pod
            for pod in read.list_by_index(POD_VIEWS, BY_CLAIM, (claim.namespace, claim.name))
            # If the claim only has the name of a pod's ephemeral volume, the pod does not use it.
            if claim.name not in pod.own_claims or claim.owner_uid == pod.uid
        ],
        node=read.get(NODE_VIEWS, Key("", selected)) if selected else None,
        now=read.now(),
    )


def plan_claim(snapshot: ClaimSnapshot) -> Plan:
    """Protect the claim, then bind it, then expand it. When it is deleted, remove the protection."""
    claim = snapshot.claim
    if claim.is_deleting:
        return _unprotect_claim(snapshot)
    if CLAIM_FINALIZER not in claim.finalizers:
        patch: Document = {"metadata": {"finalizers": [*claim.finalizers, CLAIM_FINALIZER]}}
        return _plan_of(
            "protect", merge_object(PERSISTENT_VOLUME_CLAIMS, claim, patch, because="pods can use it")
        )
    if claim.status.get("phase") == "Bound" and claim.spec.get("volumeName"):
        if snapshot.bound is None:
            return Plan(status={**claim.status, "phase": "Lost"})
        return _expand(snapshot, snapshot.bound)
    if claim.spec.get("storageClassName") is None and snapshot.storage_class is not None:
        # A default class may also be set later. This is the rule of retroactive default StorageClass assignment.
        patch = {"spec": {"storageClassName": snapshot.storage_class.name}}
        because = "it names no storage class, and the cluster has a default storage class"
        return _plan_of(
            "choose a class", merge_object(PERSISTENT_VOLUME_CLAIMS, claim, patch, because=because)
        )
    volumes = snapshot.volumes
    if is_waiting_for_pod(claim, snapshot.storage_class):
        # Consider only volumes that the scheduler has chosen for the claim, or that were created for it.
        volumes = [volume for volume in volumes if volume.spec.get("claimRef")]
    volume = find_best_volume(claim, list(volumes))
    return _provision(snapshot) if volume is None else _bind(claim, volume)


def _plan_of(purpose: str, *steps: Step | None) -> Plan:
    return Plan(stages=run_in_order(purpose, steps))


def _unprotect_claim(snapshot: ClaimSnapshot) -> Plan:
    """Remove the protection of an unused claim. This is the rule of Kubernetes' claim protection: a pod without a node
    uses nothing.
    """
    claim = snapshot.claim
    is_used = any(pod.node_name and not pod.is_over for pod in snapshot.users)
    if is_used or CLAIM_FINALIZER not in claim.finalizers:
        return Plan()
    left = [finalizer for finalizer in claim.finalizers if finalizer != CLAIM_FINALIZER]
    patch = {"metadata": {"finalizers": left or None}}
    because = "no pod uses it now"
    return _plan_of("unprotect", merge_object(PERSISTENT_VOLUME_CLAIMS, claim, patch, because=because))


def _provision(snapshot: ClaimSnapshot) -> Plan:
    """Create a volume for the claim, or report why it gets none. The next plan binds the volume."""
    claim, storage_class = snapshot.claim, snapshot.storage_class
    if storage_class is None:
        return Plan(notes=tuple(_list_no_class_notes(claim)))
    provisioner = storage_class.doc.get("provisioner")
    if is_waiting_for_pod(claim, storage_class) and not claim.annotations.get(SELECTED_NODE):
        return Plan(notes=(_make_waiting_note(snapshot.users),))
    if claim.spec.get("selector") or claim.spec.get("volumeName"):
        return Plan()
    if provisioner == NO_PROVISIONER:
        text = f"no volume plugin matched name: {provisioner}"
        return Plan(notes=(make_warning_note("ProvisioningFailed", text),))
    if provisioner != PROVISIONER:
        text = (
            f"Waiting for a volume to be created either by the external provisioner '{provisioner}' or "
            "manually by the system administrator. If volume creation is delayed, please verify that the "
            "provisioner is running and correctly registered."
        )
        return Plan(notes=(make_normal_note("ExternalProvisioning", text),))
    body = build_volume(claim, storage_class, snapshot.node)
    done = make_normal_note(
        "ProvisioningSucceeded", f"Successfully provisioned volume {body['metadata']['name']}"
    )
    because = "no existing volume satisfies the claim"
    return _plan_of(CREATE, create_object(PERSISTENT_VOLUMES, "", body, because=because, done=done))


def _list_no_class_notes(claim: DocumentView) -> Iterator[Note]:
    if name := claim.spec.get("storageClassName"):
        yield make_warning_note("ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found')
    elif not claim.spec.get("volumeName"):
        text = "no persistent volumes available for this claim and no storage class is set"
        yield make_normal_note("FailedBinding", text)


def _make_waiting_note(users: Sequence[SandboxPodView]) -> Note:
    """Event with the reason why a claim of a class with WaitForFirstConsumer waits."""
    pending = sorted(pod.name for pod in users if not pod.node_name and not pod.is_over)
    if not pending:
        text = "waiting for first consumer to be created before binding"
        return make_normal_note("WaitForFirstConsumer", text)
    what = "pod" if len(pending) == 1 else "pods"
    return make_normal_note("WaitForPodScheduled", f"waiting for {what} {','.join(pending)} to be scheduled")


def _bind(claim: DocumentView, volume: DocumentView) -> Plan:
    """Write the claim into the volume, the volume into the claim, and the result into the status."""
    because = "the volume satisfies the claim"
    steps: list[Step | None] = []
    if (volume.spec.get("claimRef") or {}).get("uid") != claim.uid:
        patch: Document = {
            "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
            "spec": {"claimRef": build_claim_reference(claim)},
        }
        steps.append(merge_object(PERSISTENT_VOLUMES, volume, patch, because=because))
    annotations: dict[str, str] = {**_BOUND}
    if provisioner := volume.annotations.get("pv.kubernetes.io/provisioned-by"):
        annotations["volume.kubernetes.io/storage-provisioner"] = provisioner
    if claim.spec.get("volumeName") != volume.name:
        patch = {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume.name}}
        steps.append(merge_object(PERSISTENT_VOLUME_CLAIMS, claim, patch, because=because))
    status = {
        **claim.status,
        "phase": "Bound",
        "accessModes": volume.spec.get("accessModes"),
        "capacity": volume.spec.get("capacity"),
    }
    steps.append(write_status(PERSISTENT_VOLUME_CLAIMS, claim, status, because=because))
    return _plan_of("bind", *steps)


def _expand(snapshot: ClaimSnapshot, volume: DocumentView) -> Plan:
    """Expand the volume to the claim's size, if its class allows it."""
    claim, storage_class = snapshot.claim, snapshot.storage_class
    wanted = get_path(claim.spec, "resources", "requests", "storage", default="0")
    may_grow = storage_class is not None and storage_class.doc.get("allowVolumeExpansion") is True
    is_ours = volume.annotations.get("pv.kubernetes.io/provisioned-by") == PROVISIONER
    because = "the claim requests more storage than the volume has"
    capacity = volume.spec.get("capacity")
    steps: list[Step | None] = []
    if may_grow and is_ours and parse_quantity(wanted) > size_of(volume):
        capacity = {**(capacity or {}), "storage": wanted}
        patch = {"spec": {"capacity": {"storage": wanted}}}
        steps.append(merge_object(PERSISTENT_VOLUMES, volume, patch, because=because))
    if claim.status.get("capacity") != capacity:
        done = make_normal_note(
            "FileSystemResizeSuccessful", "MountVolume.NodeExpandVolume succeeded for volume"
        )
        status = {**claim.status, "capacity": capacity}
        steps.append(write_status(PERSISTENT_VOLUME_CLAIMS, claim, status, because=because, notes=(done,)))
    return _plan_of("grow", *steps)


def default_class(classes: Sequence[DocumentView]) -> DocumentView | None:
    """The newest class that is marked as default."""
    marked = [class_ for class_ in classes if class_.annotations.get(IS_DEFAULT) == "true"]
    return max(marked, key=lambda document: (document.created_at, document.name), default=None)


def build_volume(
    claim: DocumentView, storage_class: DocumentView, node: SandboxNodeView | None = None
) -> Document:
    """Build the volume for a claim; `node`: the node on which it is used first, if that is known."""
    name = f"pvc-{claim.uid}"
    terms = _build_topology_terms(storage_class, node)
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
            "claimRef": build_claim_reference(claim),
            "csi": {"driver": storage_class.doc["provisioner"], "volumeHandle": name},
            "persistentVolumeReclaimPolicy": storage_class.doc.get("reclaimPolicy", "Delete"),
            "storageClassName": storage_class.name,
            "volumeMode": claim.spec.get("volumeMode", "Filesystem"),
            **affinity,
        },
    }


def _build_topology_terms(storage_class: DocumentView, node: SandboxNodeView | None) -> list[Document]:
    """Node selector terms for a volume of the class, from `allowedTopologies`: with the labels of the node for which
    the volume is created, or, without a node, with all allowed values.
    """
    terms = storage_class.doc.get("allowedTopologies") or ()
    topology = []
    for term in terms:
        wanted = term.get("matchLabelExpressions") or ()
        if node is not None and not is_allowed(term, node.labels):
            continue
        values = {
            item["key"]: [node.labels[item["key"]]] if node is not None else list(item.get("values") or ())
            for item in wanted
        }
        topology.append(
            {"matchExpressions": [{"key": key, "operator": "In", "values": of} for key, of in values.items()]}
        )
        if node is not None:
            break
    return topology


def _enqueue_unbound_claims(around: Around[Any]) -> Iterator[Key]:
    return (
        document.key for document in around.list_all(CLAIM_VIEWS) if document.status.get("phase") != "Bound"
    )


def _on_volume(change: Change[DocumentView], around: Around[Any]) -> Iterator[Key]:
    for view in (change.old, change.new):
        reference = (view.spec.get("claimRef") or {}) if view is not None else {}
        if reference:
            yield Key(reference.get("namespace") or "", reference.get("name") or "")
    if change.new is not None and not change.new.spec.get("claimRef"):
        yield from _enqueue_unbound_claims(around)


def _on_user(change: Change[SandboxPodView], _: Around[Any]) -> Iterator[Key]:
    """Enqueue the claims of a pod: a new pod may need them, and a deleted pod may have been their last user."""
    old, new = change.old, change.new
    pod = new or old
    is_news = old is None or new is None or new.is_over != old.is_over or new.node_name != old.node_name
    if pod is not None and is_news:
        yield from (Key(pod.namespace, name) for name in pod.claims)


CLAIMS: Final = Work(
    resource=PERSISTENT_VOLUME_CLAIMS,
    control=Control(
        name="claims",
        component="persistentvolume-controller",
        objects=CLAIM_VIEWS,
        reads=lambda _: (VOLUME_VIEWS, CLASS_VIEWS, POD_VIEWS, NODE_VIEWS),
        wakes=lambda _: (
            wake_itself(CLAIM_VIEWS),
            Wake(on=VOLUME_VIEWS, keys=_on_volume),
            Wake(on=CLASS_VIEWS, keys=lambda _, around: _enqueue_unbound_claims(around)),
            Wake(on=POD_VIEWS, keys=_on_user),
        ),
        snapshot=read_claim_snapshot,
        object_of=lambda snapshot: snapshot.claim,
        plan=plan_claim,
        is_current=is_same_object,
    ),
)


# ── volumes ──────────────────────────────────────────────────────────────────


class VolumeSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision about one volume needs."""

    volume: DocumentView
    phase: str
    """Available, Bound or Released."""
    now: Instant


async def read_volume_snapshot(volume: DocumentView, read: Read[Any]) -> VolumeSnapshot:
    """Read a snapshot. A claim that no cache has is read from the API server."""
    return VolumeSnapshot(volume=volume, phase=await _find_phase(volume, read), now=read.now())


async def _find_phase(volume: DocumentView, read: Read[Any]) -> str:
    reference = volume.spec.get("claimRef") or {}
    if not reference.get("uid"):
        return "Available"
    key = Key(reference.get("namespace") or "", reference.get("name") or "")
    claim = read.get(CLAIM_VIEWS, key)
    if claim is not None and claim.uid == reference["uid"]:
        return "Bound"
    try:  # the cache of claims may be older than the cache of volumes
        raw = await read.live.get(PERSISTENT_VOLUME_CLAIMS, key.namespace, key.name)
    except NotFoundError:
        return "Released"
    return "Bound" if project_document(raw).uid == str(reference["uid"]) else "Released"


def plan_volume(snapshot: VolumeSnapshot) -> Plan:
    """Protect the volume, write its phase, and reclaim it after its claim is deleted."""
    volume, phase = snapshot.volume, snapshot.phase
    if volume.is_deleting:
        if VOLUME_FINALIZER not in volume.finalizers or phase == "Bound":
            return Plan()
        left = [finalizer for finalizer in volume.finalizers if finalizer != VOLUME_FINALIZER]
        patch: Document = {"metadata": {"finalizers": left or None}}
        return _plan_of(
            "unprotect", merge_object(PERSISTENT_VOLUMES, volume, patch, because="no claim uses it now")
        )
    if VOLUME_FINALIZER not in volume.finalizers:
        patch = {"metadata": {"finalizers": [*volume.finalizers, VOLUME_FINALIZER]}}
        return _plan_of(
            "protect", merge_object(PERSISTENT_VOLUMES, volume, patch, because="claims can use it")
        )
    status = {**volume.status, "phase": phase}
    is_ours = volume.annotations.get("pv.kubernetes.io/provisioned-by") == PROVISIONER
    if phase == "Released" and is_ours and volume.spec["persistentVolumeReclaimPolicy"] == "Delete":
        because = "its claim no longer exists"
        return _plan_of(
            "reclaim",
            write_status(PERSISTENT_VOLUMES, volume, status, because=because),
            delete_object(PERSISTENT_VOLUMES, volume, because=because),
        )
    return Plan(status=status)


def _on_claim(change: Change[DocumentView], _: Around[Any]) -> Iterator[Key]:
    claim = change.new or change.old
    if claim is not None and claim.spec.get("volumeName"):
        yield Key("", claim.spec["volumeName"])


VOLUMES: Final = Work(
    resource=PERSISTENT_VOLUMES,
    control=Control(
        name="volumes",
        component="persistentvolume-controller",
        objects=VOLUME_VIEWS,
        reads=lambda _: (CLAIM_VIEWS,),
        wakes=lambda _: (wake_itself(VOLUME_VIEWS), Wake(on=CLAIM_VIEWS, keys=_on_claim)),
        snapshot=read_volume_snapshot,
        object_of=lambda snapshot: snapshot.volume,
        plan=plan_volume,
        is_current=is_same_object,
    ),
)
