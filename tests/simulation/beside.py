"""Kinds that act on the pods of another workload: the rules of the workload together with those of the other kind.

Commit ──▶ Together.on_commit() ──▶ rules of the workload: writes of other controllers count as those of another client
                                ──▶ rules of the other kind: likewise

One manager runs the controllers of both; each rule checks only the writes of its controller.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Protocol

import msgspec

from pykruise.plans.pod_steps import PreventedDisruption
from pykruise.testing.simulation.history import Commit
from simulation.budget_rules import BudgetRules
from simulation.pods import PodHistory
from simulation.rules import Scene, Violation, WorkloadRules

__all__ = ["BesideRules", "Together"]

replace = msgspec.structs.replace


class BesideRules(Protocol):
    """Rules of an object that acts on pods of a workload."""

    controllers: Collection[str]
    """Controllers whose writes it judges."""
    shelves: frozenset[str]

    def on_commit(self, commit: Commit) -> Iterator[Violation]: ...
    def at_rest(self, now: float) -> Iterator[Violation]: ...


class Together:
    """Rules of a workload (of the controller `controller`) and of the object that acts on its pods."""

    def __init__(
        self,
        workload: Callable[..., WorkloadRules[Any]],
        controller: str,
        beside: Callable[..., BesideRules],
        **given: Any,
    ) -> None:
        self._workload = workload(**given)
        self._controller = controller
        self._beside = beside(Scene(pods=self._workload.pods, **given))
        self.shelves = self._workload.shelves | self._beside.shelves

    @property
    def pods(self) -> PodHistory:
        """All versions of all pods."""
        return self._workload.pods

    def on_commit(self, commit: Commit) -> Iterator[Violation]:
        """Called for each commit to `shelves`, in order."""
        if commit.shelf in self._workload.shelves:
            yield from self._workload.on_commit(_by((self._controller,), commit))
        if commit.shelf in self._beside.shelves:
            yield from self._beside.on_commit(_by(self._beside.controllers, commit))

    def on_prevented(self, prevented: PreventedDisruption, now: float) -> Iterator[Violation]:
        """Called for each pod that a budget kept."""
        if isinstance(self._beside, BudgetRules):
            yield from self._beside.on_prevented(prevented, now)

    def at_rest(self, now: float) -> Iterator[Violation]:
        """Errors that remain after a long time without faults."""
        yield from self._workload.at_rest(now)
        yield from self._beside.at_rest(now)

    def hook_answer(self, state: str) -> Mapping[str, str | None]:
        """See WorkloadRules."""
        return self._workload.hook_answer(state)


def _by(controllers: Collection[str], commit: Commit) -> Commit:
    """The commit for the rules of these controllers: a decision of another controller is no reconcile for them,
    but the write of another client, which may be in progress while they decide."""
    if commit.reconcile is None or commit.reconcile.controller in controllers:
        return commit
    return replace(commit, reconcile=None, sender=f"{commit.sender}/{commit.reconcile.controller}")
