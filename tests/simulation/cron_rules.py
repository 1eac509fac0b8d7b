"""Rules of an AdvancedCronJob for every commit, also if clocks jump and children never end.

Commit ──▶ CronRules.on_commit() ──▶ Violations          at the end ──▶ CronRules.at_rest() ──▶ Violations

Schedules of scripts have a period, so the rules know their times without parsing cron. Children are Jobs without a
controller: scripts determine when a child ends.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pykruise.kinds.advancedcronjob.changes import read_scheduled_since
from pykruise.kube.clock import parse_time
from pykruise.testing.simulation.history import Commit, Reconcile
from simulation.pods import PodHistory
from simulation.rules import Violation
from simulation.versions import versions_since

__all__ = ["CronRules", "period_of"]

CRONS, CHILDREN = "advancedcronjobs.apps.kruise.io", "jobs.batch"
SCHEDULED_AT = "apps.kruise.io/scheduled-at"
PATIENCE_S = 250.0
"""Seconds after a scheduled time, and after the end of all faults, in which its run may still begin."""
FAR_S = 110.0
"""An object is at rest only while its next time is so far away."""


def period_of(schedule: str) -> float:
    """Seconds between two times of a schedule of these scripts: `*/5 * * * *`, `@hourly`, `@every 300s`."""
    if schedule.startswith("@every "):
        return float(schedule.removeprefix("@every ").removesuffix("s"))
    return 3600.0 if schedule == "@hourly" else 60.0 * int(schedule.split()[0].removeprefix("*/"))


class Cron(msgspec.Struct, frozen=True):
    """One version of the AdvancedCronJob. `revision` is the API server's."""

    revision: int
    uid: str
    created: float
    is_deleting: bool
    is_paused: bool
    schedule: str
    concurrency: str
    deadline_s: float | None
    kept: Mapping[str, int]
    """Result of children → the number of finished children that are kept."""
    last: float | None
    active: frozenset[str]
    changed: float | None = None
    """Time at which the schedule of the spec changed."""

    @property
    def period(self) -> float:
        """Seconds between two times."""
        return period_of(self.schedule)

    def latest(self, now: float, *, since: float) -> float:
        """The latest time that is not after `now`; a time before or at `since` means that there is none after
        it."""
        begin = int(since) if self.schedule.startswith("@every") else 0
        return begin + (now - begin) // self.period * self.period


def read_cron(doc: Any, revision: int) -> Cron:
    """An AdvancedCronJob as stored."""
    spec, status, meta = doc["spec"], doc.get("status") or {}, doc["metadata"]
    last = status.get("lastScheduleTime")
    return Cron(
        revision=revision,
        uid=meta["uid"],
        created=parse_time(meta["creationTimestamp"]),
        is_deleting="deletionTimestamp" in meta,
        is_paused=bool(spec.get("paused")),
        schedule=spec["schedule"],
        concurrency=spec["concurrencyPolicy"],
        deadline_s=spec.get("startingDeadlineSeconds"),
        kept={"Complete": spec["successfulJobsHistoryLimit"], "Failed": spec["failedJobsHistoryLimit"]},
        last=parse_time(last) if last else None,
        active=frozenset(item["name"] for item in status.get("active") or ()),
        changed=read_scheduled_since(meta.get("annotations") or {}),
    )


class Child(msgspec.Struct, frozen=True):
    """One child as it was from `revision` on."""

    revision: int
    at: float
    sender: str
    uid: str
    name: str
    owner: str
    tick: float
    ending: str
    """Complete, Failed; empty: it is active."""
    is_deleting: bool
    gone: bool

    @property
    def is_active(self) -> bool:
        """Whether it has not ended."""
        return not self.ending and not self.gone


def read_child(commit: Commit) -> Child:
    """The child after a commit."""
    doc: Any = commit.new if commit.new is not None else commit.old
    meta = doc["metadata"]
    ending = [
        condition["type"]
        for condition in (doc.get("status") or {}).get("conditions") or ()
        if condition["status"] == "True" and condition["type"] in ("Complete", "Failed")
    ]
    return Child(
        revision=commit.revision,
        at=commit.at,
        sender=commit.sender,
        uid=meta["uid"],
        name=meta["name"],
        owner=next(
            (
                reference["uid"]
                for reference in meta.get("ownerReferences") or ()
                if reference.get("controller")
            ),
            "",
        ),
        tick=parse_time(meta["annotations"][SCHEDULED_AT]),
        ending=ending[0] if ending else "",
        is_deleting="deletionTimestamp" in meta,
        gone=commit.new is None,
    )


class CronRules:
    """Rules of one AdvancedCronJob, by its name, across deletions and new creations. See `WorkloadRules`."""

    shelves = frozenset({CRONS, CHILDREN})

    def __init__(
        self, *, namespace: str, name: str, start: float, skew_s: float = 0.0, is_calm: bool = False
    ) -> None:
        self._namespace, self._name = namespace, name
        self._start, self._skew_s = start, skew_s
        self._is_calm = is_calm
        self.pods = PodHistory()
        self._crons: list[Cron] = []
        self._gone_at = 0
        self._children: dict[str, list[Child]] = {}
        self._made_in: dict[str, Reconcile] = {}
        self._at_rest_since = math.inf
        self._forgotten: Violation | None = None

    def hook_answer(self, state: str) -> Mapping[str, str | None]:
        """There are no lifecycle hooks."""
        return {}

    # ── every commit ─────────────────────────────────────────────────────────

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        """Called for each commit to `shelves`, in order."""
        if commit.key.namespace != self._namespace:
            return
        if commit.shelf == CHILDREN:
            yield from self._on_child(commit)
        elif commit.key.name == self._name:
            yield from self._on_cron(commit)

    def _on_cron(self, commit: Commit) -> Iterator[Violation]:
        if commit.new is None:
            self._gone_at = commit.revision
            return
        cron = read_cron(commit.new, commit.revision)
        before = self._crons[-1] if self._crons and self._crons[-1].uid == cron.uid else None
        self._crons.append(cron)
        if before is not None and before.last is not None and (cron.last or 0.0) < before.last:
            yield self._broken(commit, "back", f"the last time goes back from {before.last} to {cron.last}")

    def _on_child(self, commit: Commit) -> Iterator[Violation]:
        child = read_child(commit)
        versions = self._children.setdefault(child.uid, [])
        before = versions[-1] if versions else None
        versions.append(child)
        reconcile = commit.reconcile
        if reconcile is None or not self._crons:
            return
        if before is None:
            self._made_in[child.uid] = reconcile
        crons = [cron for cron in self._crons_since(reconcile.known.get(CRONS, 0)) if cron.uid == child.owner]
        if not crons:
            yield self._broken(commit, "owner", f"{child.name} is written to for nothing that is there")
        elif before is None:
            yield from self._on_created(commit, reconcile, child, crons)
        elif child.gone or (child.is_deleting and not before.is_deleting):
            yield from self._on_deleted(commit, reconcile, child, crons)

    def _on_created(
        self, commit: Commit, reconcile: Reconcile, child: Child, crons: list[Cron]
    ) -> Iterator[Violation]:
        if child.name != f"{self._name}-{int(child.tick)}":
            yield self._broken(commit, "name", f"{child.name} is for {child.tick}")
        if all(cron.is_deleting or cron.is_paused for cron in crons):
            yield self._broken(commit, "paused", f"{child.name} is made, and it is paused or goes")
        if crons and all(cron.changed is not None and child.tick <= cron.changed for cron in crons):
            what = f"{child.name} is made for a time before its schedule was what it is"
            yield self._broken(commit, "change", what)
        known = [cron for cron in crons if cron.last is not None and cron.last >= child.tick]
        if len(known) == len(crons):
            yield self._broken(commit, "twice", f"{child.name} is made, and its time was served")
        decided = reconcile.at - self._skew_s
        if child.tick > commit.at + self._skew_s:
            yield self._broken(commit, "early", f"{child.name} is made before its time")
        if all(child.tick + cron.period <= decided for cron in crons):
            yield self._broken(commit, "latest", f"{child.name} is made, and a later time has passed")
        if all(not self._is_time(child.tick, cron) for cron in crons):
            yield self._broken(commit, "schedule", f"{child.tick} is no time of {crons[-1].schedule}")
        if all(cron.deadline_s is not None and child.tick + cron.deadline_s < decided - 1 for cron in crons):
            yield self._broken(commit, "late", f"{child.name} is made later than it may be")
        active = [item[0].name for item in self._surely_active(reconcile, child)]
        if active and all(cron.concurrency == "Forbid" for cron in crons):
            yield self._broken(commit, "forbid", f"{child.name} is made beside {active}")
        if active and all(cron.concurrency == "Replace" for cron in crons):
            yield self._broken(commit, "replace", f"{child.name} is made, and {active} stay")

    def _is_time(self, tick: float, cron: Cron) -> bool:
        # `@every` counts from the last time, even if an earlier schedule set that time.
        return cron.schedule.startswith("@every") or tick % cron.period == 0

    def _on_deleted(
        self, commit: Commit, reconcile: Reconcile, child: Child, crons: list[Cron]
    ) -> Iterator[Violation]:
        if any(cron.concurrency == "Replace" for cron in crons):
            return
        known = reconcile.known.get(CHILDREN, 0)
        versions = versions_since(self._children[child.uid], known)
        if all(not version.ending for version in versions):
            yield self._broken(commit, "deletion", f"{child.name} is active, and deleted")
            return
        ended = sum(
            any(item.ending == child.ending and not item.gone for item in versions_since(many, known))
            for many in self._children.values()
            if many[-1].owner == child.owner
        )
        if all(ended <= cron.kept.get(child.ending, 0) for cron in crons):
            yield self._broken(commit, "history", f"{child.name} is deleted, {ended} are within the limit")

    # ── at rest ──────────────────────────────────────────────────────────────

    def at_rest(self, now: float) -> Iterator[Violation]:
        """Errors, or missing work, that remain after a long time without faults."""
        if not self._crons:
            return
        self._at_rest_since = min(self._at_rest_since, now)
        if self._forgotten is not None:
            yield self._forgotten
        cron = self._crons[-1]
        here = [many[-1] for many in self._children.values() if not many[-1].gone]
        mine = [child for child in here if child.owner == cron.uid]
        if self._gone_at > cron.revision:
            if mine:
                yield Violation("gone", f"it is gone, but {[child.name for child in mine]} are there", now)
            return
        active = {child.name for child in mine if child.is_active}
        if active != cron.active:
            yield Violation("status", f"active are {sorted(active)}, it says {sorted(cron.active)}", now)
        for ending, kept in cron.kept.items():
            ended = [child.name for child in mine if child.ending == ending]
            if len(ended) > kept:
                yield Violation("history", f"{ended} are there, {kept} may stay", now)
        yield from self._nothing_is_missed(cron, active, self._start + now, now)

    def _nothing_is_missed(
        self, cron: Cron, active: set[str], clock: float, now: float
    ) -> Iterator[Violation]:
        """The latest time has had its run, unless a rule prevents it; and the next one is far away."""
        served = [many[0].tick for many in self._children.values() if many[0].owner == cron.uid]
        if served and cron.last != max(served):
            yield Violation("status", f"the last time is {max(served)}, it says {cron.last}", now)
        if cron.is_paused or (cron.last is not None and cron.last > clock):
            return
        since = max(cron.created if cron.last is None else cron.last, cron.changed or 0.0)
        latest = cron.latest(clock, since=since)
        is_free = cron.concurrency != "Forbid" or not active
        is_late = cron.deadline_s is not None and latest + cron.deadline_s < clock
        if latest > since and is_free and not is_late:
            missed = Violation("missed", f"{latest} was not served, the last was {cron.last}", now)
            if clock - latest > PATIENCE_S and now - self._at_rest_since > PATIENCE_S and not self._skew_s:
                self._forgotten = missed  # remains an error if a later time is served
            yield missed
        if latest + cron.period - clock < FAR_S:
            yield Violation("next", "the next time is near", now)

    # ── what is known ────────────────────────────────────────────────────────

    def _crons_since(self, known: int) -> list[Cron]:
        if self._gone_at > self._crons[-1].revision and self._gone_at <= known:
            return []
        return versions_since(self._crons, known)

    def _surely_active(self, reconcile: Reconcile, child: Child) -> Iterator[list[Child]]:
        """Children that the manager must know, and that certainly continue and stay."""
        known = reconcile.known.get(CHILDREN, 0)
        for many in self._children.values():
            first = many[0]
            if first.owner != child.owner or first.uid == child.uid:
                continue
            versions = versions_since(many, known)
            is_known = first.revision <= known or self._made_in.get(first.uid) == reconcile
            if is_known and all(version.is_active and not version.is_deleting for version in versions):
                yield versions

    def _broken(self, commit: Commit, rule: str, what: str) -> Violation:
        return Violation(rule, f"{what} (by {commit.sender})", commit.at - self._start)
