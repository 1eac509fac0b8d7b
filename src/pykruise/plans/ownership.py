"""Steps about whose pods and revisions are whose: to release, to adopt, and to record the selector.

pod or revision + owner ──▶ a Step or Chain; a kind's plan says when, and tells its own events

Pure; serves every kind. Which pods match is decided before, and only under the selector that pods are managed
by (pods/selector_guard.py).
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.ids import Key
from pykruise.kube.owners import adoption_patch, release_patch
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONTROLLER_REVISIONS, PODS
from pykruise.plans.actions import Delete, Patch
from pykruise.plans.phases import pod_key
from pykruise.plans.plan import Chain, Note, Step
from pykruise.pods.revisions import RevisionView
from pykruise.pods.selector_guard import record_of
from pykruise.pods.views import PodView

__all__ = [
    "adopt_pod",
    "adopt_revision",
    "delete_revision",
    "record_selector",
    "release_pod",
]

_ADOPTED: Final = "it matches the selector, and nobody controls it"


def release_pod(pod: PodView, *, owner_uid: str, done: Note | None = None) -> Step:
    """Let a pod go whose labels no longer match. Only the labels that were seen are a reason to."""
    action = Patch(
        resource=PODS,
        key=pod_key(pod),
        patch_type=PatchType.STRATEGIC,
        body=release_patch(owner_uid=owner_uid, uid=pod.uid),
        uid=pod.uid,
        resource_version=str(pod.resource_version),
    )
    return Step(action=action, because="its labels no longer match the selector", done=done)


def adopt_pod(pod: PodView, *, owner: Mapping[str, Any]) -> Step:
    """Take a pod that nobody controls. `owner`: the reference that it gets."""
    action = Patch(
        resource=PODS,
        key=pod_key(pod),
        patch_type=PatchType.STRATEGIC,
        body=adoption_patch(owner, uid=pod.uid),
        uid=pod.uid,
        resource_version=str(pod.resource_version),
    )
    return Step(action=action, because=_ADOPTED)


def adopt_revision(revision: RevisionView, *, owner: Mapping[str, Any], selector: Mapping[str, Any]) -> Chain:
    """Take a revision that nobody controls. The record of the selector comes with it: the one that it was
    stored with may be that of another owner."""
    body = adoption_patch(owner, uid=revision.uid)
    body["metadata"]["annotations"] = record_of(selector)
    return _patched(revision, body, PatchType.STRATEGIC, because=_ADOPTED)


def record_selector(revision: RevisionView, selector: Mapping[str, Any]) -> Chain:
    """Write down by which selector pods are managed, on a revision that another manager has stored."""
    body = {"metadata": {"annotations": record_of(selector)}}
    return _patched(revision, body, PatchType.MERGE, because="it says by which selector pods are managed")


def delete_revision(revision: RevisionView, because: str) -> Chain:
    """The end of a revision."""
    action = Delete(
        resource=CONTROLLER_REVISIONS, key=Key(revision.namespace, revision.name), uid=revision.uid
    )
    return Chain(subject=revision.name, steps=(Step(action=action, because=because),))


def _patched(revision: RevisionView, body: dict[str, Any], patch_type: PatchType, *, because: str) -> Chain:
    action = Patch(
        resource=CONTROLLER_REVISIONS,
        key=Key(revision.namespace, revision.name),
        patch_type=patch_type,
        body=body,
        uid=revision.uid,
    )
    return Chain(subject=revision.name, steps=(Step(action=action, because=because),))
