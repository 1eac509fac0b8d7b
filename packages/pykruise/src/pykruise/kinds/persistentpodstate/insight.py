"""PersistentPodState, as `explain` and `plan` present it.

status ──▶ headline_of()      object ──▶ bindings_of()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kinds.persistentpodstate.view import ADVANCED, BUILT_IN
from pykruise.kube.documents import Document, get_path
from pykruise.kube.values.counts import format_count
from pykruise.plans.insight import Binding, Insight


def headline_of(status: Mapping[str, Any]) -> str:
    """Number of recorded pods, in words."""
    count = len(status.get("podStates") or {})
    return format_count(count, "pod is recorded", "pods are recorded")


def bindings_of(state: Document) -> Iterator[Binding]:
    """Recorded pods that must return to a node with the same labels."""
    keys = get_path(state, "spec", "requiredPersistentTopology", "keys", default=())
    records: Mapping[str, Any] = get_path(state, "status", "podStates", default={})
    name = state["metadata"]["name"]
    for pod, record in records.items() if keys else ():
        labels = {
            key: value for key, value in (record.get("nodeTopologyLabels") or {}).items() if key in keys
        }
        if labels:
            where = f"spec.requiredPersistentTopology of PersistentPodState {name}"
            yield Binding(
                pod=pod,
                node=str(record.get("nodeName") or ""),
                labels=labels,
                remedy=f"remove {', '.join(sorted(labels))} from {where}, then delete the pod",
            )


INSIGHT: Final = Insight(
    containers=(), headline=headline_of, bindings=bindings_of, targets=(ADVANCED, BUILT_IN)
)
