"""The volume claims of a CloneSet's pods: which ids pods get, and what is written besides the pods.

Snapshot ──▶ clean_up_stages() ──▶ claims without a pod go, claims of a pod on its way out go with it
CloneSetWorkingSet ──▶ ids_of_new_pods(), claims_to_create(), with_claims() ──▶ scale.py creates pods
           └─▶ claims_to_delete() ──▶ phase.py deletes pods
           └─▶ claims_to_hand_over() ──▶ plan.py releases pods

Pure; the rules for one claim are pods/workload/claims.py. A pod that the CloneSet deletes takes its claims along. One
that is deleted by hand leaves them to its successor when `enablePVCReuse` is on, else takes them along too.
"""

from collections.abc import Collection, Mapping
from typing import Final

from pykruise.kinds.cloneset.snapshot import CloneSetSnapshot, CloneSetView
from pykruise.kinds.cloneset.types import CloneSetSpec
from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS
from pykruise.plans.phases import stage_of
from pykruise.plans.purposes import Purpose
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.view.names import InstanceId
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.claims import (
    ClaimFate,
    ClaimView,
    CleanUp,
    IdChoice,
    choose_ids,
    claim_documents,
    claim_name,
    claims_of,
    clean_up,
    hand_over_patch,
    leave_with_patch,
    leaving,
    missing_claims,
    template_name,
    templates_hash,
    with_claim_volumes,
)
from pykruise.runtime.actions import Create, delete_object, patch_object
from pykruise.runtime.plan import Chain, Note, Stage, Step
from pykruise.runtime.reasons import Reason

_KEEPS_CLAIMS: Final = Reason(
    Code.CLAIMS,
    "keeps its claims: spec.volumeClaimTemplates changed after its revision was stored, and counts for pods that are "
    "created from then on",
    "recreate the pods (label apps.kruise.io/specified-delete) to have new ones",
)

# Ids


def ids_of_new_pods(ws: CloneSetWorkingSet, count: int) -> IdChoice:
    """Ids of `count` new pods; fewer when the last pod of a leftover claim still terminates."""
    snapshot = ws.snapshot
    follow = {claim.instance_id for claim in _leaving(snapshot)}
    return choose_ids(
        count,
        claims=[claim for claim in snapshot.claims if claim.instance_id not in follow]
        if ws.spec.reuses_claims
        else (),
        active={pod.instance_id for pod in snapshot.pods if not pod.is_deleting},
        terminating={pod.instance_id for pod in snapshot.pods if pod.is_deleting},
        finished=snapshot.occupied_ids,
        source=snapshot.ids,
        taken={claim.instance_id for claim in snapshot.claims},
    )


# With a new pod


def claims_to_create(ws: CloneSetWorkingSet, instance_id: InstanceId) -> tuple[Step, ...]:
    """The claims that a new pod of this id lacks, to be made before it."""
    templates = ws.spec.volume_claim_templates
    if not templates:
        return ()
    owner = ws.snapshot.cloneset
    wanted = claim_documents(
        templates,
        owner=owner.name,
        namespace=owner.namespace,
        suffix=instance_id,
        labels={**(ws.spec.selector.match_labels or {}), keys.INSTANCE_ID_LABEL: instance_id},
        owner_references=[owner.owner_reference],
    )
    return tuple(
        _create_step(document, pod=f"{owner.name}-{instance_id}")
        for document in missing_claims(wanted, ws.claims.get(instance_id, ()))
    )


def _create_step(document: Document, *, pod: str) -> Step:
    name = document["metadata"]["name"]
    key = Key(document["metadata"]["namespace"], name)
    return Step(
        action=Create(resource=PERSISTENT_VOLUME_CLAIMS, key=key, body=document),
        because=f"pod {pod} mounts it",
        failed=Note(reason="FailedCreate", message="failed to create a claim", warning=True),
    )


def with_claims(ws: CloneSetWorkingSet, pod_spec: Document, instance_id: InstanceId) -> Document:
    """The pod's spec with its claims as volumes. The spec that is given stays as it is."""
    names = map(template_name, ws.spec.volume_claim_templates or ())
    owner = ws.snapshot.cloneset.name
    return with_claim_volumes(
        pod_spec, {name: claim_name(name, owner=owner, suffix=instance_id) for name in names}
    )


# With a pod that goes


def claims_to_announce(ws: CloneSetWorkingSet, pod: PodView) -> tuple[Step, ...]:
    """Announcement before the deletion of a pod whose claims a successor could take over: they are deleted too."""
    if not ws.spec.reuses_claims:
        return ()  # no pod would take them over: cleaning up ends what was begun
    claims = claims_of(ws.claims.get(InstanceId(pod.instance_id), ()), pod.instance_id)
    return tuple(
        _leave_step(claim, pod.uid, because=f"it is deleted together with its pod {pod.name}")
        for claim in claims
        if claim.leaves_with != pod.uid
    )


def _leave_step(claim: ClaimView, pod_uid: str | None, *, because: str) -> Step:
    return Step(
        action=patch_object(PERSISTENT_VOLUME_CLAIMS, claim, leave_with_patch(pod_uid)),
        because=because,
        failed=Note(reason="FailedUpdate", message=f"failed to mark claim {claim.name}", warning=True),
    )


def claims_to_delete(ws: CloneSetWorkingSet, pod: PodView) -> tuple[Step, ...]:
    """The claims that go with a pod which the CloneSet deletes; to be deleted after it, never before."""
    claims = claims_of(ws.claims.get(InstanceId(pod.instance_id), ()), pod.instance_id)
    return tuple(_delete_step(claim, because=f"its pod {pod.name} was deleted") for claim in claims)


def _delete_step(claim: ClaimView, *, because: str) -> Step:
    return Step(
        action=delete_object(PERSISTENT_VOLUME_CLAIMS, claim),
        because=because,
        failed=Note(reason="FailedDelete", message=f"failed to delete claim {claim.name}", warning=True),
    )


def claims_to_hand_over(snapshot: CloneSetSnapshot, pod: PodView) -> tuple[Step, ...]:
    """The claims of an active pod that is released: its own from now on, or its successor would want them."""
    return tuple(
        _hand_over_step(snapshot.cloneset, claim, pod=pod.name, pod_uid=pod.uid)
        for claim in claims_of(snapshot.claims, pod.instance_id)
    )


def _hand_over_step(cloneset: CloneSetView, claim: ClaimView, *, pod: str, pod_uid: str) -> Step:
    return Step(
        action=patch_object(
            PERSISTENT_VOLUME_CLAIMS,
            claim,
            hand_over_patch(owner_uid=cloneset.uid, pod=pod, pod_uid=pod_uid, uid=claim.uid),
            patch_type=PatchType.STRATEGIC,
        ),
        because=f"it is deleted with its pod {pod}",
        failed=Note(
            reason="FailedUpdate",
            message=f"failed to hand claim {claim.name} over to pod {pod}",
            warning=True,
        ),
    )


# Without a pod


def _leaving(snapshot: CloneSetSnapshot) -> list[ClaimView]:
    active = {pod.uid for pod in snapshot.pods if pod.is_active}
    return leaving(snapshot.claims, active_uids=active)


def clean_up_stages(
    snapshot: CloneSetSnapshot, spec: CloneSetSpec, *, touched: Collection[str]
) -> tuple[Stage, ...]:
    """Stages for claims that no active pod mounts. `touched`: names of pods that are written to."""
    if not snapshot.claims:
        return ()
    chains = _finishing(snapshot, touched) if spec.reuses_claims else _without_reuse(snapshot)
    return stage_of(Purpose.CLEAN_UP_CLAIMS, chains)


def _finishing(snapshot: CloneSetSnapshot, touched: Collection[str]) -> tuple[Chain, ...]:
    """Deletions of pods with their claims that were interrupted: ended, or taken back when the pod stayed."""
    stayed = {pod.uid for pod in snapshot.pods if pod.name not in touched}
    gone = {claim.uid for claim in _leaving(snapshot)}
    steps = {
        claim.name: _delete_step(claim, because="its pod was deleted, and it was to go too")
        if claim.uid in gone
        else _leave_step(claim, None, because="its pod is not deleted after all")
        for claim in sorted(snapshot.claims, key=lambda claim: claim.name)
        if claim.uid in gone or (claim.leaves_with in stayed and not claim.is_deleting)
    }
    return tuple(Chain(subject=name, steps=(step,)) for name, step in steps.items())


def _without_reuse(snapshot: CloneSetSnapshot) -> tuple[Chain, ...]:
    active = {pod.instance_id for pod in snapshot.pods if pod.is_active}
    inactive: Mapping[str, tuple[str, str]] = {
        pod.instance_id: (pod.name, pod.uid) for pod in snapshot.pods if not pod.is_active
    }
    fates = clean_up(snapshot.claims, active=active, inactive=inactive)
    return tuple(
        Chain(subject=fate.claim.name, steps=(_clean_up_step(snapshot.cloneset, fate),))
        for fate in sorted(fates, key=lambda fate: fate.claim.name)
        if fate.fate is not ClaimFate.KEEP
    )


def _clean_up_step(cloneset: CloneSetView, fate: CleanUp) -> Step:
    if fate.fate is ClaimFate.HAND_OVER:
        return _hand_over_step(cloneset, fate.claim, pod=fate.pod, pod_uid=fate.pod_uid)
    return _delete_step(fate.claim, because="its pod is deleted, and claims are not reused")


# What people ask about


def keeping_their_claims(ws: CloneSetWorkingSet, *, touched: Collection[str]) -> dict[str, Reason]:
    """Pods that stay as they are although the claim templates changed, by name, with the reason."""
    recorded = ws.update.annotations.get(keys.CLAIM_TEMPLATES_HASH_ANNOTATION)
    if recorded is None or recorded == templates_hash(ws.spec.volume_claim_templates):
        return {}
    return {
        pod.name: _KEEPS_CLAIMS for pod in ws.pods if pod.instance_id in ws.claims and pod.name not in touched
    }
