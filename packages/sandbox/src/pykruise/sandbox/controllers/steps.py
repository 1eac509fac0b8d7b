"""Writes that several controllers plan, each with its reason and its event.

object, template, patch ──▶ a Step ──▶ chains and stages of a Plan

Pure. As in Kubernetes' controllers, events with different messages are not combined.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS, Resource
from pykruise.runtime.actions import Create, Delete, Patch
from pykruise.runtime.objects import DocumentView
from pykruise.runtime.plan import Chain, Note, Stage, Step
from pykruise.runtime.status import build_status_patch
from pykruise.sandbox.pod_view import SandboxPodView

CREATE: Final = "create"
DELETE: Final = "delete"
"""Purposes of stages."""


def make_normal_note(reason: str, message: str) -> Note:
    """An event of type Normal."""
    return Note(reason=reason, message=message, is_single=True)


def make_warning_note(reason: str, message: str) -> Note:
    """An event of type Warning."""
    return Note(reason=reason, message=message, warning=True, is_single=True)


def create_object(
    resource: Resource,
    namespace: str,
    body: Document,
    *,
    because: str,
    done: Note | None = None,
    failed: Note | None = None,
) -> Step:
    """Create an object with the name in its body; without a name the API server generates one."""
    key = Key(namespace, body["metadata"].get("name", ""))
    return Step(
        action=Create(resource=resource, key=key, body=body), because=because, done=done, failed=failed
    )


def delete_object(
    resource: Resource, view: DocumentView, *, because: str, propagation: str = "", done: Note | None = None
) -> Step:
    """Delete an object."""
    action = Delete(resource=resource, key=view.key, uid=view.uid, propagation=propagation)
    return Step(action=action, because=because, done=done)


def delete_pod(
    pod: SandboxPodView,
    *,
    because: str,
    grace_period_s: int | None = None,
    done: Note | None = None,
    failed: Note | None = None,
) -> Step:
    """Delete a pod."""
    action = Delete(resource=PODS, key=pod.key, uid=pod.uid, grace_period_s=grace_period_s)
    return Step(action=action, because=because, done=done, failed=failed)


def patch_pod(pod: SandboxPodView, body: Document, *, because: str, subresource: str = "") -> Step:
    """Patch a pod with a strategic merge patch."""
    action = Patch(
        resource=PODS,
        key=pod.key,
        patch_type=PatchType.STRATEGIC,
        body=body,
        subresource=subresource,
        uid=pod.uid,
    )
    return Step(action=action, because=because)


def merge_object(resource: Resource, view: DocumentView, body: Document, *, because: str) -> Step:
    """Patch an object with a merge patch, if it has not changed since it was read."""
    action = Patch(
        resource=resource,
        key=view.key,
        patch_type=PatchType.MERGE,
        body=body,
        uid=view.uid,
        resource_version=str(view.resource_version),
    )
    return Step(action=action, because=because)


def write_status(
    resource: Resource, view: DocumentView, status: Document, *, because: str, notes: Sequence[Note] = ()
) -> Step | None:
    """Write a status before or after other writes; None when it is already stored.

    `notes`: events for the write, at most one of them a warning.
    """
    patch = build_status_patch(resource, view.key, uid=view.uid, stored=view.status, wanted=status)
    if patch is None:
        return None
    done = next((note for note in notes if note.warning), None)
    return Step(
        action=patch, because=because, done=done, also=tuple(note for note in notes if note is not done)
    )


def run_each(purpose: str, steps: Iterable[tuple[str, Step]], *, ramp: bool = False) -> tuple[Stage, ...]:
    """Stage of independent writes for different subjects; empty without writes. `ramp`: see Stage."""
    chains = tuple(Chain(subject=subject, steps=(step,)) for subject, step in steps)
    return (Stage(purpose=purpose, chains=chains, ramp=ramp, is_independent=not ramp),) if chains else ()


def run_in_order(purpose: str, steps: Iterable[Step | None]) -> tuple[Stage, ...]:
    """Stage of sequential writes; empty without writes."""
    chain: tuple[Any, ...] = tuple(step for step in steps if step is not None)
    return (Stage(purpose=purpose, chains=(Chain(subject="", steps=chain),)),) if chain else ()
