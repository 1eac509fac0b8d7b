"""The rows of workloads and jobs, as `kubectl get` shows them.

a workload, now ──▶ print_…() ──▶ cells

Pure. Same rules as Kubernetes' printers.
"""

from typing import Any

from pykruise.kube.clock import Instant, parse_time
from pykruise.kube.values.owners import controller_of
from pykruise.kube.values.selectors import SelectorError, parse_selector
from pykruise.sandbox.apiserver.printing.cells import (
    NONE,
    Doc,
    age_of,
    containers_of,
    format_human_duration,
    format_labels,
    format_selector,
    format_since,
    is_ending,
    is_true,
    name_of,
    read_template_spec,
    spec_of,
    status_of,
)


def print_deployment(deployment: Doc, now: Instant) -> list[Any]:
    """A Deployment's cells."""
    spec, status = spec_of(deployment), status_of(deployment)
    try:
        selector = str(parse_selector(spec.get("selector")))
    except SelectorError:
        selector = "<invalid>"
    return [
        name_of(deployment),
        f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}",
        status.get("updatedReplicas") or 0,
        status.get("availableReplicas") or 0,
        age_of(deployment, now),
        *containers_of(read_template_spec(deployment)),
        selector,
    ]


def print_replica_set(owner: Doc, now: Instant) -> list[Any]:
    """A ReplicaSet's cells."""
    spec, status = spec_of(owner), status_of(owner)
    return [
        name_of(owner),
        spec.get("replicas") or 0,
        status.get("replicas") or 0,
        status.get("readyReplicas") or 0,
        age_of(owner, now),
        *containers_of(read_template_spec(owner)),
        format_selector(spec.get("selector")),
    ]


def print_stateful_set(owner: Doc, now: Instant) -> list[Any]:
    """A StatefulSet's cells."""
    ready = f"{status_of(owner).get('readyReplicas') or 0}/{spec_of(owner).get('replicas') or 0}"
    return [name_of(owner), ready, age_of(owner, now), *containers_of(read_template_spec(owner))]


def print_daemon_set(owner: Doc, now: Instant) -> list[Any]:
    """A DaemonSet's cells."""
    status = status_of(owner)
    counts = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    return [
        name_of(owner),
        *(status.get(count) or 0 for count in counts),
        format_labels(read_template_spec(owner).get("nodeSelector")),
        age_of(owner, now),
        *containers_of(read_template_spec(owner)),
        format_selector(spec_of(owner).get("selector")),
    ]


def print_controller_revision(revision: Doc, now: Instant) -> list[Any]:
    """A ControllerRevision's cells."""
    owner = controller_of(revision)
    shown = NONE
    if owner is not None:
        group = owner.api_version.rpartition("/")[0]
        shown = f"{owner.kind.lower()}{f'.{group}' if group else ''}/{owner.name}"
    return [name_of(revision), shown, revision.get("revision") or 0, age_of(revision, now)]


def print_job(job: Doc, now: Instant) -> list[Any]:
    """A Job's cells."""
    spec, status = spec_of(job), status_of(job)
    done, parallel = status.get("succeeded") or 0, spec.get("parallelism") or 0
    if spec.get("completions") is not None:
        completions = f"{done}/{spec['completions']}"
    else:
        completions = f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"
    return [
        name_of(job),
        _compute_job_status(job),
        completions,
        _format_job_duration(status, now),
        age_of(job, now),
        *containers_of(read_template_spec(job)),
        format_selector(spec.get("selector")),
    ]


def _compute_job_status(job: Doc) -> str:
    conditions = status_of(job).get("conditions") or ()
    for kind in ("Complete", "Failed"):
        if is_true(conditions, kind):
            return kind
    if is_ending(job):
        return "Terminating"
    for kind, shown in (("Suspended", "Suspended"), ("FailureTarget", "FailureTarget")):
        if is_true(conditions, kind):
            return shown
    return "Running"


def _format_job_duration(status: Doc, now: Instant) -> str:
    if not status.get("startTime"):
        return ""
    end = parse_time(status["completionTime"]) if status.get("completionTime") else now
    return format_human_duration(end - parse_time(status["startTime"]))


def print_cron_job(job: Doc, now: Instant) -> list[Any]:
    """A CronJob's cells."""
    spec, status = spec_of(job), status_of(job)
    inner = (spec.get("jobTemplate") or {}).get("spec") or {}
    last = status.get("lastScheduleTime")
    return [
        name_of(job),
        spec.get("schedule") or "",
        spec.get("timeZone") or NONE,
        "True" if spec.get("suspend") else "False",
        len(status.get("active") or ()),
        format_since(last, now) if last else NONE,
        age_of(job, now),
        *containers_of((inner.get("template") or {}).get("spec") or {}),
        format_selector(inner.get("selector")),
    ]
