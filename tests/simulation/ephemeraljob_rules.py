"""Rules of an EphemeralJob for every commit.

Commit ──▶ EphemeralJobRules.on_commit() ──▶ Violations          at the end ──▶ at_rest() ──▶ Violations

The pods of the job and the state of its containers are computed here independently; rules.py describes how rules
consider what a manager could know.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pykruise.kube.clock import parse_time
from pykruise.kube.documents import Document
from pykruise.testing.simulation.history import Commit, Reconcile, list_versions_since
from simulation.pods import PodHistory
from simulation.rules import PODS, Violation

__all__ = ["EphemeralJobRules"]

JOBS = "ephemeraljobs.apps.kruise.io"
MARK = "KRUISE_EJOB_ID"
ENDED = ("succeeded", "failed")
DEFAULT_TTL_S = 1800


class Pod(msgspec.Struct, frozen=True):
    """One pod as it was from `revision` on."""

    revision: int
    uid: str
    name: str
    created: str
    labels: Mapping[str, str]
    is_active: bool
    """Whether it neither terminates nor has ended."""
    containers: Mapping[str, tuple[str, str]]
    """Ephemeral containers by name: the uid of their job, and their state. Empty: unknown."""

    @property
    def rank(self) -> tuple[str, str]:
        """Key of the order in which pods get their containers."""
        return self.created, self.name


class Job(msgspec.Struct, frozen=True):
    """One version of the EphemeralJob. `revision` is the API server's."""

    revision: int
    uid: str
    is_there: bool
    """False: it is deleted, or terminating."""
    has_finalizer: bool
    spec: Document
    status: Document

    @property
    def names(self) -> set[str]:
        """Names of its containers."""
        return {container["name"] for container in self.spec["template"]["ephemeralContainers"]}

    @property
    def parallelism(self) -> int:
        """Maximum number of active pods."""
        value = self.spec.get("parallelism")
        return 1 if value is None else int(value)

    @property
    def most(self) -> float:
        """Maximum number of pods that get containers."""
        value = self.spec.get("replicas")
        return float("inf") if value is None else value

    @property
    def is_left_by_hand(self) -> bool:
        """Whether a person must end a container; in these scripts no person does."""
        return any(container.get("stdin") for container in self.spec["template"]["ephemeralContainers"])

    @property
    def is_over(self) -> bool:
        """Whether it starts nothing any more."""
        return bool(self.status.get("completionTime"))

    @property
    def is_paused(self) -> bool:
        """Whether it starts no containers and evaluates no results."""
        return bool(self.spec.get("paused"))

    @property
    def deadline(self) -> float:
        """Time at which it fails; infinite: it has no deadline, or has not started."""
        seconds, started = self.spec.get("activeDeadlineSeconds"), self.status.get("startTime")
        return float("inf") if seconds is None or not started else parse_time(started) + seconds

    @property
    def gone_after(self) -> float:
        """Time at which it must be deleted; infinite: it has not ended."""
        seconds, ended = self.spec.get("ttlSecondsAfterFinished"), self.status.get("completionTime")
        return parse_time(ended) + (DEFAULT_TTL_S if seconds is None else seconds) if ended else float("inf")

    def may_have(self, pod: Pod) -> bool:
        """Whether the job selects such a pod, if `replicas` is not reached."""
        return (
            pod.is_active
            and self._selects(pod.labels)
            and all(pod.containers[name][0] == self.uid for name in self.names & pod.containers.keys())
        )

    def state_in(self, pod: Pod) -> str:
        """State of its containers in a pod; empty: the pod has none. `unknown`: nothing is reported."""
        states = [pod.containers[name][1] for name in self.names & pod.containers.keys()]
        if not states:
            return ""
        if "failed" in states:
            return "failed"
        if states.count("succeeded") == len(self.names):
            return "succeeded"
        return next((literal for literal in ("running", "waiting") if literal in states), "unknown")

    def _selects(self, labels: Mapping[str, str]) -> bool:
        selector = self.spec["selector"]
        return all(
            labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items()
        ) and all(
            labels.get(expression["key"]) in expression["values"]
            for expression in selector.get("matchExpressions") or ()
        )


class EphemeralJobRules:
    """Rules of one EphemeralJob, by its name, across deletions and new creations. See `WorkloadRules`."""

    shelves = frozenset({JOBS, PODS})

    def __init__(
        self, *, namespace: str, name: str, start: float, skew_s: float = 0.0, is_calm: bool = False
    ) -> None:
        self._namespace, self._name = namespace, name
        self._start, self._skew_s = start, skew_s
        self.pods = PodHistory()
        self._jobs: list[Job] = []
        self._pods: dict[str, list[Pod]] = {}
        """Uid → versions of the pod."""
        self._given_in: dict[str, Reconcile] = {}
        """Uid of a pod → the last reconcile that injected containers into it."""

    def hook_answer(self, state: str) -> Mapping[str, str | None]:
        """There are no lifecycle hooks."""
        return {}

    # ── every commit ─────────────────────────────────────────────────────────

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        """Called for each commit to `shelves`, in order."""
        if commit.key.namespace != self._namespace:
            return
        if commit.shelf == PODS:
            yield from self._on_pod(commit)
        elif commit.key.name == self._name:
            yield from self._on_job(commit)

    def _on_job(self, commit: Commit) -> Iterator[Violation]:
        doc: Any = commit.new if commit.new is not None else commit.old
        meta = doc["metadata"]
        job = Job(
            revision=commit.revision,
            uid=meta["uid"],
            is_there=commit.new is not None and "deletionTimestamp" not in meta,
            has_finalizer=commit.new is not None and bool(meta.get("finalizers")),
            spec=doc["spec"],
            status=doc.get("status") or {},
        )
        before = self._jobs[-1] if commit.old is not None else None
        self._jobs.append(job)
        if commit.reconcile is None or before is None:
            return
        if before.is_there and not job.is_there:
            yield from self._on_deleted(commit, commit.reconcile, before)
        elif before.is_over and before.status != job.status:
            yield self._broken(commit, "finished", f"the status of a job that is over: {dict(job.status)}")
        elif job.is_over and not before.is_over:
            yield from self._on_over(commit, commit.reconcile, job)
        if before.status.get("startTime", job.status.get("startTime")) != job.status.get("startTime"):
            yield self._broken(commit, "start", "startTime has changed")

    def _on_deleted(self, commit: Commit, reconcile: Reconcile, job: Job) -> Iterator[Violation]:
        """A manager deletes a job only when its time to live is over."""
        jobs = [item for item in self._jobs_known(reconcile) if item.uid == job.uid]
        if not any(job.gone_after <= commit.at + self._skew_s for job in jobs):
            yield self._broken(commit, "ttl", "the job is deleted before its time")

    def _on_over(self, commit: Commit, reconcile: Reconcile, job: Job) -> Iterator[Violation]:
        """The job ends when all its pods have ended, or after its deadline."""
        jobs = [item for item in self._jobs_known(reconcile) if item.uid == job.uid]
        if all(job.is_paused for job in jobs):
            yield self._broken(commit, "paused", "it ends, and is paused")
        conditions = {condition["type"]: condition["reason"] for condition in job.status["conditions"]}
        if conditions.get("JobFailed") == "DeadlineExceeded" and job.status["phase"] == "Failed":
            if all(job.deadline > commit.at + self._skew_s for job in jobs):
                yield self._broken(commit, "deadline", "it fails before its deadline")
            return
        states = ("succeeded",) if job.status["phase"] == "Succeeded" else ENDED
        open_ = [
            versions[0].name
            for versions in self._surely_meant(reconcile, jobs)
            if not any(job.state_in(pod) in states for job in jobs for pod in versions)
        ]
        if open_:
            yield self._broken(commit, "complete", f"{job.status['phase']}, and {open_} have not ended so")
        if not any(
            item.may_have(pod) and item.state_in(pod) == job.status["phase"].lower()
            for item in jobs
            for uid in self._pods
            for pod in self._known(uid, reconcile)
        ):
            yield self._broken(commit, "complete", f"{job.status['phase']}, and no pod has")

    def _on_pod(self, commit: Commit) -> Iterator[Violation]:
        doc: Any = commit.new if commit.new is not None else commit.old
        pod = read_pod(doc, commit)
        versions = self._pods.setdefault(pod.uid, [])
        before = versions[-1] if versions else None
        versions.append(pod)
        if commit.reconcile is None or before is None:
            return
        given = pod.containers.keys() - before.containers.keys()
        owners = {pod.containers[name][0] for name in given}
        jobs = [job for job in self._jobs_known(commit.reconcile) if job.is_there and {job.uid} == owners]
        if not jobs:
            yield self._broken(commit, "owner", f"{pod.name} is written to for no job that is there")
            return
        yield from self._on_given(commit, commit.reconcile, pod, given, jobs)
        self._given_in[pod.uid] = commit.reconcile

    def _on_given(
        self, commit: Commit, reconcile: Reconcile, pod: Pod, given: set[str], jobs: Sequence[Job]
    ) -> Iterator[Violation]:
        if not any(job.names == given for job in jobs):
            yield self._broken(commit, "containers", f"{pod.name} gets {sorted(given)}")
        late = reconcile.at - self._skew_s
        open_ = [job for job in jobs if not job.is_over and not job.is_paused and job.deadline >= late]
        if not open_:
            yield self._broken(commit, "over", f"{pod.name} gets containers of a job that is over or paused")
            return
        known = [item for item in self._known(pod.uid, reconcile) if not item.containers.keys() & given]
        if not any(job.may_have(pod) for job in open_ for pod in known):
            yield self._broken(commit, "target", f"the job is not for {pod.name}")
        meant = [item for item in self._surely_meant(reconcile, jobs) if item[0].uid != pod.uid]
        before = [item[0].name for item in meant if item[0].rank < pod.rank]
        if all(len(before) >= job.most for job in open_):
            yield self._broken(commit, "replicas", f"{pod.name} gets containers, and {before} come before it")
        active = [
            versions[0].name
            for versions in meant
            if all(
                job.state_in(pod) not in ("", *ENDED)
                for job in jobs
                for pod in self._own(versions, reconcile, jobs)
            )
        ]
        if all(len(active) >= job.parallelism for job in open_):
            yield self._broken(commit, "parallelism", f"{pod.name} gets containers, {active} are active")

    # ── at rest ──────────────────────────────────────────────────────────────

    def at_rest(self, now: float) -> Iterator[Violation]:
        """Errors, or missing work, that remain after a long time without faults."""
        if not self._jobs:
            return
        job = self._jobs[-1]
        if not job.is_there:
            if job.has_finalizer:
                yield Violation("gone", "it goes, and has its finalizer", now)
            return
        if job.is_over:
            yield Violation("ttl", "the job is over, and will be deleted", now)
            return
        pods = sorted((many[-1] for many in self._pods.values()), key=lambda pod: pod.rank)
        meant = [pod for pod in pods if job.may_have(pod)]
        states = [
            job.state_in(pod) for pod in (meant if job.most == float("inf") else meant[: int(job.most)])
        ]
        active = sum(state not in ("", *ENDED) for state in states)
        if {"waiting", "unknown", *(() if job.is_left_by_hand else ("running",))}.intersection(states):
            yield Violation("converges", f"containers have not ended: {states}", now)
        if not job.is_paused:
            if job.deadline < float("inf"):
                yield Violation("deadline", "it goes on, and has a deadline", now)
            if states and all(state in ENDED for state in states):
                yield Violation("complete", "all have ended, and the job has not", now)
            if "" in states and active < job.parallelism:
                yield Violation("converges", f"{states.count('')} pods wait, {active} are active", now)
        yield from self._says_the_truth(job, states, now)

    def _says_the_truth(self, job: Job, states: list[str], now: float) -> Iterator[Violation]:
        counts = {name: states.count(name) for name in ("running", "waiting", *ENDED)}
        phase = "Waiting" if counts["waiting"] == len(states) else "Unknown"
        if job.is_paused:
            phase = "Paused"
        elif counts["running"]:
            phase = "Running"
        true = {"phase": phase, "match": len(states), **counts}
        said = {name: job.status.get(name) for name in true}
        if said != true:
            yield Violation("status", f"the status says {said}, true is {true}", now)

    # ── what is known ────────────────────────────────────────────────────────

    def _jobs_known(self, reconcile: Reconcile) -> Sequence[Job]:
        return list_versions_since(self._jobs, reconcile.known.get(JOBS, 0))

    def _known(self, uid: str, reconcile: Reconcile) -> Sequence[Pod]:
        return list_versions_since(self._pods[uid], reconcile.known.get(PODS, 0))

    def _own(self, versions: Sequence[Pod], reconcile: Reconcile, jobs: Sequence[Job]) -> Sequence[Pod]:
        """Versions that may be the current one for a manager that knows the containers that it has added itself."""
        if self._given_in.get(versions[0].uid) != reconcile:
            return versions
        return [version for version in versions if any(job.state_in(version) for job in jobs)]

    def _surely_meant(self, reconcile: Reconcile, jobs: Sequence[Job]) -> list[Sequence[Pod]]:
        """Pods that the job selects, for every state that the manager may assume."""
        known = reconcile.known.get(PODS, 0)
        maybe = [
            versions
            for uid in self._pods
            for versions in [self._known(uid, reconcile)]
            if any(job.may_have(pod) for job in jobs for pod in versions)
        ]
        surely = []
        for versions in maybe:
            if versions[0].revision > known or not all(job.may_have(pod) for job in jobs for pod in versions):
                continue
            ahead = sum(other[0].rank < versions[0].rank for other in maybe)
            if all(ahead < job.most for job in jobs):
                surely.append(versions)
        return surely

    def _broken(self, commit: Commit, rule: str, what: str) -> Violation:
        return Violation(rule, f"{what} (by {commit.sender})", commit.at - self._start)


def read_pod(doc: Any, commit: Commit) -> Pod:
    """The pod after a commit."""
    meta, status = doc["metadata"], doc.get("status") or {}
    said = {item["name"]: item.get("state") or {} for item in status.get("ephemeralContainerStatuses") or ()}
    has_ended = status.get("phase") in ("Succeeded", "Failed")
    return Pod(
        revision=commit.revision,
        uid=meta["uid"],
        name=meta["name"],
        created=meta["creationTimestamp"],
        labels=meta.get("labels") or {},
        is_active=commit.new is not None and "deletionTimestamp" not in meta and not has_ended,
        containers={
            container["name"]: (_job_of(container), _state_of(said.get(container["name"], {})))
            for container in doc["spec"].get("ephemeralContainers") or ()
        },
    )


def _job_of(container: Document) -> str:
    return next(
        (variable.get("value", "") for variable in container.get("env") or () if variable["name"] == MARK), ""
    )


def _state_of(state: Document) -> str:
    if ended := state.get("terminated"):
        return "failed" if ended["exitCode"] else "succeeded"
    if "running" in state:
        return "running"
    if "waiting" in state:
        return "failed" if state["waiting"].get("reason") == "RunContainerError" else "waiting"
    return ""
