"""Volumes of a pod's claims, and the nodes that they allow for the pod.

pod, claims, volumes, classes ──▶ volumes_of() ──▶ PodVolumes | Hopeless(message)
PodVolumes ──▶ check()   ──▶ reasons against a node (a scheduler's filter)
           ──▶ plan_binding() ──▶ for the chosen node: each claim with its volume (None: it must be created)

No I/O and no clock. Same rules as Kubernetes' scheduler plugin VolumeBinding and its persistent volume controller;
the messages are those of 1.32. A claim of a class with volumeBindingMode WaitForFirstConsumer is bound when a pod
that uses it gets its node; other claims must be bound before.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from pykruise.kube.documents import Document, get_path
from pykruise.kube.ids import Key
from pykruise.kube.pod_rules.nodes import matches_term
from pykruise.kube.values.quantities import parse_quantity
from pykruise.kube.values.selectors import parse_selector
from pykruise.runtime.objects import DocumentView
from pykruise.sandbox.nodes.specs import SandboxNodeView
from pykruise.sandbox.pod_view import SandboxPodView

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Annotation of a claim with the node for which its volume must be created."""

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
NODE_CONFLICT: Final = "node(s) had volume node affinity conflict"
NOTHING_TO_BIND: Final = "node(s) didn't find available persistent volumes to bind"
NO_VOLUME: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class VolumeChoiceViews(Protocol):
    """Objects of one kind: a cache of them, or a fake."""

    def get(self, key: Key, /) -> DocumentView | None:
        """Return the object with this key."""
        ...

    def values(self) -> Iterable[DocumentView]:
        """Return all objects."""
        ...


class VolumeChoiceWorld(msgspec.Struct, frozen=True):
    """Existing claims, volumes and storage classes."""

    claims: VolumeChoiceViews
    volumes: VolumeChoiceViews
    classes: VolumeChoiceViews

    def find_claim(self, pod: SandboxPodView, name: str) -> DocumentView | None:
        """Return a claim in the pod's namespace."""
        return self.claims.get(Key(pod.namespace, name))

    def find_volume(self, name: str) -> DocumentView | None:
        """Return a volume by name."""
        return self.volumes.get(Key("", name))

    def class_of(self, claim: DocumentView) -> DocumentView | None:
        """The claim's storage class, if the claim names an existing class."""
        name = claim.spec.get("storageClassName")
        return self.classes.get(Key("", name)) if name else None


class Hopeless(msgspec.Struct, frozen=True):
    """No node can run the pod until its claims change."""

    message: str


class PodVolumes(msgspec.Struct, frozen=True):
    """The claims of a pod."""

    world: VolumeChoiceWorld
    bound: tuple[DocumentView, ...] = ()
    waiting: tuple[DocumentView, ...] = ()
    """Claims that are bound after the pod has a node."""

    def check(self, node: SandboxNodeView) -> Sequence[str]:
        """Reasons why the pod cannot use this node; empty when it can."""
        reasons = []
        volumes = [self.world.find_volume(claim.spec["volumeName"]) for claim in self.bound]
        if any(volume is None for volume in volumes):
            return (NO_VOLUME,)
        if not all(is_reaching(volume, node) for volume in volumes if volume is not None):
            reasons.append(NODE_CONFLICT)
        if self.waiting and self.plan_binding(node) is None:
            reasons.append(NOTHING_TO_BIND)
        return reasons

    def plan_binding(self, node: SandboxNodeView) -> list[tuple[DocumentView, DocumentView | None]] | None:
        """The volume of each waiting claim on that node, or None for a volume that must be created.

        The result is None when a claim can get no volume there.
        """
        chosen: list[tuple[DocumentView, DocumentView | None]] = []
        taken: set[str] = set()
        near = [volume for volume in self.world.volumes.values() if is_reaching(volume, node)]
        # Small claims first, so that they do not take the volumes that large claims need.
        for claim in sorted(self.waiting, key=lambda document: (request_of(document), document.name)):
            selected = claim.annotations.get(SELECTED_NODE)
            if selected and selected != node.name:
                return None
            volume = None
            if not selected:
                volume = find_best_volume(
                    claim, [document for document in near if document.name not in taken]
                )
            if volume is not None:
                taken.add(volume.name)
            elif not self._can_be_made(claim, node):
                return None
            chosen.append((claim, volume))
        return chosen

    def _can_be_made(self, claim: DocumentView, node: SandboxNodeView) -> bool:
        storage_class = self.world.class_of(claim)
        if storage_class is None or storage_class.doc.get("provisioner") in (None, "", NO_PROVISIONER):
            return False
        terms = storage_class.doc.get("allowedTopologies") or ()
        return not terms or any(is_allowed(term, node.labels) for term in terms)


def volumes_of(pod: SandboxPodView, world: VolumeChoiceWorld) -> PodVolumes | Hopeless:
    """Return the claims of the pod. Return Hopeless if a claim is missing, terminating or lost, or if it is not bound
    and does not wait for a pod.
    """
    claims = []
    for name in dict.fromkeys(pod.claims):
        claim = world.find_claim(pod, name)
        if claim is None and name in pod.own_claims:
            return Hopeless(
                f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            )
        if claim is None:
            return Hopeless(f'persistentvolumeclaim "{name}" not found')
        if name in pod.own_claims and (why := describe_foreign_claim(claim, pod)):
            return Hopeless(why)
        if claim.status.get("phase") == "Lost":
            volume = claim.spec.get("volumeName") or ""
            return Hopeless(
                f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
            )
        if claim.is_deleting:
            return Hopeless(f'persistentvolumeclaim "{name}" is being deleted')
        claims.append(claim)
    waiting = tuple(
        claim for claim in claims if not is_bound(claim) and is_waiting_for_pod(claim, world.class_of(claim))
    )
    bound = tuple(claim for claim in claims if is_bound(claim))
    if len(bound) + len(waiting) < len(claims):
        return Hopeless("pod has unbound immediate PersistentVolumeClaims")
    return PodVolumes(world, bound, waiting)


def describe_foreign_claim(claim: DocumentView, pod: SandboxPodView) -> str:
    """Why the claim does not belong to the pod's ephemeral volume; empty when it does."""
    if claim.owner_uid == pod.uid:
        return ""
    where = f"{pod.namespace}/{pod.name}"
    return f"PVC {claim.namespace}/{claim.name} was not created for pod {where} (pod is not owner)"


def is_bound(claim: DocumentView) -> bool:
    """Whether the claim's binding is complete."""
    return bool(claim.spec.get("volumeName")) and BIND_COMPLETED in claim.annotations


def is_waiting_for_pod(claim: DocumentView, storage_class: DocumentView | None) -> bool:
    """Whether the claim is bound only when a pod that uses it gets its node."""
    return (
        storage_class is not None
        and storage_class.doc.get("volumeBindingMode") == "WaitForFirstConsumer"
        and not claim.spec.get("volumeName")
    )


def is_reaching(volume: DocumentView, node: SandboxNodeView) -> bool:
    """Whether the volume's node affinity allows the node."""
    terms = get_path(volume.spec, "nodeAffinity", "required", "nodeSelectorTerms", default=None)
    return terms is None or any(matches_term(term, labels=node.labels, name=node.name) for term in terms)


def is_allowed(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a term of a class's `allowedTopologies` allows nodes with these labels."""
    return all(
        labels.get(expression.get("key", "")) in (expression.get("values") or ())
        for expression in term.get("matchLabelExpressions") or ()
    )


# ── claims and volumes ───────────────────────────────────────────────────────


def find_best_volume(claim: DocumentView, volumes: Sequence[DocumentView]) -> DocumentView | None:
    """The volume for a claim: the volume that is reserved for it, else the smallest free volume that matches."""
    for volume in volumes:
        reference = volume.spec.get("claimRef") or {}
        if (reference.get("namespace"), reference.get("name")) != claim.key:
            continue
        if reference.get("uid") in (None, "", claim.uid):
            return volume
    wanted = claim.spec.get("volumeName")
    if wanted:
        return next(
            (
                document
                for document in volumes
                if document.name == wanted and not document.spec.get("claimRef")
            ),
            None,
        )
    fits = _make_volume_predicate(claim)
    free = [document for document in volumes if fits(document)]
    return min(free, key=lambda document: (size_of(document), document.name), default=None)


def _make_volume_predicate(claim: DocumentView) -> Callable[[DocumentView], bool]:
    selector = parse_selector(claim.spec.get("selector") or {})
    storage_class = claim.spec.get("storageClassName") or ""
    mode = claim.spec.get("volumeMode", "Filesystem")
    access = set(claim.spec.get("accessModes") or ())
    least = request_of(claim)

    def fits(volume: DocumentView) -> bool:
        spec = volume.spec
        return (
            not spec.get("claimRef")
            and not volume.is_deleting
            and (spec.get("storageClassName") or "") == storage_class
            and spec.get("volumeMode", "Filesystem") == mode
            and access <= set(spec.get("accessModes") or ())
            and bool(size_of(volume) >= least)
            and selector.matches(volume.labels)
        )

    return fits


def size_of(volume: DocumentView) -> Any:
    """Capacity of a volume."""
    return parse_quantity(get_path(volume.spec, "capacity", "storage", default="0"))


def request_of(claim: DocumentView) -> Any:
    """Requested size of a claim."""
    return parse_quantity(get_path(claim.spec, "resources", "requests", "storage", default="0"))


def build_claim_reference(claim: DocumentView) -> Document:
    """The `claimRef` of a volume that belongs to the claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
    }
