"""Changes that an in-place update makes to a pod: the result of comparing two revisions.

find_difference() ──▶ UpdateSpec ──┬▶ add_pending() (adds the changes that an unfinished update left open)
                                   └▶ batches.py, and grace.py stores it while the pod leaves service

Pure values. Changes of images, environments and resources are keyed by container name; the metadata patch changes the
whole pod. So an UpdateSpec fits any pod of the old revision.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document, deep_copy

ResourceChange = Mapping[str, Mapping[str, str]]
"""`limits` / `requests` → resource → quantity, with changes only."""

WHOLE_POD: Final = ""
"""Key of the pod itself in changes of resources by container. No container has an empty name."""
FINALIZERS = "finalizers"
DELETE_FINALIZERS = "$deleteFromPrimitiveList/finalizers"
MAPS = ("labels", "annotations")


class RefMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Labels and annotations that a container's environment reads, with their new values."""

    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self.labels or self.annotations)


class UpdateSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a pod. Images, environments and resources are keyed by container name; resources also by WHOLE_POD."""

    revision: str = ""
    """Target revision, written as in the pod's state annotation. Its label may contain only the hash."""
    images: Mapping[str, str] = {}
    ref_metadata: Mapping[str, RefMetadata] = {}
    resources: Mapping[str, ResourceChange] = {}
    metadata_patch: Document | None = None
    """Strategic merge patch `{"metadata": …}` of keys that no container depends on; None if no such key changes."""
    update_env_from_metadata: bool = False
    grace_seconds: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether only the revision label changes."""
        return not (self.images or self.ref_metadata or self.resources or self.metadata_patch)

    @property
    def container_names(self) -> frozenset[str]:
        """Names of containers with changes."""
        return frozenset((*self.images, *self.ref_metadata, *self.resources))


def add_pending(spec: UpdateSpec, pending: UpdateSpec | None) -> UpdateSpec:
    """Return `spec` plus the changes that an unfinished earlier update left open, except those that `spec` overrides.

    The new spec is the difference between two revisions. Without the open changes, a pod that never fully reached the
    older revision would lack them forever.
    """
    if pending is None:
        return spec
    ref_metadata = _merge_refs(spec, pending)
    return msgspec.structs.replace(
        spec,
        images={**pending.images, **spec.images},
        ref_metadata=ref_metadata,
        resources=_merge_resources(pending.resources, spec.resources),
        metadata_patch=_merge_patches(spec, pending),
        update_env_from_metadata=spec.update_env_from_metadata or pending.update_env_from_metadata,
    )


def merge_metadata(first: Mapping[str, Any], second: Mapping[str, Any]) -> Document:
    """Merge two patches of `metadata` into one with the effect of applying both in this order.

    Handles labels, annotations and finalizers; a template cannot change other metadata of a pod.
    """
    metadata: Document = {}
    for field in MAPS:
        entries = {**(first.get(field) or {}), **(second.get(field) or {})}
        if entries:
            metadata[field] = entries
    first_adds, first_deletes = _list_items(first, FINALIZERS), _list_items(first, DELETE_FINALIZERS)
    second_adds, second_deletes = _list_items(second, FINALIZERS), _list_items(second, DELETE_FINALIZERS)
    adds = _exclude_items(first_adds, second_deletes) + _exclude_items(second_adds, first_adds)
    deletes = _exclude_items(first_deletes, second_adds) + _exclude_items(second_deletes, first_deletes)
    if adds:
        metadata[FINALIZERS] = adds
    if deletes:
        metadata[DELETE_FINALIZERS] = deletes
    return metadata


def _list_items(metadata: Mapping[str, Any], field: str) -> list[str]:
    return list(metadata.get(field) or ())


def _exclude_items(items: Iterable[str], unwanted: Iterable[str]) -> list[str]:
    without = set(unwanted)
    return [item for item in items if item not in without]


def _merge_refs(spec: UpdateSpec, pending: UpdateSpec) -> dict[str, RefMetadata]:
    """Keep pending keys that the new spec neither sets nor removes, and add the keys of the new spec."""
    decided = {field: _find_decided_keys(spec, field) for field in MAPS}
    refs: dict[str, RefMetadata] = {}
    for name in {**pending.ref_metadata, **spec.ref_metadata}:
        old = pending.ref_metadata.get(name, RefMetadata())
        new = spec.ref_metadata.get(name, RefMetadata())
        merged = RefMetadata(
            labels={**_exclude_keys(old.labels, decided["labels"]), **new.labels},
            annotations={**_exclude_keys(old.annotations, decided["annotations"]), **new.annotations},
        )
        if merged:
            refs[name] = merged
    return refs


def _find_decided_keys(spec: UpdateSpec, field: str) -> set[str]:
    """Keys of `labels` or `annotations` that the spec itself sets or removes."""
    patch = ((spec.metadata_patch or {}).get("metadata") or {}).get(field) or {}
    return {*patch, *(key for refs in spec.ref_metadata.values() for key in getattr(refs, field))}


def _exclude_keys(entries: Mapping[str, str], unwanted: set[str]) -> dict[str, str]:
    return {key: value for key, value in entries.items() if key not in unwanted}


def _merge_resources(
    old: Mapping[str, ResourceChange], new: Mapping[str, ResourceChange]
) -> dict[str, ResourceChange]:
    resources: dict[str, ResourceChange] = {}
    for name in {**old, **new}:
        before, after = old.get(name, {}), new.get(name, {})
        resources[name] = {
            bound: {**before.get(bound, {}), **after.get(bound, {})}
            for bound in ("limits", "requests")
            if before.get(bound) or after.get(bound)
        }
    return resources


def _merge_patches(spec: UpdateSpec, pending: UpdateSpec) -> Document | None:
    if pending.metadata_patch is None:
        return spec.metadata_patch
    older = deep_copy(pending.metadata_patch.get("metadata") or {})
    for field in MAPS:
        from_env = {key for refs in spec.ref_metadata.values() for key in getattr(refs, field)}
        if older.get(field):
            older[field] = {key: value for key, value in older[field].items() if key not in from_env}
    newer = (spec.metadata_patch or {}).get("metadata") or {}
    return {"metadata": merge_metadata(older, newer)}
