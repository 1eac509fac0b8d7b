"""The PVCs of a StatefulSet's pods: made before them, and owned by what they are to be deleted with.

StatefulSetWorkingSet + ordinal ──▶ claims_to_create() ──▶ steps before a pod's creation, or what it waits for
                     ──▶ owner_steps()     ──▶ owner references that persistentVolumeClaimRetentionPolicy wants

Pure. No claim is deleted here: garbage collection does it, by the owners that a claim has. A claim that exists
is never reshaped here (expansion.py lets it grow).
"""

from typing import Any, Final

from pykruise.kinds.statefulset.types import ADVANCED_STATEFUL_SETS, Retention
from pykruise.kinds.statefulset.working_set import Slot, StatefulSetWorkingSet
from pykruise.kube.documents import Document
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS
from pykruise.kube.values.owners import owner_reference
from pykruise.pods.reasons import Code
from pykruise.pods.view.owners import pod_reference
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.claims import (
    ClaimView,
    OwnerFacts,
    claim_documents,
    claim_name,
    with_claim_volumes,
)
from pykruise.runtime.actions import Create, patch_object
from pykruise.runtime.plan import Note, Step
from pykruise.runtime.reasons import Reason

USES_CLAIM: Final = "see what still uses the claim, if that lasts"

_POD: Final = "Pod"


def claim_names(ws: StatefulSetWorkingSet, ordinal: int) -> dict[str, str]:
    """Claim template → name of the claim."""
    return {name: claim_name(name, owner=ws.name, suffix=str(ordinal)) for name in ws.spec.claim_names}


def with_claims(ws: StatefulSetWorkingSet, pod_spec: Document, ordinal: int) -> Document:
    """The pod's spec with its claims as volumes, in the order of the templates."""
    return with_claim_volumes(pod_spec, claim_names(ws, ordinal))


def lacks_volume(ws: StatefulSetWorkingSet, pod: PodView, ordinal: int) -> bool:
    """Whether the pod does not mount a claim that its templates say it should: they changed after it was made."""
    # Of an orphan it is not known what it mounts.
    if not ws.spec.volume_claim_templates or pod.controller is None:
        return False
    mounted = dict(pod.claim_volumes)
    return any(mounted.get(volume) != claim for volume, claim in claim_names(ws, ordinal).items())


# Before a pod


def stale_claim(ws: StatefulSetWorkingSet, slot: Slot) -> str:
    """Name of a claim of a slot without a pod that is deleted with the last pod of this name; empty: none."""
    if not _policy(ws)[0]:
        return ""
    for claim in ws.claims_of(slot.ordinal):
        if any(owner.name == slot.name and owner.kind == _POD for owner in claim.owners):
            return claim.name
    return ""


def lacks_claim(ws: StatefulSetWorkingSet, ordinal: int) -> bool:
    """Whether a claim of the pod is not there, or on its way out."""
    present = [claim for claim in ws.claims_of(ordinal) if not claim.is_deleting]
    return len(present) < len(ws.spec.claim_names)


def claims_to_create(ws: StatefulSetWorkingSet, slot: Slot) -> tuple[tuple[Step, ...], Reason | None]:
    """Steps for the claims that the pod needs, and the reason for waiting.

    All that can be made are made, also when another one is still on its way out.
    """
    templates = ws.spec.volume_claim_templates
    if not templates:
        return (), None
    present = {claim.name: claim for claim in ws.claims_of(slot.ordinal)}
    wanted = claim_documents(
        templates,
        owner=ws.name,
        namespace=ws.namespace,
        suffix=str(slot.ordinal),
        labels=ws.spec.selector.match_labels or {},
        owner_references=[_set_reference(ws)] if _policy(ws)[1] else [],
    )
    steps = [
        _create_step(ws, entry, pod=slot.name) for entry in wanted if entry["metadata"]["name"] not in present
    ]
    for claim in present.values():
        # Before the pod comes: garbage collection would take the claim of its predecessor away under it.
        if slot.pod is None and not claim.is_deleting and (step := _owner_step(ws, claim, slot.name)):
            steps.append(step)
    leaving = [claim.name for claim in present.values() if claim.is_deleting]
    if not leaving:
        return tuple(steps), None
    message = f"waits until its old claim {leaving[0]} is gone"
    return tuple(steps), Reason(Code.CLAIM, message, USES_CLAIM)


def _create_step(ws: StatefulSetWorkingSet, document: Document, *, pod: str) -> Step:
    name = document["metadata"]["name"]
    return Step(
        action=Create(resource=PERSISTENT_VOLUME_CLAIMS, key=ws.key(name), body=document),
        because=f"pod {pod} mounts it",
        done=Note(reason="SuccessfulCreate", message=f"created claim {name} for pod {pod}"),
        failed=Note(
            reason="FailedCreate", message=f"failed to create claim {name} for pod {pod}", warning=True
        ),
    )


# Owners


def _policy(ws: StatefulSetWorkingSet) -> tuple[bool, bool]:
    """Whether claims go when the set shrinks, and when it is deleted. An unknown policy retains; so do all without the
    gate."""
    policy = ws.spec.persistent_volume_claim_retention_policy if ws.settings.auto_delete_claims else None
    known = ("", *Retention)
    if policy is None or policy.when_scaled not in known or policy.when_deleted not in known:
        return False, False
    return policy.when_scaled == Retention.DELETE, policy.when_deleted == Retention.DELETE


def _set_reference(ws: StatefulSetWorkingSet) -> Document:
    return owner_reference(
        api_version=ADVANCED_STATEFUL_SETS.api_version,
        kind=ADVANCED_STATEFUL_SETS.kind,
        name=ws.name,
        uid=ws.snapshot.statefulset.uid,
        controller=False,
        block_owner_deletion=False,
    )


def owner_steps(ws: StatefulSetWorkingSet, pod: PodView, *, is_surplus: bool) -> tuple[Step, ...]:
    """Patches of the pod's claims whose owners are not those that the policy wants."""
    surplus = pod if is_surplus else None
    result = (_owner_step(ws, claim, pod.name, surplus=surplus) for claim in ws.claims_of(ws.ordinal(pod)))
    return tuple(step for step in result if step is not None)


def _owner_step(
    ws: StatefulSetWorkingSet, claim: ClaimView, name: str, *, surplus: PodView | None = None
) -> Step | None:
    """The patch of one claim; None: its owners are right. Owners that are neither set nor pod are left alone.

    `name`: of the claim's pod. `surplus`: that pod, where it is to go.
    """
    if not ws.settings.auto_delete_claims:
        return None
    when_scaled, when_deleted = _policy(ws)
    wanted: list[Document] = []
    if surplus is not None and when_scaled:
        wanted.append(pod_reference(surplus))
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
        because=_because(wanted),
        failed=Note(
            reason="FailedUpdate", message=f"failed to set the owners of claim {claim.name}", warning=True
        ),
    )


def _because(wanted: list[Document]) -> str:
    owners = " and ".join(f"{entry['kind']} {entry['name']}" for entry in wanted)
    goes = f"it goes with {owners}" if owners else "it stays when its pod or the set is deleted"
    return f"persistentVolumeClaimRetentionPolicy: {goes}"


def _is_ours(owner: OwnerFacts, pod: str, uid: str) -> bool:
    """Whether the set wrote this owner: itself, or a pod of that name, whichever it was."""
    return owner.uid == uid or (owner.kind == _POD and owner.name == pod)
