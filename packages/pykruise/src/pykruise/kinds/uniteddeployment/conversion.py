"""Conversion of UnitedDeployments between v1alpha1 and v1beta1.

The status of v1alpha1 has maps by subset where the status of v1beta1 has a list. A CloneSet template of v1alpha1 has
two dialects, and the annotation `DIALECT` names the dialect of an object:

- the released dialect: OpenKruise up to 1.8 puts the whole spec of a v1alpha1 CloneSet there: a flat update strategy,
  and `disablePVCReuse`, so claims are reused when the template does not set the field;
- the newer dialect: OpenKruise from 1.9 on puts the spec of a v1beta1 CloneSet there, in both versions of the
  UnitedDeployment.

Without the annotation, the released dialect applies. If a document contains fields of both dialects, a client has added
fields of one dialect to an object in the other dialect. The fields that the client added are newer, so they take
precedence.

OpenKruise 1.8 has the name `unschedulableLastSeconds` for `unschedulableDuration`. v1alpha1 has both names, and shows
the name with which the object was written: otherwise `kubectl apply` of a changed manifest would write both.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kube.documents import Document
from pykruise.kube.schemas.conversion import Conversion, annotate, find_section, rename
from pykruise.pods.workload import cloneset_versions, v1alpha1_strategy

DIALECT: Final = "pykruise.io/clone-set-template"
"""Annotation of a UnitedDeployment in the newer dialect: the CloneSet template of its v1alpha1 form contains the spec
of a v1beta1 CloneSet.
"""

_NEWER: Final = "v1beta1"

DURATION_NAME: Final = "pykruise.io/unschedulable-duration"
"""Annotation of a v1beta1 UnitedDeployment that was written with the field `unschedulableLastSeconds`."""

_DURATION: Final = "unschedulableDuration"

_RELEASED_DURATION: Final = "unschedulableLastSeconds"

_NEWER_SCALE_FIELDS: Final = ("enablePVCReuse", "excludePreparingDelete")


def to_hub(doc: Document) -> Document:
    """Convert v1alpha1 to v1beta1."""
    normalize(doc)
    if not _is_newer(doc):
        convert_template_to_hub(find_section(doc, "spec", "template") or {})
    annotate(doc, DURATION_NAME, _RELEASED_DURATION if _replace_released_duration(doc) else None)
    status = find_section(doc, "status")
    if status is None:
        return doc
    update = status.pop("updateStatus", None)
    if isinstance(update, dict):
        if update.get("updatedRevision"):
            status["updatedRevision"] = update["updatedRevision"]
        _fill_in(status, "partition", update.get("currentPartitions"))
    elif update is not None:
        status["updateStatus"] = update
    _fill_in(status, "replicas", status.pop("subsetReplicas", None))
    return doc


def to_spoke(doc: Document) -> Document:
    """Convert v1beta1 to v1alpha1."""
    if not _is_newer(doc):
        convert_template_to_spoke(find_section(doc, "spec", "template") or {})
    if (find_section(doc, "metadata", "annotations") or {}).get(DURATION_NAME) == _RELEASED_DURATION:
        rename(_find_adaptive(doc), _DURATION, _RELEASED_DURATION)
    annotate(doc, DURATION_NAME, None)
    if (status := find_section(doc, "status")) is not None:
        _convert_status_to_spoke(status)
    return doc


def _find_adaptive(doc: Document) -> Document | None:
    return find_section(doc, "spec", "topology", "scheduleStrategy", "adaptive")


def _replace_released_duration(doc: Document) -> bool:
    """Rename `unschedulableLastSeconds`, and return whether this name was used. If `unschedulableDuration` is also set,
    it takes precedence.
    """
    adaptive = _find_adaptive(doc)
    if adaptive is None or (value := adaptive.pop(_RELEASED_DURATION, None)) is None:
        return False
    if adaptive.get(_DURATION) is not None:
        return False
    adaptive[_DURATION] = value
    return True


def _convert_status_to_spoke(status: Document) -> None:
    revision = status.pop("updatedRevision", None)
    entries = _list_named_entries(status)
    if entries:
        status["subsetReplicas"] = {entry["name"]: _read_number(entry, "replicas") for entry in entries}
    if revision or entries:
        update: Document = {"updatedRevision": revision or ""}
        if entries:
            update["currentPartitions"] = {
                entry["name"]: _read_number(entry, "partition") for entry in entries
            }
        status["updateStatus"] = update


def normalize(doc: Document) -> Document:
    """Convert the CloneSet template of a v1alpha1 document to a single dialect. Other documents are
    returned unchanged.
    """
    spec = find_section(doc, "spec", "template", "cloneSetTemplate", "spec")
    if spec is None or doc.get("apiVersion") != f"{UNITED_DEPLOYMENTS.group}/v1alpha1":
        return doc
    was_newer, released, newer = _is_newer(doc), _speaks_released(spec), _speaks_newer(spec)
    if newer and not was_newer:
        _make_newer(spec, released_first=False)
        annotate(doc, DIALECT, _NEWER)
    elif released and was_newer:
        _make_newer(spec, released_first=True)
        cloneset_versions.to_spoke({"spec": spec})
        annotate(doc, DIALECT, None)
    return doc


def convert_template_to_hub(template: Document) -> Document:
    """Convert `spec.template` of a released v1alpha1 UnitedDeployment to v1beta1. This changes the argument.

    A template that has fields of a v1beta1 CloneSet is not changed.
    """
    clone_set = find_section(template, "cloneSetTemplate")
    if clone_set is not None and not _speaks_newer(find_section(clone_set, "spec") or {}):
        cloneset_versions.to_hub(clone_set)
    return template


def convert_template_to_spoke(template: Document) -> Document:
    """Convert `spec.template` of a v1beta1 UnitedDeployment to released v1alpha1. This changes the argument."""
    if (clone_set := find_section(template, "cloneSetTemplate")) is not None:
        cloneset_versions.to_spoke(clone_set)
    return template


def is_newer_dialect(annotations: Mapping[str, str]) -> bool:
    """Whether an object with these annotations has the newer dialect."""
    return annotations.get(DIALECT) == _NEWER


def _is_newer(doc: Document) -> bool:
    return is_newer_dialect(find_section(doc, "metadata", "annotations") or {})


def _speaks_released(spec: Document) -> bool:
    strategy = find_section(spec, "updateStrategy") or {}
    return (
        strategy.get("type") in v1alpha1_strategy.POLICIES
        or any(field in strategy for field in v1alpha1_strategy.FLAT_FIELDS)
        or "disablePVCReuse" in (find_section(spec, "scaleStrategy") or {})
    )


def _speaks_newer(spec: Document) -> bool:
    strategy, scale = find_section(spec, "updateStrategy") or {}, find_section(spec, "scaleStrategy") or {}
    return (
        isinstance(strategy.get("rollingUpdate"), dict)
        or strategy.get("type") == "RollingUpdate"
        or any(field in scale for field in _NEWER_SCALE_FIELDS)
    )


def _make_newer(spec: Document, *, released_first: bool) -> None:
    """Convert fields of the released dialect to the newer dialect. `released_first`: if both fields are set, the
    released field takes precedence.
    """
    strategy = find_section(spec, "updateStrategy")
    if strategy is not None:
        flat: Document = {
            field: strategy.pop(field) for field in v1alpha1_strategy.FLAT_FIELDS if field in strategy
        }
        if strategy.get("type") in v1alpha1_strategy.POLICIES:
            flat["podUpdatePolicy"] = strategy["type"]
            strategy["type"] = "RollingUpdate"
        nested = find_section(strategy, "rollingUpdate") or {}
        merged = {**nested, **flat} if released_first else {**flat, **nested}
        if merged or flat:
            strategy["rollingUpdate"] = merged
    scale = find_section(spec, "scaleStrategy")
    if scale is not None and "disablePVCReuse" in scale:
        reuses = scale.pop("disablePVCReuse") is not True
        if released_first or "enablePVCReuse" not in scale:
            scale["enablePVCReuse"] = reuses


def _list_named_entries(status: Document) -> list[Document]:
    entries = status.get("subsetStatuses")
    return [
        entry
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("name"), str) and entry["name"]
    ]


def _read_number(entry: Document, field: str) -> Any:
    return entry.get(field) or 0


def _fill_in(status: Document, field: str, numbers: Any) -> None:
    """Write each subset's number into the entry of the subset, and add missing entries. In an entry, an absent field
    means 0.
    """
    if not isinstance(numbers, dict) or not numbers:
        return
    if not isinstance(status.get("subsetStatuses") or [], list):
        return
    entries = {entry["name"]: entry for entry in _list_named_entries(status)}
    missing = {name: {"name": name} for name in sorted(numbers) if name not in entries}
    status["subsetStatuses"] = [*(status.get("subsetStatuses") or []), *missing.values()]
    for name, entry in (entries | missing).items():
        if name in numbers and (numbers[name] or field in entry):
            entry[field] = numbers[name]


CONVERSION: Final = Conversion(
    UNITED_DEPLOYMENTS, "v1alpha1", to_hub=to_hub, to_spoke=to_spoke, normalize=normalize
)
