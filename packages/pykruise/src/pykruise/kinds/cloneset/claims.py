"""The volume claims of a CloneSet's pods, decided once per plan.

CloneSetSnapshot + update revision ──▶ plan_claims() ──▶ ClaimPlan
    new_pods ──▶ scale.py creates pods            with_claims() ──▶ deletions.py deletes pods
    clean_up, handed_over, keeping ──▶ plan.py

Pure; pods/workload/claims.py builds the names, documents and hashes of claims. When the CloneSet deletes a pod, the
CloneSet also deletes the pod's claims. When a person deletes a pod, the claims are deleted too, unless `enablePVCReuse`
is on: then the pod's successor takes over the claims.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kinds.cloneset.snapshot import CloneSetView, ReadableCloneSet
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.kube.values.owners import build_owner_reference
from pykruise.plans.phases import DeletePod
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.view.names import IdSource, InstanceId, format_pod_name
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.claims import (
    ClaimView,
    build_claim_documents,
    format_claim_name,
    hash_templates,
    read_template_name,
)
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.actions import Create, delete_object, patch_object
from pykruise.runtime.plan import Chain, Note, Step
from pykruise.runtime.reasons import Reason

_KEEPS_CLAIMS: Final = Reason(
    Code.CLAIMS,
    "keeps its claims: spec.volumeClaimTemplates changed after the pod's revision was stored, and the change applies "
    "to pods that are created afterwards",
    "recreate the pods (label apps.kruise.io/specified-delete) to give them new claims",
)


class NewPod(msgspec.Struct, frozen=True, kw_only=True):
    """The id and the claims of a pod to create."""

    instance_id: InstanceId
    claim_names: Mapping[str, str]
    """Name of each volumeClaimTemplate → name of the pod's claim."""
    missing: tuple[Step, ...]
    """Steps that create the claims that do not exist yet, before the pod is created."""


class CleanUp(msgspec.Struct, frozen=True, kw_only=True):
    """The write to a claim without an active pod, or to a claim whose pod should be deleted but was kept."""

    chain: Chain
    staying_pod: str = ""
    """Name of the pod that was kept. A plan that writes to this pod does not write to the claim."""


class ClaimPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions about the claims of a CloneSet's pods."""

    new_pods: Sequence[NewPod] = ()
    """Pods to create, sorted by id. There are fewer than requested if a new pod must wait until the terminating pod
    with the same id has ended.
    """
    awaited: Sequence[InstanceId] = ()
    """Ids for new pods that cannot be created yet, because the old pod with this id is terminating."""
    of_pods: Mapping[InstanceId, Sequence[ClaimView]] = {}
    """Id of each pod → its claims, sorted by name."""
    is_reused: bool = False
    """Whether a new pod takes over the claims of a pod that a person deleted."""
    clean_up: Sequence[CleanUp] = ()
    """Writes to claims, sorted by the name of the claim."""
    handed_over: Mapping[str, tuple[Step, ...]] = {}
    """Name of each released pod → the writes that make this pod the owner of its claims."""
    keeping: Mapping[str, Reason] = {}
    """Name of each pod that keeps its claims although volumeClaimTemplates changed → the reason."""

    def with_claims(self, deletion: DeletePod) -> DeletePod:
        """Return the deletion with further writes: after the pod, its claims are deleted.

        If a successor could take over the claims, an annotation of the claims first records that they will be deleted.
        """
        pod = deletion.pod
        claims = [
            claim for claim in self.of_pods.get(InstanceId(pod.instance_id), ()) if not claim.is_deleting
        ]
        because = f"it is deleted together with its pod {pod.name}"
        announced = (claim for claim in claims if self.is_reused and claim.leaves_with != pod.uid)
        return msgspec.structs.replace(
            deletion,
            before=tuple(_build_mark_step(claim, pod.uid, because=because) for claim in announced),
            after=tuple(_delete_step(claim, because=f"its pod {pod.name} was deleted") for claim in claims),
        )


def plan_claims(
    snapshot: ReadableCloneSet,
    update: RevisionView,
    *,
    count: int,
    matching: Sequence[PodView],
    mismatched: Iterable[PodView],
) -> ClaimPlan:
    """Decide about the claims of `count` new pods, of the active pods that match the selector (`matching`), and of the
    `mismatched` pods, which are released.
    """
    spec = snapshot.cloneset.spec
    of_pods: dict[InstanceId, list[ClaimView]] = {}
    for claim in sorted(snapshot.claims, key=lambda claim: claim.name):
        if claim.instance_id:
            of_pods.setdefault(claim.instance_id, []).append(claim)
    clean_up = _finish_deletions if spec.reuses_claims else _clean_up_unused
    handed_over = {
        pod.name: tuple(
            _hand_over_step(snapshot.cloneset, claim, pod)
            for claim in snapshot.claims
            if pod.instance_id and claim.instance_id == pod.instance_id and not claim.is_deleting
        )
        for pod in mismatched
    }
    choice = _choose_ids(snapshot, count) if count > 0 else IdChoice()
    new_pods = [
        _build_new_pod(snapshot, instance_id, of_pods.get(instance_id, ())) for instance_id in choice.ids
    ]
    recorded = update.annotations.get(keys.CLAIM_TEMPLATES_HASH_ANNOTATION)
    is_keeping = of_pods and recorded not in (None, hash_templates(spec.volume_claim_templates))
    return ClaimPlan(
        new_pods=new_pods,
        awaited=choice.awaited,
        of_pods=of_pods,
        is_reused=spec.reuses_claims,
        clean_up=list(clean_up(snapshot)) if snapshot.claims else (),
        handed_over=handed_over,
        keeping={pod.name: _KEEPS_CLAIMS for pod in matching if pod.instance_id in of_pods}
        if is_keeping
        else {},
    )


# Ids of new pods


class IdChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The ids that new pods get."""

    ids: tuple[InstanceId, ...] = ()
    """Sorted ids; possibly fewer than requested."""
    awaited: tuple[InstanceId, ...] = ()
    """Ids for new pods that cannot be created yet, because the old pod with this id is terminating."""


def _choose_ids(snapshot: ReadableCloneSet, count: int) -> IdChoice:
    active = _index_active_pods(snapshot)
    departing = {claim.instance_id for claim in snapshot.claims if _is_departing(claim, active)}
    return choose_ids(
        count,
        claims=[claim for claim in snapshot.claims if claim.instance_id not in departing]
        if snapshot.cloneset.spec.reuses_claims
        else (),
        active={pod.instance_id for pod in snapshot.pods if not pod.is_deleting},
        terminating={pod.instance_id for pod in snapshot.pods if pod.is_deleting},
        finished=snapshot.occupied_ids,
        source=snapshot.ids,
        taken={claim.instance_id for claim in snapshot.claims},
    )


def choose_ids(
    count: int,
    *,
    claims: Iterable[ClaimView],
    active: Collection[str],
    terminating: Collection[str],
    finished: Collection[str],
    source: IdSource,
    taken: Collection[str] = (),
) -> IdChoice:
    """Choose ids for `count` new pods: first ids whose claims have no pod, then new ids.

    `claims`: the CloneSet's claims that new pods can take over. `active`, `terminating`: ids of the CloneSet's pods. If
    the pod of a claim is terminating, the new pod waits until it has ended: with another id, the new pod could not take
    over the claim. `finished`: ids whose pod name may never be free again; a new pod gets another id. `taken`:
    further ids that new pods must not get, because claims with these ids exist.
    """
    by_id: dict[InstanceId, list[ClaimView]] = {}
    for claim in claims:
        if claim.instance_id:
            by_id.setdefault(claim.instance_id, []).append(claim)
    # A claim that is being deleted cannot be used again, and its name cannot be used yet.
    whole = {name for name, group in by_id.items() if not any(claim.is_deleting for claim in group)}
    unused = sorted(whole - set(active) - set(finished))
    reused = [name for name in unused if name not in set(terminating)][: max(count, 0)]
    awaited = [name for name in unused if name in set(terminating)][: max(count - len(reused), 0)]
    fresh = source.draw_ids(
        max(count - len(reused) - len(awaited), 0), used={*by_id, *active, *terminating, *finished, *taken}
    )
    return IdChoice(ids=tuple(sorted([*reused, *fresh])), awaited=tuple(awaited))


def _build_new_pod(
    snapshot: ReadableCloneSet, instance_id: InstanceId, present: Iterable[ClaimView]
) -> NewPod:
    owner, spec = snapshot.cloneset, snapshot.cloneset.spec
    templates = spec.volume_claim_templates
    if not templates:
        return NewPod(instance_id=instance_id, claim_names={}, missing=())
    documents = build_claim_documents(
        templates,
        owner=owner.name,
        namespace=owner.namespace,
        suffix=instance_id,
        labels={**(spec.selector.match_labels or {}), keys.INSTANCE_ID_LABEL: instance_id},
        owner_references=[owner.owner_reference],
    )
    names = {claim.name for claim in present}
    pod = format_pod_name(owner.name, instance_id)
    return NewPod(
        instance_id=instance_id,
        claim_names={
            name: format_claim_name(name, owner=owner.name, suffix=instance_id)
            for name in map(read_template_name, templates)
        },
        missing=tuple(
            _create_step(document, pod=pod)
            for document in documents
            if document["metadata"]["name"] not in names
        ),
    )


# Claims whose pod was deleted, or should be deleted but was kept


def _index_active_pods(snapshot: ReadableCloneSet) -> dict[str, str]:
    """Uid → name of each active pod."""
    return {pod.uid: pod.name for pod in snapshot.pods if pod.is_active}


def _is_departing(claim: ClaimView, active_uids: Collection[str]) -> bool:
    """Whether the CloneSet has already deleted the claim's pod, and must still delete the claim."""
    return bool(claim.leaves_with) and claim.leaves_with not in active_uids and not claim.is_deleting


def _finish_deletions(snapshot: ReadableCloneSet) -> Iterator[CleanUp]:
    """Yield the writes that finish an interrupted deletion of a pod and its claims. If the pod was not deleted, remove
    the mark from the claims.
    """
    active = _index_active_pods(snapshot)
    for claim in sorted(snapshot.claims, key=lambda claim: claim.name):
        if _is_departing(claim, active):
            step = _delete_step(claim, because="its pod was deleted, so the claim must be deleted too")
            yield CleanUp(chain=Chain(subject=claim.name, steps=(step,)))
        elif claim.leaves_with and not claim.is_deleting:
            step = _build_mark_step(claim, None, because="its pod stays, so the claim stays too")
            pod = active[claim.leaves_with]
            yield CleanUp(chain=Chain(subject=claim.name, steps=(step,)), staying_pod=pod)


def _clean_up_unused(snapshot: ReadableCloneSet) -> Iterator[CleanUp]:
    """Yield the writes to claims that no new pod takes over. A claim of a finished or terminating pod becomes a
    dependent of this pod; a claim without a pod is deleted.

    A claim without an id was not created by this module, and is kept.
    """
    active = {pod.instance_id for pod in snapshot.pods if pod.is_active}
    inactive = {pod.instance_id: pod for pod in snapshot.pods if not pod.is_active}
    for claim in sorted(snapshot.claims, key=lambda claim: claim.name):
        if claim.is_deleting or not claim.instance_id or claim.instance_id in active:
            continue
        pod = inactive.get(claim.instance_id)
        if pod is not None:
            step = _hand_over_step(snapshot.cloneset, claim, pod)
        else:
            step = _delete_step(claim, because="its pod was deleted, and no new pod may use the claim")
        yield CleanUp(chain=Chain(subject=claim.name, steps=(step,)))


# Writes


def _create_step(document: Document, *, pod: str) -> Step:
    key = Key(document["metadata"]["namespace"], document["metadata"]["name"])
    return Step(
        action=Create(resource=PERSISTENT_VOLUME_CLAIMS, key=key, body=document),
        because=f"pod {pod} mounts it",
        failed=Note(reason="FailedCreate", message="failed to create a claim", warning=True),
    )


def _build_mark_step(claim: ClaimView, pod_uid: str | None, *, because: str) -> Step:
    """Mark a claim that will be deleted with the pod of this uid; None removes the mark.

    A pod and its claim cannot be deleted in one write. If the manager stops between the two writes, the mark tells the
    next reconcile to delete the claim, instead of using it for the pod's successor.
    """
    patch = {"metadata": {"annotations": {keys.LEAVES_WITH_ANNOTATION: pod_uid}}}
    return Step(
        action=patch_object(PERSISTENT_VOLUME_CLAIMS, claim, patch),
        because=because,
        failed=Note(
            reason="FailedUpdate",
            message=f"failed to update annotation {keys.LEAVES_WITH_ANNOTATION} of claim {claim.name}",
            warning=True,
        ),
    )


def _delete_step(claim: ClaimView, *, because: str) -> Step:
    return Step(
        action=delete_object(PERSISTENT_VOLUME_CLAIMS, claim),
        because=because,
        failed=Note(reason="FailedDelete", message=f"failed to delete claim {claim.name}", warning=True),
    )


def _hand_over_step(cloneset: CloneSetView, claim: ClaimView, pod: PodView) -> Step:
    """Make the pod the controlling owner of the claim, instead of the CloneSet. So no successor takes over the
    claim.
    """
    owner = build_owner_reference(api_version=PODS.api_version, kind=PODS.kind, name=pod.name, uid=pod.uid)
    owners = [{"$patch": "delete", "uid": cloneset.uid}, owner]
    return Step(
        action=patch_object(
            PERSISTENT_VOLUME_CLAIMS,
            claim,
            {"metadata": {"uid": claim.uid, "ownerReferences": owners}},
            patch_type=PatchType.STRATEGIC,
        ),
        because=f"it is deleted with its pod {pod.name}",
        failed=Note(
            reason="FailedUpdate",
            message=f"failed to hand claim {claim.name} over to pod {pod.name}",
            warning=True,
        ),
    )
