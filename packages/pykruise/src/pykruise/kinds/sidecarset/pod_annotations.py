"""Annotations that SidecarSets give pods beside their sidecars: `patchPodMetadata`.

annotations + entries ──▶ with_patches() ──▶ annotations as they should be

Pure. The same rule at injection and at an upgrade in place.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from pykruise.kinds.sidecarset.types import PatchPodMetadata
from pykruise.kube.values.go_text import go_json

RETAIN: Final = "Retain"
OVERWRITE: Final = "Overwrite"
MERGE: Final = "MergePatchJson"
POLICIES: Final = (RETAIN, OVERWRITE, MERGE)


class MetadataPatchError(ValueError):
    """A value that is to be merged is not JSON; the message says which."""


def with_patches(annotations: Mapping[str, str], entries: Iterable[PatchPodMetadata]) -> dict[str, str]:
    """The annotations after all entries, one after another. Raises MetadataPatchError."""
    patches = dict(annotations)
    for entry in entries:
        for key, value in (entry.annotations or {}).items():
            patches[key] = _patched(key, patches.get(key), value, entry.patch_policy)
    return patches


def _patched(key: str, old: str | None, value: str, policy: str) -> str:
    match policy:
        case "Overwrite":
            return value
        case "MergePatchJson":
            return _merged(key, old, value) if old else value
    return value if old is None else old


def _merged(key: str, old: str, patch: str) -> str:
    return go_json(
        _merge(
            _json(old, f"annotation {key} of the pod"), _json(patch, f"patchPodMetadata of annotation {key}")
        ),
        sort_keys=True,
    )


def _json(text: str, what: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise MetadataPatchError(f"{what} is not JSON and cannot be merged: {error}") from error


def _merge(target: Any, patch: Any) -> Any:
    """RFC 7386 of any two JSON values: null deletes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge(result.get(key), value)
    return result
