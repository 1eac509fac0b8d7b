"""All decisions about a NodeImage, as one plan.

NodeImageSnapshot ──▶ plan_node_image() ──▶ Plan: create or delete it, remove entries,
                                                  report that its agent does not respond

Pure. An entry is removed when it is no longer needed: its jobs were deleted, or its pull was completed
ttlSecondsAfterFinished ago and no running job needs the entry. The node's agent writes the status. The manager writes
the status only if the agent does not respond, or if an entry was removed.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from pykruise.kinds.nodeimage.entries import Kept, list_kept_images
from pykruise.kinds.nodeimage.snapshot import NodeImageSnapshot, list_pull_secrets
from pykruise.kinds.nodeimage.status import Silent, compute_status_after
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.patches.merge import diff_merge
from pykruise.kube.schemas.types import ObjectReference
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import make_refused_plan
from pykruise.pods.images.node_images import NODE_IMAGES, NodeImageView
from pykruise.pods.images.obstacles import find_next_late_time, obstacle_of
from pykruise.pods.images.pull_jobs import IMAGE_PULL_JOBS, is_pull_job
from pykruise.pods.view.nodes import NodeView
from pykruise.runtime.actions import Create, delete_object, patch_object
from pykruise.runtime.named_objects import BEHIND_S
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step, Subject, compute_seconds_until, find_soonest
from pykruise.runtime.reasons import Reason
from pykruise.runtime.status import build_status_patch

FAKE_LABEL: Final = "apps.kruise.io/fake-nodeimage"
"""Label of a NodeImage that is kept although its node does not exist."""

SOONEST_S: Final = 3.0
"""Minimum number of seconds until the next reconcile, if it is only needed because time passes."""

_WARN_AGAIN_S: Final = 600.0


def plan_node_image(snapshot: NodeImageSnapshot) -> Plan:
    """Plan all writes that this NodeImage needs now, and when it is reconciled again."""
    view, node = snapshot.node_image, snapshot.node
    if node is None or node.is_deleting:
        if not view.uid or view.is_deleting:
            return Plan()
        if FAKE_LABEL not in view.labels:
            return _delete_object(view)
        node = None
    elif not view.uid:
        return _create_object(snapshot, node)
    if view.is_deleting:
        return Plan()
    if view.problem or snapshot.refused:
        return make_refused_plan([view.problem] if view.problem else snapshot.refused)
    kept = list_kept_images(snapshot)
    changes = _build_changes(view, node, kept)
    if changes:  # this write enqueues the NodeImage, and the next plan writes the status
        return Plan(
            stages=(_patch_stage(view, changes, kept.because or "the labels of the node changed"),),
            notes=tuple(_note_removed_secrets(view, kept)),
        )
    return _plan_status(snapshot, kept)


# ── the object ───────────────────────────────────────────────────────────────


def _create_object(snapshot: NodeImageSnapshot, node: NodeView) -> Plan:
    name = snapshot.node_image.name
    if node.is_virtual or node.ready_since is None:
        return Plan()
    left = node.ready_since + snapshot.creation_delay_s - snapshot.now
    if left > 0:
        return Plan(requeue_after_s=left)
    metadata: Document = {"name": name, **({"labels": dict(node.labels)} if node.labels else {})}
    body = {"apiVersion": NODE_IMAGES.api_version, "kind": NODE_IMAGES.kind, "metadata": metadata, "spec": {}}
    step = Step(
        action=Create(resource=NODE_IMAGES, key=Key("", name), body=body),
        because="the node is ready and has no NodeImage",
    )
    return Plan(stages=(_build_stage(name, step),))


def _delete_object(view: NodeImageView) -> Plan:
    step = Step(action=delete_object(NODE_IMAGES, view), because="its node no longer exists")
    return Plan(stages=(_build_stage(view.name, step),))


def _build_stage(name: str, step: Step) -> Stage:
    return Stage(purpose=Purpose.KEEP_NODE_IMAGE, chains=(Chain(subject=name, steps=(step,)),))


def _patch_stage(view: NodeImageView, body: Document, because: str) -> Stage:
    action = patch_object(NODE_IMAGES, view, body, unchanged=True)
    return _build_stage(view.name, Step(action=action, because=because))


def _build_changes(view: NodeImageView, node: NodeView | None, kept: Kept) -> Document:
    """Build a merge patch for labels and entries."""
    changes: Document = {}
    if node is not None and dict(node.labels) != dict(view.labels):
        changes["metadata"] = {"labels": diff_merge(view.labels, node.labels)}
    images: Document = {}
    for name, image in view.images.items():
        after = kept.images.get(name)
        if after is None:
            images[name] = None
        elif after is not image:
            before = msgspec.to_builtins(image)
            # If the list is empty, the patch removes the field, which means the same.
            images[name] = diff_merge(before, msgspec.to_builtins(after))
    if images:
        changes["spec"] = {"images": images}
    return changes


# ── the status ───────────────────────────────────────────────────────────────


def _plan_status(snapshot: NodeImageSnapshot, kept: Kept) -> Plan:
    view = snapshot.node_image
    result = compute_status_after(snapshot)
    stages: list[Stage] = []
    if result.document is not None:
        patch = build_status_patch(
            NODE_IMAGES,
            Key("", view.name),
            uid=view.uid,
            stored=view.stored_status,
            wanted=result.document,
            resource_version=str(view.resource_version),
        )
        if patch is not None:
            because = (
                "its agent does not answer"
                if result.silent
                else "it has results of images that are no longer requested"
            )
            chain = Chain(subject=view.name, steps=(Step(action=patch, because=because),))
            stages.append(Stage(purpose=Purpose.REPORT_STATUS, chains=(chain,)))
    late_at = find_next_late_time(((view, image) for image, _ in view.entries), now=snapshot.now)
    again_s = find_soonest(
        [
            *(*kept.look_again, *result.look_again, compute_seconds_until(late_at, now=snapshot.now)),
            BEHIND_S if snapshot.is_behind else None,
        ]
    )
    return Plan(
        stages=tuple(stages),
        requeue_after_s=None if again_s is None else max(again_s, SOONEST_S),
        skipped=_list_skipped(snapshot),
        notes=tuple(note for silent in result.silent for note in _list_notes(view, silent)),
    )


def _note_removed_secrets(view: NodeImageView, kept: Kept) -> Iterator[Note]:
    """Yield a warning for each secret that does not exist and that a person listed: its reference is removed."""
    for name, image in view.images.items():
        after = kept.images.get(name)
        if after is None or all(tag.owner_references for tag in image.tags):
            continue
        left = after.pull_secrets or ()
        for secret in image.pull_secrets or ():
            if secret not in left:
                message = (
                    f"there is no secret {secret.name} in namespace {secret.namespace}: its reference was removed, and"
                    f" image {name} is pulled without it"
                )
                yield Note(
                    reason="PullSecretMissing", message=message, warning=True, again_after_s=_WARN_AGAIN_S
                )


def _list_notes(view: NodeImageView, silent: Silent) -> Iterator[Note]:
    """Yield an event for the NodeImage, and one for each job that needs the image."""
    message = f"node {view.name}, image {silent.image.reference}: {silent.message}"
    yield Note(reason="PullImageFailed", message=message, warning=True, again_after_s=_WARN_AGAIN_S)
    for ref in silent.entry.owner_references or ():
        if is_pull_job(ref):
            about = Subject(resource=IMAGE_PULL_JOBS, key=Key(ref.namespace, ref.name), uid=ref.uid)
            yield Note(
                reason="PullImageFailed",
                message=message,
                warning=True,
                about=about,
                again_after_s=_WARN_AGAIN_S,
            )


def _list_skipped(snapshot: NodeImageSnapshot) -> dict[str, Reason]:
    """Return the images that the node could not pull or does not have yet, each with the reason."""
    view = snapshot.node_image
    result: dict[str, Reason] = {}
    for image, entry in view.entries:
        secrets = list_pull_secrets(entry, snapshot.jobs)
        obstacle = obstacle_of(
            view,
            image,
            now=snapshot.now,
            secrets=[key.name for key in secrets],
            missing=[key for key in secrets if key in snapshot.absent_secrets],
        )
        if obstacle is not None:
            wants = _describe_owners(entry.owner_references or ())
            result[image.reference] = msgspec.structs.replace(obstacle, message=f"{obstacle.message}{wants}")
    return result


def _describe_owners(references: Sequence[ObjectReference]) -> str:
    names = [f"{ref.namespace}/{ref.name}" for ref in references]
    return f" (requested by {', '.join(names)})" if names else ""
