"""The PVCs of a StatefulSet's pods: created before their pod, and owned by the objects with which they are deleted.

StatefulSetWorkingSet + ordinal ──▶ plan_claims() ──▶ steps before a pod's creation, or the reason to wait
                     ──▶ plan_owners()     ──▶ owner references that persistentVolumeClaimRetentionPolicy requires

Pure. This module deletes no claim: garbage collection deletes a claim when its owners no longer exist. It also never
changes the size of an existing claim (expansion.py does).
"""

from typing import Any, Final

from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS, Retention
from pykruise.kinds.statefulset.working_set import Slot, StatefulSetWorkingSet
from pykruise.kube.documents import Document
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS
from pykruise.kube.values.owners import build_owner_reference
from pykruise.pods.corrections import describe_holders, release_finalizers
from pykruise.pods.reasons import Code
from pykruise.pods.view.owners import build_pod_reference
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.claims import (
    ClaimView,
    OwnerFacts,
    add_claim_volumes,
    build_claim_documents,
    format_claim_name,
)
from pykruise.runtime.actions import Create, patch_object
from pykruise.runtime.plan import Note, Step
from pykruise.runtime.reasons import Reason

_USES_CLAIM: Final = "if that lasts, find out what still uses the claim"

_POD: Final = "Pod"


def format_claim_names(ws: StatefulSetWorkingSet, ordinal: int) -> dict[str, str]:
    """Name of the claim template → name of the claim."""
    return {name: format_claim_name(name, owner=ws.name, suffix=str(ordinal)) for name in ws.spec.claim_names}


def add_claims(ws: StatefulSetWorkingSet, pod_spec: Document, ordinal: int) -> Document:
    """Return the pod's spec with its claims as volumes, in the order of the templates."""
    return add_claim_volumes(pod_spec, format_claim_names(ws, ordinal))


def lacks_volume(ws: StatefulSetWorkingSet, pod: PodView, ordinal: int) -> bool:
    """Whether the pod lacks a claim of the current templates, because they changed after the pod was created."""
    # The claims that an orphan mounts are unknown.
    if not ws.spec.volume_claim_templates or pod.controller is None:
        return False
    mounted = dict(pod.claim_volumes)
    return any(mounted.get(volume) != claim for volume, claim in format_claim_names(ws, ordinal).items())


# Before a pod


def find_stale_claim(ws: StatefulSetWorkingSet, slot: Slot) -> ClaimView | None:
    """Return a claim that the previous pod of this slot owns and that still exists; None: there is no such claim."""
    if not _read_retention_policy(ws)[0]:
        return None
    for claim in ws.claims_of(slot.ordinal):
        if any(owner.name == slot.name and owner.kind == _POD for owner in claim.owners):
            return claim
    return None


def lacks_claim(ws: StatefulSetWorkingSet, ordinal: int) -> bool:
    """Whether a claim of the pod does not exist or is terminating."""
    present = [claim for claim in ws.claims_of(ordinal) if not claim.is_deleting]
    return len(present) < len(ws.spec.claim_names)


def plan_claims(ws: StatefulSetWorkingSet, slot: Slot) -> tuple[tuple[Step, ...], Reason | None]:
    """Return steps that create missing claims and correct the owners of existing claims, and the reason to wait.

    Every claim that can be created is created, even while another claim is still terminating.
    """
    templates = ws.spec.volume_claim_templates
    if not templates:
        return (), None
    present = {claim.name: claim for claim in ws.claims_of(slot.ordinal)}
    wanted = build_claim_documents(
        templates,
        owner=ws.name,
        namespace=ws.namespace,
        suffix=str(slot.ordinal),
        labels=ws.spec.selector.match_labels or {},
        owner_references=[_set_reference(ws)] if _read_retention_policy(ws)[1] else [],
    )
    steps = [
        _create_step(ws, entry, pod=slot.name) for entry in wanted if entry["metadata"]["name"] not in present
    ]
    for claim in present.values():
        # The owners must be corrected before the pod is created: otherwise garbage collection deletes the claim,
        # because its owner, the previous pod, no longer exists.
        if slot.pod is None and not claim.is_deleting and (step := _build_owner_step(ws, claim, slot.name)):
            steps.append(step)
    leaving = [claim for claim in present.values() if claim.is_deleting]
    if not leaving:
        return tuple(steps), None
    first = next((claim for claim in leaving if claim.finalizers), leaving[0])
    return tuple(steps), explain_leaving_claim(first, f"waits until its old claim {first.name} is deleted")


def explain_leaving_claim(claim: ClaimView, message: str) -> Reason:
    """Return the reason for a pod that waits for the deletion of a claim, with the finalizers that hold the claim."""
    if not (claim.is_deleting and claim.finalizers):
        return Reason(Code.CLAIM, message, _USES_CLAIM)
    return Reason(
        Code.FINALIZER,
        f"{message}; {describe_holders(claim.finalizers)} the claim",
        release_finalizers(claim.finalizers, f"PVC {claim.name}"),
    )


def _create_step(ws: StatefulSetWorkingSet, document: Document, *, pod: str) -> Step:
    name = document["metadata"]["name"]
    return Step(
        action=Create(resource=PERSISTENT_VOLUME_CLAIMS, key=ws.make_key(name), body=document),
        because=f"pod {pod} mounts it",
        done=Note(reason="SuccessfulCreate", message=f"created claim {name} for pod {pod}"),
        failed=Note(
            reason="FailedCreate", message=f"failed to create claim {name} for pod {pod}", warning=True
        ),
    )


# Owners


def _read_retention_policy(ws: StatefulSetWorkingSet) -> tuple[bool, bool]:
    """Whether claims are deleted when the set is scaled in, and when the set is deleted. An unknown policy retains
    claims, and so does every policy while the gate is off.
    """
    policy = ws.spec.persistent_volume_claim_retention_policy if ws.settings.auto_delete_claims else None
    known = ("", *Retention)
    if policy is None or policy.when_scaled not in known or policy.when_deleted not in known:
        return False, False
    return policy.when_scaled == Retention.DELETE, policy.when_deleted == Retention.DELETE


def _set_reference(ws: StatefulSetWorkingSet) -> Document:
    return build_owner_reference(
        api_version=ADVANCED_STATEFUL_SETS.api_version,
        kind=ADVANCED_STATEFUL_SETS.kind,
        name=ws.name,
        uid=ws.snapshot.statefulset.uid,
        controller=False,
        block_owner_deletion=False,
    )


def plan_owners(ws: StatefulSetWorkingSet, pod: PodView, *, is_surplus: bool) -> tuple[Step, ...]:
    """Patches for claims of the pod whose owners differ from those that the policy requires."""
    surplus = pod if is_surplus else None
    result = (
        _build_owner_step(ws, claim, pod.name, surplus=surplus)
        for claim in ws.claims_of(ws.read_ordinal(pod))
    )
    return tuple(step for step in result if step is not None)


def _build_owner_step(
    ws: StatefulSetWorkingSet, claim: ClaimView, name: str, *, surplus: PodView | None = None
) -> Step | None:
    """Build the patch of one claim; None: its owners are correct. Owners other than the set and its pod are not
    changed.

    `name`: name of the claim's pod. `surplus`: this pod if it is surplus, otherwise None.
    """
    if not ws.settings.auto_delete_claims:
        return None
    when_scaled, when_deleted = _read_retention_policy(ws)
    wanted: list[Document] = []
    if surplus is not None and when_scaled:
        wanted.append(build_pod_reference(surplus))
    elif when_deleted:
        wanted.append(_set_reference(ws))
    keep = {entry["uid"] for entry in wanted}
    uid = ws.snapshot.statefulset.uid
    wrong = [owner for owner in claim.owners if _is_ours(owner, name, uid) and owner.uid not in keep]
    missing = [entry for entry in wanted if entry["uid"] not in {owner.uid for owner in claim.owners}]
    if not wrong and not missing:
        return None
    body: dict[str, Any] = {
        "metadata": {
            "uid": claim.uid,
            "ownerReferences": [*({"$patch": "delete", "uid": owner.uid} for owner in wrong), *missing],
        }
    }
    return Step(
        action=patch_object(PERSISTENT_VOLUME_CLAIMS, claim, body, patch_type=PatchType.STRATEGIC),
        because=_describe_owners(wanted),
        failed=Note(
            reason="FailedUpdate", message=f"failed to set the owners of claim {claim.name}", warning=True
        ),
    )


def _describe_owners(wanted: list[Document]) -> str:
    owners = " and ".join(f"{entry['kind']} {entry['name']}" for entry in wanted)
    goes = f"it is deleted with {owners}" if owners else "it stays when its pod or the set is deleted"
    return f"persistentVolumeClaimRetentionPolicy: {goes}"


def _is_ours(owner: OwnerFacts, pod: str, uid: str) -> bool:
    """Whether the set wrote this owner reference: it refers to the set, or to a pod with this name."""
    return owner.uid == uid or (owner.kind == _POD and owner.name == pod)
