"""The next step of a StatefulSet, decided from its pods.

StatefulSet + pods by ordinal + names of the current and the updated revision ──▶ decide_next_step() ──▶ Step
                                                                              └──▶ compute_stateful_set_status()

Pure. Same rules as Kubernetes' stateful set control: pods are created one after the other, each when the previous pod
is ready, and are deleted in reverse order. With `podManagementPolicy: Parallel`, all are created or deleted at the same
time. Updates replace one pod at a time, from the highest ordinal down to the partition.
"""

from collections.abc import Mapping, Sequence

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, deep_copy, get_path
from pykruise.kube.resources import STATEFUL_SETS
from pykruise.runtime.objects import DocumentView, build_owner_reference_to
from pykruise.sandbox.controllers.pods import build_pod, find_available_time
from pykruise.sandbox.controllers.revisions import REVISION_LABEL
from pykruise.sandbox.pod_view import SandboxPodView


class StatefulSetControllerStep(msgspec.Struct, frozen=True, kw_only=True):
    """The next write."""

    create: tuple[tuple[int, str], ...] = ()
    """Ordinals of pods to create, each with the name of its revision."""
    delete: tuple[SandboxPodView, ...] = ()
    condemned: tuple[SandboxPodView, ...] = ()
    """Pods to delete because the set has become smaller."""
    look_at: Instant | None = None
    """Time at which a pod becomes available if nothing changes."""


def ordinal_of(owner: DocumentView, name: str) -> int | None:
    """The ordinal in a pod's name; None for other names."""
    prefix, _, text = name.rpartition("-")
    is_one = prefix == owner.name and text.isdecimal() and (text == "0" or text[0] != "0")
    return int(text) if is_one else None


def decide_next_step(
    owner: DocumentView, pods: Mapping[int, SandboxPodView], *, current: str, update: str, now: Instant
) -> StatefulSetControllerStep:
    """Decide the next step. `current`, `update`: names of revisions."""
    if owner.is_deleting:
        return StatefulSetControllerStep()
    first = owner.count("spec", "ordinals", "start")
    wanted = range(first, first + owner.count("spec", "replicas", default=1))
    in_turn = owner.spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
    create: list[tuple[int, str]] = []
    delete: list[SandboxPodView] = []
    look_at: list[Instant] = []
    for ordinal in wanted:
        pod = pods.get(ordinal)
        if pod is None:
            create.append((ordinal, _choose_revision(owner, ordinal, current=current, update=update)))
            if in_turn:
                return StatefulSetControllerStep(create=tuple(create))
            continue
        if pod.is_over:
            if not pod.is_deleting:
                delete.append(pod)
            if in_turn:
                return StatefulSetControllerStep(delete=tuple(delete))
            continue
        if in_turn and (wait := _compute_blocked_until(owner, pod, now)) is not None:
            return StatefulSetControllerStep(look_at=wait or None)
        due = find_available_time(pod, min_ready_s=owner.count("spec", "minReadySeconds"))
        if due is not None and due > now:
            look_at.append(due)
    moment = min(look_at, default=None)
    if create or delete:
        return StatefulSetControllerStep(create=tuple(create), delete=tuple(delete), look_at=moment)
    surplus = [pods[ordinal] for ordinal in sorted(pods, reverse=True) if ordinal not in wanted]
    if surplus:
        return _shrink(surplus, in_turn=in_turn, look_at=moment)
    return _replace_outdated(owner, [pods[ordinal] for ordinal in wanted], update, first, moment)


def _compute_blocked_until(owner: DocumentView, pod: SandboxPodView, now: Instant) -> Instant | None:
    """Return None if the next pod may be created now, else the time to check again (0: after the next change)."""
    if pod.is_deleting:
        return 0.0
    due = find_available_time(pod, min_ready_s=owner.count("spec", "minReadySeconds"))
    if due is None:
        return 0.0
    return due if due > now else None


def _shrink(
    surplus: Sequence[SandboxPodView], *, in_turn: bool, look_at: Instant | None
) -> StatefulSetControllerStep:
    going = [pod for pod in surplus if not pod.is_deleting]
    if in_turn:
        # The next pod is deleted after the pod with the higher ordinal has disappeared.
        going = [] if surplus[0].is_deleting else going[:1]
    return StatefulSetControllerStep(condemned=tuple(going), look_at=look_at)


def _replace_outdated(
    owner: DocumentView, pods: Sequence[SandboxPodView], update: str, first: int, look_at: Instant | None
) -> StatefulSetControllerStep:
    """Delete the outdated pod with the highest ordinal, if all pods with higher ordinals are ready."""
    if get_path(owner.spec, "updateStrategy", "type", default="RollingUpdate") != "RollingUpdate":
        return StatefulSetControllerStep(look_at=look_at)
    partition = int(get_path(owner.spec, "updateStrategy", "rollingUpdate", "partition", default=0))
    for pod in reversed(pods[max(0, partition - first) :]):
        if pod.labels.get(REVISION_LABEL) != update and not pod.is_deleting:
            return StatefulSetControllerStep(delete=(pod,), look_at=look_at)
        if pod.is_deleting or find_available_time(pod, min_ready_s=0) is None:
            return StatefulSetControllerStep(look_at=look_at)
        if look_at is not None:
            return StatefulSetControllerStep(look_at=look_at)
    return StatefulSetControllerStep(look_at=look_at)


def _choose_revision(owner: DocumentView, ordinal: int, *, current: str, update: str) -> str:
    """The revision of a new pod."""
    strategy = owner.spec.get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return update
    first = owner.count("spec", "ordinals", "start")
    rolling = strategy.get("rollingUpdate")
    kept = owner.count("status", "currentReplicas") if rolling is None else int(rolling.get("partition") or 0)
    return current if ordinal < first + kept else update


def compute_stateful_set_status(
    owner: DocumentView, pods: Mapping[int, SandboxPodView], *, current: str, update: str, now: Instant
) -> Document:
    """Build the status. When the rollout is complete, the update revision becomes the current revision."""
    min_ready_s = owner.count("spec", "minReadySeconds")
    there = [pod for pod in pods.values() if pod.status.phase]
    moments = [find_available_time(pod, min_ready_s=min_ready_s) for pod in there if not pod.is_over]
    ready = [moment for moment in moments if moment is not None]
    staying = [pod.labels.get(REVISION_LABEL) for pod in there if not pod.is_deleting]
    counts = {
        "replicas": len(there),
        "readyReplicas": len(ready),
        "availableReplicas": sum(moment <= now for moment in ready),
        "currentReplicas": staying.count(current),
        "updatedReplicas": staying.count(update),
        "collisionCount": owner.count("status", "collisionCount"),
    }
    wanted = owner.count("spec", "replicas", default=1)
    is_rolling = get_path(owner.spec, "updateStrategy", "type", default="RollingUpdate") == "RollingUpdate"
    if is_rolling and counts["updatedReplicas"] == counts["replicas"] == counts["readyReplicas"] == wanted:
        counts["currentReplicas"] = counts["updatedReplicas"]
        current = update
    always = ("replicas", "availableReplicas", "collisionCount")
    shown = {name: count for name, count in counts.items() if count or name in always}
    return {
        **{name: value for name, value in owner.status.items() if name == "conditions"},
        "observedGeneration": owner.generation,
        "currentRevision": current,
        "updateRevision": update,
        **shown,
    }


# ── pods and claims ──────────────────────────────────────────────────────────


def pod_of(owner: DocumentView, template: Document, ordinal: int, revision: str) -> Document:
    """Build the pod of that ordinal, with its identity and its claims."""
    name = f"{owner.name}-{ordinal}"
    pod = build_pod(template, owner=build_owner_reference_to(STATEFUL_SETS, owner), name=name)
    pod["metadata"]["labels"] = {
        **pod["metadata"].get("labels", {}),
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(ordinal),
        REVISION_LABEL: revision,
    }
    spec = pod["spec"]
    spec |= {"hostname": name, "subdomain": owner.spec.get("serviceName") or ""}
    claims = {claim["metadata"]["name"]: claim for claim in owner.spec.get("volumeClaimTemplates") or ()}
    others = [volume for volume in spec.get("volumes") or () if volume["name"] not in claims]
    own = [{"name": claim, "persistentVolumeClaim": {"claimName": f"{claim}-{name}"}} for claim in claims]
    if own:
        spec["volumes"] = [*own, *others]
    return pod


def claims_of(owner: DocumentView, ordinal: int) -> list[Document]:
    """Build the claims that the pod of that ordinal needs."""
    labels = get_path(owner.spec, "selector", "matchLabels", default={})
    claims = []
    for template in owner.spec.get("volumeClaimTemplates") or ():
        metadata = template["metadata"]
        made: Document = {
            "name": f"{metadata['name']}-{owner.name}-{ordinal}",
            "labels": {**(metadata.get("labels") or {}), **labels},
        }
        if metadata.get("annotations"):
            made["annotations"] = dict(metadata["annotations"])
        if get_path(owner.spec, "persistentVolumeClaimRetentionPolicy", "whenDeleted") == "Delete":
            made["ownerReferences"] = [
                build_owner_reference_to(STATEFUL_SETS, owner) | {"blockOwnerDeletion": False}
            ]
            made["ownerReferences"][0].pop("controller")
        claims.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": made,
                "spec": deep_copy(template["spec"]),
            }
        )
    return claims
