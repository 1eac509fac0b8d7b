"""UnitedDeployments between v1alpha1 and v1beta1.

The status of v1alpha1 has maps by subset where that of v1beta1 has a list. A CloneSet template of v1alpha1 may
have the flat update strategy of older CloneSets: it becomes the nested one for good. A flat field goes before
the nested one of the same name, because in what is read there are only nested ones: a flat one has just been
written.
"""

from typing import Any, Final

from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kube.conversion import Conversion, section
from pykruise.kube.documents import Document
from pykruise.pods import flat_strategy

__all__ = ["CONVERSION"]


def to_hub(doc: Document) -> Document:
    """v1alpha1 as v1beta1."""
    normalize(doc)
    status = section(doc, "status")
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
    """v1beta1 as v1alpha1."""
    status = section(doc, "status")
    if status is None:
        return doc
    revision = status.pop("updatedRevision", None)
    entries = _named(status)
    if entries:
        status["subsetReplicas"] = {entry["name"]: _number(entry, "replicas") for entry in entries}
    if revision or entries:
        update: Document = {"updatedRevision": revision or ""}
        if entries:
            update["currentPartitions"] = {entry["name"]: _number(entry, "partition") for entry in entries}
        status["updateStatus"] = update
    return doc


def normalize(doc: Document) -> Document:
    """A flat update strategy of a CloneSet template as a nested one."""
    strategy = section(doc, "spec", "template", "cloneSetTemplate", "spec", "updateStrategy")
    if strategy is None or not isinstance(strategy.get("rollingUpdate") or {}, dict):
        return doc
    flat: Document = {field: strategy.pop(field) for field in flat_strategy.FLAT_FIELDS if field in strategy}
    if strategy.get("type") in flat_strategy.POLICIES:
        flat["podUpdatePolicy"] = strategy["type"]
        strategy["type"] = "RollingUpdate"
    if flat:
        strategy["rollingUpdate"] = {**(strategy.get("rollingUpdate") or {}), **flat}
    return doc


def _named(status: Document) -> list[Document]:
    entries = status.get("subsetStatuses")
    return [
        entry
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("name"), str) and entry["name"]
    ]


def _number(entry: Document, field: str) -> Any:
    return entry.get(field) or 0


def _fill_in(status: Document, field: str, numbers: Any) -> None:
    """Put numbers by subset into the entries of the subsets, making entries that are missing."""
    if not isinstance(numbers, dict) or not numbers:
        return
    if not isinstance(status.get("subsetStatuses") or [], list):
        return
    entries = {entry["name"]: entry for entry in _named(status)}
    missing = {name: {"name": name} for name in sorted(numbers) if name not in entries}
    status["subsetStatuses"] = [*(status.get("subsetStatuses") or []), *missing.values()]
    for name, entry in (entries | missing).items():
        if name in numbers:
            entry[field] = numbers[name]


CONVERSION: Final = Conversion(
    UNITED_DEPLOYMENTS, "v1alpha1", to_hub=to_hub, to_spoke=to_spoke, normalize=normalize
)
