"""The pods that a BroadcastJob creates and deletes, as chains of a plan.

nodes ──▶ plan_creations() ──▶ chains        pods + reasons ──▶ plan_deletion() ──▶ chain

Pure. Each pod is created for one node: its spec contains a node affinity for this node, or the name of this node.
"""

from collections.abc import Iterator, Sequence

from pykruise.kinds.broadcastjob.snapshot import ReadableBroadcastJob
from pykruise.kinds.broadcastjob.types import BROADCAST_JOBS
from pykruise.kinds.broadcastjob.validation import NAME_LABEL, UID_LABEL
from pykruise.kube.documents import Document
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.plans.pod_writes import make_pod_chain
from pykruise.pods.template.metadata import read_pod_metadata
from pykruise.pods.template.node_placement import bind_to_node
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.pod_groups import add_group
from pykruise.runtime.actions import Create, delete_object
from pykruise.runtime.plan import Chain, Note, Step


def plan_creations(
    snapshot: ReadableBroadcastJob, nodes: Sequence[str], *, group: str = ""
) -> Iterator[Chain]:
    """Plan the creation of one pod for each of these nodes. The pods are members of `group`, unless it is empty."""
    for node, document in zip(nodes, _build_documents(snapshot, nodes, group=group), strict=True):
        name = document["metadata"]["name"]
        step = Step(
            action=Create(resource=PODS, key=Key(snapshot.job.namespace, name), body=document),
            because=f"node {node} has not run a pod of the job yet",
            done=Note(reason="SuccessfulCreate", message=f"created pod {name} for node {node}"),
            failed=Note(reason="FailedCreate", message="failed to create a pod", warning=True),
        )
        yield Chain(subject=name, steps=(step,), has_random_name=True)


def plan_deletion(pod: PodView, because: str) -> Chain:
    """Plan the deletion of a pod that has not finished. A pod that has finished since the snapshot is not deleted."""
    step = Step(
        action=delete_object(PODS, pod, unchanged=True),
        because=because,
        done=Note(reason="SuccessfulDelete", message=f"deleted pod {pod.name}: {because}"),
        failed=Note(reason="FailedDelete", message=f"failed to delete pod {pod.name}", warning=True),
    )
    return make_pod_chain(pod, step)


def _build_documents(
    snapshot: ReadableBroadcastJob, nodes: Sequence[str], *, group: str
) -> Iterator[Document]:
    """Build the documents of new pods. The documents share their common parts."""
    job = snapshot.job
    template = job.spec.template
    metadata = read_pod_metadata(template)
    shared: Document = {
        "generateName": f"{job.name}-",  # only for clients that read this field: metadata.name is set too
        "namespace": job.namespace,
        "labels": {**(metadata.get("labels") or {}), NAME_LABEL: job.name, UID_LABEL: job.uid},
        "ownerReferences": [job.build_reference(BROADCAST_JOBS)],
    }
    shared |= {field: metadata[field] for field in ("annotations", "finalizers") if metadata.get(field)}
    spec = add_group(template.get("spec") or {}, group)
    for node in nodes:
        yield {
            "apiVersion": PODS.api_version,
            "kind": PODS.kind,
            "metadata": {"name": snapshot.names[node], **shared},
            "spec": bind_to_node(spec, node)
            if snapshot.settings.assign_by_scheduler
            else {**spec, "nodeName": node},
        }
