"""Defaults that admission sets in a SidecarSet, and the hashes that admission always writes.

document ──▶ add_defaults() ──▶ the document to store

Pure; the argument is not changed. Same rules as OpenKruise's mutating webhook. Startup probes get no defaults, because
defaults would change the hashes of stored objects.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kinds.sidecarset.hashes import hashes_of
from pykruise.kinds.sidecarset.pod_annotations import RETAIN
from pykruise.kinds.sidecarset.sidecar_contents import AFTER, BEFORE, COLD
from pykruise.kube.documents import Document, annotations_of, drop_nulls
from pykruise.pods.template.defaults import add_container_defaults, add_volume_defaults
from pykruise.pods.view import keys

ROLLING_UPDATE: Final = "RollingUpdate"
DISABLED: Final = "disabled"
HISTORY: Final = 10
_PROBES: Final = ("livenessProbe", "readinessProbe")


def add_defaults(doc: Mapping[str, Any]) -> Document:
    """The document with defaults, and with the hashes of the result."""
    spec = add_spec_defaults(doc.get("spec"))
    hashes = hashes_of(spec)
    annotations = {
        **annotations_of(doc),
        keys.SIDECARSET_HASH_ANNOTATION: hashes.full,
        keys.SIDECARSET_IMAGELESS_ANNOTATION: hashes.without_image,
    }
    metadata = {**(doc.get("metadata") or {}), "annotations": annotations}
    return {**doc, "metadata": metadata, "spec": spec}


def add_spec_defaults(given: Mapping[str, Any] | None) -> Document:
    """The spec with defaults."""
    spec = drop_nulls(given)
    spec["updateStrategy"] = _fill_strategy_defaults(drop_nulls(spec.get("updateStrategy")))
    for field, policy in (("initContainers", AFTER), ("containers", BEFORE)):
        if spec.get(field):
            spec[field] = [_fill_sidecar_defaults(item, policy) for item in spec[field]]
    if spec.get("volumes"):
        spec["volumes"] = [add_volume_defaults(volume) for volume in spec["volumes"]]
    spec.setdefault("revisionHistoryLimit", HISTORY)
    if spec.get("patchPodMetadata"):
        spec["patchPodMetadata"] = [
            {**item, "patchPolicy": item.get("patchPolicy") or RETAIN} for item in spec["patchPodMetadata"]
        ]
    injection = drop_nulls(spec.get("injectionStrategy"))
    if injection.get("revision") is not None:
        revision = injection["revision"]
        injection["revision"] = {**revision, "policy": revision.get("policy") or "Always"}
        spec["injectionStrategy"] = injection
    return spec


def _fill_strategy_defaults(strategy: Document) -> Document:
    return {
        "maxUnavailable": 1,
        "partition": 0,
        **strategy,
        "type": strategy.get("type") or ROLLING_UPDATE,
    }


def _fill_sidecar_defaults(sidecar: Mapping[str, Any], policy: str) -> Document:
    result = add_container_defaults(sidecar, probes=_PROBES)
    result["podInjectPolicy"] = result.get("podInjectPolicy") or policy
    upgrade = drop_nulls(result.get("upgradeStrategy"))
    result["upgradeStrategy"] = {**upgrade, "upgradeType": upgrade.get("upgradeType") or COLD}
    share = drop_nulls(result.get("shareVolumePolicy"))
    result["shareVolumePolicy"] = {**share, "type": share.get("type") or DISABLED}
    if result.get("transferEnv"):
        result["transferEnv"] = [_fill_transfer_defaults(item) for item in result["transferEnv"]]
    return result


def _fill_transfer_defaults(item: Mapping[str, Any]) -> Document:
    source = item.get("sourceContainerNameFrom") or {}
    reference = source.get("fieldRef")
    if not reference:
        return dict(item)
    reference = {**reference, "apiVersion": reference.get("apiVersion") or "v1"}
    return {**item, "sourceContainerNameFrom": {**source, "fieldRef": reference}}
