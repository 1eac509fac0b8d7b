"""A small world: a cluster and its manager at rest; from then on the exploration chooses every event.

Scope ──▶ World.play(chooser) ──at each state──▶ chooser(State) ──▶ the next of its choices

It is the stage of the random simulation with its rules, on another loop. In a state nothing runs:
writes, events, reconciles and kubelets wait. If nothing waits, time advances. If nothing changes for a long time,
the world is at rest, and must match the spec.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import msgspec

from pykruise.kube.admission import ReviewRule
from pykruise.kube.resources import CONTROLLER_REVISIONS, NAMESPACES, NODES, PERSISTENT_VOLUME_CLAIMS, PODS
from pykruise.sandbox.cluster import Cluster, ClusterSettings
from pykruise.testing.exploration.choices import Choice, ChoiceGates, Chooser
from pykruise.testing.exploration.deciding import (
    KUBELET_SETTINGS,
    QUIET_S,
    GatedCluster,
    Moments,
    describe_waiting,
    gate_reconciles,
    note_plans,
)
from pykruise.testing.exploration.states import Names, VersionedStorage, remembered
from pykruise.testing.exploration.wires import Faults, GatedWire, ReconcileLog
from pykruise.testing.simulation.network import Wire
from simulation.rules import Violation
from simulation.script import Operation, Script
from simulation.stage import START, Life, Stage

__all__ = ["QUIET_S", "Scope", "World"]


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """A world, and the possible events in it."""

    name: str
    script: Script
    """The kind and its objects, without operations and faults."""
    before: tuple[Operation, ...] = ()
    """Operations before the exploration begins."""
    begin: Operation
    """The first operation of a person, and the first step."""
    operations: tuple[Operation, ...] = ()
    """Operations of a person, of which one may happen at any time after the first."""
    faults: tuple[str, ...] = ()
    """Faults, of which one may happen at any write."""
    breaks: int = 0
    """Maximum number of watches that break: instead of an event, the server reports that its history is compacted."""
    lag: int = 1000
    """Maximum number of events by which a watch may lag. At this lag, one of its events is the next step."""
    hand_overs: int = 0
    settle_s: float = QUIET_S
    """Seconds without any choice before the exploration begins."""
    quiet_s: float = QUIET_S
    """Seconds without a step after which the world is at rest."""
    has_clock: bool = False
    """Whether states at two times always differ, because the time of day affects decisions."""
    lead: tuple[str, ...] = ()
    """Prefixes of the first choices; the exploration begins after them."""
    deepest: int = 0
    """Maximum number of steps of a path; 0: unlimited."""
    moment_s: float = 0.0
    """A delay of at most this length may end while other steps wait: webhooks collect requests for this long."""
    last: tuple[str, ...] = ()
    """Prefixes (such as `node `) of steps that are possible only if no other step waits. This reduces the states."""
    are_answers_apart: bool = False
    """Whether events may arrive between a write and its response."""


class World(Stage):
    """A running scope; see the module's docstring."""

    has_steady_watches = True
    is_overseen = False

    def __init__(self, scope: Scope) -> None:
        super().__init__(
            msgspec.structs.replace(scope.script, latency_s=0.0, kubelet=KUBELET_SETTINGS, hook_s=0.0)
        )
        self._scope = scope
        self._gates = ChoiceGates()
        self._faults = Faults(scope.faults, 1)
        self._watch_faults = Faults(("gone",), scope.breaks)
        self._operations_left: tuple[Operation, ...] = scope.operations
        self._hand_overs = scope.hand_overs
        self._logs: list[ReconcileLog] = []
        self._has_begun = False

    async def play(self, choose: Chooser) -> NoReturn:
        """Bring the world to rest, then let `choose` decide forever. Raises RuntimeError if it never comes to rest."""
        scope = self._scope
        async with self.running():
            for operation in self._scope.before:
                await self._operations.do(operation)
            for _ in range(60):
                await asyncio.sleep(1.0)
                if not self._found and not list(self._rules.at_rest(self._now())):
                    break
            else:
                raise RuntimeError(
                    f"no rest at the start: {self._found or list(self._rules.at_rest(self._now()))}"
                )
            await asyncio.sleep(self._scope.settle_s)
            moments = Moments(
                self, self._gates, choose, quiet_s=scope.quiet_s, moment_s=scope.moment_s, last=scope.last
            )
            await moments.run()
        raise AssertionError

    # ── choices ──────────────────────────────────────────────────────────────

    def beginning(self) -> Choice | None:
        """See DecidedWorld."""
        return None if self._has_begun else Choice(_words(self._scope.begin), self._begin)

    def additions(self) -> list[Choice]:
        """See DecidedWorld."""
        choices = [Choice(_words(operation), self._doing(operation)) for operation in self._operations_left]
        if self._hand_overs > 0:
            choices.append(Choice("the manager is killed, and another starts", self._hand_over))
        return choices

    def violation(self) -> Violation | None:
        """See DecidedWorld."""
        return self._found[0] if self._found else None

    def judge_rest(self) -> None:
        """See DecidedWorld."""
        self._found += list(self._rules.at_rest(self._now()))[:1]

    def is_late(self, plural: str) -> bool:
        """See DecidedWorld."""
        assert isinstance(self._storage, VersionedStorage)
        return any(
            len(self._storage.after(str(resource), cache.position)) >= self._scope.lag
            for life in self._lives
            for resource, cache in life.manager._sources.by_resource.items()
            if resource.plural == plural
        )

    def _begin(self) -> None:
        self._has_begun = True
        self._help(self._operations.do(self._scope.begin))

    def _doing(self, operation: Operation) -> Callable[[], None]:
        def do() -> None:
            self._operations_left = ()
            self._help(self._operations.do(operation))

        return do

    def _hand_over(self) -> None:
        self._hand_overs -= 1
        self._help(self._follow())

    async def _follow(self) -> None:
        await self._kill()
        self._start_manager()

    # ── gates ────────────────────────────────────────────────────────────────

    def _new_storage(self) -> VersionedStorage:
        return VersionedStorage(clock=self._clock, start=START, shelves=self._rules.shelves)

    def _new_cluster(self, settings: ClusterSettings, rules: Sequence[ReviewRule]) -> Cluster:
        class _Gated(GatedCluster):
            gates = self._gates
            reported = ("pods", "nodeimages", "containerrecreaterequests", "nodepodprobes")

        return _Gated(settings, clock=self._clock, rng=self._branch(), reviewers=rules, storage=self._storage)

    @property
    def _watches(self) -> tuple[str, ...]:
        return (PODS.plural, NAMESPACES.plural, *(resource.plural for resource in self._resources))

    def _wire(self, name: str) -> Wire:
        return GatedWire(
            self._cluster.make_transport(name),
            name=name,
            network_faults=self._network_faults,
            rng=self._branch(),
            latency_s=0.0,
            gates=self._gates,
            faults=self._faults,
            watch_faults=self._watch_faults,
            watches=self._watches,
            are_answers_apart=self._scope.are_answers_apart,
        )

    def _watch_reconciles(self, name: str, manager: Any, wire: Wire, controller: Any) -> None:
        super()._watch_reconciles(name, manager, wire, controller)
        gate_reconciles(controller, self._gates, self._logs)

    def _start_manager(self) -> Life:
        life = super()._start_manager()
        note_plans(life.manager._operator)
        return life

    async def _put_labels(self, pod: str, labels: Any, state: str) -> None:
        await self._gates.wait(f"hook of pods/{pod}")
        await super()._put_labels(pod, labels, state)

    # ── states ───────────────────────────────────────────────────────────────

    def _remembered_by(self, manager: Any) -> str:
        assert isinstance(self._storage, VersionedStorage)
        return remembered(
            manager._operator, self._storage, self._watches, now=self._now(), clock=self._clock()
        )

    def text(self, is_rest: bool) -> str:
        """See DecidedWorld."""
        storage = self._storage
        assert isinstance(storage, VersionedStorage)
        shelves = [
            str(resource)
            for resource in (
                *self._resources,
                CONTROLLER_REVISIONS,
                PERSISTENT_VOLUME_CLAIMS,
                NAMESPACES,
                NODES,
                PODS,
            )
        ]
        parts = [
            f"{shelf} {key} {storage.text_of(shelf, key, version)}"
            for shelf in shelves
            for key, version in storage.objects(shelf)
        ]
        parts += [self._remembered_by(life.manager) for life in self._lives]
        parts += describe_waiting(self._gates, self._logs)
        parts.append(
            f"{is_rest} {self._has_begun} {self._operations_left} {self._hand_overs} {self._faults.left}"
            f" {self._watch_faults.left}"
        )
        if self._scope.has_clock:
            parts.append(f"{self._now():.2f}")
        return "\n".join(parts)

    def names(self) -> Names:
        """See DecidedWorld. Random names of pods end in five letters, like the names of their claims."""
        assert isinstance(self._storage, VersionedStorage)
        ends = {key.name.rpartition("-")[2] for shelf, key in self._storage.order if shelf == str(PODS)}
        current = {
            item.revision
            for resource in (*self._resources, PODS)
            for item in self._storage.scan(str(resource)).items
        }
        return Names((end for end in ends if len(end) == 5), current)


def _words(operation: Operation) -> str:
    return f"a person: {operation.do} {operation.args}"
