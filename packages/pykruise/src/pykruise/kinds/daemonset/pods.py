"""Pods that a DaemonSet creates on nodes, and pods that it deletes.

node names + pods to delete ──▶ plan_coming_and_going() ──▶ PlanPhase

Pure. A pod is created for one node: its node affinity contains the name of this node, and the scheduler binds the pod.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from pykruise.kinds.daemonset.placement import list_daemon_tolerations
from pykruise.kinds.daemonset.working_set import DaemonSetWorkingSet
from pykruise.kube.documents import Document
from pykruise.kube.resources import PODS
from pykruise.plans.phases import ChangePod, CreatePod, DecidedStage, DeletePod, PlanPhase, decide_deletion
from pykruise.plans.purposes import Purpose
from pykruise.pods.in_place import add_ready_gates
from pykruise.pods.reasons import Code
from pykruise.pods.template.metadata import read_pod_metadata
from pykruise.pods.template.node_placement import bind_to_node
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.reasons import Reason

LONGEST_PREFIX: Final = 58
"""Maximum length of a pod's name without its random suffix."""

DAEMON_SCHEDULER: Final = "kubernetes.io/daemonset-controller"


class Going(msgspec.Struct, frozen=True):
    """A pod to delete, with the reason."""

    pod: PodView
    because: str


def make_stay_reason(new: str) -> Reason:
    """Return the reason why an old pod is kept while its node also has a new pod."""
    return Reason(Code.TURN, f"stays until {new} is available")


def plan_coming_and_going(
    ws: DaemonSetWorkingSet, *, nodes: Sequence[str], why: str, going: Sequence[Going]
) -> PlanPhase:
    """Plan the creation of pods for `nodes` and the deletion of the pods in `going`, at most `burst` of each. Later
    plans create and delete further pods.

    Creations and deletions do not wait for each other. So failed pods are deleted even if the quota is exhausted, and
    other nodes get their pods even if a pod cannot be deleted.
    """
    burst = ws.limits.burst
    deleted: list[DeletePod | ChangePod] = []
    skipped: dict[str, Reason] = {}
    is_partial = len(nodes) > burst
    for item in going:
        if len(deleted) == burst:
            skipped[item.pod.name] = Reason(Code.TURN, f"{item.because}; other pods are deleted first")
            is_partial = True
            continue
        decision = decide_deletion(item.pod, hook=ws.spec.hooks.pre_delete, now=ws.now, because=item.because)
        if isinstance(decision, Reason):
            skipped[item.pod.name] = decision
        else:
            deleted.append(decision)
    created = [
        CreatePod(
            subject=(name := document["metadata"]["name"]),
            document=document,
            because=f"node {node} {why}",
            created=f"created pod {name} for node {node}",
        )
        for document, node in (build_pod_documents(ws, nodes[:burst]) if nodes else ())
    ]
    stages = (
        DecidedStage(purpose=Purpose.CREATE_PODS, decisions=created, ramp=True),
        DecidedStage(purpose=Purpose.DELETE_PODS, decisions=deleted, regardless=True),
    )
    return PlanPhase(decided=stages, skipped=skipped, is_partial=is_partial)


def build_pod_documents(ws: DaemonSetWorkingSet, nodes: Sequence[str]) -> Iterator[tuple[Document, str]]:
    """Yield a new pod of the update revision for each node. The documents share their common parts."""
    daemonset = ws.snapshot.daemonset
    template = ws.revisions.current.template
    metadata = read_pod_metadata(template)
    prefix = f"{daemonset.name}-"[:LONGEST_PREFIX]
    shared: Document = {
        "generateName": prefix,
        "namespace": daemonset.namespace,
        "labels": {**(metadata.get("labels") or {}), **ws.pod_labels},
        "ownerReferences": [daemonset.owner_reference],
    }
    shared |= {field: metadata[field] for field in ("annotations", "finalizers") if metadata.get(field)}
    template_spec = template.get("spec") or {}
    spec: Document = {**template_spec, "tolerations": list_daemon_tolerations(template_spec)}
    if ws.spec.is_in_place:
        spec = add_ready_gates(spec)
    by_scheduler = ws.settings.assign_pods_by_scheduler
    for node, name in zip(nodes, _choose_names(ws, prefix, len(nodes)), strict=True):
        yield (
            {
                "apiVersion": PODS.api_version,
                "kind": PODS.kind,
                "metadata": {"name": name, **shared},
                "spec": bind_to_node(spec, node) if by_scheduler else _on_node(spec, node),
            },
            node,
        )


def _choose_names(ws: DaemonSetWorkingSet, prefix: str, count: int) -> Iterable[str]:
    """Return names for new pods. The plan chooses the names, so that a creation without a response can be repeated."""
    used = {pod.name[len(prefix) :] for pod in ws.snapshot.pods}
    return (f"{prefix}{fresh}" for fresh in ws.snapshot.ids.draw_ids(count, used=used))


def _on_node(spec: Document, node: str) -> Document:
    return {**spec, "nodeName": node, "schedulerName": DAEMON_SCHEDULER}
