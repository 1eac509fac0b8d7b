"""Volume claims of pods: created from templates, labelled with the pod's id, reused or deleted.

templates + owner + id ──▶ build_claim_documents(), add_claim_volumes() ──▶ claims and a pod that mounts them
stored claims ──▶ ClaimView ──▶ kinds/<kind>/claims.py: claims to create, reuse, delete or hand over
templates ──▶ hash_templates() ──▶ recorded with each revision

Pure. A claim outlives its pod when its owner keeps it for the next pod with the same id or ordinal. In a CloneSet, only
the label with the id connects a claim with its pod. A StatefulSet finds its claims by their names.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.documents import Document, deep_copy
from pykruise.kube.values.go_text import encode_go_json
from pykruise.kube.values.hashing import hash_bytes
from pykruise.kube.values.quantities import Quantity, format_quantity
from pykruise.pods.view import keys
from pykruise.pods.view.names import InstanceId

RESIZE_PENDING: Final = "FileSystemResizePending"


# Stored claims


class OwnerFacts(msgspec.Struct, frozen=True, gc=False):
    """An owner of a claim."""

    kind: str
    name: str
    uid: str


class ClaimView(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A PersistentVolumeClaim. Empty text means absent."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    instance_id: InstanceId = InstanceId("")
    labels: Mapping[str, str] = {}
    controller_uid: str = ""
    is_deleting: bool = False
    finalizers: tuple[str, ...] = ()
    """Finalizers, without that of Kubernetes, which Kubernetes removes when no pod uses the claim."""
    phase: str = ""
    """`Pending`, `Bound` or `Lost`."""
    leaves_with: str = ""
    """Uid of the pod that the owner decided to delete with the claim: no other pod may use the claim."""
    owners: tuple[OwnerFacts, ...] = ()
    """All owners in their order, whether they manage the claim or not."""
    storage_class: str | None = None
    """Storage class; None if the claim names none. The empty text requests a volume without a class."""
    access_modes: tuple[str, ...] = ()
    requested: int = 0
    """Requested storage in billionths of a byte; 0 if there is no request, or its quantity is invalid."""
    capacity: int = 0
    """Actual storage in billionths of a byte; 0 if the storage is not reported, or its quantity is invalid."""
    grown_by: str = ""
    """Name of the StatefulSet that expanded the claim, and that reconciles its changes."""
    resize_pending_since: Instant | None = None
    """Time at which the volume was expanded, if its file system is not expanded yet (FileSystemResizePending)."""


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
    finalizers: tuple[str, ...] | None = None


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
_PROTECTION: Final = "kubernetes.io/pvc-protection"
_NO_SPEC: Final = _Spec()
_NO_STATUS: Final = _Status()


def project_claim(raw: bytes | msgspec.Raw) -> ClaimView:
    """Decode a claim's JSON text into its view. Raises msgspec.DecodeError when the text is not a claim."""
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
        finalizers=tuple([name for name in meta.finalizers or () if name != _PROTECTION]),
        phase=status.phase or "",
        leaves_with=(meta.annotations or {}).get(keys.LEAVES_WITH_ANNOTATION, ""),
        owners=tuple([OwnerFacts(owner.kind, owner.name, owner.uid) for owner in owners]),
        storage_class=spec.storage_class_name,
        access_modes=spec.access_modes or (),
        requested=storage_of(spec.resources.requests if spec.resources else None),
        capacity=storage_of(status.capacity),
        grown_by=(meta.annotations or {}).get(keys.OWNED_BY_STATEFULSET_ANNOTATION, ""),
        resize_pending_since=_find_resize_pending_since(status.conditions or ()),
    )


def storage_of(amounts: Mapping[str, Any] | None) -> int:
    """Storage in `requests` or `capacity` in billionths of a byte; 0 if the quantity is absent or invalid."""
    try:
        return Quantity.parse((amounts or {}).get("storage", 0)).nano
    except (TypeError, ValueError):
        return 0


def _find_resize_pending_since(conditions: Iterable[_Condition]) -> Instant | None:
    for condition in conditions:
        if condition.type == RESIZE_PENDING and condition.status == "True":
            return parse_time(condition.last_transition_time) if condition.last_transition_time else 0.0
    return None


# Creation of claims


def format_claim_name(template: str, *, owner: str, suffix: str) -> str:
    """`<template>-<owner>-<suffix>`; the suffix is the pod's id, or its ordinal."""
    return f"{template}-{owner}-{suffix}"


def build_claim_documents(
    templates: Iterable[Mapping[str, Any]],
    *,
    owner: str,
    namespace: str,
    suffix: str,
    labels: Mapping[str, str],
    owner_references: Sequence[Mapping[str, Any]] = (),
) -> list[Document]:
    """The claims of one pod, in the order of the templates.

    `labels` (the labels of the owner's selector, and the id) override the template's labels. Annotations and spec
    come from the template.
    """
    return [
        _make_claim(
            template,
            name=format_claim_name(read_template_name(template), owner=owner, suffix=suffix),
            namespace=namespace,
            labels=labels,
            owner_references=owner_references,
        )
        for template in templates
    ]


def _make_claim(
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


def add_claim_volumes(pod_spec: Mapping[str, Any], claims: Mapping[str, str]) -> Document:
    """The pod spec with a volume for each claim (template name → claim name).

    A claim's volume replaces a volume of the same name; other volumes are kept. The arguments are not changed.
    """
    if not claims:
        return dict(pod_spec)
    volumes = [
        {"name": template, "persistentVolumeClaim": {"claimName": claim}}
        for template, claim in claims.items()
    ]
    others = [volume for volume in pod_spec.get("volumes") or () if volume.get("name") not in claims]
    return {**pod_spec, "volumes": [*volumes, *others]}


# Hash of the templates


def hash_templates(templates: Sequence[Mapping[str, Any]] | None) -> str:
    """Hash of the claim templates in a revision: decimal, or empty without templates.

    Only names and specs are hashed. A manager written in Go computes the same number.
    """
    if not templates:
        return ""
    typed = [_to_typed_claim(template) for template in sorted(templates, key=read_template_name)]
    return str(hash_bytes(encode_go_json(typed).encode()))


def read_template_name(template: Mapping[str, Any]) -> str:
    """Name of a claim template and of its volume; empty if the template has no name."""
    return str((template.get("metadata") or {}).get("name") or "")


def _to_typed_claim(template: Mapping[str, Any]) -> Document:
    """The claim's fields in the order of Go's typed object, with the fields that Go always writes."""
    name = read_template_name(template)
    metadata: Document = {"name": name} if name else {}
    return {
        "metadata": {**metadata, "creationTimestamp": None},
        "spec": _to_typed_spec(template.get("spec") or {}),
        "status": {},
    }


def _to_typed_spec(spec: Mapping[str, Any]) -> Document:
    result: Document = {}
    if spec.get("accessModes"):
        result["accessModes"] = spec["accessModes"]
    if spec.get("selector") is not None:
        result["selector"] = _to_typed_selector(spec["selector"])
    resources = spec.get("resources") or {}
    result["resources"] = {
        bound: {name: _format_quantity(amount) for name, amount in sorted(resources[bound].items())}
        for bound in ("limits", "requests")
        if resources.get(bound)
    }
    if spec.get("volumeName"):
        result["volumeName"] = spec["volumeName"]
    # An empty class differs from an absent one: it requests a volume without a class.
    for field in ("storageClassName", "volumeMode"):
        if spec.get(field) is not None:
            result[field] = spec[field]
    for field in ("dataSource", "dataSourceRef"):
        if spec.get(field) is not None:
            result[field] = _to_typed_source(spec[field])
    if spec.get("volumeAttributesClassName") is not None:
        result["volumeAttributesClassName"] = spec["volumeAttributesClassName"]
    return result


def _to_typed_selector(selector: Mapping[str, Any]) -> Document:
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


def _to_typed_source(source: Mapping[str, Any]) -> Document:
    result: Document = {
        "apiGroup": source.get("apiGroup"),
        "kind": source.get("kind", ""),
        "name": source.get("name", ""),
    }
    if source.get("namespace"):
        result["namespace"] = source["namespace"]
    return result


def _format_quantity(amount: Any) -> Any:
    try:
        return format_quantity(amount)
    except ValueError:
        return amount  # the API server rejects such a claim; its hash only has to be stable
