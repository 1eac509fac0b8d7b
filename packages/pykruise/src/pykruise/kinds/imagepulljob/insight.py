"""ImagePullJob for the commands explain and plan.

status ──▶ headline_of()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kinds.imagepulljob.snapshot import ImagePullJobSnapshot
from pykruise.kinds.imagepulljob.targets import state_of
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.selectors import Selector
from pykruise.plans.insight import AtWork, Insight
from pykruise.plans.views import SECRET_VIEWS
from pykruise.pods.jobs.fan_out import TargetState
from pykruise.pods.reasons import Code


def headline_of(status: Mapping[str, Any]) -> str:
    """Return one line about the progress of the job."""
    desired, active, succeeded, failed = (
        status.get(name, 0) for name in ("desired", "active", "succeeded", "failed")
    )
    nodes_have = format_count(desired, "node has", "nodes have")
    said = status.get("message") or "not started"
    counts = (
        f"{succeeded} of {nodes_have} the image, {failed} failed, {format_count(active, 'pulls', 'pull')} it"
    )
    return f"{said}: {counts}"


def list_nodes_at_work(snapshot: ImagePullJobSnapshot) -> Iterator[AtWork]:
    """Yield the nodes that pull the image."""
    image = snapshot.job.image
    if image is None:
        return
    for node in snapshot.nodes:
        if state_of(node, snapshot.job, image) is TargetState.ACTIVE:
            entry, status = node.find_entry(image), node.statuses.get(image)
            asked_at = str(entry.created_at or "") if entry is not None else ""
            yield AtWork(
                name=node.name, since=(status.start_time if status is not None else None) or asked_at
            )


def selector_of_nodes(snapshot: ImagePullJobSnapshot) -> Selector | None:
    """Return the selector of the job; None if the job chooses all nodes, or nodes by their names or pods."""
    job = snapshot.job
    chosen = job.spec.selector if job.spec is not None else None
    has_names = chosen is not None and chosen.names is not None
    is_by_labels = job.pod_selector is None and not has_names and str(job.selector or "")
    return job.selector if is_by_labels else None


INSIGHT: Final = Insight(
    containers=(),
    headline=headline_of,
    at_work=list_nodes_at_work,
    node_of=lambda _, name: name,
    selector_of_nodes=selector_of_nodes,
    pod_selector=("spec", "podSelector"),
    everywhere=(SECRET_VIEWS,),
    objects_of_nodes={Code.NO_NODE_IMAGE: "NodeImage"},
    has_observed_generation=False,
)
