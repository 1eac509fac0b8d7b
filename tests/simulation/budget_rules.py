"""Rules of a PodUnavailableBudget over a workload.

a pod that serves is deleted, evicted or changed ──▶ it was recorded, and enough others serve
a request is rejected                            ──▶ its pod serves, and the budget was spent
at rest                                          ──▶ the status is correct, and every pod names its budget

Numbers are computed from stored objects: the budget's spec, the workload's replicas, the pods. A pod that fails
breaks no rule; it does not count if the controller could not know of it when it wrote the status that the decision
used.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import msgspec

from pykruise.kube.ids import Key
from pykruise.plans.pod_steps import PreventedDisruption
from pykruise.testing.simulation.history import Commit
from simulation.pods import Version, read_pod
from simulation.rules import PODS, Scene, Violation, number

__all__ = ["REVIEW", "BudgetRules", "Review"]

BUDGETS = "podunavailablebudgets.policy.kruise.io"
TIES = ("pub.kruise.io/related-pub", "kruise.io/related-pub")
UNAVAILABLE = "unavailable-pod.kruise.io/"
RECORDS = ("disruptedPods", "unavailablePods")
SEEN_S = 5.0
"""Seconds in which the controller observes a change and writes its status, without faults."""
BY_DEFAULT = ("DELETE", "UPDATE", "EVICT")


class Review(msgspec.Struct, frozen=True):
    """Knowledge of a webhook when it got a request about a pod."""

    operation: str
    pod: str
    revision: int
    """Everything that was stored then."""
    known: int
    """Budgets as its cache showed them."""


REVIEW: ContextVar[Review | None] = ContextVar("review", default=None)
"""The last review of the request that is being carried out."""


class Basis(msgspec.Struct, frozen=True):
    """A status that a manager wrote, with its time and the manager's knowledge."""

    revision: int
    known: Mapping[str, int]
    manager: str


class Stored(msgspec.Struct, frozen=True):
    """One version of an object; None: it did not exist."""

    revision: int
    doc: Any


class BudgetRules:
    """Rules of one budget. `pods`: those of its workload `name`, whose objects are on the shelf `target`."""

    controllers = ("podunavailablebudget",)

    def __init__(self, scene: Scene, *, target: str) -> None:
        self._target = target
        self.shelves = frozenset({BUDGETS, target, PODS})
        self._pods = scene.pods
        self._namespace = scene.namespace
        self._name = scene.name
        self._start = scene.start
        self._is_calm = scene.is_calm
        self._times: list[tuple[float, int]] = []
        """When which revision was stored."""
        self._is_excused = scene.skew_s != 0.0
        """Whether clocks differ: then records may expire too early, so the rules about records do not apply."""
        self._budgets: list[Stored] = [Stored(0, None)]
        self._workloads: list[Stored] = [Stored(0, None)]
        self._bases: list[Basis] = []
        self._spent: dict[str, int] = {}
        """Revision of the write that last put a pod on the lists, by name."""
        self._taken: dict[str, int] = {}
        """Uid of a pod → the revision at which an admitted request took it out of service."""
        self._dropped: dict[str, Basis] = {}
        """The status that last took a pod off the lists, by name."""

    # ── every commit ─────────────────────────────────────────────────────────

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        """Called for each commit to `shelves` in order, after `pods` has recorded it."""
        if commit.key.namespace != self._namespace:
            return
        self._times.append((commit.at, commit.revision))
        if commit.shelf == BUDGETS:
            self._on_budget(commit)
        elif commit.shelf == self._target and commit.key.name == self._name:
            self._workloads.append(Stored(commit.revision, commit.new))
        elif commit.shelf == PODS and commit.old is not None:
            yield from self._on_pod(commit, commit.old)

    def _on_budget(self, commit: Commit) -> None:
        self._budgets.append(Stored(commit.revision, commit.new))
        before, after = _records(commit.old), _records(commit.new)
        if commit.old is None or commit.new is None or _uid(commit.old) != _uid(commit.new):
            # Only this budget's status recorded the pods that it had let go.
            self._bases = []
            self._taken.clear()
        elif commit.reconcile is not None:
            basis = Basis(commit.revision, commit.reconcile.known, commit.reconcile.manager)
            self._bases.append(basis)
            self._dropped |= dict.fromkeys(before.keys() - after.keys(), basis)
        for name, since in after.items():
            if before.get(name) != since:
                self._spent[name] = commit.revision

    def _on_pod(self, commit: Commit, old: Any) -> Iterator[Violation]:
        """A request takes a pod out of service."""
        review, name = REVIEW.get(), commit.key.name
        if review is None or review.pod != name or not _serves(old) or _serves(commit.new):
            return
        if not any(
            _tie(old) == (budget.doc or {}).get("metadata", {}).get("name") for budget in self._budgets[-1:]
        ):
            return
        if self._is_excused or not self._is_guarded(review) or not self._has_served(old, review):
            return
        known = self._bases_since(review.known)
        if not known or any(self._desired(world) == 0 for world in self._worlds(known)):
            return
        stored = _since(self._budgets, review.revision)
        if not any(name in _records(item.doc) for item in stored):
            yield self._broken(commit, "recorded", f"{name} is taken out of service, and no budget says so")
            return
        self._taken[_uid(old)] = commit.revision
        spent = min(review.revision, self._spent.get(name, review.revision))
        yield from self._are_enough_left(commit, old, self._bases_since(spent))

    def _are_enough_left(self, commit: Commit, old: Any, bases: list[Basis]) -> Iterator[Violation]:
        wanted = min((self._desired(world) for world in self._worlds(bases)), default=0)
        known = self._known(bases, PODS)
        owners = {_uid(workload.doc) for workload in self._workloads if workload.doc is not None}
        left = [
            versions[-1].name
            for versions in self._pods.all_since(known, None)
            if any(version.owner in owners and self._may_count(version, bases) for version in versions)
        ]
        if len(left) < wanted:
            what = (
                f"{commit.key.name} is taken out of service; {sorted(left)} are left, and {wanted} must serve"
            )
            yield self._broken(commit, "budget", what)

    def _may_count(self, version: Version, bases: list[Basis]) -> bool:
        """Whether the pod served, and no request that the budget admitted has taken it out of service since then.

        While two managers lead for a short time, one removes the record of a pod whose deletion it has observed. The
        other manager has not observed it, and finds no record of it.
        """
        spent, dropped = self._spent.get(version.name, 0), self._dropped.get(version.name)
        is_unsaid = dropped is not None and any(
            spent < dropped.revision < base.revision and base.manager != dropped.manager for base in bases
        )
        return _counts(version) and (is_unsaid or version.revision > self._taken.get(version.uid, 0))

    def _is_guarded(self, review: Review) -> bool:
        budgets = _since(self._budgets, review.known)
        if budgets[0].doc is None:  # a budget that is missing in the cache is read from the API server
            budgets = _since(self._budgets, review.revision)
        return all(
            budget.doc is not None
            and not budget.doc["metadata"].get("deletionTimestamp")
            and review.operation in (budget.doc["spec"].get("protectOperations") or BY_DEFAULT)
            for budget in budgets
        )

    def _has_served(self, old: Any, review: Review) -> bool:
        """Whether it has always served since the webhook got the request."""
        return all(_counts(version) for version in self._pods.since(_uid(old), review.revision)[:-1])

    def _bases_since(self, revision: int) -> list[Basis]:
        """The knowledge of the status that was stored at a revision, and of later ones."""
        before = [base for base in self._bases if base.revision <= revision][-1:]
        return [*before, *(base for base in self._bases if base.revision > revision)] if before else []

    def _known(self, bases: list[Basis], shelf: str) -> int:
        """The revision up to which objects of a shelf must be known. Without faults everything is known soon."""
        known = min((basis.known.get(shelf, 0) for basis in bases), default=0)
        if not self._is_calm:
            return known
        soon = self._times[-1][0] - SEEN_S
        return max([known, *(revision for at, revision in self._times if at <= soon)])

    def _worlds(self, bases: list[Basis]) -> Iterator[tuple[Any, Any]]:
        """Each pair of a budget and a workload that a decision with these bases may have used."""
        if not bases:
            return
        budgets = _since(self._budgets, self._known(bases, BUDGETS))
        workloads = _since(self._workloads, self._known(bases, self._target))
        yield from ((budget.doc, other.doc) for budget in budgets for other in workloads)

    def _desired(self, world: tuple[Any, Any]) -> int:
        budget, workload = world
        if budget is None:
            return 0
        spec, total = budget["spec"], self._total(budget, workload)
        if spec.get("maxUnavailable") is not None:
            return max(total - number(spec["maxUnavailable"], total, up=True), 0)
        return number(spec["minAvailable"], total, up=True)

    @staticmethod
    def _total(budget: Any, workload: Any) -> int:
        if budget["spec"].get("protectTotalReplicas") is not None:
            return int(budget["spec"]["protectTotalReplicas"])
        if workload is None or workload["metadata"].get("deletionTimestamp"):
            return 0
        return int(workload["spec"].get("replicas", 0))

    def _members(self, owners: Iterable[str]) -> Iterator[Version]:
        return (pod for pod in self._pods.latest() if pod.is_active and pod.owner in owners)

    # ── refusals ─────────────────────────────────────────────────────────────

    def on_prevented(self, prevented: PreventedDisruption, now: float) -> Iterator[Violation]:
        """A budget kept a pod: it served when the webhook got the request, or later.

        The uid identifies it: when the webhook responds, the pod may be deleted, and another one may have its name.
        """
        review, name = REVIEW.get(), prevented.pod
        assert review is not None
        if not any(_counts(version) for version in self._pods.since(prevented.uid, review.revision)):
            yield Violation("kept", f"{name} does not serve, and was kept by the budget", now)
        stored = _since(self._budgets, review.known)
        free = [(item.doc or {}).get("status", {}).get("unavailableAllowed", 0) for item in stored]
        if min(free) > 0:
            yield Violation("kept", f"{name} was kept by a budget that allows {min(free)}", now)

    # ── at rest ──────────────────────────────────────────────────────────────

    def at_rest(self, now: float) -> Iterator[Violation]:
        """Errors that remain after a long time without faults."""
        budget, workload = self._budgets[-1].doc, self._workloads[-1].doc
        if budget is None:
            return
        total, desired = self._total(budget, workload), self._desired((budget, workload))
        is_none = workload is None or workload["spec"].get("replicas") == 0
        members = [] if is_none else list(self._members({_uid(workload)}))
        current = sum(_counts(pod) for pod in members)
        wanted = {
            "observedGeneration": budget["metadata"]["generation"],
            "totalReplicas": total,
            "desiredAvailable": desired,
            "currentAvailable": current,
            "unavailableAllowed": max(current - desired, 0),
        }
        said = budget.get("status") or {}
        if said != wanted:
            yield Violation("status", f"the budget says {said}, and {wanted} is true", now)
        untied = [pod.name for pod in members if pod.annotations.get(TIES[0]) != budget["metadata"]["name"]]
        if untied:
            yield Violation("tied", f"{untied} are not tied to the budget", now)

    def _broken(self, commit: Commit, rule: str, what: str) -> Violation:
        return Violation(rule, f"{what} (by {commit.sender})", commit.at - self._start)


def _uid(doc: Any) -> str:
    return str(doc["metadata"]["uid"])


def _tie(pod: Any) -> str:
    annotations = pod["metadata"].get("annotations") or {}
    return str(annotations.get(TIES[0]) or annotations.get(TIES[1], ""))


def _records(budget: Any) -> dict[str, str]:
    status = (budget or {}).get("status") or {}
    return {name: since for field in RECORDS for name, since in (status.get(field) or {}).items()}


def _since(versions: list[Stored], revision: int) -> list[Stored]:
    """The version at a revision, and all later ones."""
    first = max((index for index, version in enumerate(versions) if version.revision <= revision), default=0)
    return versions[first:]


def _serves(doc: Any) -> bool:
    """Whether a stored pod serves, and runs the images that it is to run."""
    if doc is None:
        return False
    commit = Commit(0, 0.0, PODS, Key("", ""), "", None, None, doc)
    return _counts(read_pod(commit))


def _counts(pod: Version) -> bool:
    """Whether the pod counts: if a readiness gate was closed and the node has not reported it yet, the pod still
    gets traffic."""
    return (
        pod.is_active
        and pod.has_ready_condition
        and not any(label.startswith(UNAVAILABLE) for label in pod.labels)
        and all(pod.running.get(name, "").endswith(image) for name, image in pod.images.items())
    )
