"""Which pods and revisions belong to an owner: adopting orphans, and releasing what no longer matches.

pods, revisions ──▶ adoption_stages() ──▶ a check that the owner is still there, then the adoptions
pods            ──▶ release_stages()  ──▶ patches that take the owner off
revisions       ──▶ revision_stages() ──▶ what is stored of them before a pod can be of one;  delete_revision()

Pure; serves every kind. Which pods match is decided before, and only under the selector that pods are managed
by (pods/workload/selector_guard.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONTROLLER_REVISIONS, Resource
from pykruise.kube.values.owners import adoption_patch, release_patch
from pykruise.plans.phases import pod_chain, pod_patch, stage_of
from pykruise.plans.purposes import Purpose
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import RevisionView, UpdateChoice
from pykruise.pods.workload.selector_guard import record_of
from pykruise.pods.workload.views import WorkloadView
from pykruise.runtime import ownership
from pykruise.runtime.actions import Create, Patch, delete_object, patch_object
from pykruise.runtime.plan import Chain, Note, Stage, Step

_ADOPTED: Final = "it matches the selector, and has no controller"
_RELEASED: Final = "its labels no longer match the selector"


class Adopter(msgspec.Struct, frozen=True, kw_only=True):
    """Adopting workload."""

    resource: Resource
    key: Key
    uid: str
    resource_version: int
    reference: Document
    """Owner reference that adopted objects carry."""
    selector: Mapping[str, Any]
    """`spec.selector`; recorded with adopted revisions."""


def selector_in(workload: Any) -> Mapping[str, Any]:
    """`spec.selector` of a workload's view, as a document."""
    selector: Mapping[str, Any] = msgspec.to_builtins(workload.spec.selector)
    return selector


def adopter_of(workload: WorkloadView, resource: Resource) -> Adopter:
    """A workload of this resource, whose spec can be read, as one who adopts."""
    return Adopter(
        resource=resource,
        key=workload.key,
        uid=workload.uid,
        resource_version=workload.resource_version,
        reference=workload.reference_as(resource),
        selector=selector_in(workload),
    )


def adoption_stages(
    adopter: Adopter, pods: Sequence[PodView], revisions: Sequence[RevisionView] = ()
) -> list[Stage]:
    """The writes by which these become the adopter's; none when there is nothing to adopt."""
    if not pods and not revisions:
        return []
    chains = [
        *(_adopt_revision(adopter, revision) for revision in revisions),
        *(_adopt_pod(adopter, pod) for pod in pods),
    ]
    return [still_there(adopter), Stage(purpose=Purpose.ADOPT, chains=tuple(chains))]


def adopt_used(choice: UpdateChoice, workload: WorkloadView, resource: Resource) -> list[Stage]:
    """A revision that was left behind and is used again becomes the workload's own: pods are of it, so it must neither
    go with another owner nor outlive its own, and it says by which selector pods are managed."""
    revision = choice.revision
    if choice.create is not None or revision.controller_uid or revision.is_deleting:
        return []
    return adoption_stages(adopter_of(workload, resource), (), [revision])


def still_there(adopter: Adopter) -> Stage:
    """Asks the API server whether the adopter is as it was seen (runtime/ownership.py)."""
    return ownership.still_there(
        adopter.resource,
        adopter.key,
        uid=adopter.uid,
        resource_version=str(adopter.resource_version),
        purpose=Purpose.CHECK_ADOPTER,
    )


def _adopt_pod(adopter: Adopter, pod: PodView) -> Chain:
    body = adoption_patch(adopter.reference, uid=pod.uid)
    return pod_chain(pod, Step(action=pod_patch(pod, body, unchanged=True), because=_ADOPTED))


def _adopt_revision(adopter: Adopter, revision: RevisionView) -> Chain:
    """The record of the selector comes with it: the one it was stored with may be that of another owner."""
    body = adoption_patch(adopter.reference, uid=revision.uid)
    body["metadata"]["annotations"] = record_of(adopter.selector)
    return _patched(revision, body, PatchType.STRATEGIC, because=_ADOPTED)


def release_stages(pods: Sequence[PodView], *, owner_uid: str, because: str = _RELEASED) -> tuple[Stage, ...]:
    """The writes that orphan these pods, each with its event."""
    chains = (
        pod_chain(pod, release_pod(pod, owner_uid=owner_uid, because=because, done=_released(pod, because)))
        for pod in pods
    )
    return stage_of(Purpose.RELEASE, chains)


def _released(pod: PodView, because: str) -> Note:
    return Note(reason="PodReleased", message=f"released pod {pod.name}: {because}")


def release_pod(pod: PodView, *, owner_uid: str, because: str = _RELEASED, done: Note | None = None) -> Step:
    """Let one pod go. Only the labels that were seen are a reason to."""
    body = release_patch(owner_uid=owner_uid, uid=pod.uid)
    return Step(action=pod_patch(pod, body, unchanged=True), because=because, done=done)


def revision_stages(
    choice: UpdateChoice, workload: WorkloadView, *, unrecorded: RevisionView | None = None
) -> list[Stage]:
    """Writes of a workload's revisions that must precede any pod of the update revision.

    `unrecorded`: a revision of another manager, which has no record of the selector yet. One that is written
    anyway brings the record with it.
    """
    stored = _stored(choice, namespace=workload.namespace)
    if stored is not None:
        return [Stage(purpose=Purpose.STORE_REVISION, chains=(stored,))]
    if unrecorded is None:
        return []
    chain = _recorded(unrecorded, selector_in(workload))
    return [Stage(purpose=Purpose.RECORD_SELECTOR, chains=(chain,))]


def _stored(choice: UpdateChoice, *, namespace: str) -> Chain | None:
    """The write of the update revision; None: it is stored as it has to be."""
    key = Key(namespace, choice.revision.name)
    action: Create | Patch
    if choice.create is not None:
        action = Create(resource=CONTROLLER_REVISIONS, key=key, body=choice.create)
        because = "the template has no revision yet"
    elif choice.patch is not None:
        action = Patch(
            resource=CONTROLLER_REVISIONS,
            key=key,
            patch_type=PatchType.MERGE,
            body=choice.patch,
            uid=choice.revision.uid,
        )
        because = "the template is that of an older revision again"
    else:
        return None
    return Chain(subject=choice.revision.name, steps=(Step(action=action, because=because),))


def _recorded(revision: RevisionView, selector: Mapping[str, Any]) -> Chain:
    """Write down by which selector pods are managed, on a revision that another manager has stored."""
    body = {"metadata": {"annotations": record_of(selector)}}
    return _patched(revision, body, PatchType.MERGE, because="it says by which selector pods are managed")


def delete_revision(revision: RevisionView, because: str) -> Chain:
    """The end of a revision."""
    action = delete_object(CONTROLLER_REVISIONS, revision)
    return Chain(subject=revision.name, steps=(Step(action=action, because=because),))


def _patched(revision: RevisionView, body: Document, patch_type: PatchType, *, because: str) -> Chain:
    action = patch_object(CONTROLLER_REVISIONS, revision, body, patch_type=patch_type)
    return Chain(subject=revision.name, steps=(Step(action=action, because=because),))
