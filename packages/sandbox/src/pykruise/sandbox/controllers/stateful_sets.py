"""StatefulSets: ordered pods with their own names and volumes.

StatefulSet + pods + claims + ControllerRevisions ──▶ read_snapshot() ──▶ plan_stateful_set(): the step that
stateful_set_plans.py decides, as claims and pods to create and to delete ──▶ status
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, get_path
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from pykruise.runtime.actions import Patch
from pykruise.runtime.control import Control
from pykruise.runtime.objects import DocumentView
from pykruise.runtime.operator import Work
from pykruise.runtime.ownership import ownership_of, plan_ownership
from pykruise.runtime.plan import Chain, Plan, Stage, Step
from pykruise.runtime.read import Read
from pykruise.runtime.wakes import wake_itself
from pykruise.sandbox.controllers import revisions
from pykruise.sandbox.controllers.pods import POD_VIEWS, make_document_views, pods_of, selector_of
from pykruise.sandbox.controllers.revisions import REVISION_LABEL, REVISION_VIEWS, History, template_of
from pykruise.sandbox.controllers.stateful_set_plans import (
    claims_of,
    compute_stateful_set_status,
    decide_next_step,
    ordinal_of,
    pod_of,
)
from pykruise.sandbox.controllers.steps import (
    CREATE,
    DELETE,
    create_object,
    delete_pod,
    make_normal_note,
    make_warning_note,
    run_each,
)
from pykruise.sandbox.pod_view import SandboxPodView

CLAIM_VIEWS: Final = make_document_views(PERSISTENT_VOLUME_CLAIMS)


class StatefulSetControllerSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision about one StatefulSet needs."""

    owner: DocumentView
    pods: Sequence[SandboxPodView]
    """Pods that the StatefulSet owns."""
    orphans: Sequence[SandboxPodView]
    """Pods in the StatefulSet's namespace that have no owner and the name of one of the set's pods (`web-0`)."""
    claims: Mapping[str, DocumentView]
    """Existing claims of the StatefulSet's current and future pods, by name."""
    history: History
    now: Instant

    @property
    def by_ordinal(self) -> dict[int, SandboxPodView]:
        """The StatefulSet's pods by ordinal."""
        result = ((ordinal_of(self.owner, pod.name), pod) for pod in self.pods)
        return {ordinal: pod for ordinal, pod in result if ordinal is not None}


async def read_snapshot(owner: DocumentView, read: Read[Any]) -> StatefulSetControllerSnapshot | None:
    """Read a snapshot from caches, without requests."""
    history = revisions.history_of(owner, read)
    if owner.is_deleting and not history.revisions:
        return None  # the pods stay as orphans, and none of them has the revision that would be created
    pods = read.list_owned(POD_VIEWS, owner.uid)
    orphans = read.list_orphans(POD_VIEWS, owner.namespace)
    return StatefulSetControllerSnapshot(
        owner=owner,
        pods=pods,
        orphans=[pod for pod in orphans if ordinal_of(owner, pod.name) is not None],
        claims={claim.name: claim for claim in _read_claims(owner, pods, read)},
        history=history,
        now=read.now(),
    )


def _read_claims(
    owner: DocumentView, pods: Iterable[SandboxPodView], read: Read[Any]
) -> Iterator[DocumentView]:
    templates = owner.spec.get("volumeClaimTemplates") or ()
    if not templates:
        return
    first = owner.count("spec", "ordinals", "start")
    wanted = {*range(first, first + owner.count("spec", "replicas", default=1))}
    wanted |= {ordinal for pod in pods if (ordinal := ordinal_of(owner, pod.name)) is not None}
    for template in templates:
        for ordinal in wanted:
            name = f"{template['metadata']['name']}-{owner.name}-{ordinal}"
            claim = read.get(CLAIM_VIEWS, Key(owner.namespace, name))
            if claim is not None:
                yield claim


def plan_stateful_set(snapshot: StatefulSetControllerSnapshot) -> Plan:
    """Adopt and release pods. Then store the template's revision, delete and create pods, and write the status."""
    owner, history = snapshot.owner, snapshot.history
    ownership = ownership_of(owner, selector_of(owner), snapshot.pods, snapshot.orphans)
    stages = plan_ownership(owner, STATEFUL_SETS, PODS, ownership)
    stages += revisions.plan_adoptions(owner, STATEFUL_SETS, history)
    if stages:
        return Plan(stages=stages)
    update = revisions.choose_revision(owner, STATEFUL_SETS, history)
    if update.is_taken:
        return Plan(status={**owner.status, "collisionCount": owner.count("status", "collisionCount") + 1})
    if owner.is_deleting and update.stages:
        return Plan()
    current = owner.status.get("currentRevision") or update.name
    if all(revision.name != current for revision in history.revisions):
        current = update.name
    pods, now = snapshot.by_ordinal, snapshot.now
    step = decide_next_step(owner, pods, current=current, update=update.name, now=now)
    status = compute_stateful_set_status(owner, pods, current=current, update=update.name, now=now)
    live = {status["currentRevision"], update.name, current}
    live |= {pod.labels.get(REVISION_LABEL, "") for pod in pods.values()}
    templates = {revision.name: template_of(revision) for revision in history.revisions}
    templates.setdefault(update.name, owner.spec["template"])
    create = tuple(
        _create_pod(snapshot, ordinal, templates[revision], revision) for ordinal, revision in step.create
    )
    return Plan(
        stages=(
            *update.stages,
            *run_each(DELETE, [(pod.name, _delete_pod(owner, pod)) for pod in step.delete]),
            *_build_stage(DELETE, tuple(_delete_condemned(snapshot, pod) for pod in step.condemned)),
            *_build_stage(CREATE, create, ramp=True),
            *revisions.plan_truncations(owner, history, live),
        ),
        status=status,
        requeue_after_s=None if step.look_at is None else max(0.0, step.look_at - now),
    )


def _build_stage(purpose: str, chains: tuple[Chain, ...], *, ramp: bool = False) -> tuple[Stage, ...]:
    return (Stage(purpose=purpose, chains=chains, ramp=ramp, is_independent=not ramp),) if chains else ()


def _create_pod(
    snapshot: StatefulSetControllerSnapshot, ordinal: int, template: Document, revision: str
) -> Chain:
    """Create the pod's missing claims, and then the pod."""
    owner = snapshot.owner
    name = f"{owner.name}-{ordinal}"
    text = f"create Pod {name} in StatefulSet {owner.name}"
    failed = make_warning_note("FailedCreate", f"{text} failed error")
    steps = [
        create_object(
            PERSISTENT_VOLUME_CLAIMS,
            owner.namespace,
            doc,
            because="the pod needs it",
            done=make_normal_note(
                "SuccessfulCreate",
                f"create Claim {doc['metadata']['name']} Pod {name} in StatefulSet {owner.name} success",
            ),
            failed=failed,
        )
        for doc in claims_of(owner, ordinal)
        if doc["metadata"]["name"] not in snapshot.claims
    ]
    pod = create_object(
        PODS,
        owner.namespace,
        pod_of(owner, template, ordinal, revision),
        because="the StatefulSet has no pod with this ordinal",
        done=make_normal_note("SuccessfulCreate", f"{text} successful"),
        failed=failed,
    )
    return Chain(subject=name, steps=(*steps, pod))


def _delete_condemned(snapshot: StatefulSetControllerSnapshot, pod: SandboxPodView) -> Chain:
    """Delete a pod beyond the set's size. With `whenScaled: Delete`, its claims are deleted with it."""
    owner = snapshot.owner
    steps: list[Step] = []
    if get_path(owner.spec, "persistentVolumeClaimRetentionPolicy", "whenScaled") == "Delete":
        ordinal = ordinal_of(owner, pod.name)
        assert ordinal is not None
        names = (doc["metadata"]["name"] for doc in claims_of(owner, ordinal))
        steps += [
            _give_claim_to_pod(pod, snapshot.claims[name], owner.uid)
            for name in names
            if name in snapshot.claims
        ]
    return Chain(subject=pod.name, steps=(*steps, _delete_pod(owner, pod)))


def _give_claim_to_pod(pod: SandboxPodView, claim: DocumentView, owner_uid: str) -> Step:
    """Make the pod the claim's owner instead of the set. With both owners, the claim would exist as long as the set."""
    references = [
        {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid},
        {"$patch": "delete", "uid": owner_uid},
    ]
    action = Patch(
        resource=PERSISTENT_VOLUME_CLAIMS,
        key=claim.key,
        patch_type=PatchType.STRATEGIC,
        body={"metadata": {"ownerReferences": references}},
        uid=claim.uid,
    )
    return Step(action=action, because="it must be deleted with its pod")


def _delete_pod(owner: DocumentView, pod: SandboxPodView) -> Step:
    text = f"delete Pod {pod.name} in StatefulSet {owner.name} successful"
    because = "another pod replaces it, or the StatefulSet no longer has its ordinal"
    return delete_pod(pod, because=because, done=make_normal_note("SuccessfulDelete", text))


STATEFUL_SET_VIEWS: Final = make_document_views(STATEFUL_SETS)

WORK: Final = Work(
    resource=STATEFUL_SETS,
    control=Control(
        name="statefulsets",
        component="statefulset-controller",
        objects=STATEFUL_SET_VIEWS,
        reads=lambda _: (POD_VIEWS, CLAIM_VIEWS, REVISION_VIEWS),
        wakes=lambda _: (wake_itself(STATEFUL_SET_VIEWS), *pods_of(STATEFUL_SETS)),
        snapshot=read_snapshot,
        object_of=lambda snapshot: snapshot.owner,
        plan=plan_stateful_set,
    ),
)
