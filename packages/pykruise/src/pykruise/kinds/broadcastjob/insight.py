"""BroadcastJob for the commands explain, plan and simulate.

status ──▶ headline_of()      spec ──▶ compute_wait_s()      ──▶ INSIGHT (plans/insight.py)
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kinds.broadcastjob.snapshot import BroadcastJobSnapshot
from pykruise.kinds.broadcastjob.validation import NAME_LABEL
from pykruise.kube.values.counts import format_count
from pykruise.plans.insight import AtWork, JobInsight
from pykruise.pods.corrections import read_log


def headline_of(status: Mapping[str, Any]) -> str:
    """Return one line about the progress of the job."""
    phase = status.get("phase") or "not started"
    desired, active, succeeded, failed = (
        status.get(name, 0) for name in ("desired", "active", "succeeded", "failed")
    )
    nodes = format_count(desired, "node")
    return f"{phase} on {nodes}: {succeeded} succeeded, {failed} failed, {active} active"


def compute_wait_s(spec: Mapping[str, Any]) -> float:
    """Return the job's deadline or its time to live, whichever is longer, in seconds."""
    policy = spec.get("completionPolicy") or {}
    return float(max(policy.get(name) or 0 for name in ("activeDeadlineSeconds", "ttlSecondsAfterFinished")))


def list_pods_at_work(snapshot: BroadcastJobSnapshot) -> Iterator[AtWork]:
    """Yield the pods that have not ended."""
    job = snapshot.job
    policy = job.spec.completion_policy if job.spec is not None else None
    ends = policy is None or policy.type != "Never"
    stop = "; spec.completionPolicy.activeDeadlineSeconds ends the job at a set time" if ends else ""
    for pod in snapshot.pods:
        if not pod.is_active:
            continue
        running = (
            item.name for item in pod.container_statuses if not item.waiting and item.exit_code is None
        )
        container = next(running, "")
        log = read_log(pod.namespace, pod.name, container)
        yield AtWork(name=pod.name, container=container, remedy=f"if that lasts, {log}{stop}")


INSIGHT: Final = JobInsight(
    names=frozenset({"bcj"}),
    headline=headline_of,
    at_work=list_pods_at_work,
    has_observed_generation=False,
    pod_label=NAME_LABEL,
    waits_s=compute_wait_s,
)
