"""Ownership of pods and revisions: orphans are adopted, and pods that the selector no longer matches are released.

pods, revisions ──▶ plan_adoption() ──▶ a check that the owner still exists, then the adoptions
pods            ──▶ release_pods()    ──▶ decisions to remove the owner reference
revisions       ──▶ plan_revisions() ──▶ writes before pods can have the revision;  delete_revision()

Pure; used by every kind. Before it calls these functions, the kind decides which pods the selector matches. It always
uses the selector that the revisions record (pods/workload/selector_guard.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import CONTROLLER_REVISIONS, Resource
from pykruise.kube.values.owners import build_adoption_patch, release_patch
from pykruise.plans.phases import ChangePod, DecidedStage, PlanPhase
from pykruise.plans.pod_writes import make_pod_chain, pod_patch
from pykruise.plans.purposes import Purpose
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import RevisionView, UpdateChoice
from pykruise.pods.workload.selector_guard import record_of
from pykruise.pods.workload.views import WorkloadView
from pykruise.runtime import ownership
from pykruise.runtime.actions import Create, Patch, delete_object, patch_object
from pykruise.runtime.plan import Chain, Note, Stage, Step

_ADOPTED: Final = "it matches the selector and has no controller"
_RELEASED: Final = "its labels no longer match the selector"


class Adopter(msgspec.Struct, frozen=True, kw_only=True):
    """A workload that adopts objects."""

    resource: Resource
    key: Key
    uid: str
    resource_version: int
    reference: Document
    """Owner reference that adopted objects get."""
    selector: Mapping[str, Any]
    """`spec.selector`. It is recorded in adopted revisions."""


def read_selector(workload: Any) -> Mapping[str, Any]:
    """Return `spec.selector` of the view of a workload, as a document."""
    selector: Mapping[str, Any] = msgspec.to_builtins(workload.spec.selector)
    return selector


def adopter_of(workload: WorkloadView, resource: Resource) -> Adopter:
    """Return the adopter for a workload of this resource. The spec of the workload must be readable."""
    return Adopter(
        resource=resource,
        key=workload.key,
        uid=workload.uid,
        resource_version=workload.resource_version,
        selector=read_selector(workload),
        reference=workload.build_reference(resource),
    )


def plan_adoption(
    adopter: Adopter, pods: Sequence[PodView], revisions: Sequence[RevisionView] = ()
) -> list[Stage]:
    """Return the stages that adopt these objects; no stages if there are no objects."""
    if not pods and not revisions:
        return []
    chains = [
        *(_adopt_revision(adopter, revision) for revision in revisions),
        *(_adopt_pod(adopter, pod) for pod in pods),
    ]
    return [check_still_there(adopter), Stage(purpose=Purpose.ADOPT, chains=tuple(chains))]


def adopt_used(choice: UpdateChoice, workload: WorkloadView, resource: Resource) -> list[Stage]:
    """Return the stages that adopt the update revision if it is an orphan.

    Pods use this revision, so it must be deleted together with this workload, and not with another owner. It must also
    record the selector that matches these pods.
    """
    revision = choice.revision
    if choice.create is not None or revision.controller_uid or revision.is_deleting:
        return []
    return plan_adoption(adopter_of(workload, resource), (), [revision])


def check_still_there(adopter: Adopter) -> Stage:
    """Return a stage that checks that the adopter still exists and is unchanged (runtime/ownership.py)."""
    return ownership.check_still_there(
        adopter.resource,
        adopter.key,
        uid=adopter.uid,
        resource_version=str(adopter.resource_version),
        purpose=Purpose.CHECK_ADOPTER,
    )


def _adopt_pod(adopter: Adopter, pod: PodView) -> Chain:
    body = build_adoption_patch(adopter.reference, uid=pod.uid)
    return make_pod_chain(pod, Step(action=pod_patch(pod, body, unchanged=True), because=_ADOPTED))


def _adopt_revision(adopter: Adopter, revision: RevisionView) -> Chain:
    """Return the write that adopts a revision. It also records the adopter's selector, because the revision perhaps
    records the selector of another owner.
    """
    body = build_adoption_patch(adopter.reference, uid=revision.uid)
    body["metadata"]["annotations"] = record_of(adopter.selector)
    return _patch_revision(revision, body, PatchType.STRATEGIC, because=_ADOPTED)


def release_pods(
    pods: Sequence[PodView],
    *,
    owner_uid: str,
    because: str = _RELEASED,
    before: Mapping[str, tuple[Step, ...]] | None = None,
) -> PlanPhase:
    """Decide to release these pods. Each write fails if the pod has changed. `before`: name of each pod → writes to its
    claims that are sent before its release. Without `before`, an event is recorded for each pod.
    """
    decisions = [
        ChangePod(
            pod=pod,
            metadata=release_patch(owner_uid=owner_uid, uid=pod.uid)["metadata"],
            because=because,
            unchanged=True,
            before=before[pod.name] if before is not None else (),
            done=_make_released_note(pod, because) if before is None else None,
        )
        for pod in pods
    ]
    return PlanPhase(decided=(DecidedStage(purpose=Purpose.RELEASE, decisions=decisions),))


def _make_released_note(pod: PodView, because: str) -> Note:
    return Note(reason="PodReleased", message=f"released pod {pod.name}: {because}")


def plan_revisions(
    choice: UpdateChoice, workload: WorkloadView, *, unrecorded: RevisionView | None = None
) -> list[Stage]:
    """Return the writes of a workload's revisions. They are sent before pods get the update revision.

    `unrecorded`: a revision that another manager has stored, and that does not record the selector yet. Revisions that
    this plan stores always record it.
    """
    stored = _store_revision(choice, namespace=workload.namespace)
    if stored is not None:
        return [Stage(purpose=Purpose.STORE_REVISION, chains=(stored,))]
    if unrecorded is None:
        return []
    chain = _record_selector(unrecorded, read_selector(workload))
    return [Stage(purpose=Purpose.RECORD_SELECTOR, chains=(chain,))]


def _store_revision(choice: UpdateChoice, *, namespace: str) -> Chain | None:
    """Return the write that stores the update revision; None if it is stored correctly."""
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
        because = "the template equals that of an older revision"
    else:
        return None
    return Chain(subject=choice.revision.name, steps=(Step(action=action, because=because),))


def _record_selector(revision: RevisionView, selector: Mapping[str, Any]) -> Chain:
    """Return the write that records the selector in a revision of another manager."""
    body = {"metadata": {"annotations": record_of(selector)}}
    return _patch_revision(
        revision,
        body,
        PatchType.MERGE,
        because="it records spec.selector, so that a later change of the selector is noticed",
    )


def delete_revision(revision: RevisionView, because: str) -> Chain:
    """Return the deletion of a revision."""
    action = delete_object(CONTROLLER_REVISIONS, revision)
    return Chain(subject=revision.name, steps=(Step(action=action, because=because),))


def _patch_revision(revision: RevisionView, body: Document, patch_type: PatchType, *, because: str) -> Chain:
    action = patch_object(CONTROLLER_REVISIONS, revision, body, patch_type=patch_type)
    return Chain(subject=revision.name, steps=(Step(action=action, because=because),))
