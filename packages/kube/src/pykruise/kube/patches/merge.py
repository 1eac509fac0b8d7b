"""JSON merge patches (RFC 7396): the only merge for custom resources.

document + patch ──▶ apply_merge_patch() ──▶ document
old + new        ──▶ diff_merge()        ──▶ patch

Pure; inputs are not changed and share nothing mutable with the result.
"""

from collections.abc import Mapping
from typing import Any

from pykruise.kube.documents import Document, deep_copy, is_same
from pykruise.kube.patches.errors import PatchError

__all__ = ["apply_merge_patch", "diff_merge"]


def apply_merge_patch(doc: Mapping[str, Any], patch: Mapping[str, Any]) -> Document:
    """Return the document after the patch: null deletes, objects merge, everything else replaces.

    Raises PatchError when the patch is not an object. As on an API server, nulls inside objects in a new list are
    dropped too.
    """
    if not isinstance(patch, Mapping):
        raise PatchError("Invalid JSON Patch")
    merged: Document = _merge(deep_copy(doc), patch)
    return merged


def diff_merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> Document:
    """Return the smallest merge patch that changes `old` into `new`; empty when they are equal.

    A null in `new` counts as absent: a merge patch cannot store one.
    """
    patch: Document = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if is_same(before, value):
            continue
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            if changes := diff_merge(before, value):
                patch[key] = changes
        else:
            patch[key] = deep_copy(value)
    return patch


def _merge(target: Document, patch: Mapping[str, Any]) -> Document:
    for key, change in patch.items():
        before = target.get(key)
        if change is None:
            target.pop(key, None)
        elif isinstance(change, Mapping) and isinstance(before, dict):
            target[key] = _merge(before, change)
        else:
            target[key] = _without_nulls(change)
    return target


def _without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_without_nulls(item) for item in value]
    return value
