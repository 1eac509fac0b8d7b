"""PersistentPodState for the commands explain and plan.

status ──▶ headline_of()   object ──▶ bindings_of()   workload ──▶ find_unheeded()   ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.kinds.persistentpodstate.view import (
    ADVANCED,
    AUTO_GENERATE,
    BUILT_IN,
    COMPLETE,
    INCOMPLETE,
    PREFERRED,
    REQUIRED,
    is_incomplete,
    workload_of,
)
from pykruise.kube.documents import Document, get_path
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.owners import controller_of
from pykruise.plans.insight import Binding, Insight


def headline_of(status: Mapping[str, Any]) -> str:
    """Return one line with the number of recorded pods."""
    count = len(status.get("podStates") or {})
    return format_count(count, "pod is recorded", "pods are recorded")


def bindings_of(state: Document) -> Iterator[Binding]:
    """Yield the recorded pods for which a node label is required, each with the remedy that makes it a preference."""
    keys = get_path(state, "spec", "requiredPersistentTopology", "keys", default=())
    records: Mapping[str, Any] = get_path(state, "status", "podStates", default={})
    for pod, record in records.items() if isinstance(keys, list) else ():
        labels = {
            key: value for key, value in (record.get("nodeTopologyLabels") or {}).items() if key in keys
        }
        if labels:
            moved = _describe_change_to_preferred(state, [key for key in keys if key in labels], keys)
            yield Binding(
                pod=pod,
                node=str(record.get("nodeName") or ""),
                labels=labels,
                remedy=f"{moved}, then delete the pod",
            )


def _describe_change_to_preferred(state: Document, moved: Sequence[str], keys: Sequence[str]) -> str:
    """Return how to change required keys to preferred keys. If the workload's annotations request the object, they must
    be changed, because the controller would undo a change of the spec.
    """
    meta, names = state["metadata"], ", ".join(moved)
    references = meta.get("ownerReferences") or ()
    owner = next((reference for reference in references if reference.get("controller")), None)
    if owner is None:
        return (
            f"move {names} from spec.requiredPersistentTopology to spec.preferredPersistentTopology of"
            f" PersistentPodState {meta['name']}"
        )
    kept = [key for key in keys if key not in moved]
    required = f"={','.join(kept)}" if kept else "-"
    workload = f"{owner['kind'].lower()}s.{owner['apiVersion'].rpartition('/')[0]}"
    command = (
        f"kubectl annotate -n {meta['namespace']} {workload} {owner['name']} --overwrite"
        f" {REQUIRED}{required} {PREFERRED}={','.join(moved)}"
    )
    return f"make {names} a preference of {owner['kind']} {owner['name']} ({command})"


def is_requested(workload: Document) -> bool:
    """Whether annotations of the workload request a PersistentPodState, with a topology."""
    return workload_of(workload).is_requesting


def find_unheeded(workload: Document, state: Document | None) -> tuple[str, str]:
    """Return the problem of a workload whose annotations request a PersistentPodState without effect, and the remedy;
    empty if there is no problem. `state`: PersistentPodState with the workload's name.
    """
    view = workload_of(workload)
    if is_incomplete(view):
        return INCOMPLETE, COMPLETE
    if state is None or not view.is_requesting or "deletionTimestamp" in state["metadata"]:
        return "", ""
    return _find_obstacle(workload, state)


def _find_obstacle(workload: Document, state: Document) -> tuple[str, str]:
    """Return the problem and the remedy when the state was not generated from the workload."""
    meta, kind = workload["metadata"], workload["kind"]
    name, namespace = meta["name"], meta["namespace"]
    owner = controller_of(state)
    if owner is not None and (owner.kind, owner.api_version) == (kind, workload["apiVersion"]):
        # If the workload was created again, garbage collection deletes the object of the earlier workload.
        return "", ""
    group = workload["apiVersion"].rpartition("/")[0]
    words = (
        f"annotation {AUTO_GENERATE} of {kind} {name} has no effect: PersistentPodState {name} exists, and was not"
        " generated from it"
    )
    removal = f"remove the annotation (kubectl annotate -n {namespace} {kind.lower()}s.{group} {name} {AUTO_GENERATE}-)"
    if owner is not None:
        return (
            words,
            f"{removal}: the PersistentPodState belongs to {owner.kind} {owner.name} of {owner.api_version}",
        )
    delete = (
        f"delete PersistentPodState {name} (kubectl delete -n {namespace} persistentpodstate {name}); the manager then"
        " generates it from the workload"
    )
    return words, f"{delete}; or {removal}, and change spec of PersistentPodState {name}"


INSIGHT: Final = Insight(
    containers=(),
    headline=headline_of,
    bindings=bindings_of,
    unheeded=find_unheeded,
    is_requested=is_requested,
    targets=(ADVANCED, BUILT_IN),
)
