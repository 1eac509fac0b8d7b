"""UnitedDeployments between v1alpha1 and v1beta1.

The status of v1alpha1 has maps by subset where that of v1beta1 has a list. A CloneSet template of v1alpha1 may
have the flat update strategy of older CloneSets: in v1beta1 it is the nested one, with an annotation by which
v1alpha1 shows it as it was written. Else `kubectl apply` of an unchanged manifest would change something each
time, and a field that is taken out would stay. A flat field goes before a nested one of the same name, which
a client can only have left there.
"""

from typing import Any, Final

from pykruise.kinds.uniteddeployment.types import UNITED_DEPLOYMENTS
from pykruise.kube.conversion import Conversion, annotate, section
from pykruise.kube.documents import Document
from pykruise.pods import flat_strategy

__all__ = ["CONVERSION", "WRITTEN_FLAT"]

WRITTEN_FLAT: Final = "pykruise.io/written-flat"
"""Annotation of a v1beta1 UnitedDeployment whose CloneSet template was written with a flat strategy."""


def to_hub(doc: Document) -> Document:
    """v1alpha1 as v1beta1."""
    strategy = _strategy_of(doc)
    is_flat = strategy is not None and _is_flat(strategy)
    if strategy is not None and is_flat:
        _nest(strategy)
    annotate(doc, WRITTEN_FLAT, "true" if is_flat else None)
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
    strategy = _strategy_of(doc)
    if strategy is not None and (section(doc, "metadata", "annotations") or {}).get(WRITTEN_FLAT) == "true":
        _flatten(strategy)
    annotate(doc, WRITTEN_FLAT, None)
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


def _strategy_of(doc: Document) -> Document | None:
    """The update strategy of a CloneSet template; None: there is none that can be read."""
    strategy = section(doc, "spec", "template", "cloneSetTemplate", "spec", "updateStrategy")
    is_readable = strategy is not None and isinstance(strategy.get("rollingUpdate") or {}, dict)
    return strategy if is_readable else None


def _is_flat(strategy: Document) -> bool:
    return strategy.get("type") in flat_strategy.POLICIES or any(
        field in strategy for field in flat_strategy.FLAT_FIELDS
    )


def _nest(strategy: Document) -> None:
    """A flat strategy as a nested one."""
    flat: Document = {field: strategy.pop(field) for field in flat_strategy.FLAT_FIELDS if field in strategy}
    if strategy.get("type") in flat_strategy.POLICIES:
        flat["podUpdatePolicy"] = strategy["type"]
        strategy["type"] = "RollingUpdate"
    strategy["rollingUpdate"] = {**(strategy.get("rollingUpdate") or {}), **flat}


def _flatten(strategy: Document) -> None:
    """A nested strategy as a flat one; what only the nested one has stays nested."""
    rolling: Document = dict(strategy.pop("rollingUpdate", None) or {})
    if strategy.get("type") == "RollingUpdate" and rolling.get("podUpdatePolicy") in flat_strategy.POLICIES:
        strategy["type"] = rolling.pop("podUpdatePolicy")
    strategy.update({field: rolling.pop(field) for field in flat_strategy.FLAT_FIELDS if field in rolling})
    if rolling:
        strategy["rollingUpdate"] = rolling


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


CONVERSION: Final = Conversion(UNITED_DEPLOYMENTS, "v1alpha1", to_hub=to_hub, to_spoke=to_spoke)
