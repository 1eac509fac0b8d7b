"""Rules of an ImageListPullJob for every commit; the rules of ImagePullJobs apply as well.

Commit ──▶ ListRules.on_commit() ──▶ Violations          at the end ──▶ ListRules.at_rest() ──▶ Violations
                └── PullRules: the ImagePullJobs, and the NodeImages
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from pykruise.kube.clock import parse_time
from pykruise.testing.simulation.history import Commit, Reconcile, list_versions_since
from simulation.pull_documents import PullJob, read_image, template_of
from simulation.pull_rules import JOBS, PullRules
from simulation.rules import Violation

__all__ = ["ListRules"]

LISTS = "imagelistpulljobs.apps.kruise.io"
NUMBERS = ("desired", "completed", "succeeded")


class ListJob(msgspec.Struct, frozen=True):
    """One version of the ImageListPullJob. `revision` is the API server's."""

    revision: int
    uid: str
    gone: bool
    is_deleting: bool
    images: tuple[tuple[str, str], ...]
    template: Any
    ends: bool
    ttl_s: int | None
    status: Mapping[str, Any]

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return bool(self.status.get("completionTime"))

    def is_for(self, job: PullJob) -> bool:
        """Whether the list wants this ImagePullJob."""
        return job.image in self.images and job.template == self.template


def read_list(commit: Commit) -> ListJob:
    """The list after a commit."""
    doc: Any = commit.new if commit.new is not None else commit.old
    meta, spec = doc["metadata"], doc["spec"]
    return ListJob(
        revision=commit.revision,
        uid=meta["uid"],
        gone=commit.new is None,
        is_deleting="deletionTimestamp" in meta,
        images=tuple(read_image(image) for image in spec["images"]),
        template=template_of(spec),
        ends=spec["completionPolicy"]["type"] != "Never",
        ttl_s=spec["completionPolicy"].get("ttlSecondsAfterFinished"),
        status=doc.get("status") or {},
    )


def _ending(job: PullJob) -> str:
    """State of an ImagePullJob: active, Succeeded or Failed."""
    said = {name: job.status.get(name, 0) for name in ("desired", "succeeded", "failed")}
    if job.started is None or said["desired"] != said["succeeded"] + said["failed"]:
        return "active"
    if not said["desired"]:  # the job has selected no node
        return "Failed" if job.status.get("completionTime") else "active"
    return "Failed" if said["failed"] else "Succeeded"


class ListRules(PullRules):
    """Rules of one ImageListPullJob by its name, across deletions and new creations, and of all ImagePullJobs."""

    shelves = PullRules.shelves | {LISTS}

    def __init__(self, *, name: str, **given: Any) -> None:
        super().__init__(name=name, **given)
        self._name = name
        self._lists: list[ListJob] = []
        self._made_in: dict[str, Reconcile] = {}

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        """Called for each commit to `shelves`, in order."""
        yield from super().on_commit(commit)
        if commit.shelf == LISTS:
            yield from self._on_list(commit)
        reconcile = commit.reconcile
        if commit.shelf == JOBS and reconcile is not None and reconcile.controller == "imagelistpulljob":
            yield from self._on_child(commit, reconcile)

    def _on_list(self, commit: Commit) -> Iterator[Violation]:
        list_job = read_list(commit)
        before = self._lists[-1] if self._lists and self._lists[-1].uid == list_job.uid else None
        self._lists.append(list_job)
        if before is None or commit.reconcile is None:
            return
        if list_job.gone or list_job.is_deleting:
            ended = before.status.get("completionTime")
            if not ended or before.ttl_s is None or parse_time(ended) + before.ttl_s > self._latest(commit):
                yield self._broken(commit, "ttl", "the list is deleted, and its time is not over")
        elif before.status != list_job.status:
            yield from self._on_list_status(commit, commit.reconcile, before, list_job)

    def _on_list_status(
        self, commit: Commit, reconcile: Reconcile, before: ListJob, list_job: ListJob
    ) -> Iterator[Violation]:
        if before.is_over:
            yield self._broken(
                commit, "finished", f"the status of a list that is over: {dict(list_job.status)}"
            )
            return
        if before.status.get("startTime", list_job.status["startTime"]) != list_job.status["startTime"]:
            yield self._broken(commit, "start", "startTime has changed")
        lists = self._lists_since(reconcile, list_job.uid)
        if not any(self._is_status_of(item, list_job, reconcile) for item in lists):
            yield self._broken(commit, "counts", f"the list says {dict(list_job.status)}")

    def _is_status_of(self, wanted: ListJob, said: ListJob, reconcile: Reconcile) -> bool:
        """Whether a version of the list, with its ImagePullJobs, may have this status."""
        counts = {name: said.status.get(name, 0) for name in NUMBERS}
        possible = [self._endings(wanted, image, reconcile) for image in wanted.images]
        completed = (
            sum("active" not in item for item in possible),
            sum(item != {"active"} for item in possible),
        )
        succeeded = (
            sum(item == {"Succeeded"} for item in possible),
            sum("Succeeded" in item for item in possible),
        )
        is_done = wanted.ends and counts["completed"] == counts["desired"]
        return (
            counts["desired"] == len(wanted.images)
            and completed[0] <= counts["completed"] <= completed[1]
            and succeeded[0] <= counts["succeeded"] <= succeeded[1]
            and said.is_over == is_done
        )

    def _endings(self, wanted: ListJob, image: tuple[str, str], reconcile: Reconcile) -> set[str]:
        """Possible states of the ImagePullJob of an image, as far as the manager may know; without one: active."""
        endings: set[str] = set()
        is_sure = False
        for versions in self._children_since(wanted.uid, reconcile):
            mine = [version for version in versions if not version.gone and not version.is_deleting]
            fitting = [pull_job for pull_job in mine if pull_job.image == image and wanted.is_for(pull_job)]
            endings |= {_ending(pull_job) for pull_job in fitting}
            is_known = versions[0].revision <= reconcile.known.get(JOBS, 0)
            is_sure = is_sure or (is_known and len(fitting) == len(versions))
        return endings if is_sure else endings | {"active"}

    def _on_child(self, commit: Commit, reconcile: Reconcile) -> Iterator[Violation]:
        versions = next(many for many in self.jobs.values() if many[-1].revision == commit.revision)
        child = versions[-1]
        lists = self._lists_since(reconcile, child.owner)
        if len(versions) == 1:
            self._made_in[child.uid] = reconcile
            fitting = [
                list_job
                for list_job in lists
                if list_job.is_for(child) and not list_job.is_over and not list_job.is_deleting
            ]
            if not fitting:
                yield self._broken(commit, "template", f"{child.name} is made, and no list wants it")
            for many in self._children_since(child.owner, reconcile):
                first = self.jobs[many[0].uid][0]
                is_known = (
                    first.revision <= reconcile.known.get(JOBS, 0)
                    or self._made_in.get(first.uid) == reconcile
                )
                if (
                    first.uid != child.uid
                    and is_known
                    and all(
                        not pull_job.gone and not pull_job.is_deleting and pull_job.image == child.image
                        for pull_job in many
                    )
                    and all(wanted.is_for(pull_job) for pull_job in many for wanted in fitting)
                ):
                    yield self._broken(commit, "twice", f"{child.name} is made, {first.name} is there")
        elif (child.gone or child.is_deleting) and not versions[-2].is_deleting:
            others = [
                many[-1].name
                for many in self._children_since(child.owner, reconcile)
                if many[-1].uid != child.uid
                and any(not pull_job.gone and pull_job.image == child.image for pull_job in many)
            ]
            if not others and all(list_job.is_for(child) for list_job in lists):
                yield self._broken(commit, "deletion", f"{child.name} is deleted, and wanted")

    # ── at rest ──────────────────────────────────────────────────────────────

    def at_rest(self, now: float) -> Iterator[Violation]:
        """Errors, or missing work, that remain after a long time without faults."""
        yield from super().at_rest(now)
        if not self._lists:
            return
        list_job = self._lists[-1]
        children = [many[-1] for many in self.jobs.values() if not many[-1].gone]
        mine = [child for child in children if child.owner == list_job.uid]
        left = children if list_job.gone else [child for child in children if child.owner != list_job.uid]
        if left:
            yield Violation(
                "gone", f"{[pull_job.name for pull_job in left]} are there for a list that is gone", now
            )
        if list_job.gone:
            return
        if list_job.is_deleting or (list_job.is_over and list_job.ttl_s is not None):
            yield Violation("ttl", "the list is over, and will go", now)
        if list_job.is_over or list_job.is_deleting:
            return
        if sorted(pull_job.image for pull_job in mine) != sorted(list_job.images) or not all(
            map(list_job.is_for, mine)
        ):
            yield Violation(
                "converges", f"ImagePullJobs are there for {[pull_job.image for pull_job in mine]}", now
            )
        endings = [_ending(pull_job) for pull_job in mine]
        true = {
            "desired": len(list_job.images),
            "completed": sum(ending != "active" for ending in endings),
            "succeeded": endings.count("Succeeded"),
            "active": sum(pull_job.status.get("active", 0) > 0 for pull_job in mine),
        }
        said = {name: list_job.status.get(name, 0) for name in true}
        failed = {pull_job.name for pull_job in mine if pull_job.status.get("failed", 0)}
        listed = [status["imagePullJob"] for status in list_job.status.get("failedImageStatuses") or ()]
        if said != true or sorted(listed) != sorted(failed):
            yield Violation(
                "status", f"it says {dict(list_job.status)}, true are {true} {sorted(failed)}", now
            )
        if list_job.ends and "active" not in endings:
            yield Violation("complete", "all have ended, and the list is not over", now)

    # ── what is known ────────────────────────────────────────────────────────

    def _lists_since(self, reconcile: Reconcile, uid: str) -> Sequence[ListJob]:
        mine = [list_job for list_job in self._lists if list_job.uid == uid]
        return [
            list_job
            for list_job in list_versions_since(mine, reconcile.known.get(LISTS, 0))
            if not list_job.gone
        ]

    def _children_since(self, owner: str, reconcile: Reconcile) -> Iterator[Sequence[PullJob]]:
        """Versions that the manager may assume to be current, of each ImagePullJob of a list."""
        for many in self.jobs.values():
            if many[-1].owner == owner:
                yield list_versions_since(many, reconcile.known.get(JOBS, 0))
