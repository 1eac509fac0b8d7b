"""Addition, update and removal of the records of pods.

stored records + Ready pods + their nodes ──▶ record_pods() ──▶ records
records + ordinals that the workload wants + active pods ──▶ keep_records() ──▶ records

Pure. A record is kept after its pod is deleted, because the successor needs it. It is removed when the workload no
longer has a pod with this ordinal.
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


def record_pods(
    state: StateView,
    pods: Sequence[PodView],
    nodes: Mapping[str, NodeView],
    annotations: Mapping[str, Mapping[str, str]],
) -> tuple[dict[str, PodState], list[str]]:
    """Return the records after updating those of Ready pods, and the names of pods whose node is unknown.

    `annotations`: uid of each pod → its annotations; empty if no annotations are recorded.
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


def keep_records(
    records: Mapping[str, PodState], workload: RecordedWorkload, *, start: int, active: Collection[str]
) -> tuple[dict[str, PodState], list[str]]:
    """Return the records of ordinals that the workload has and of existing pods. Records of names without an ordinal
    are kept too; the second result lists these names.
    """
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
"""Maximum size of all records in bytes. Annotations of one pod can have 256 KiB, and a record can contain all of them.
If the object were larger than 1.5 MiB, etcd would reject it, and no record could be written any more.
"""


def fit_records(
    records: Mapping[str, PodState], before: Mapping[str, PodState]
) -> tuple[dict[str, PodState], list[str]]:
    """Return as many records as fit, and the names of pods whose record does not fit. Unchanged stored records are
    selected first, so a stored record is not replaced by the record of another pod.
    """
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
    """Return the number after the last dash; None if there is no integer."""
    digits = pod_name.rpartition("-")[2]
    return int(digits) if digits.isascii() and digits.isdecimal() else None


def document_of(generation: int, records: Mapping[str, PodState]) -> Document:
    """Build the whole status."""
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
