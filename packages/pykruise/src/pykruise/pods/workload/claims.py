"""Volume claims that belong to pods: made from templates, kept under the pod's id, reused or cleaned up.

templates + owner + id ──▶ claim_documents(), with_claim_volumes() ──▶ claims and a pod that mounts them
stored claims ──▶ ClaimView ──▶ choose_ids() (ids of new pods) and clean_up() (what becomes of the rest)
templates ──▶ templates_hash() ──▶ recorded with each revision

Pure. A claim outlives its pod when its owner keeps it for the next pod of the same id. The id is the only
bond: a claim without one belongs to no pod.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.resources import PODS
from pykruise.kube.values.go_text import go_json
from pykruise.kube.values.hashing import bytes_hash
from pykruise.kube.values.owners import owner_reference
from pykruise.kube.values.quantities import Quantity, format_quantity
from pykruise.pods.view import keys
from pykruise.pods.view.names import IdSource, InstanceId

RESIZE_PENDING: Final = "FileSystemResizePending"


# Claims as they are stored


class OwnerFacts(msgspec.Struct, frozen=True, gc=False):
    """One owner of a claim."""

    kind: str
    name: str
    uid: str


class ClaimView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One PersistentVolumeClaim. Empty text means absent."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    instance_id: InstanceId = InstanceId("")
    labels: Mapping[str, str] = {}
    controller_uid: str = ""
    is_deleting: bool = False
    phase: str = ""
    """`Pending`, `Bound` or `Lost`."""
    leaves_with: str = ""
    """Uid of the pod that the owner decided to delete with it: no other pod may have it."""
    owners: tuple[OwnerFacts, ...] = ()
    """All owners, managing or not, in their order."""
    storage_class: str | None = None
    """None: not said. Empty: a volume without a class."""
    access_modes: tuple[str, ...] = ()
    requested: int = 0
    """Storage that it asks for, in billionths of a byte; 0: none, or a quantity that cannot be read."""
    capacity: int = 0
    """Storage that it has, likewise."""
    grown_by: str = ""
    """Name of the StatefulSet that let it grow, and looks at it when it changes."""
    resize_pending_since: Instant | None = None
    """Since when its volume has grown and the file system has not (condition FileSystemResizePending)."""


class _Owner(msgspec.Struct, gc=False):
    uid: str = ""
    kind: str = ""
    name: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None
    deletion_timestamp: str | None = None


class _Resources(msgspec.Struct, gc=False):
    requests: dict[str, Any] | None = None


class _Spec(msgspec.Struct, gc=False, rename="camel"):
    storage_class_name: str | None = None
    access_modes: tuple[str, ...] | None = None
    resources: _Resources | None = None


class _Condition(msgspec.Struct, gc=False, rename="camel"):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _Status(msgspec.Struct, gc=False):
    phase: str | None = None
    capacity: dict[str, Any] | None = None
    conditions: tuple[_Condition, ...] | None = None


class _Claim(msgspec.Struct, gc=False):
    metadata: _Meta
    spec: _Spec | None = None
    status: _Status | None = None


_decode = msgspec.json.Decoder(_Claim).decode
_NO_SPEC: Final = _Spec()
_NO_STATUS: Final = _Status()


def project_claim(raw: bytes | msgspec.Raw) -> ClaimView:
    """The view of a claim's JSON text. Raises msgspec.DecodeError for anything that is no claim."""
    claim = _decode(raw)
    meta = claim.metadata
    labels = meta.labels or {}
    spec, status = claim.spec or _NO_SPEC, claim.status or _NO_STATUS
    owners = meta.owner_references or ()
    return ClaimView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version or 0),
        instance_id=InstanceId(labels.get(keys.INSTANCE_ID_LABEL, "")),
        labels=labels,
        controller_uid=next((owner.uid for owner in owners if owner.controller), ""),
        is_deleting=meta.deletion_timestamp is not None,
        phase=status.phase or "",
        leaves_with=(meta.annotations or {}).get(keys.LEAVES_WITH_ANNOTATION, ""),
        owners=tuple([OwnerFacts(owner.kind, owner.name, owner.uid) for owner in owners]),
        storage_class=spec.storage_class_name,
        access_modes=spec.access_modes or (),
        requested=storage_of(spec.resources.requests if spec.resources else None),
        capacity=storage_of(status.capacity),
        grown_by=(meta.annotations or {}).get(keys.OWNED_BY_STATEFULSET_ANNOTATION, ""),
        resize_pending_since=_resize_pending_since(status.conditions or ()),
    )


def storage_of(amounts: Mapping[str, Any] | None) -> int:
    """The storage among `requests` or `capacity`, in billionths of a byte; 0: none that can be read."""
    try:
        return Quantity.parse((amounts or {}).get("storage", 0)).nano
    except (TypeError, ValueError):
        return 0


def _resize_pending_since(conditions: Iterable[_Condition]) -> Instant | None:
    for condition in conditions:
        if condition.type == RESIZE_PENDING and condition.status == "True":
            return parse_time(condition.last_transition_time) if condition.last_transition_time else 0.0
    return None


# Making them


def claim_name(template: str, *, owner: str, suffix: str) -> str:
    """`<template>-<owner>-<suffix>`; the suffix is the pod's id, or its ordinal."""
    return f"{template}-{owner}-{suffix}"


def claim_documents(
    templates: Iterable[Mapping[str, Any]],
    *,
    owner: str,
    namespace: str,
    suffix: str,
    labels: Mapping[str, str],
    owner_references: Sequence[Mapping[str, Any]] = (),
) -> list[Document]:
    """The claims of one pod, in the order of the templates.

    `labels` (those of the owner's selector, and the id) go over those of a template. Annotations and spec are
    the template's.
    """
    return [
        _claim_document(
            template,
            name=claim_name(template_name(template), owner=owner, suffix=suffix),
            namespace=namespace,
            labels=labels,
            owner_references=owner_references,
        )
        for template in templates
    ]


def _claim_document(
    template: Mapping[str, Any],
    *,
    name: str,
    namespace: str,
    labels: Mapping[str, str],
    owner_references: Sequence[Mapping[str, Any]],
) -> Document:
    given = template.get("metadata") or {}
    metadata: Document = {
        "name": name,
        "namespace": namespace,
        "labels": {**(given.get("labels") or {}), **labels},
    }
    if given.get("annotations"):
        metadata["annotations"] = dict(given["annotations"])
    if given.get("finalizers"):
        metadata["finalizers"] = list(given["finalizers"])
    if owner_references:
        metadata["ownerReferences"] = [dict(reference) for reference in owner_references]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": deep_copy(template.get("spec") or {}),
    }


def with_claim_volumes(pod_spec: Mapping[str, Any], claims: Mapping[str, str]) -> Document:
    """The pod spec with a volume for each claim (template name → claim name).

    It takes the place of a volume of the same name; other volumes stay. Does not change its arguments.
    """
    if not claims:
        return dict(pod_spec)
    volumes = [
        {"name": template, "persistentVolumeClaim": {"claimName": claim}}
        for template, claim in claims.items()
    ]
    others = [volume for volume in pod_spec.get("volumes") or () if volume.get("name") not in claims]
    return {**pod_spec, "volumes": [*volumes, *others]}


def missing_claims(wanted: Iterable[Document], claims: Iterable[ClaimView]) -> list[Document]:
    """The wanted claims of a pod that are not there yet, in their order; to be made before the pod."""
    present = {claim.name for claim in claims}
    return [document for document in wanted if document["metadata"]["name"] not in present]


# Which ids new pods get


class IdChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Ids for new pods."""

    ids: tuple[InstanceId, ...]
    """Sorted; may be fewer than wanted."""
    waiting: tuple[InstanceId, ...] = ()
    """Ids that are wanted again, but whose last pod still terminates: its end is waited for."""


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
    """Ids of `count` new pods: first those whose claims wait for a pod, then fresh ones.

    `claims` are the owner's, if it reuses them, else none. `active`, `terminating` and `finished` (Failed or
    Succeeded) are the ids of the owner's pods. An id whose pod still terminates keeps its claim and its name
    busy: the new pod waits for it rather than to leave the claim behind. A finished pod may stay for ever, so
    another pod takes a fresh id. `taken`: further ids that no fresh one may be (of claims being cleaned up).
    """
    by_id: dict[InstanceId, list[ClaimView]] = {}
    for claim in claims:
        if claim.instance_id:
            by_id.setdefault(claim.instance_id, []).append(claim)
    # One that is being deleted cannot be used again, and its name is not free yet either.
    whole = {
        instance_id for instance_id, claims in by_id.items() if not any(claim.is_deleting for claim in claims)
    }
    unused = sorted(whole - set(active) - set(finished))
    reused = [instance_id for instance_id in unused if instance_id not in set(terminating)][: max(count, 0)]
    waiting = [instance_id for instance_id in unused if instance_id in set(terminating)][
        : max(count - len(reused), 0)
    ]
    fresh = source.fresh_ids(
        max(count - len(reused) - len(waiting), 0), used={*by_id, *active, *terminating, *finished, *taken}
    )
    return IdChoice(ids=tuple(sorted([*reused, *fresh])), waiting=tuple(waiting))


# What becomes of them


def claims_of(claims: Iterable[ClaimView], instance_id: str) -> list[ClaimView]:
    """The claims that go with a pod of this id when its owner deletes it; none for a pod without an id."""
    if not instance_id:
        return []
    return [claim for claim in claims if claim.instance_id == instance_id and not claim.is_deleting]


class ClaimFate(StrEnum):
    """Treatment of a claim that its owner does not reuse."""

    KEEP = "keep"
    """Its pod is active."""
    HAND_OVER = "hand over"
    """Its pod is on its way out and takes it along."""
    DELETE = "delete"
    """There is no such pod."""


class CleanUp(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of one claim."""

    claim: ClaimView
    fate: ClaimFate
    pod: str = ""
    """Name of the pod that it is handed over to."""
    pod_uid: str = ""


def clean_up(
    claims: Iterable[ClaimView],
    *,
    active: Collection[str],
    inactive: Mapping[str, tuple[str, str]],
) -> list[CleanUp]:
    """The fate of each of the owner's claims when it does not reuse them; those being deleted have none.

    `active`: ids of active pods. `inactive`: id → name and uid of a pod that still exists. A claim without an
    id was not made by this engine and is kept.
    """
    clean_ups: list[CleanUp] = []
    for claim in claims:
        if claim.is_deleting:
            continue
        if not claim.instance_id or claim.instance_id in active:
            clean_ups.append(CleanUp(claim=claim, fate=ClaimFate.KEEP))
        elif pod := inactive.get(claim.instance_id):
            clean_ups.append(CleanUp(claim=claim, fate=ClaimFate.HAND_OVER, pod=pod[0], pod_uid=pod[1]))
        else:
            clean_ups.append(CleanUp(claim=claim, fate=ClaimFate.DELETE))
    return clean_ups


def leave_with_patch(pod_uid: str | None) -> Document:
    """Merge patch that says with which pod a claim leaves; None: it stays after all.

    Pod and claim cannot be deleted in one write. The reconcile after a crash in between reads this, and does
    not hand the data of a pod that was to go to its successor.
    """
    return {"metadata": {"annotations": {keys.LEAVES_WITH_ANNOTATION: pod_uid}}}


def leaving(claims: Iterable[ClaimView], *, active_uids: Collection[str]) -> list[ClaimView]:
    """Claims whose pod their owner has deleted already, and which are still to follow it."""
    return [
        claim
        for claim in claims
        if claim.leaves_with and claim.leaves_with not in active_uids and not claim.is_deleting
    ]


def hand_over_patch(*, owner_uid: str, pod: str, pod_uid: str, uid: str) -> Document:
    """Strategic merge patch that makes a pod the managing owner of the claim with this `uid`."""
    reference = owner_reference(api_version=PODS.api_version, kind=PODS.kind, name=pod, uid=pod_uid)
    return {
        "metadata": {
            "uid": uid,
            "ownerReferences": [{"$patch": "delete", "uid": owner_uid}, reference],
        }
    }


# The hash of the templates


def templates_hash(templates: Sequence[Mapping[str, Any]] | None) -> str:
    """Hash of the claim templates in a revision: decimal, or empty without templates.

    Only names and specs count. The number is the one that a manager written in Go computes.
    """
    if not templates:
        return ""
    typed = [_typed_claim(template) for template in sorted(templates, key=template_name)]
    return str(bytes_hash(go_json(typed).encode()))


def template_name(template: Mapping[str, Any]) -> str:
    """The name of a claim template, and of the volume that it brings; empty: it has none."""
    return str((template.get("metadata") or {}).get("name") or "")


def _typed_claim(template: Mapping[str, Any]) -> Document:
    """The fields in the order of the typed object, with those that it always writes."""
    name = template_name(template)
    metadata: Document = {"name": name} if name else {}
    return {
        "metadata": {**metadata, "creationTimestamp": None},
        "spec": _typed_spec(template.get("spec") or {}),
        "status": {},
    }


def _typed_spec(spec: Mapping[str, Any]) -> Document:
    result: Document = {}
    if spec.get("accessModes"):
        result["accessModes"] = spec["accessModes"]
    if spec.get("selector") is not None:
        result["selector"] = _typed_selector(spec["selector"])
    resources = spec.get("resources") or {}
    result["resources"] = {
        bound: {name: _quantity(amount) for name, amount in sorted(resources[bound].items())}
        for bound in ("limits", "requests")
        if resources.get(bound)
    }
    if spec.get("volumeName"):
        result["volumeName"] = spec["volumeName"]
    # An empty class is not the same as none: it asks for a volume without one.
    for field in ("storageClassName", "volumeMode"):
        if spec.get(field) is not None:
            result[field] = spec[field]
    for field in ("dataSource", "dataSourceRef"):
        if spec.get(field) is not None:
            result[field] = _typed_source(spec[field])
    if spec.get("volumeAttributesClassName") is not None:
        result["volumeAttributesClassName"] = spec["volumeAttributesClassName"]
    return result


def _typed_selector(selector: Mapping[str, Any]) -> Document:
    result: Document = {}
    if selector.get("matchLabels"):
        result["matchLabels"] = dict(sorted(selector["matchLabels"].items()))
    if selector.get("matchExpressions"):
        result["matchExpressions"] = [
            {
                "key": expression.get("key", ""),
                "operator": expression.get("operator", ""),
                **({"values": expression["values"]} if expression.get("values") else {}),
            }
            for expression in selector["matchExpressions"]
        ]
    return result


def _typed_source(source: Mapping[str, Any]) -> Document:
    result: Document = {
        "apiGroup": source.get("apiGroup"),
        "kind": source.get("kind", ""),
        "name": source.get("name", ""),
    }
    if source.get("namespace"):
        result["namespace"] = source["namespace"]
    return result


def _quantity(amount: Any) -> Any:
    try:
        return format_quantity(amount)
    except ValueError:
        return amount  # the API server refuses such a claim; its hash just has to stay the same
