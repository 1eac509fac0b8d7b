"""Differences between the sidecars of pods and those of a SidecarSet.

recorded revision, present spec ──▶ list_forcing_fields() ──▶ paths of fields that only a new pod can get

Pure. An in-place upgrade changes images only; all other fields of a sidecar are set when the pod is created.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.kinds.sidecarset.hashes import to_typed_sidecar
from pykruise.kinds.sidecarset.managed_pod import ManagedPod
from pykruise.kube.documents import is_same
from pykruise.pods.workload.revisions import RevisionView

_SIDECARS: Final = ("containers", "initContainers")


def revision_of(pod: ManagedPod, revisions: Sequence[RevisionView]) -> RevisionView | None:
    """Return the revision of the pod's sidecars; None if the revision is no longer stored."""
    name = pod.record.revision if pod.record is not None else ""
    return next((revision for revision in revisions if name and revision.name == name), None)


def list_forcing_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the fields of sidecars that differ, except images, such as `containers[log].env`. Both arguments have
    the fields of a spec.
    """
    return [path for field in _SIDECARS for path in _of_list(field, old.get(field), new.get(field))]


def _of_list(field: str, old: Any, new: Any) -> Iterator[str]:
    before, after = ({item["name"]: to_typed_sidecar(item) for item in items or ()} for items in (old, new))
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            yield f"{field}[{name}]"
            continue
        for key in sorted({*before[name], *after[name]} - {"image"}):
            if not is_same(before[name].get(key), after[name].get(key)):
                yield f"{field}[{name}].{key}"
