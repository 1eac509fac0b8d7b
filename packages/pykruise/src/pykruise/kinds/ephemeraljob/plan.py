"""All decisions about an EphemeralJob, as one plan.

EphemeralJobSnapshot ──▶ _select_targets() ──▶ decide_fan_out() ──▶ Plan: containers to add to pods, the status,
                                                                    deletion of the job

Pure. An environment variable of each ephemeral container contains the uid of the job. So no container is added twice,
even if a manager is killed between writes. No container is ever stopped, because Kubernetes cannot remove an ephemeral
container from a pod.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.kinds.ephemeraljob.snapshot import (
    EphemeralJobSnapshot,
    EphemeralJobView,
    ReadableEphemeralJob,
    is_readable,
)
from pykruise.kinds.ephemeraljob.status import DEADLINE, EphemeralJobTally, document_of, status_of
from pykruise.kinds.ephemeraljob.types import EPHEMERAL_JOBS, EphemeralJobSpec
from pykruise.kube.clock import Instant, parse_optional_time
from pykruise.kube.documents import Document
from pykruise.kube.values.counts import format_count, format_first
from pykruise.plans.insight import AtWork
from pykruise.plans.phases import MOST_AT_ONCE
from pykruise.plans.pod_writes import pod_patch
from pykruise.plans.purposes import Purpose
from pykruise.plans.stored_values import make_refused_plan
from pykruise.pods.corrections import OF_THE_WORKLOAD
from pykruise.pods.jobs.ended_changes import NAMES_STAY
from pykruise.pods.jobs.fan_out import (
    HELD,
    FanOutDecision,
    FanOutTarget,
    Finish,
    JobPolicy,
    JobRun,
    TargetHold,
    TargetState,
    decide_fan_out,
    explain_pause,
    find_wait_reason,
    make_deadline_remedy,
)
from pykruise.pods.lifecycle.blockers import (
    LOOKED_AT,
    blocker_of,
    find_ephemeral_blocker,
    find_next_blocker_time,
)
from pykruise.pods.reasons import Code
from pykruise.pods.view.ephemeral import JOB_ENV, EphemeralState, EphemeralView
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.actions import delete_object, patch_object
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step, compute_seconds_until, find_soonest
from pykruise.runtime.reasons import Reason

FINALIZER: Final = "apps.kruise.io/ephemeralcontainers-cleanup"
"""Finalizer that OpenKruise adds to each job. pykruise does not add it, but removes it from a job that is being
deleted.
"""

DEFAULT_TTL_S: Final = 1800
_DEADLINE: Final = "spec.activeDeadlineSeconds"


def plan_ephemeraljob(snapshot: EphemeralJobSnapshot) -> Plan:
    """Plan all writes that this job needs now, its status, and when it is reconciled again."""
    job = snapshot.job
    if job.is_deleting:
        return Plan(stages=_release(job))
    if not is_readable(snapshot):
        return make_refused_plan(snapshot.refused or [snapshot.job.problem])
    pods = _select_targets(job, snapshot.job.spec, snapshot.pods)
    states = {pod.name: _find_state_in_pod(job, pod) for pod in pods}
    untargeted = dict(_find_missing_targets(job, [pod for pod in pods if states[pod.name] is None]))
    stuck = {pod.name for pod in pods if _is_stuck(pod, states[pod.name], snapshot.now)}
    # Pods in which nothing can start, and then pods without the container that the job's containers target, are last,
    # so that they do not use up the parallelism: the API server would reject the containers in the latter.
    in_turn = sorted(pods, key=lambda pod: (pod.name in untargeted, pod.name in stuck))
    decision = decide_fan_out(
        [
            FanOutTarget(name=pod.name, state=_PROGRESS[states[pod.name]], is_blocked=pod.name in stuck)
            for pod in in_turn
        ]
        if job.containers
        else (),
        _build_policy(snapshot.job.spec),
        _build_run(snapshot),
        now=snapshot.now,
    )
    if job.status.completion_time:
        return _plan_after_end(snapshot, pods, states, decision, untargeted)
    return _plan_before_end(snapshot, pods, states, decision, untargeted)


def _build_policy(spec: EphemeralJobSpec) -> JobPolicy:
    ttl_s = spec.ttl_seconds_after_finished
    return JobPolicy(
        parallelism=1 if spec.parallelism is None else spec.parallelism,
        is_paused=spec.paused,
        deadline_s=spec.active_deadline_seconds,
        ttl_s=DEFAULT_TTL_S if ttl_s is None else ttl_s,
    )


def _build_run(snapshot: EphemeralJobSnapshot) -> JobRun:
    status = snapshot.job.status
    started_at = parse_optional_time(status.start_time)
    finished_at = parse_optional_time(status.completion_time)
    if status.completion_time and finished_at is None:
        finished_at = snapshot.now
    return JobRun(started_at=snapshot.now if started_at is None else started_at, finished_at=finished_at)


# Pods


def _select_targets(
    job: EphemeralJobView, spec: EphemeralJobSpec, pods: Sequence[PodView]
) -> Sequence[PodView]:
    """Return the first `replicas` of the free pods."""
    free = _list_free(job, pods)
    return free if spec.replicas is None else free[: max(spec.replicas, 0)]


def _list_free(job: EphemeralJobView, pods: Sequence[PodView]) -> Sequence[PodView]:
    """Return the pods to which no other job or person has added an ephemeral container with the name of one of
    the job's containers.
    """
    names = job.names
    return [
        pod
        for pod in pods
        if not any(ephemeral.name in names and ephemeral.job != job.uid for ephemeral in pod.ephemeral)
    ]


def _list_taken(
    snapshot: EphemeralJobSnapshot, chosen: Sequence[PodView], *, until: Instant
) -> dict[str, Reason]:
    """Name of each pod that is left out because of the name of a container → the reason. Empty if all pods are left
    out, or if spec.replicas is set. `until`: pods that were created after this time are ignored.
    """
    job = snapshot.job
    if not chosen or (job.spec is not None and job.spec.replicas is not None):
        return {}
    names = {pod.name for pod in chosen}
    left_out = (pod for pod in snapshot.pods if pod.name not in names and (pod.created_at or until) <= until)
    return {pod.name: _explain_taken(Code.NO_EFFECT, job, [pod], _LEFT_OUT) for pod in left_out}


_LEFT_OUT: Final = "it gets no container of the job, because it has"


def _explain_taken(code: Code, job: EphemeralJobView, pods: Sequence[PodView], who: str) -> Reason:
    """Return the reason of pods that have an ephemeral container with the name of one of the job's containers. `who`:
    subject and verb of the message.
    """
    taken = {
        ephemeral.name
        for pod in pods[:LOOKED_AT]
        for ephemeral in pod.ephemeral
        if ephemeral.name in job.names and ephemeral.job != job.uid
    }
    words = f"{who} an ephemeral container {' or '.join(sorted(taken))} from another job or person"
    return Reason(code, words, NAMES_STAY)


_PROGRESS: Final[Mapping[EphemeralState | None, TargetState]] = {
    None: TargetState.PENDING,
    EphemeralState.UNKNOWN: TargetState.ACTIVE,
    EphemeralState.WAITING: TargetState.ACTIVE,
    EphemeralState.RUNNING: TargetState.ACTIVE,
    EphemeralState.SUCCEEDED: TargetState.SUCCEEDED,
    EphemeralState.FAILED: TargetState.FAILED,
}


def _find_state_in_pod(job: EphemeralJobView, pod: PodView) -> EphemeralState | None:
    """Return the state of the job's containers in a pod; None if the pod has no container of the job."""
    own = [ephemeral for ephemeral in pod.ephemeral if ephemeral.name in job.names]
    return _compute_state(own, len(job.names)) if own else None


def _compute_state(own: Sequence[EphemeralView], wanted: int) -> EphemeralState:
    states = [ephemeral.state for ephemeral in own]
    if EphemeralState.FAILED in states:
        return EphemeralState.FAILED
    if states.count(EphemeralState.SUCCEEDED) == wanted:
        return EphemeralState.SUCCEEDED
    for state in (EphemeralState.RUNNING, EphemeralState.WAITING):
        if state in states:
            return state
    return EphemeralState.UNKNOWN


def _count_states(states: Iterable[EphemeralState | None]) -> EphemeralJobTally:
    ephemeral_states = list(states)
    return EphemeralJobTally(
        match=len(ephemeral_states),
        running=ephemeral_states.count(EphemeralState.RUNNING),
        succeeded=ephemeral_states.count(EphemeralState.SUCCEEDED),
        waiting=ephemeral_states.count(EphemeralState.WAITING),
        failed=ephemeral_states.count(EphemeralState.FAILED),
    )


# Before and after the end


def _plan_before_end(
    snapshot: ReadableEphemeralJob,
    pods: Sequence[PodView],
    states: Mapping[str, EphemeralState | None],
    decision: FanOutDecision,
    untargeted: Mapping[str, Reason],
) -> Plan:
    """Plan the writes before the job ends. `untargeted`: name of each pod without the container that the job's
    containers target → the reason.
    """
    job = snapshot.job
    status = status_of(
        job.status,
        _count_states(states.values()),
        now=snapshot.now,
        is_paused=job.spec.paused,
        is_over=decision.finish is Finish.COMPLETE,
        is_late=decision.finish is Finish.DEADLINE,
        has_containers=bool(job.containers),
        unfinished=_describe_unfinished(snapshot, states),
        is_taken=bool(snapshot.pods) and not _list_free(job, snapshot.pods),
    )
    document = document_of(status)
    obstacles = _find_obstacles(job, pods, snapshot.now, untargeted)
    paused = explain_pause(_build_policy(job.spec), _build_run(snapshot), field=_DEADLINE, now=snapshot.now)
    startable = [name for name in decision.start if name not in untargeted]
    now = startable[:MOST_AT_ONCE]
    chosen = set(now)
    chains = tuple(_inject_containers(job, pod) for pod in pods if pod.name in chosen)
    stages = (Stage(purpose=Purpose.INJECT_CONTAINERS, chains=chains, ramp=True),) if chains else ()
    return Plan(
        stages=stages,
        status=None if document == job.stored_status else document,
        requeue_after_s=0.0
        if len(now) < len(startable)
        else find_soonest([decision.requeue_after_s, _until_blocked(pods, snapshot.now)]),
        waiting=_find_waiting(snapshot, decision, obstacles, paused),
        skipped={
            **_list_taken(snapshot, pods, until=snapshot.now),
            **{
                name: paused if hold is TargetHold.PAUSED else HELD[hold]
                for name, hold in decision.waiting.items()
            },
            **{pod.name: obstacle for pod, obstacle in obstacles},
        },
    )


def _describe_unfinished(snapshot: ReadableEphemeralJob, states: Mapping[str, EphemeralState | None]) -> str:
    """Describe what was left at the deadline: pods whose containers had not ended, and pods without containers of the
    job; or that no pod matched. Empty if nothing was left.
    """
    if not states:
        return "" if snapshot.pods else "no pod matched spec.selector"
    progress = [_PROGRESS[state] for state in states.values()]
    active, pending = progress.count(TargetState.ACTIVE), progress.count(TargetState.PENDING)
    parts = []
    if active:
        parts.append(f"containers in {format_count(active, 'pod')} had not ended")
    if pending:
        limit = _build_policy(snapshot.job.spec).parallelism
        is_limited = limit is not None and active >= limit
        why = f" (spec.parallelism is {limit})" if is_limited else ""
        parts.append(f"{format_count(pending, 'pod')} got no container{why}")
    return ", and ".join(parts)


def _plan_after_end(
    snapshot: ReadableEphemeralJob,
    pods: Sequence[PodView],
    states: Mapping[str, EphemeralState | None],
    decision: FanOutDecision,
    untargeted: Mapping[str, Reason],
) -> Plan:
    job = snapshot.job
    if not decision.delete:
        failed = next(
            (condition for condition in job.status.conditions or () if condition.type == "JobFailed"), None
        )
        over = Reason(Code.JOB_OVER, "the job has ended")
        ended_at = parse_optional_time(job.status.completion_time) or snapshot.now
        obstacles = _find_obstacles(job, pods, snapshot.now, untargeted)
        unserved: dict[str, Reason] = {}
        if failed is not None and job.status.phase == "Failed":
            remedy = ""
            if failed.reason == DEADLINE:
                pending = (
                    pod
                    for pod in pods
                    if states[pod.name] is None and (pod.created_at or ended_at) <= ended_at
                )
                unserved = {pod.name: _UNSERVED for pod in pending if pod.name not in untargeted}
                is_active = any(_PROGRESS[state] is TargetState.ACTIVE for state in states.values())
                remedy = _describe_deadline_remedy(
                    bool(obstacles), is_active=is_active, has_unserved=bool(unserved)
                )
            over = Reason(Code.JOB_FAILED, failed.message or "the job has failed", remedy)
        return Plan(
            requeue_after_s=decision.requeue_after_s,
            waiting=over,
            skipped={
                **_list_taken(snapshot, pods, until=ended_at),
                **unserved,
                **{pod.name: obstacle for pod, obstacle in obstacles},
            },
        )
    because = "ttlSecondsAfterFinished has passed"
    step = Step(action=delete_object(EPHEMERAL_JOBS, job), because=because)
    return Plan(stages=(Stage(purpose=Purpose.DELETE_JOB, chains=(Chain(subject=job.name, steps=(step,)),)),))


_MORE_AT_ONCE: Final = "create the job again with a higher spec.parallelism or spec.activeDeadlineSeconds"
_UNSERVED: Final = Reason(
    Code.PARALLELISM,
    "it got no container before the deadline",
    f"{_MORE_AT_ONCE}: pods that already have a container with the name of a container of the job are left out",
)
"""Reason of a pod to which no container was added before the deadline."""


def _describe_deadline_remedy(is_blocked: bool, *, is_active: bool, has_unserved: bool) -> str:
    """Return the remedy of a job that exceeded its deadline. `is_blocked`: something prevents containers from running.
    `is_active`: containers have not ended. `has_unserved`: pods got no container.
    """
    if not is_blocked and is_active:
        return (
            "create the job again with another container name and a higher spec.activeDeadlineSeconds: an ephemeral"
            " container stays until its pod is replaced"
        )
    return _UNSERVED.remedy if not is_blocked and has_unserved else make_deadline_remedy(_DEADLINE)


def _find_obstacles(
    job: EphemeralJobView, pods: Sequence[PodView], now: Instant, untargeted: Mapping[str, Reason]
) -> list[tuple[PodView, Reason]]:
    """Find why the job's containers do not run, for each pod. As with workloads, only the first pods are inspected."""
    images = {str(container.get("name")): str(container.get("image") or "") for container in job.containers}
    result = (
        (pod, find_ephemeral_blocker(pod, ephemeral, images[ephemeral.name]))
        for pod in pods[:LOOKED_AT]
        for ephemeral in pod.ephemeral
        if ephemeral.name in images
    )
    stuck = ((pod, _find_pod_blocker(pod, now)) for pod in pods[:LOOKED_AT])
    without = ((pod, untargeted.get(pod.name)) for pod in pods[:LOOKED_AT])
    return [(pod, obstacle) for pod, obstacle in (*result, *stuck, *without) if obstacle is not None]


_MOST_LISTED: Final = 5
"""Maximum number of containers of a pod that a message names."""


def _find_missing_targets(job: EphemeralJobView, pods: Sequence[PodView]) -> Iterator[tuple[str, Reason]]:
    """Yield the names of pods without a container that targetContainerName requires, each with the reason. A container
    of the job sees the processes of its target container.
    """
    targets = [
        (
            f"spec.template.ephemeralContainers[{index}].targetContainerName",
            str(container["targetContainerName"]),
        )
        for index, container in enumerate(job.containers)
        if container.get("targetContainerName")
    ]
    for pod in pods if targets else ():
        names = [container.name for container in pod.containers]
        sidecars = {container.name for container in pod.sidecars}
        known = {*names, *sidecars, *(status.name for status in pod.init_statuses)}
        missing = next(((path, target) for path, target in targets if target not in known), None)
        if missing is not None:
            path, target = missing
            listed = format_first(names, _MOST_LISTED)
            message = f"the pod has no container {target} ({path}); its containers: {listed}"
            remedy = f"set {path} to {' or '.join(names[:_MOST_LISTED])}, or remove it"
            yield pod.name, Reason(Code.REFUSED, message, remedy)


def _until_blocked(pods: Sequence[PodView], now: Instant) -> float | None:
    """Return the seconds until a pod that does not run must be reported."""
    return compute_seconds_until(find_next_blocker_time(pods, now=now), now=now)


_NOTHING_STARTS: Final = frozenset(
    {
        *(Code.NODE_LOST, Code.NOT_MOUNTED, Code.UNSCHEDULABLE, Code.UNBOUND_CLAIMS),
        *(Code.SCHEDULING_GATED, Code.NO_SCHEDULER),
    }
)
"""Codes of reasons why no container of a pod can start, not even an ephemeral container."""


def _find_pod_blocker(pod: PodView, now: Instant) -> Reason | None:
    """Return why no container of the pod can start: the pod has no node, the node does not report, or volumes are not
    mounted. Otherwise return None.
    """
    obstacle = None if pod.is_ready else blocker_of(pod, None, now=now, correction=OF_THE_WORKLOAD)
    return obstacle if obstacle is not None and obstacle.code in _NOTHING_STARTS else None


def _is_stuck(pod: PodView, state: EphemeralState | None, now: Instant) -> bool:
    """Whether no container of the job has run in the pod, and none can start."""
    is_open = state in (None, EphemeralState.UNKNOWN, EphemeralState.WAITING)
    return is_open and _find_pod_blocker(pod, now) is not None


def list_pods_at_work(snapshot: EphemeralJobSnapshot) -> Iterator[AtWork]:
    """Yield the pods in which a container of the job is running."""
    job = snapshot.job
    for pod in snapshot.pods:
        for ephemeral in pod.ephemeral:
            if ephemeral.job == job.uid and ephemeral.state is EphemeralState.RUNNING:
                end = (
                    f"if container {ephemeral.name} never ends, delete its pod (kubectl delete pod"
                    f" -n {pod.namespace} {pod.name}): nothing else ends an ephemeral container"
                )
                yield AtWork(name=pod.name, container=ephemeral.name, remedy=end)
                break


def _find_waiting(
    snapshot: ReadableEphemeralJob,
    decision: FanOutDecision,
    obstacles: Sequence[tuple[PodView, Reason]],
    paused: Reason,
) -> Reason | None:
    if not snapshot.job.containers:
        remedy = "add a container to spec.template.ephemeralContainers"
        return Reason(Code.INVALID_SPEC, "spec.template.ephemeralContainers is empty", remedy)
    all_taken = "every pod that spec.selector matches already has"
    nothing_fits = (
        _explain_taken(Code.NOTHING_SELECTED, snapshot.job, snapshot.pods, all_taken)
        if snapshot.pods
        else _explain_no_pods(snapshot.job)
    )
    return find_wait_reason(
        decision,
        nothing_fits=nothing_fits,
        running=_format_container_count,
        obstacles=obstacles,
        paused=paused,
    )


def _explain_no_pods(job: EphemeralJobView) -> Reason:
    return Reason(
        Code.NOTHING_SELECTED,
        f"no pod of namespace {job.namespace} matches spec.selector ({job.selector}); the job waits for one",
        "correct the labels of the pods, or create the job again with another selector",
    )


def _inject_containers(job: EphemeralJobView, pod: PodView) -> Chain:
    patch = pod_patch(
        pod,
        {
            "spec": {
                "ephemeralContainers": [_mark_container(container, job.uid) for container in job.containers]
            }
        },
        subresource="ephemeralcontainers",
    )
    failed = Note(reason="CreateFailed", message=f"failed to add containers to pod {pod.name}", warning=True)
    return Chain(subject=pod.name, steps=(Step(action=patch, because="the job selects it", failed=failed),))


def _mark_container(container: Mapping[str, Any], uid: str) -> Document:
    """Return the container with the environment variable that contains the uid of its job."""
    env = [variable for variable in container.get("env") or () if variable.get("name") != JOB_ENV]
    return {**container, "env": [*env, {"name": JOB_ENV, "value": uid}]}


def _release(job: EphemeralJobView) -> tuple[Stage, ...]:
    if FINALIZER not in job.finalizers:
        return ()
    patch = patch_object(
        EPHEMERAL_JOBS,
        job,
        {"metadata": {"finalizers": [finalizer for finalizer in job.finalizers if finalizer != FINALIZER]}},
        unchanged=True,
    )
    step = Step(action=patch, because="the job is deleted; its ephemeral containers stay in the pods")
    return (Stage(purpose=Purpose.DELETE_JOB, chains=(Chain(subject=job.name, steps=(step,)),)),)


def _format_container_count(count: int) -> str:
    return f"containers in {format_count(count, 'pod')} have"
