"""Changes of an update in place on a pod: the result of comparing two revisions.

difference() ──▶ UpdateSpec ──┬▶ with_pending() (what an unfinished update still owes the pod)
                              └▶ batches.py, and grace.py keeps it while the pod leaves service

Pure values. Everything is by name of the container, so it fits any pod of the old revision.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document, deep_copy

ResourceChange = Mapping[str, Mapping[str, str]]
"""`limits` / `requests` → resource → quantity; only what changes."""

WHOLE_POD: Final = ""
"""Stands for the pod itself where changes of resources are by container: no container has an empty name."""
FINALIZERS = "finalizers"
DELETE_FINALIZERS = "$deleteFromPrimitiveList/finalizers"
MAPS = ("labels", "annotations")


class RefMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Labels and annotations that a container's environment is fed from, with their new values."""

    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self.labels or self.annotations)


class UpdateSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of one pod, by container name."""

    revision: str = ""
    """The target, as the pod's state annotation and revision label name it."""
    images: Mapping[str, str] = {}
    ref_metadata: Mapping[str, RefMetadata] = {}
    resources: Mapping[str, ResourceChange] = {}
    metadata_patch: Document | None = None
    """Strategic merge patch `{"metadata": …}` of what no container depends on; None: the same in both."""
    update_env_from_metadata: bool = False
    grace_seconds: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing but the revision label changes."""
        return not (self.images or self.ref_metadata or self.resources or self.metadata_patch)

    @property
    def container_names(self) -> frozenset[str]:
        """Containers that something changes for."""
        return frozenset((*self.images, *self.ref_metadata, *self.resources))


def with_pending(spec: UpdateSpec, pending: UpdateSpec | None) -> UpdateSpec:
    """`spec` and what an earlier, unfinished update had still to do, where `spec` does not say otherwise.

    The new spec is the difference between two revisions; a pod that never fully reached the older of them
    would keep what it lacks forever.
    """
    if pending is None:
        return spec
    ref_metadata = _merged_refs(spec, pending)
    return msgspec.structs.replace(
        spec,
        images={**pending.images, **spec.images},
        ref_metadata=ref_metadata,
        resources=_merged_resources(pending.resources, spec.resources),
        metadata_patch=_merged_patch(spec, pending),
        update_env_from_metadata=spec.update_env_from_metadata or pending.update_env_from_metadata,
    )


def merged_metadata(first: Mapping[str, Any], second: Mapping[str, Any]) -> Document:
    """One patch of `metadata` that does what both do, one after the other.

    Knows labels, annotations and finalizers; anything else of a pod's metadata is not a template's to change.
    """
    metadata: Document = {}
    for field in MAPS:
        entries = {**(first.get(field) or {}), **(second.get(field) or {})}
        if entries:
            metadata[field] = entries
    first_adds, first_deletes = _items(first, FINALIZERS), _items(first, DELETE_FINALIZERS)
    second_adds, second_deletes = _items(second, FINALIZERS), _items(second, DELETE_FINALIZERS)
    adds = _unlisted(first_adds, second_deletes) + _unlisted(second_adds, first_adds)
    deletes = _unlisted(first_deletes, second_adds) + _unlisted(second_deletes, first_deletes)
    if adds:
        metadata[FINALIZERS] = adds
    if deletes:
        metadata[DELETE_FINALIZERS] = deletes
    return metadata


def _items(metadata: Mapping[str, Any], field: str) -> list[str]:
    return list(metadata.get(field) or ())


def _unlisted(items: Iterable[str], unwanted: Iterable[str]) -> list[str]:
    without = set(unwanted)
    return [item for item in items if item not in without]


def _merged_refs(spec: UpdateSpec, pending: UpdateSpec) -> dict[str, RefMetadata]:
    """Pending keys stay where neither the new spec's environment nor its metadata patch decides them."""
    decided = {field: _decided(spec, field) for field in MAPS}
    refs: dict[str, RefMetadata] = {}
    for name in {**pending.ref_metadata, **spec.ref_metadata}:
        old = pending.ref_metadata.get(name, RefMetadata())
        new = spec.ref_metadata.get(name, RefMetadata())
        merged = RefMetadata(
            labels={**_without(old.labels, decided["labels"]), **new.labels},
            annotations={**_without(old.annotations, decided["annotations"]), **new.annotations},
        )
        if merged:
            refs[name] = merged
    return refs


def _decided(spec: UpdateSpec, field: str) -> set[str]:
    """Keys of `labels` or `annotations` that the spec itself sets or removes."""
    patch = ((spec.metadata_patch or {}).get("metadata") or {}).get(field) or {}
    return {*patch, *(key for refs in spec.ref_metadata.values() for key in getattr(refs, field))}


def _without(entries: Mapping[str, str], unwanted: set[str]) -> dict[str, str]:
    return {key: value for key, value in entries.items() if key not in unwanted}


def _merged_resources(
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


def _merged_patch(spec: UpdateSpec, pending: UpdateSpec) -> Document | None:
    if pending.metadata_patch is None:
        return spec.metadata_patch
    older = deep_copy(pending.metadata_patch.get("metadata") or {})
    for field in MAPS:
        from_env = {key for refs in spec.ref_metadata.values() for key in getattr(refs, field)}
        if older.get(field):
            older[field] = {key: value for key, value in older[field].items() if key not in from_env}
    newer = (spec.metadata_patch or {}).get("metadata") or {}
    return {"metadata": merged_metadata(older, newer)}
