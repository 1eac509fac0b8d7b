"""Annotations that SidecarSets give to pods besides their sidecars: `patchPodMetadata`.

annotations + entries ──▶ apply_patches() ──▶ the desired annotations

Pure. Injection and in-place upgrades use the same rule.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from pykruise.kinds.sidecarset.types import PatchPodMetadata
from pykruise.kube.values.go_text import encode_go_json

RETAIN: Final = "Retain"
OVERWRITE: Final = "Overwrite"
MERGE: Final = "MergePatchJson"
POLICIES: Final = (RETAIN, OVERWRITE, MERGE)


class MetadataPatchError(ValueError):
    """A value that must be merged is not JSON; the message names the annotation."""


def apply_patches(annotations: Mapping[str, str], entries: Iterable[PatchPodMetadata]) -> dict[str, str]:
    """Apply all entries sequentially to the annotations. Raises MetadataPatchError."""
    patches = dict(annotations)
    for entry in entries:
        for key, value in (entry.annotations or {}).items():
            patches[key] = _apply_patch(key, patches.get(key), value, entry.patch_policy)
    return patches


def _apply_patch(key: str, old: str | None, value: str, policy: str) -> str:
    match policy:
        case "Overwrite":
            return value
        case "MergePatchJson":
            return _merge_texts(key, old, value) if old else value
    return value if old is None else old


def _merge_texts(key: str, old: str, patch: str) -> str:
    return encode_go_json(
        _merge(
            _parse_json(old, f"annotation {key} of the pod"),
            _parse_json(patch, f"patchPodMetadata of annotation {key}"),
        ),
        sort_keys=True,
    )


def _parse_json(text: str, what: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise MetadataPatchError(f"{what} is not JSON and cannot be merged: {error}") from error


def _merge(target: Any, patch: Any) -> Any:
    """RFC 7386 merge of two JSON values: null deletes, objects merge, any other value replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge(result.get(key), value)
    return result
