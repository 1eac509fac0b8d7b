"""The metadata that a pod template gives to its pods: everything except keys about a single pod.

template ──▶ read_pod_metadata(), read_pod_labels()
    ──▶ metadata for builders of pods, selectors and in-place updates
         ──▶ find_single_pod_errors()                ──▶ field errors
patch    ──▶ drop_single_pod_keys()          ──▶ the patch to merge into pods and templates
         ──▶ patch_key_errors()                 ──▶ field errors

Pure; serves every kind that owns pods. A label such as `apps.kruise.io/specified-delete` is a request about one pod. In
a template, it would be copied to every new pod, and the owner would delete and create pods endlessly. Admission rejects
such keys, and stored templates are read without them. OpenKruise accepts and copies them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import make_forbidden_error
from pykruise.pods.view.keys import SINGLE_POD_ANNOTATIONS, SINGLE_POD_LABELS

SINGLE_POD_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "labels": SINGLE_POD_LABELS,
    "annotations": SINGLE_POD_ANNOTATIONS,
}
"""Keys about a single pod, by field of the metadata."""


def read_pod_metadata(template: Mapping[str, Any]) -> Document:
    """Metadata that the template gives to its pods."""
    metadata: Mapping[str, Any] = template.get("metadata") or {}
    return {
        **metadata,
        **{field: _keep_shared_keys(metadata, field) for field in SINGLE_POD_KEYS if metadata.get(field)},
    }


def read_pod_labels(template: Mapping[str, Any]) -> dict[str, str]:
    """Labels that the template gives to its pods."""
    return _keep_shared_keys(template.get("metadata") or {}, "labels")


def drop_single_pod_keys(patch: Any) -> Any:
    """Remove keys about a single pod from a patch of a pod or template. Other values are returned unchanged."""
    if not isinstance(patch, Mapping) or not isinstance(patch.get("metadata"), Mapping):
        return patch
    return {**patch, "metadata": read_pod_metadata(patch)}


def find_single_pod_errors(metadata: Any, path: str) -> Iterator[Cause]:
    """One error for each key about a single pod in the metadata of a template at `path`."""
    for field, keys in SINGLE_POD_KEYS.items():
        entries = metadata.get(field) if isinstance(metadata, Mapping) else None
        for key in sorted(keys.intersection(entries if isinstance(entries, Mapping) else ())):
            yield make_forbidden_error(
                f"{path}.{field}", f"{key} is for a single pod, and cannot be set in a template"
            )


def patch_key_errors(patch: Any, path: str) -> Iterator[Cause]:
    """The same errors for a patch of pods or of a template at `path`."""
    if isinstance(patch, Mapping):
        yield from find_single_pod_errors(patch.get("metadata"), f"{path}.metadata")


def _keep_shared_keys(metadata: Mapping[str, Any], field: str) -> dict[str, str]:
    entries: Any = metadata.get(field) or {}
    keys = SINGLE_POD_KEYS[field]
    if not isinstance(entries, Mapping):
        return entries  # type: ignore[no-any-return]  # its readers report the error
    return {key: value for key, value in entries.items() if key not in keys}
