"""Pods that a DaemonSet creates, and the stages that create pods on nodes and delete them.

node names ──▶ creations() ──▶ chains;  pods to delete ──▶ Departures ──▶ chains, or why they wait

Pure. A pod is created for one node: its node affinity names that node, and the scheduler binds the pod.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from pykruise.kinds.daemonset.placement import daemon_tolerations
from pykruise.kinds.daemonset.working_set import DaemonSetWorkingSet
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.plans.phases import PlanPhase, delete_steps, pod_chain, stage_of
from pykruise.plans.purposes import Purpose
from pykruise.pods.in_place import with_ready_gates
from pykruise.pods.reasons import Code
from pykruise.pods.template.metadata import pod_metadata
from pykruise.pods.template.node_placement import bound_to
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.actions import Create
from pykruise.runtime.plan import Chain, Note, Step
from pykruise.runtime.reasons import Reason

LONGEST_PREFIX: Final = 58
"""Length limit of a generated name without its random suffix."""

DAEMON_SCHEDULER: Final = "kubernetes.io/daemonset-controller"


class Going(msgspec.Struct, frozen=True):
    """A pod to delete, with the reason."""

    pod: PodView
    because: str


def stays_until(new: str) -> Reason:
    """Return the reason that an old pod stays beside the new pod of its node."""
    return Reason(Code.TURN, f"stays until {new} is available")


def come_and_go(
    ws: DaemonSetWorkingSet, *, nodes: Sequence[str], why: str, going: Sequence[Going]
) -> PlanPhase:
    """Create pods for `nodes` and delete the pods in `going`, at most `burst` of each. Later plans do the rest.

    Creations and deletions do not wait for each other: an exhausted quota must not keep failed pods, and a pod that
    may not be deleted must not keep another node empty.
    """
    burst = ws.limits.burst
    chains: list[Chain] = []
    skipped: dict[str, Reason] = {}
    is_partial = len(nodes) > burst
    for item in going:
        if len(chains) == burst:
            skipped[item.pod.name] = Reason(Code.TURN, f"{item.because}, after those that go first")
            is_partial = True
            continue
        steps, waits = delete_steps(item.pod, hook=ws.spec.hooks.pre_delete, now=ws.now, because=item.because)
        if steps:
            chains.append(pod_chain(item.pod, *steps))
        elif waits is not None:
            skipped[item.pod.name] = waits
    documents = pod_documents(ws, nodes[:burst]) if nodes else ()
    created = (_creation(document, node, why) for document, node in documents)
    stages = (
        *stage_of(Purpose.CREATE_PODS, created, ramp=True),
        *stage_of(Purpose.DELETE_PODS, chains, regardless=True),
    )
    return PlanPhase(stages=stages, skipped=skipped, is_partial=is_partial)


def _creation(document: Document, node: str, why: str) -> Chain:
    metadata = document["metadata"]
    name = metadata["name"]
    step = Step(
        action=Create(resource=PODS, key=Key(metadata["namespace"], name), body=document),
        because=f"node {node} {why}",
        done=Note(reason="SuccessfulCreate", message=f"created pod {name} for node {node}"),
        failed=Note(reason="FailedCreate", message="failed to create a pod", warning=True),
    )
    return Chain(subject=name, steps=(step,), has_random_name=True)


def pod_documents(ws: DaemonSetWorkingSet, nodes: Sequence[str]) -> Iterator[tuple[Document, str]]:
    """Yield a new pod of the update revision for each node. The pods share their common parts."""
    daemonset = ws.snapshot.daemonset
    template = ws.revisions.current.template
    metadata = pod_metadata(template)
    prefix = f"{daemonset.name}-"[:LONGEST_PREFIX]
    shared: Document = {
        "generateName": prefix,
        "namespace": daemonset.namespace,
        "labels": {**(metadata.get("labels") or {}), **ws.pod_labels},
        "ownerReferences": [daemonset.owner_reference],
    }
    shared |= {field: metadata[field] for field in ("annotations", "finalizers") if metadata.get(field)}
    template_spec = template.get("spec") or {}
    spec: Document = {**template_spec, "tolerations": daemon_tolerations(template_spec)}
    if ws.spec.is_in_place:
        spec = with_ready_gates(spec)
    by_scheduler = ws.settings.assign_pods_by_scheduler
    for node, name in zip(nodes, _names(ws, prefix, len(nodes)), strict=True):
        yield (
            {
                "apiVersion": PODS.api_version,
                "kind": PODS.kind,
                "metadata": {"name": name, **shared},
                "spec": bound_to(spec, node) if by_scheduler else _on_node(spec, node),
            },
            node,
        )


def _names(ws: DaemonSetWorkingSet, prefix: str, count: int) -> Iterable[str]:
    """Return new names. The plan chooses them, so a creation without an answer can be repeated."""
    used = {pod.name[len(prefix) :] for pod in ws.snapshot.pods}
    return (f"{prefix}{fresh}" for fresh in ws.snapshot.ids.fresh_ids(count, used=used))


def _on_node(spec: Document, node: str) -> Document:
    return {**spec, "nodeName": node, "schedulerName": DAEMON_SCHEDULER}
