"""The next step of a Deployment, decided from its replica sets.

Deployment + its ReplicaSets + which of them still have pods + now ──▶ decide_next_step() ──▶ Step ──▶ deployments.py

Pure. Same rules as Kubernetes' deployment controller. One step at a time: create or annotate the new replica set,
scale it up, scale old ones down, clean up history. The next step is decided after the cache has the result.
"""

from collections.abc import Sequence
from math import floor
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.documents import LAST_APPLIED, Document, deep_copy, encode_canonical, is_same
from pykruise.kube.values.hashing import hash_fnv32a, hash_text
from pykruise.kube.values.int_or_percent import Rounding, resolve
from pykruise.kube.values.owners import build_owner_reference
from pykruise.runtime.objects import DocumentView
from pykruise.sandbox.pod_view import instant_of

HASH: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MAX: Final = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED: Final = {
    LAST_APPLIED,
    REVISION,
    HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
}


class Sets(msgspec.Struct, frozen=True):
    """The replica sets of a deployment."""

    new: DocumentView | None
    """The replica set of the current template; the oldest if there are several."""
    old: tuple[DocumentView, ...]
    """All other replica sets, oldest first."""

    @property
    def all(self) -> tuple[DocumentView, ...]:
        """All replica sets."""
        return (*self.old, self.new) if self.new is not None else self.old


class DeploymentStep(msgspec.Struct, frozen=True, kw_only=True):
    """The next writes: `revision`, and at most one of the other fields. After them, the status is written."""

    create: Document | None = None
    """A new replica set."""
    annotate: tuple[DocumentView, Document] | None = None
    """A replica set, and the merge patch that updates its annotations and minReadySeconds."""
    scale: tuple[tuple[DocumentView, int], ...] = ()
    """Replica sets with their wanted number of pods."""
    delete: tuple[DocumentView, ...] = ()
    """Replica sets beyond the history limit."""
    revision: str = ""
    """New value of the deployment's revision annotation; empty if it does not change."""

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to write."""
        return not (self.create or self.annotate or self.scale or self.delete)


def group(deployment: DocumentView, sets: Sequence[DocumentView]) -> Sets:
    """Separate the replica set of the current template from the old replica sets."""
    ordered = sorted(sets, key=lambda document: (document.created_at, document.name))
    template = _without_hash(deployment.spec["template"])
    new = next(
        (
            document
            for document in ordered
            if is_same(_without_hash(document.spec.get("template") or {}), template)
        ),
        None,
    )
    return Sets(new, tuple(document for document in ordered if document is not new))


def decide_next_step(
    deployment: DocumentView, sets: Sets, *, busy: frozenset[str], now: Instant
) -> DeploymentStep:
    """Decide the next step. `busy`: uids of replica sets with pods that have not ended."""
    if deployment.is_deleting:
        return DeploymentStep()
    if deployment.spec.get("paused"):
        return _resize_sets(deployment, sets)
    if _is_scaled(deployment, sets):
        step = _resize_sets(deployment, sets)
        return step if not step.is_nothing else _annotate_new_set(deployment, sets)
    if deployment.spec["strategy"]["type"] == "Recreate":
        return _recreate(deployment, sets, busy, now)
    return _roll_out(deployment, sets, now)


def resolve_surge_and_unavailable(deployment: DocumentView) -> tuple[int, int]:
    """`maxSurge` and `maxUnavailable` as numbers of pods. Both are 0 for the strategy Recreate. Otherwise at least one
    is not 0, so that pods can be replaced.
    """
    rolling = deployment.spec["strategy"].get("rollingUpdate")
    if rolling is None:
        return 0, 0
    replicas = replicas_of(deployment)
    surge = resolve(rolling.get("maxSurge", 0), of=replicas, rounding=Rounding.UP)
    unavailable = resolve(rolling.get("maxUnavailable", 0), of=replicas, rounding=Rounding.DOWN)
    if not surge and not unavailable:
        return 0, 1
    return surge, min(unavailable, replicas)


def replicas_of(view: DocumentView) -> int:
    """The wanted number of pods."""
    return view.count("spec", "replicas", default=1)


def is_complete(deployment: DocumentView, status: Document) -> bool:
    """Whether all wanted pods have the new template and are available, and no other pods exist."""
    wanted = replicas_of(deployment)
    return bool(
        status.get("updatedReplicas", 0) == wanted
        and status.get("replicas", 0) == wanted
        and status.get("availableReplicas", 0) == wanted
        and status.get("observedGeneration", 0) >= deployment.generation
    )


# ── strategies ───────────────────────────────────────────────────────────────


def _roll_out(deployment: DocumentView, sets: Sets, now: Instant) -> DeploymentStep:
    if (step := _update_new_set(deployment, sets, now, all_at_once=False)) is not None:
        return step
    assert sets.new is not None
    wanted = _compute_new_set_size(deployment, sets)
    if wanted != replicas_of(sets.new):
        return DeploymentStep(scale=((sets.new, wanted),))
    if down := _scale_down_old(deployment, sets):
        return DeploymentStep(scale=down)
    return _clean_up_history(deployment, sets)


def _recreate(deployment: DocumentView, sets: Sets, busy: frozenset[str], now: Instant) -> DeploymentStep:
    if active := [document for document in sets.old if replicas_of(document) > 0]:
        return DeploymentStep(scale=tuple((document, 0) for document in active))
    if any(document.uid in busy for document in sets.old):
        return DeploymentStep()
    if (step := _update_new_set(deployment, sets, now, all_at_once=True)) is not None:
        return step
    assert sets.new is not None
    if replicas_of(sets.new) != replicas_of(deployment):
        return DeploymentStep(scale=((sets.new, replicas_of(deployment)),))
    return _clean_up_history(deployment, sets)


def _compute_new_set_size(deployment: DocumentView, sets: Sets) -> int:
    """The number of pods that the new replica set should have now."""
    assert sets.new is not None
    wanted, current = replicas_of(deployment), replicas_of(sets.new)
    if current >= wanted:
        return wanted
    surge, _ = resolve_surge_and_unavailable(deployment)
    room = wanted + surge - sum(map(replicas_of, sets.all))
    return current + min(room, wanted - current) if room > 0 else current


def _scale_down_old(deployment: DocumentView, sets: Sets) -> tuple[tuple[DocumentView, int], ...]:
    """Make old replica sets smaller: first by their unhealthy pods, then by as many pods as maxUnavailable allows."""
    assert sets.new is not None
    sizes = {item.uid: replicas_of(item) for item in sets.old}
    if not any(sizes.values()):
        return ()
    _, unavailable = resolve_surge_and_unavailable(deployment)
    least = replicas_of(deployment) - unavailable
    not_there_yet = replicas_of(sets.new) - _count_available_replicas(sets.new)
    budget = sum(sizes.values()) + replicas_of(sets.new) - least - not_there_yet
    if budget <= 0:
        return ()
    removed = 0
    for document in sets.old:
        unhealthy = min(budget - removed, sizes[document.uid] - _count_available_replicas(document))
        if unhealthy > 0 and sizes[document.uid]:
            sizes[document.uid] -= unhealthy
            removed += unhealthy
    spare = sum(map(_count_available_replicas, sets.all)) - least
    for document in sets.old:
        step = min(sizes[document.uid], spare)
        if step > 0:
            sizes[document.uid] -= step
            spare -= step
    return tuple((item, sizes[item.uid]) for item in sets.old if sizes[item.uid] != replicas_of(item))


def _count_available_replicas(document: DocumentView) -> int:
    return document.count("status", "availableReplicas")


def _clean_up_history(deployment: DocumentView, sets: Sets) -> DeploymentStep:
    """After the rollout is complete, delete the replica sets beyond the history limit."""
    limit = deployment.spec.get("revisionHistoryLimit")
    if limit is None or not is_complete(deployment, deployment.status):
        return DeploymentStep()
    alive = sorted((document for document in sets.old if not document.is_deleting), key=revision_of)
    surplus = alive[: max(0, len(alive) - int(limit))]
    gone = tuple(
        document
        for document in surplus
        if not replicas_of(document)
        and not document.count("status", "replicas")
        and document.generation <= document.count("status", "observedGeneration")
    )
    return DeploymentStep(delete=gone)


# ── scaling ──────────────────────────────────────────────────────────────────


def _is_scaled(deployment: DocumentView, sets: Sets) -> bool:
    """Whether `spec.replicas` has changed since the sizes of the replica sets were last set."""
    wanted = str(replicas_of(deployment))
    return any(
        document.annotations.get(DESIRED, wanted) != wanted
        for document in sets.all
        if replicas_of(document) > 0
    )


def _resize_sets(deployment: DocumentView, sets: Sets) -> DeploymentStep:
    wanted = replicas_of(deployment)
    active = [document for document in sets.all if replicas_of(document) > 0]
    if len(active) <= 1:
        only = active[0] if active else sets.new or (sets.old[-1] if sets.old else None)
        if only is None or replicas_of(only) == wanted:
            return DeploymentStep()
        return DeploymentStep(scale=((only, wanted),))
    new = sets.new
    if (
        new is not None
        and replicas_of(new) == wanted
        and new.annotations.get(DESIRED) == str(wanted)
        and _count_available_replicas(new) == wanted
    ):
        return DeploymentStep(scale=tuple((document, 0) for document in active if document is not new))
    if deployment.spec["strategy"]["type"] != "RollingUpdate":
        return DeploymentStep()
    return _scale_proportionally(deployment, active)


def _scale_proportionally(deployment: DocumentView, active: Sequence[DocumentView]) -> DeploymentStep:
    """Distribute a change of size over the replica sets of a rollout in progress."""
    surge, _ = resolve_surge_and_unavailable(deployment)
    wanted = replicas_of(deployment)
    allowed = wanted + surge if wanted else 0
    change = allowed - sum(map(replicas_of, active))
    newest_first = change > 0
    ordered = sorted(active, key=lambda item: (item.created_at, item.name), reverse=newest_first)
    ordered.sort(key=replicas_of, reverse=True)
    sizes: dict[str, int] = {}
    done = 0
    for document in ordered:
        part = _compute_proportional_share(document, deployment, allowed=allowed, change=change, done=done)
        sizes[document.uid] = replicas_of(document) + part
        done += part
    sizes[ordered[0].uid] = max(0, sizes[ordered[0].uid] + change - done)
    return DeploymentStep(
        scale=tuple((item, sizes[item.uid]) for item in ordered if _needs_write(deployment, item, sizes))
    )


def _needs_write(deployment: DocumentView, document: DocumentView, sizes: dict[str, int]) -> bool:
    """Whether the replica set's size changes, or the size in its annotation is not the deployment's."""
    return sizes[document.uid] != replicas_of(document) or document.annotations.get(DESIRED) != str(
        replicas_of(deployment)
    )


def _compute_proportional_share(
    document: DocumentView, deployment: DocumentView, *, allowed: int, change: int, done: int
) -> int:
    size = replicas_of(document)
    if not size or change in (0, done):
        return 0
    before = int(document.annotations.get(MAX) or 0) or deployment.count("status", "replicas") or 1
    share = floor(size * allowed / before + 0.5) - size
    left = change - done
    return min(share, left) if change > 0 else max(share, left)


def build_size_annotations(deployment: DocumentView) -> dict[str, str]:
    """Annotations of a replica set about the size of the whole deployment."""
    surge, _ = resolve_surge_and_unavailable(deployment)
    wanted = replicas_of(deployment)
    return {DESIRED: str(wanted), MAX: str(wanted + surge)}


# ── the new replica set ──────────────────────────────────────────────────────


def revision_of(document: DocumentView) -> int:
    """Revision number of a replica set; 0 when it has none."""
    text = document.annotations.get(REVISION, "")
    return int(text) if text.isdecimal() else 0


def _update_new_set(
    deployment: DocumentView, sets: Sets, now: Instant, *, all_at_once: bool
) -> DeploymentStep | None:
    """Create the replica set of the template, or update its annotations; None when nothing must be written."""
    revision = max(map(revision_of, sets.old), default=0) + 1
    if sets.new is None:
        return DeploymentStep(
            create=_build_new_document(deployment, sets, revision, all_at_once), revision=str(revision)
        )
    step = _annotate_new_set(deployment, sets)
    return step if step.annotate or step.revision else None


def _annotate_new_set(deployment: DocumentView, sets: Sets) -> DeploymentStep:
    new = sets.new
    if new is None:
        return DeploymentStep()
    revision = max(max(map(revision_of, sets.old), default=0) + 1, revision_of(new))
    changes = {
        name: value
        for name, value in deployment.annotations.items()
        if name not in _NOT_COPIED and new.annotations.get(name) != value
    }
    if revision != revision_of(new):
        changes[REVISION] = str(revision)
        if before := new.annotations.get(REVISION):
            history = new.annotations.get(HISTORY)
            changes[HISTORY] = f"{history},{before}" if history else before
    patch: Document = {}
    if changes:
        patch["metadata"] = {"annotations": changes}
    min_ready_s = deployment.count("spec", "minReadySeconds")
    if min_ready_s != new.count("spec", "minReadySeconds"):
        patch["spec"] = {"minReadySeconds": min_ready_s}
    shown = "" if deployment.annotations.get(REVISION) == str(revision) else str(revision)
    return DeploymentStep(annotate=(new, patch) if patch else None, revision=shown)


def _build_new_document(deployment: DocumentView, sets: Sets, revision: int, all_at_once: bool) -> Document:
    template = deep_copy(deployment.spec["template"])
    digest = hash_template(deployment)
    labels = {**((template.get("metadata") or {}).get("labels") or {}), HASH: digest}
    template.setdefault("metadata", {})["labels"] = labels
    selector = deep_copy(deployment.spec["selector"])
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH: digest}
    annotations = {name: text for name, text in deployment.annotations.items() if name not in _NOT_COPIED}
    annotations |= {REVISION: str(revision), **build_size_annotations(deployment)}
    wanted = replicas_of(deployment)
    if not all_at_once:
        surge, _ = resolve_surge_and_unavailable(deployment)
        wanted = max(0, min(wanted + surge - sum(map(replicas_of, sets.old)), wanted))
    spec: dict[str, Any] = {"replicas": wanted, "selector": selector, "template": template}
    if min_ready_s := deployment.count("spec", "minReadySeconds"):
        spec["minReadySeconds"] = min_ready_s
    owner = build_owner_reference(
        api_version="apps/v1", kind="Deployment", name=deployment.name, uid=deployment.uid
    )
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": format_replica_set_name(deployment),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner],
        },
        "spec": spec,
    }


def format_replica_set_name(deployment: DocumentView) -> str:
    """The name of the replica set of the current template."""
    return f"{deployment.name}-{hash_template(deployment)}"


def hash_template(deployment: DocumentView) -> str:
    """The hash of the pod template in names and labels.

    Kubernetes hashes a dump of its Go structs; this function hashes the JSON, so names differ from those of a real
    cluster.
    """
    collisions = deployment.count("status", "collisionCount")
    data = encode_canonical(deployment.spec["template"]) + (str(collisions).encode() if collisions else b"")
    return hash_text(hash_fnv32a(data))


def _without_hash(template: Document) -> Document:
    labels = (template.get("metadata") or {}).get("labels") or {}
    if HASH not in labels:
        return template
    rest = {name: value for name, value in labels.items() if name != HASH}
    return {**template, "metadata": {**template["metadata"], "labels": rest}}


def read_progress_since(condition: Document) -> Instant:
    """Time of the rollout's last progress."""
    return instant_of(condition.get("lastUpdateTime"), default=0.0)
