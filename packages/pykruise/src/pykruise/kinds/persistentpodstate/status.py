"""Records of pods, and their removal.

stored records + Ready pods + their nodes ──▶ recorded() ──▶ records
records + ordinals that the workload wants + active pods ──▶ kept() ──▶ records

Pure. A record outlives its pod: that is what it is for. It goes when the workload no longer wants that ordinal.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kinds.persistentpodstate.types import PodState
from pykruise.kinds.persistentpodstate.view import RecordedWorkload, StateView
from pykruise.kube.documents import Document
from pykruise.plans.views import NodeView
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.ordinals import is_wanted


def recorded(
    state: StateView,
    pods: Sequence[PodView],
    nodes: Mapping[str, NodeView],
    annotations: Mapping[str, Mapping[str, str]],
) -> tuple[dict[str, PodState], list[str]]:
    """The records with those of Ready pods as they are now, and names of pods whose node is not known.

    `annotations`: of pods, by uid; only where they are recorded.
    """
    result, unknown = dict(state.records), []
    node_keys, annotation_keys = state.node_keys, state.annotation_keys
    for pod in pods:
        if not pod.is_ready or not pod.node_name:
            continue
        node = nodes.get(pod.node_name)
        if node is None:
            unknown.append(pod.name)
            continue
        known = annotations.get(pod.uid, {})
        labels = {key: value for key, value in node.labels.items() if key in node_keys}
        noted = {key: value for key, value in known.items() if key in annotation_keys}
        result[pod.name] = PodState(node_name=pod.node_name, node_topology_labels=labels, annotations=noted)
    return result, unknown


def kept(
    records: Mapping[str, PodState], workload: RecordedWorkload, *, start: int, active: Collection[str]
) -> tuple[dict[str, PodState], list[str]]:
    """Records of ordinals that the workload wants, and of pods that are still there; and names that say no ordinal,
    whose records stay."""
    ordinals = {name: ordinal_of(name) for name in records}
    odd = [name for name, ordinal in ordinals.items() if ordinal is None]
    result = {
        name: records[name]
        for name, ordinal in ordinals.items()
        if ordinal is None
        or name in active
        or is_wanted(ordinal, start=start, replicas=workload.replicas, reserved=workload.reserved)
    }
    return result, odd


MOST_RECORDED: Final = 768 * 1024
"""Bytes of all records together: an object of 1.5 MiB is refused by etcd, and then no record is ever written again.
Annotations of a pod have up to 256 KiB, and a record may have all of them."""


def fitting_records(
    records: Mapping[str, PodState], before: Mapping[str, PodState]
) -> tuple[dict[str, PodState], list[str]]:
    """As many of the records as fit, and names of pods whose record is left out. Those that are stored go first: what
    has a place keeps it, as long as it does not grow."""
    left, fitting, left_out = MOST_RECORDED, dict[str, PodState](), list[str]()
    for name in sorted(records, key=lambda name: (records[name] != before.get(name), name)):
        size = len(name) + len(msgspec.json.encode(records[name]))
        if size > left:
            left_out.append(name)
            continue
        left -= size
        fitting[name] = records[name]
    return fitting, left_out


def ordinal_of(pod_name: str) -> int | None:
    """Number after the last dash; None: not a whole number."""
    digits = pod_name.rpartition("-")[2]
    return int(digits) if digits.isascii() and digits.isdecimal() else None


def document_of(generation: int, records: Mapping[str, PodState]) -> Document:
    """The whole status."""
    document: Document = {"observedGeneration": generation}
    if records:
        document["podStates"] = {
            name: {
                key: value
                for key, value in msgspec.to_builtins(record).items()
                if value not in (None, "", {})
            }
            for name, record in sorted(records.items())
        }
    return document
