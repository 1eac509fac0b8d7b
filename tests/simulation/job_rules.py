"""Rules of a BroadcastJob for every commit.

Commit ──▶ JobRules.on_commit() ──▶ Violations          at the end ──▶ JobRules.at_rest() ──▶ Violations

The rules are those of the specification, implemented independently; rules.py describes how they consider what a
manager could know.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pykruise.kube.clock import parse_time
from pykruise.runtime.kstatus import Conditions, split_kstatus
from pykruise.testing.simulation.history import Commit, Reconcile
from simulation.pods import PodHistory, Version
from simulation.rules import PODS, Violation, number
from simulation.versions import versions_since

__all__ = ["JobRules"]

JOBS, NODES = "broadcastjobs.apps.kruise.io", "nodes"
COUNTS = ("desired", "active", "succeeded", "failed")
SLACK_S = 5.0


class Job(msgspec.Struct, frozen=True):
    """One version of the BroadcastJob. `revision` is the API server's."""

    revision: int
    uid: str
    is_deleting: bool
    parallelism: Any
    on_failure: str
    ends: bool
    deadline_s: int | None
    ttl_s: int | None
    is_paused: bool
    restart_limit: int
    restarts_pods: bool
    pool: str
    status: Mapping[str, Any]
    """Without the conditions of `standing`."""
    standing: Conditions
    """Ready, Reconciling and Stalled."""

    @property
    def conditions(self) -> set[str]:
        """Types of the conditions that are True."""
        return {
            condition["type"]
            for condition in self.status.get("conditions") or ()
            if condition["status"] == "True"
        }

    @property
    def has_failed(self) -> bool:
        """Whether it has ended, and running pods must end."""
        return "Failed" in self.conditions

    @property
    def is_over(self) -> bool:
        """Whether it starts nothing any more."""
        return self.has_failed or (self.ends and "Complete" in self.conditions)

    def limit(self, nodes: int) -> int:
        """Maximum number of active pods, for this number of desired nodes."""
        if self.parallelism is None:
            return 1 << 31
        text = self.parallelism
        return number(f"{text.rstrip('%')}%" if isinstance(text, str) else text, nodes, up=True)

    def is_failing(self, pod: Version) -> bool:
        """Whether a running pod counts as failed."""
        return self.restarts_pods and pod.is_active and pod.restarts > self.restart_limit


def read_job(doc: Any, revision: int) -> Job:
    """A BroadcastJob as stored."""
    spec = doc["spec"]
    completion, failure = spec.get("completionPolicy") or {}, spec.get("failurePolicy") or {}
    pod = spec["template"]["spec"]
    status, standing = split_kstatus(doc.get("status") or {})
    return Job(
        revision=revision,
        uid=doc["metadata"]["uid"],
        is_deleting="deletionTimestamp" in doc["metadata"],
        parallelism=spec.get("parallelism"),
        on_failure=failure.get("type") or "FailFast",
        ends=completion.get("type") != "Never",
        deadline_s=completion.get("activeDeadlineSeconds"),
        ttl_s=completion.get("ttlSecondsAfterFinished"),
        is_paused=bool(spec.get("paused")),
        restart_limit=failure.get("restartLimit") or 0,
        restarts_pods=pod.get("restartPolicy") == "OnFailure",
        pool=(pod.get("nodeSelector") or {}).get("sim/pool", ""),
        status=status,
        standing=standing,
    )


class Node(msgspec.Struct, frozen=True):
    """One node as it was from `revision` on."""

    revision: int
    is_there: bool
    is_open: bool
    """Neither cordoned nor tainted, because no pod here tolerates a taint."""
    pool: str

    def fits(self, job: Job) -> bool:
        """Whether the node should run a pod."""
        return self.is_there and self.is_open and job.pool in ("", self.pool)


class JobRules:
    """Rules of one BroadcastJob, by its name, across deletions and new creations. See `WorkloadRules`."""

    shelves = frozenset({JOBS, PODS, NODES})

    def __init__(
        self, *, namespace: str, name: str, start: float, skew_s: float = 0.0, is_calm: bool = False
    ) -> None:
        self._namespace, self._name = namespace, name
        self._start, self._skew_s = start, skew_s
        self.pods = PodHistory()
        self._jobs: list[Job] = []
        self._gone_at = 0
        self._made_in: dict[str, Reconcile] = {}
        """Uid of a pod → the reconcile that created it."""
        self._nodes: dict[str, list[Node]] = {}

    def hook_answer(self, state: str) -> Mapping[str, str | None]:
        """There are no lifecycle hooks."""
        return {}

    # ── every commit ─────────────────────────────────────────────────────────

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        """Called for each commit to `shelves`, in order."""
        if commit.shelf == NODES:
            self._on_node(commit)
        elif commit.key.namespace == self._namespace:
            if commit.shelf == JOBS:
                yield from self._on_job(commit)
            else:
                yield from self._on_pod(commit)

    def _on_node(self, commit: Commit) -> None:
        doc: Any = commit.new if commit.new is not None else commit.old
        spec = doc.get("spec") or {}
        taints = [
            taint for taint in spec.get("taints") or () if taint["effect"] in ("NoSchedule", "NoExecute")
        ]
        node = Node(
            revision=commit.revision,
            is_there=commit.new is not None,
            is_open=not spec.get("unschedulable") and not taints,
            pool=(doc["metadata"].get("labels") or {}).get("sim/pool", ""),
        )
        self._nodes.setdefault(commit.key.name, []).append(node)

    def _on_job(self, commit: Commit) -> Iterator[Violation]:
        if commit.key.name != self._name:
            return
        if commit.new is None:
            self._gone_at = commit.revision
            yield from self._on_removed(commit)
            return
        job = read_job(commit.new, commit.revision)
        before = self._jobs[-1] if self._jobs and self._jobs[-1].uid == job.uid else None
        self._jobs.append(job)
        if before is None or commit.reconcile is None:
            return
        if before.is_over and before.ends and before.status != job.status:
            yield self._broken(commit, "finished", f"the status of a job that is over: {dict(job.status)}")
        if before.is_over and before.ends and before.standing and before.standing != job.standing:
            yield self._broken(commit, "finished", f"the standing of a job that is over: {job.standing}")
        if before.status.get("startTime", job.status.get("startTime")) != job.status.get("startTime"):
            yield self._broken(commit, "start", "startTime has changed")
        if "Complete" in job.conditions - before.conditions:
            yield from self._on_complete(commit, commit.reconcile, job)

    def _on_removed(self, commit: Commit) -> Iterator[Violation]:
        """A manager deletes a job only when its time to live is over."""
        if commit.reconcile is None or not self._jobs:
            return
        job = self._jobs[-1]
        ended = job.status.get("completionTime")
        if not job.is_over or job.ttl_s is None or not ended:
            yield self._broken(commit, "ttl", "the job is deleted, and has no time to live")
        elif parse_time(ended) + job.ttl_s > commit.at + self._skew_s + 1:
            yield self._broken(commit, "ttl", "the job is deleted before its time")

    def _on_complete(self, commit: Commit, reconcile: Reconcile, job: Job) -> Iterator[Violation]:
        """Every node that surely fits has a pod that may have ended."""
        known = reconcile.known.get(NODES, 0)
        ended = {
            versions[0].target
            for versions in self._believed(reconcile)
            if any(not version.is_active for version in versions)
        }
        missing = [
            name
            for name, versions in self._nodes.items()
            if versions[0].revision <= known
            and all(node.fits(job) for node in self._nodes_since(name, known))
        ]
        left = sorted(set(missing) - ended)
        if left:
            yield self._broken(commit, "complete", f"complete, but {left} have not run")
        started = job.status.get("startTime")
        if job.deadline_s is not None and started:
            until = parse_time(started) + job.deadline_s
            if until + self._skew_s + 1 < reconcile.at:
                yield self._broken(commit, "deadline", "complete, but later than its deadline")
        failed = [
            versions[0].name
            for versions in self._surely(reconcile)
            if all(self._counts_as_failed(version, job) for version in versions)
        ]
        if failed and job.on_failure != "Continue":
            yield self._broken(commit, "failed", f"complete, but {failed} have failed")

    def _on_pod(self, commit: Commit) -> Iterator[Violation]:
        before, after = self.pods.take(commit)
        reconcile = commit.reconcile
        if before is None and reconcile is not None:
            self._made_in[after.uid] = reconcile
        if reconcile is None or not self._jobs:
            return
        jobs = [job for job in self._jobs_since(reconcile.known.get(JOBS, 0)) if job.uid == after.owner]
        if not jobs:
            if before is None:
                yield self._broken(commit, "owner", f"{after.name} is created for no job there is")
        elif all(job.is_deleting for job in jobs):
            yield self._broken(commit, "terminating", f"{after.name} is written to, its job terminates")
        elif before is None:
            yield from self._on_created(commit, reconcile, after, jobs)
        elif not before.is_deleting and (after.is_deleting or after.gone):
            yield from self._on_deleted(commit, reconcile, after, jobs)

    def _on_created(
        self, commit: Commit, reconcile: Reconcile, pod: Version, jobs: list[Job]
    ) -> Iterator[Violation]:
        open_ = [job for job in jobs if not job.is_over and not job.is_paused and not job.is_deleting]
        if not open_:
            yield self._broken(commit, "over", f"{pod.name} is created for a job that is over or paused")
            return
        nodes = self._nodes_since(pod.target, reconcile.known.get(NODES, 0))
        if not any(node.fits(job) for node in nodes for job in open_):
            yield self._broken(commit, "placement", f"{pod.name} is created for {pod.target!r}")
        active = 0
        failing = [
            versions[0].name
            for versions in self._surely(reconcile)
            if all(self._counts_as_failed(version, job) for version in versions for job in open_)
        ]
        if failing and all(job.on_failure != "Continue" for job in open_):
            yield self._broken(commit, "failed", f"{pod.name} is created, and {failing} have failed")
        for versions in self._surely(reconcile):
            if versions[0].uid == pod.uid:
                continue
            if versions[0].target == pod.target:
                what = f"{pod.target} has {versions[-1].name} already, and gets {pod.name}"
                yield self._broken(commit, "twice", what)
            active += all(
                version.is_active and not any(job.is_failing(version) for job in jobs) for version in versions
            )
        limit = max(job.limit(self._may_be_desired(reconcile)) for job in open_)
        if active >= limit:
            what = f"{pod.name} is created, {active} are active, {limit} may be"
            yield self._broken(commit, "parallelism", what)

    def _on_deleted(
        self, commit: Commit, reconcile: Reconcile, pod: Version, jobs: list[Job]
    ) -> Iterator[Violation]:
        versions = self.pods.since(pod.uid, reconcile.known.get(PODS, 0))
        if all(version.phase in ("Succeeded", "Failed") for version in versions):
            yield self._broken(commit, "finished", f"{pod.name} has finished, and is deleted")
        if all(job.is_paused and not job.is_over for job in jobs):
            yield self._broken(commit, "paused", f"{pod.name} is deleted, and the job is paused")
        if any(job.is_over for job in jobs):
            return
        nodes = self._nodes_since(pod.target, reconcile.known.get(NODES, 0))
        duplicates = [
            version
            for versions in self._believed(reconcile)
            for version in versions[-1:]
            if version.target == pod.target and version.uid != pod.uid and version.owner == pod.owner
        ]
        if not duplicates and all(node.fits(job) for node in nodes for job in jobs) and nodes:
            yield self._broken(commit, "deletion", f"{pod.name} on {pod.target} is deleted for nothing")

    # ── at rest ──────────────────────────────────────────────────────────────

    def at_rest(self, now: float) -> Iterator[Violation]:
        """Errors, or missing work, that remain after a long time without faults."""
        if not self._jobs:
            return
        job = self._jobs[-1]
        mine = [pod for pod in self.pods.latest() if pod.owner == job.uid]
        if self._gone_at > job.revision:
            if mine:
                yield Violation("gone", f"the job is gone, but {[pod.name for pod in mine]} are there", now)
            return
        phase = job.status.get("phase")
        if job.is_over:
            if job.has_failed and any(pod.is_active and not job.is_failing(pod) for pod in mine):
                yield Violation("failed", "the job has failed, and pods go on", now)
            if job.ends and job.ttl_s is not None:
                yield Violation("ttl", "the job is over, and will be deleted", now)
            return
        failed = [pod for pod in mine if self._counts_as_failed(pod, job)]
        if job.is_paused:
            if phase != "paused":
                yield Violation("phase", f"the job is paused, and says {phase}", now)
        elif failed and job.on_failure == "FailFast":
            yield Violation("failed", f"{[pod.name for pod in failed]} have failed, and the job goes on", now)
        elif failed and job.on_failure == "Pause":
            yield Violation("paused", f"{[pod.name for pod in failed]} have failed, and it goes on", now)
        else:
            yield from self._of_running(job, mine, now)
        yield from self._counts_are_true(job, mine, failed, now)

    def _of_running(self, job: Job, mine: list[Version], now: float) -> Iterator[Violation]:
        if job.ends and job.deadline_s is not None:
            yield Violation("deadline", "it goes on, and has a deadline", now)
        if any(pod.is_active for pod in mine):
            yield Violation("converges", "pods are active", now)
        ended = {pod.target for pod in mine if not pod.is_active}
        fitting = {name for name, versions in self._nodes.items() if versions[-1].fits(job)}
        if fitting - ended and job.limit(len(fitting | ended)) > 0:
            yield Violation("converges", f"{sorted(fitting - ended)} have not run", now)
        desired = fitting | {name for name in ended if self._nodes[name][-1].is_there}
        if job.ends and desired and not fitting - ended:
            yield Violation("complete", "all have run, and the job is not complete", now)

    def _counts_are_true(
        self, job: Job, mine: list[Version], failed: list[Version], now: float
    ) -> Iterator[Violation]:
        nodes = {name for name, versions in self._nodes.items() if versions[-1].is_there}
        taken = {pod.target for pod in mine if pod.target in nodes and not pod.is_active}
        fitting = {name for name in nodes if self._nodes[name][-1].fits(job)}
        said = {name: job.status.get(name, 0) for name in COUNTS}
        true = {
            "desired": len(fitting | taken),
            "active": sum(pod.is_active and not job.is_failing(pod) for pod in mine),
            "succeeded": sum(pod.phase == "Succeeded" for pod in mine),
            "failed": len(failed),
        }
        if job.is_paused:  # pods stay on nodes that do not fit any more and are not desired
            del true["desired"]
        wrong = {name: (said[name], count) for name, count in true.items() if said[name] != count}
        if wrong:
            yield Violation("status", f"the status says something else (said, true): {wrong}", now)

    def _counts_as_failed(self, pod: Version, job: Job) -> bool:
        versions = self._nodes.get(pod.target) or ()
        is_lost = not versions or not versions[-1].is_there
        return job.is_failing(pod) or (pod.phase == "Failed" and not is_lost)

    # ── what is known ────────────────────────────────────────────────────────

    def _jobs_since(self, known: int) -> list[Job]:
        if self._gone_at > self._jobs[-1].revision and self._gone_at <= known:
            return []
        return versions_since(self._jobs, known)

    def _nodes_since(self, name: str, known: int) -> list[Node]:
        return versions_since(self._nodes.get(name, []), known)

    def _believed(self, reconcile: Reconcile) -> Iterator[list[Version]]:
        """Versions that may be current, of each pod that may belong to the job, as far as the manager knows."""
        uids = {job.uid for job in self._jobs_since(reconcile.known.get(JOBS, 0))}
        for versions in self.pods.all_since(reconcile.known.get(PODS, 0), reconcile):
            if versions[-1].owner in uids:
                yield versions

    def _surely(self, reconcile: Reconcile) -> Iterator[list[Version]]:
        """Pods as in `_believed`, but only those that the manager must know and that certainly exist."""
        for versions in self._believed(reconcile):
            first = self.pods.created_at(versions[0].uid)
            # It need not know pods that another manager, or its own later reconcile, has created since.
            is_known = (
                first.revision <= reconcile.known.get(PODS, 0) or self._made_in.get(first.uid) == reconcile
            )
            if is_known and not any(version.gone for version in versions):
                yield versions

    def _may_be_desired(self, reconcile: Reconcile) -> int:
        known = reconcile.known.get(NODES, 0)
        return sum(any(node.is_there for node in self._nodes_since(name, known)) for name in self._nodes)

    def _broken(self, commit: Commit, rule: str, what: str) -> Violation:
        return Violation(rule, f"{what} (by {commit.sender})", commit.at - self._start)
