"""Rules of ImagePullJobs and NodeImages for every commit.

Commit ──▶ PullRules.on_commit() ──▶ Violations          at the end ──▶ PullRules.at_rest() ──▶ Violations

The uid identifies a job, because several jobs may request one image. A write of a NodeImage succeeds only for the
version that was read, so rules compare it with the previous version; of jobs, nodes and pods they consider all
versions that the manager may have known (rules.py).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from pykruise.kube.clock import parse_time
from pykruise.testing.simulation.history import Commit, Reconcile, list_versions_since
from simulation.pods import PodHistory
from simulation.pull_documents import (
    NO_NODE,
    Entry,
    Image,
    Node,
    NodeImage,
    PullJob,
    matches,
    read_node,
    read_node_image,
    read_pull_job,
)
from simulation.rules import PODS, Violation

__all__ = ["CREATION_DELAY_S", "JOBS", "NODE_IMAGES", "PullRules"]

JOBS, NODE_IMAGES, NODES = "imagepulljobs.apps.kruise.io", "nodeimages.apps.kruise.io", "nodes"
CREATION_DELAY_S = 1.0
"""Time between the moment when a node becomes ready and the creation of its NodeImage."""
DEFAULT_TTL_S, SPREAD_S = 300, 300
DAY_S = 86_400
SILENT_S = 600.0
PATIENCE_S = 100.0
"""Seconds after which due work is certainly done, without faults."""
FAR_S = 3000.0
"""Events that are due after more than this are not awaited."""
NOW = 1 << 62
"""A revision that is later than all others."""
NOT_THERE = NodeImage(0, False, {}, {}, {}, {}, {})


class PullRules:
    """Rules of all ImagePullJobs of a namespace, and of all NodeImages. See `WorkloadRules`."""

    shelves = frozenset({JOBS, NODE_IMAGES, NODES, PODS})

    def __init__(
        self, *, namespace: str, name: str, start: float, skew_s: float = 0.0, is_calm: bool = False
    ) -> None:
        self._namespace = namespace
        self._start, self._skew_s, self._is_calm = start, skew_s, is_calm
        self.pods = PodHistory()
        self.jobs: dict[str, list[PullJob]] = {}
        """Uid → versions of the job."""
        self._node_images: dict[str, list[NodeImage]] = {}
        self._nodes: dict[str, list[Node]] = {}
        self._asked: dict[tuple[str, int, str], int] = {}
        """Manager, number of the reconcile and uid of the job → the number of nodes with its requests."""

    def hook_answer(self, state: str) -> Mapping[str, str | None]:
        """There are no lifecycle hooks."""
        return {}

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        """Called for each commit to `shelves`, in order."""
        if commit.shelf == NODES:
            self._nodes.setdefault(commit.key.name, [NO_NODE]).append(read_node(commit))
        elif commit.shelf == NODE_IMAGES:
            yield from self._on_node_image(commit)
        elif commit.key.namespace == self._namespace:
            if commit.shelf == JOBS:
                yield from self._on_job(commit)
            elif commit.shelf == PODS:
                self.pods.take(commit)
        if self._is_calm:
            yield from self._silence_is_noticed(commit)

    # ── jobs ─────────────────────────────────────────────────────────────────

    def _on_job(self, commit: Commit) -> Iterator[Violation]:
        job = read_pull_job(commit)
        versions = self.jobs.setdefault(job.uid, [])
        before = versions[-1] if versions else None
        versions.append(job)
        reconcile = commit.reconcile
        if before is None or reconcile is None or reconcile.controller != "imagepulljob":
            return
        if (job.gone or job.is_deleting) and not before.is_deleting:
            yield from self._on_removed(commit, before)
        elif before.status != job.status:
            yield from self._on_status(commit, reconcile, before, job)

    def _on_removed(self, commit: Commit, job: PullJob) -> Iterator[Violation]:
        """A job is deleted only when its time to live is over."""
        if not job.is_over or job.ttl_s is None:
            yield self._broken(commit, "ttl", f"{job.name} is deleted, and has no time to live")
        elif parse_time(job.status["completionTime"]) + job.ttl_s > self._latest(commit):
            yield self._broken(commit, "ttl", f"{job.name} is deleted before its time")

    def _on_status(
        self, commit: Commit, reconcile: Reconcile, before: PullJob, job: PullJob
    ) -> Iterator[Violation]:
        if before.is_over:
            yield self._broken(commit, "finished", f"the status of a job that is over: {dict(job.status)}")
            return
        if before.started not in (None, job.started):
            yield self._broken(commit, "start", "startTime has changed")
        jobs = self._known(reconcile, job.uid)
        possible = [self._possible(jobs, name, reconcile) for name in self._node_images]
        is_late = any(
            job.ends
            and job.deadline_s is not None
            and before.started is not None
            and before.started + job.deadline_s <= self._latest(commit)
            for job in jobs
        )
        if job.is_over:
            left = [states for states in possible if not states & {"none", "Succeeded", "Failed"}]
            if (left and not is_late) or not any(job.ends for job in jobs):
                yield self._broken(commit, "complete", f"{job.name} is over, {len(left)} nodes are not done")
        yield from self._counts_may_be_true(commit, job, possible, is_late=is_late and job.is_over)

    def _counts_may_be_true(
        self, commit: Commit, job: PullJob, possible: Sequence[Collection[str]], *, is_late: bool
    ) -> Iterator[Violation]:
        """Each number is correct for a state that the manager may assume to be the current one."""
        counts = {name: job.status.get(name, 0) for name in ("desired", "succeeded", "failed", "active")}
        bounds = {
            "desired": (
                sum("none" not in states for states in possible),
                sum(set(states) != {"none"} for states in possible),
            )
        }
        names = {"succeeded": "Succeeded", "failed": "Failed", "active": "active"}
        for name, state in names.items():
            bounds[name] = (
                sum(set(states) == {state} for states in possible),
                sum(state in states for states in possible),
            )
        if is_late:  # what has not succeeded has failed
            del bounds["failed"], bounds["active"]
        wrong = {
            name: (counts[name], least, most)
            for name, (least, most) in bounds.items()
            if not least <= counts[name] <= most
        }
        if wrong:
            yield self._broken(commit, "counts", f"of {job.name} (said, least, most): {wrong}")
        ended = counts["succeeded"] + counts["failed"]
        failed = job.status.get("failedNodes") or []
        if (job.is_over and ended != counts["desired"]) or ended + counts["active"] > counts["desired"]:
            yield self._broken(commit, "counts", f"{job.name} says {counts}")
        if len(failed) != counts["failed"] or failed != sorted(set(failed)):
            yield self._broken(commit, "counts", f"{job.name} says {counts}, and failed are {failed}")

    # ── NodeImages ───────────────────────────────────────────────────────────

    def _on_node_image(self, commit: Commit) -> Iterator[Violation]:
        name = commit.key.name
        versions = self._node_images.setdefault(name, [NOT_THERE])
        before, after = versions[-1], read_node_image(commit)
        versions.append(after)
        reconcile = commit.reconcile
        if reconcile is None:
            return
        if reconcile.controller == "imagepulljob":
            yield from self._on_asked(commit, reconcile, before, after)
            return
        nodes = list_versions_since(self._nodes.get(name, [NO_NODE]), reconcile.known.get(NODES, 0))
        if not after.is_there:
            if before.is_there and all(node.is_there for node in nodes):
                yield self._broken(commit, "node", f"NodeImage {name} is deleted, its node is there")
            return
        if not before.is_there and not any(
            node.is_there
            and node.ready_since is not None
            and node.ready_since + CREATION_DELAY_S <= self._latest(commit)
            for node in nodes
        ):
            yield self._broken(commit, "node", f"NodeImage {name} is made too early")
        if after.labels != before.labels and not any(node.labels == after.labels for node in nodes):
            yield self._broken(commit, "node", f"NodeImage {name} has labels that its node has not")
        if before.is_there:
            yield from self._on_kept(commit, reconcile, before, after)
            yield from self._on_answered(commit, before, after)

    def _on_asked(
        self, commit: Commit, reconcile: Reconcile, before: NodeImage, after: NodeImage
    ) -> Iterator[Violation]:
        """A job requests its own image from one node, and changes nothing else."""
        name = commit.key.name
        changed = {
            key
            for key in {**before.entries, **after.entries}
            if before.entries.get(key) != after.entries.get(key)
        }
        image = next(iter(changed)) if len(changed) == 1 else ("", "")
        old, new = before.entries.get(image), after.entries.get(image)
        uids = (
            [] if new is None else [owner for owner in new.owners if old is None or owner not in old.owners]
        )
        if new is None or len(uids) != 1 or before.answers != after.answers:
            yield self._broken(commit, "touched", f"on {name}: {changed}, for {uids}")
            return
        jobs = [pull_job for pull_job in self._known(reconcile, uids[0]) if pull_job.image == image]
        if not jobs:
            yield self._broken(commit, "asked", f"{name} is asked for {image} by no job that goes on")
            return
        if self._possible(jobs, name, reconcile) == {"none"}:
            yield self._broken(commit, "asked", f"{name} is not one of {jobs[-1].name}'s nodes")
        if all(self._is_surely_late(job, reconcile) for job in jobs):
            yield self._broken(commit, "deadline", f"{name} is asked after the deadline")
        yield from self._has_room(commit, reconcile, jobs)
        yield from self._is_entry_right(commit, reconcile, before, image, new, jobs)
        said = after.sandboxes.get(image[0]) or {}
        is_shared = len(new.owners) > 1 or any(key != image and key[0] == image[0] for key in after.entries)
        if not any(_is_said(job.template.get("sandboxConfig") or {}, said, is_shared) for job in jobs):
            yield self._broken(commit, "entry", f"{image} has the sandbox {said}")

    def _has_room(self, commit: Commit, reconcile: Reconcile, jobs: Sequence[PullJob]) -> Iterator[Violation]:
        """Fewer nodes pull than allowed."""
        key = (reconcile.manager, reconcile.number, jobs[0].uid)
        active = self._asked.get(key, 0)
        self._asked[key] = active + 1
        active += sum(
            self._possible(jobs, name, reconcile) == {"active"}
            for name in self._node_images
            if name != commit.key.name
        )
        limit = max(job.limit for job in jobs)
        if active >= limit:
            what = f"{commit.key.name} is asked, {active} pull for {jobs[0].name}, {limit} may"
            yield self._broken(commit, "parallelism", what)

    def _is_entry_right(
        self,
        commit: Commit,
        reconcile: Reconcile,
        before: NodeImage,
        image: Image,
        entry: Entry,
        jobs: Sequence[PullJob],
    ) -> Iterator[Violation]:
        old, answer = before.entries.get(image), before.answers.get(image)
        version = old.version + 1 if old is not None else answer.version + 1 if answer is not None else 0
        if entry.version != version:
            yield self._broken(commit, "version", f"{image} gets version {entry.version}, not {version}")
        lost = [
            uid
            for uid in (old.owners if old is not None else ())
            if uid not in entry.owners
            and not any(version.gone or version.is_deleting for version in self._versions(uid, reconcile))
        ]
        if lost:
            yield self._broken(commit, "shared", f"{image}: {lost} still want it")
        if not reconcile.at - self._skew_s - 1 <= entry.created <= self._latest(commit):
            yield self._broken(commit, "entry", f"{image} is asked for since {entry.created}")
        if not any(_is_made_for(entry, job, is_shared=len(entry.owners) > 1) for job in jobs):
            yield self._broken(commit, "entry", f"{image} is not pulled as {jobs[-1].name} wants it: {entry}")

    def _on_kept(
        self, commit: Commit, reconcile: Reconcile, before: NodeImage, after: NodeImage
    ) -> Iterator[Violation]:
        """A request to a node is removed only when no job wants it, or when its time is over."""
        for image, old in before.entries.items():
            new = after.entries.get(image)
            unwanted = [uid for uid in old.owners if self._may_be_unwanted(uid, image, reconcile)]
            lost = [uid for uid in old.owners if new is None or uid not in new.owners]
            if set(lost) <= set(unwanted):
                continue
            ended = before.ended(image)
            is_old = ended is not None and ended + old.ttl_s <= self._latest(commit)
            go_on = [uid for uid in old.owners if self._surely_goes_on(uid, image, reconcile)]
            if new is not None or not is_old or go_on:
                yield self._broken(commit, "kept", f"{image} goes on {commit.key.name}, {lost} want it")
        for image, new in after.entries.items():
            was = before.entries.get(image)
            if was is None or (was.version, was.created) != (new.version, new.created):
                yield self._broken(commit, "touched", f"{image} of {commit.key.name} is another")

    def _on_answered(self, commit: Commit, before: NodeImage, after: NodeImage) -> Iterator[Violation]:
        """The manager reports a result for a node only if the node is silent, and reports that."""
        for image, answer in after.answers.items():
            was, entry = before.answers.get(image), after.entries.get(image)
            if was == answer:
                continue
            if entry is None or answer.version != entry.version or answer.phase != "Failed":
                yield self._broken(commit, "silent", f"{commit.key.name} is said to be {answer}")
                continue
            late_s = SILENT_S
            if was is not None and was.version == entry.version:
                late_s += 1e9 if entry.deadline_s is None or was.ended is not None else entry.deadline_s
            if entry.created + late_s > self._latest(commit):
                yield self._broken(commit, "silent", f"{commit.key.name} is not silent for so long")
        for image in before.answers.keys() - after.answers.keys():
            if image in after.entries:
                yield self._broken(commit, "silent", f"what {commit.key.name} said of {image} is lost")

    def _silence_is_noticed(self, commit: Commit) -> Iterator[Violation]:
        """Without faults of the manager, every silent node is detected."""
        for name, versions in self._node_images.items():
            latest = versions[-1]
            for image, entry in latest.entries.items():
                answer = latest.answers.get(image)
                is_silent = answer is None or answer.version != entry.version
                if latest.is_there and is_silent and entry.created + SILENT_S + PATIENCE_S < commit.at:
                    yield self._broken(commit, "silent", f"{name} has not answered, and nobody says so")

    # ── at rest ──────────────────────────────────────────────────────────────

    def at_rest(self, now: float) -> Iterator[Violation]:
        """Errors, or missing work, that remain after a long time without faults."""
        for versions in self.jobs.values():
            if not versions[-1].gone:
                yield from self._of_job(versions[-1], now)
        for name in self._nodes.keys() | self._node_images.keys():
            node = self._nodes.get(name, [NO_NODE])[-1]
            node_image = self._node_images.get(name, [NOT_THERE])[-1]
            if node.is_there != node_image.is_there:
                yield Violation("node", f"there is a node {name}: {node.is_there}, a NodeImage: not so", now)
            elif node_image.is_there:
                if node.labels != node_image.labels:
                    yield Violation("node", f"{name} has other labels than its NodeImage", now)
                yield from self._of_node_image(name, node_image, now)

    def _of_job(self, job: PullJob, now: float) -> Iterator[Violation]:
        if job.is_deleting or (job.is_over and (job.is_held or job.ttl_s is not None)):
            yield Violation("gone", f"{job.name} is over or deleted, and still there or held", now)
        if not job.is_active:
            return
        states = {name: next(iter(self._possible([job], name, None))) for name in self._node_images}
        here = {name: state for name, state in states.items() if state != "none"}
        pending = [name for name, state in here.items() if state == "pending"]
        active = [name for name, state in here.items() if state == "active"]
        if active or (pending and job.limit):
            yield Violation("converges", f"{job.name}: {active} pull, {pending} are to pull", now)
        if job.ends and (not pending or job.deadline_s is not None):
            yield Violation("complete", f"{job.name} is done, or late, and not over", now)
        failed = sorted(name for name, state in here.items() if state == "Failed")
        true = {
            "desired": len(here),
            "succeeded": sum(state == "Succeeded" for state in here.values()),
            "failed": len(failed),
            "active": len(active),
        }
        said = {name: job.status.get(name, 0) for name in true}
        if said != true or (job.status.get("failedNodes") or []) != failed:
            yield Violation("status", f"{job.name} says {dict(job.status)}, true are {true} {failed}", now)

    def _of_node_image(self, name: str, node_image: NodeImage, now: float) -> Iterator[Violation]:
        for image, entry in node_image.entries.items():
            jobs = [self.jobs[uid][-1] for uid in entry.owners]
            lost = [job.name for job in jobs if job.gone or job.image != image]
            if lost:
                yield Violation("gone", f"{image} of {name} is there for {lost}", now)
            if node_image.ended(image) is None:
                yield Violation("converges", f"{name} does not answer about {image}", now)
            elif entry.ttl_s < FAR_S and not any(job.ends and job.is_active for job in jobs):
                yield Violation("ttl", f"{image} of {name} is over, and will go", now)
        if node_image.answers.keys() - node_image.entries.keys():
            yield Violation("status", f"{name} answers what is not asked", now)
        phases = [answer.phase for answer in node_image.answers.values()]
        true = {
            "desired": len(node_image.entries),
            "succeeded": phases.count("Succeeded"),
            "failed": phases.count("Failed"),
            "pulling": phases.count("Pulling"),
        }
        said = {key: node_image.status.get(key, 0) for key in true}
        if said != true and (node_image.entries or node_image.status):
            yield Violation("status", f"{name} says {said}, true are {true}", now)

    # ── what is known ────────────────────────────────────────────────────────

    def _possible(self, jobs: Sequence[PullJob], name: str, reconcile: Reconcile | None) -> set[str]:
        """Possible states of a node for these versions of one job, as far as the manager may know; `none`:
        nothing. Without a reconcile: the real state."""
        return {state for job in jobs for state in self._possible_to(job, name, reconcile)}

    def _possible_to(self, job: PullJob, name: str, reconcile: Reconcile | None) -> Iterator[str]:
        known: Mapping[str, int] = reconcile.known if reconcile is not None else {}
        unknown = 0 if reconcile is not None else NOW
        is_sure, is_possible = True, True
        if job.pods is not None:
            is_sure, is_possible = self._has_pod(job.pods, name, known.get(PODS, unknown))
        if not is_sure:
            yield "none"
        for node_image in list_versions_since(self._node_images[name], known.get(NODE_IMAGES, unknown)):
            is_meant = is_possible and node_image.is_there and job.selects(name, node_image.labels)
            yield node_image.state(job) if is_meant else "none"

    def _has_pod(self, selector: Mapping[str, Any], node: str, known: int) -> tuple[bool, bool]:
        """Whether a selected pod is certainly on a node, and whether one may be there."""
        is_sure = is_possible = False
        for versions in self.pods.all_since(known, None):
            on = [
                version.is_active and version.node == node and matches(selector, version.labels)
                for version in versions
            ]
            is_possible = is_possible or any(on)
            is_sure = is_sure or (versions[0].revision <= known and all(on))
        return is_sure, is_possible

    def _versions(self, uid: str, reconcile: Reconcile) -> Sequence[PullJob]:
        return list_versions_since(self.jobs[uid], reconcile.known.get(JOBS, 0))

    def _known(self, reconcile: Reconcile, uid: str) -> Sequence[PullJob]:
        """The versions of an active job that the manager may assume to be the current one."""
        return [version for version in self._versions(uid, reconcile) if version.is_active]

    def _may_be_unwanted(self, uid: str, image: Image, reconcile: Reconcile) -> bool:
        """Whether a job may be deleted, or may have another image."""
        return any(version.gone or version.image != image for version in self._versions(uid, reconcile))

    def _surely_goes_on(self, uid: str, image: Image, reconcile: Reconcile) -> bool:
        """Whether a job with completionPolicy Always certainly has not ended, and wants the image."""
        versions = self._versions(uid, reconcile)
        return all(version.is_active and version.ends and version.image == image for version in versions)

    def _is_surely_late(self, job: PullJob, reconcile: Reconcile) -> bool:
        if not job.ends or job.deadline_s is None or job.started is None:
            return False
        return job.started + job.deadline_s + self._skew_s + 1 < reconcile.at

    def _latest(self, commit: Commit) -> float:
        """The latest time that a clock may have shown. Times are stored in whole seconds, cut off."""
        return commit.at + self._skew_s + 1e-6

    def _broken(self, commit: Commit, rule: str, what: str) -> Violation:
        return Violation(rule, f"{what} (by {commit.sender})", commit.at - self._start)


def _is_made_for(entry: Entry, job: PullJob, *, is_shared: bool) -> bool:
    """Whether an entry has the values of a job. A shared entry has the largest of all limits."""
    if entry.pull_policy != job.pull_policy:
        return False
    if is_shared:
        return entry.timeout_s >= job.timeout_s and entry.retries >= job.retries
    bases = (job.ttl_s, job.deadline_s, job.timeout_s * job.retries)
    least = DEFAULT_TTL_S + next(base for base in bases if base is not None)
    deadline_s = job.deadline_s
    if not job.ends:
        least, deadline_s = DAY_S - 600, max(1800, job.timeout_s)
    spread_s = SPREAD_S if job.ends else 1200
    return (
        (entry.timeout_s, entry.retries) == (job.timeout_s, job.retries)
        and entry.deadline_s == deadline_s
        and least <= entry.ttl_s < least + spread_s
    )


def _is_said(wanted: Mapping[str, Any], said: Mapping[str, Any], is_shared: bool) -> bool:
    """Whether a NodeImage has the job's values for the sandbox, and otherwise only those of other jobs."""
    if not is_shared:
        return wanted == said
    return all(part.items() <= (said.get(name) or {}).items() for name, part in wanted.items())
