"""Generic ephemeral volumes: each has a claim that lives as long as its pod.

pod with `ephemeral` volumes ──▶ plan_claims() ──▶ POST persistentvolumeclaims/<pod>-<volume>, owned by the pod

The claim is bound like other claims, and the garbage collector deletes it after the pod. If a claim of that name has
another owner, the claim is not changed, the pod waits, and an event reports this. This is the rule of Kubernetes'
ephemeral volume controller.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.cache.cache import Change
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.kube.values.owners import build_owner_reference
from pykruise.runtime.control import Control, is_same_object
from pykruise.runtime.objects import DocumentView, project_document
from pykruise.runtime.operator import Work
from pykruise.runtime.plan import Note, Plan, Step
from pykruise.runtime.read import Around, Read
from pykruise.runtime.wakes import Wake
from pykruise.sandbox.controllers.pods import BY_CLAIM, POD_VIEWS, make_document_views
from pykruise.sandbox.controllers.steps import CREATE, create_object, make_warning_note, run_each
from pykruise.sandbox.controllers.volume_choice import describe_foreign_claim
from pykruise.sandbox.pod_view import SandboxPodView

CLAIM_VIEWS: Final = make_document_views(PERSISTENT_VOLUME_CLAIMS)


class EphemeralVolumeSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision about the ephemeral volumes of one pod needs."""

    pod: SandboxPodView
    volumes: tuple[Document, ...]
    """Ephemeral volumes of the pod's spec."""
    claims: Mapping[str, DocumentView]
    """Existing claims of these volumes, by name."""
    now: Instant


async def read_snapshot(pod: SandboxPodView, read: Read[Any]) -> EphemeralVolumeSnapshot | None:
    """Read the pod's volumes from the API server, because the cached pods do not have all fields."""
    if pod.is_deleting or not pod.own_claims:
        return None
    try:
        document = project_document(await read.live.get(PODS, pod.namespace, pod.name))
    except NotFoundError:
        return None
    if document.uid != pod.uid:
        return None
    there = (read.get(CLAIM_VIEWS, Key(pod.namespace, name)) for name in pod.own_claims)
    return EphemeralVolumeSnapshot(
        pod=pod,
        volumes=tuple(
            volume for volume in document.spec.get("volumes") or () if volume.get("ephemeral") is not None
        ),
        claims={claim.name: claim for claim in there if claim is not None},
        now=read.now(),
    )


def plan_claims(snapshot: EphemeralVolumeSnapshot) -> Plan:
    """Create the missing claims, and report each volume whose claim belongs to another owner."""
    pod = snapshot.pod
    steps: list[tuple[str, Step]] = []
    notes: list[Note] = []
    for volume in snapshot.volumes:
        name = f"{pod.name}-{volume['name']}"
        known = snapshot.claims.get(name)
        if known is None:
            steps.append((name, _create_claim(pod, name, volume)))
        elif why := describe_foreign_claim(known, pod):
            notes.append(make_warning_note("FailedBinding", f"ephemeral volume {volume['name']}: {why}"))
    return Plan(stages=run_each(CREATE, steps), notes=tuple(notes))


def _create_claim(pod: SandboxPodView, name: str, volume: Document) -> Step:
    return create_object(
        PERSISTENT_VOLUME_CLAIMS,
        pod.namespace,
        _build_claim(pod, name, volume),
        because="the pod's ephemeral volume needs it",
        failed=make_warning_note("FailedBinding", f"ephemeral volume {volume['name']}: create PVC {name}"),
    )


def _build_claim(pod: SandboxPodView, name: str, volume: Document) -> Document:
    template: dict[str, Any] = volume["ephemeral"].get("volumeClaimTemplate") or {}
    own = template.get("metadata") or {}
    owner = build_owner_reference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid)
    metadata = {field: own[field] for field in ("labels", "annotations") if own.get(field)}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {**metadata, "name": name, "ownerReferences": [owner]},
        "spec": deep_copy(template.get("spec") or {}),
    }


def _enqueue_new_pods(change: Change[SandboxPodView], _: Around[Any]) -> tuple[Key, ...]:
    return (change.key,) if change.old is None and change.new is not None and change.new.own_claims else ()


def _enqueue_pods_of_claim(change: Change[DocumentView], around: Around[Any]) -> Iterator[Key]:
    """Enqueue the pods that use a deleted claim."""
    if change.new is None:
        for pod in around.list_by_index(POD_VIEWS, BY_CLAIM, (change.key.namespace, change.key.name)):
            yield pod.key


WORK: Final = Work(
    resource=PODS,
    control=Control(
        name="ephemeral-volumes",
        component="ephemeral_volume",
        objects=POD_VIEWS,
        reads=lambda _: (CLAIM_VIEWS,),
        wakes=lambda _: (
            Wake(on=POD_VIEWS, keys=_enqueue_new_pods),
            Wake(on=CLAIM_VIEWS, keys=_enqueue_pods_of_claim),
        ),
        snapshot=read_snapshot,
        object_of=lambda snapshot: snapshot.pod,
        plan=plan_claims,
        is_current=is_same_object,
    ),
)
