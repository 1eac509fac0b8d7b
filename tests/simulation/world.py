"""One simulation: a cluster, its managers, operations and faults on one virtual clock, and the result.

Script ──▶ run() ──▶ Outcome (violations, trace)

Everything runs in one event loop with virtual time and seeded randomness, so a script gives the same trace each
time. After the last operation all faults end. Then the workload must come to rest as the spec requests, and at
rest nothing may be written.
"""

import asyncio
import gc
from typing import Any

import msgspec

from pykruise.cli.errors import CommandError
from pykruise.cli.explain import read_and_explain
from pykruise.kinds import list_kinds
from pykruise.kube.documents import decode
from pykruise.kube.election.key_slots import slot_of
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.manager.manager import Manager
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.progress import Phase
from pykruise.pods.reasons import AT_REST, Code, compute_longest_wait_s
from pykruise.pods.workload.waiting import WAITING
from pykruise.runtime.reasons import NOTHING
from pykruise.sandbox.virtual_time import VirtualLoop
from simulation.rules import Violation
from simulation.script import Script
from simulation.stage import NAME, NAMESPACE, Life, Stage

__all__ = ["Outcome", "run"]

QUIET_S = 40.0
"""Seconds without a change after which the workload is at rest."""
PATIENCE_S = 3600.0
"""Maximum seconds until the cluster is at rest after the end of all faults."""
REST_S = 60.0
"""Seconds for which a restarted manager is watched for unnecessary writes."""
MANAGER_KINDS = (
    *("crash", "second leader", "clock jump", "compact", "graceful restart"),
    *("kill leader", "stop leader", "cut leader"),
)
"""Faults of the manager itself, or of the whole cluster."""


class Outcome(msgspec.Struct, frozen=True):
    """Result of a simulation."""

    violations: tuple[Violation, ...]
    trace: tuple[str, ...]
    writes: int
    """Number of the managers' writes, except events."""
    seconds: float
    """Virtual."""

    @property
    def rule(self) -> str:
        """The first rule that was broken; empty: none."""
        return self.violations[0].rule if self.violations else ""


def run(script: Script) -> Outcome:
    """Play a script from beginning to end.

    Python's garbage collector is off during the run, because it ends objects such as an unfinished generator at a
    different moment in each run. It would also take a quarter of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            return runner.run(_World(script).play())
    finally:
        if was_on:
            gc.enable()


class _World(Stage):
    """A stage for a script."""

    async def play(self) -> Outcome:
        """The whole script."""
        faults = self._script.faults
        skew_s = sum(abs(fault.seconds) for fault in faults if fault.kind == "clock jump")
        async with self.running(skew_s=skew_s, is_calm=not faults):
            await self._tell()
            if not self._found:
                await self._come_to_rest()
        return Outcome(tuple(self._found), tuple(self._storage.trace), self._writes, self._now())

    # ── the script ───────────────────────────────────────────────────────────

    async def _tell(self) -> None:
        steps = [(operation.at, 0, operation) for operation in self._script.operations]
        steps += [(fault.at, 1, fault) for fault in self._script.faults if fault.kind in MANAGER_KINDS]  # type: ignore[misc]
        begun = self._now()
        for at, _, step in sorted(steps, key=lambda step: step[:2]):
            await asyncio.sleep(max(0.0, begun + at - self._now()))
            if self._found:
                return
            if hasattr(step, "do"):
                self._help(self._operations.do(step))
            else:
                self._help(self._strike(step))

    async def _strike(self, fault: Any) -> None:
        match fault.kind:
            case "crash":
                await self._at_any_await(fault.count)
                await self._kill()
                await asyncio.sleep(fault.seconds)
                if not self._lives:
                    self._start_manager()
            case "graceful restart":
                for life in self._lives:
                    life.manager.stop()
                for life in tuple(self._lives):
                    await asyncio.wait({life.task}, timeout=60.0)
                await self._kill()
                self._start_manager()
            case "kill leader" | "stop leader" if (leader := self._leader()) is not None:
                if fault.kind == "kill leader":
                    await self._kill(leader)
                else:
                    leader.manager.stop()
                    await asyncio.wait({leader.task}, timeout=60.0)
                    await self._kill(leader)
                await asyncio.sleep(fault.seconds)
                self._start_manager()
            case "cut leader" if (leader := self._leader()) is not None:
                # A network that comes back: what was sent travels on, and a manager that was cut off may lead again.
                leader.cut(is_cut=True)
                await asyncio.sleep(fault.seconds)
                leader.cut(is_cut=False)
            case "second leader":
                life = self._start_manager()
                await asyncio.sleep(fault.seconds)
                if life in self._lives and len(self._lives) > 1:
                    await self._kill(life)
            case "clock jump":
                self._skew_s += fault.seconds
            case "compact":
                self._storage.compact(self._storage.revision)

    async def _at_any_await(self, steps: int) -> None:
        """Wait for this number of iterations of the loop, after which each task may be at any of its awaits."""
        for _ in range(steps):
            await asyncio.sleep(0)

    # ── managers ─────────────────────────────────────────────────────────────

    def _leader(self) -> Life | None:
        """The manager that works on the workload."""
        return next((life for life in self._lives if self._works(life.manager)), None)

    def _works(self, manager: Manager) -> bool:
        if manager.membership is None:
            return manager.is_leading
        kind = next(kind for kind in manager.kinds if kind.resource == self._resource)
        assert kind.control is not None
        return slot_of(kind.control.name, Key(NAMESPACE, NAME)) in manager.membership.read_stats().held

    # ── the end ──────────────────────────────────────────────────────────────

    async def _come_to_rest(self) -> None:
        """End all faults, wait until nothing changes, and check the state."""
        self._network_faults.clear()
        while self._helpers:
            await asyncio.wait(self._helpers)
        await asyncio.sleep(max(0.0, self._network_faults.last_arrival - self._now()))
        self._skew_s = 0.0  # the clock is set right
        await self._operations.heal()
        if not self._lives:
            self._start_manager()
        while len(self._lives) > 1:
            await self._kill(self._lives[0])
        # A timer that was set while the clock was wrong keeps its duration when the clock is corrected.
        end = (
            self._now()
            + PATIENCE_S
            + sum(abs(fault.seconds) for fault in self._script.faults if fault.kind == "clock jump")
        )
        problems: list[Violation] = []
        while not self._found:
            await asyncio.sleep(QUIET_S / 4)
            last = max(
                (self._storage.last_change.get(shelf, 0.0) for shelf in self._rules.shelves), default=0.0
            )
            quiet_s = self._clock() - last
            problems = list(self._rules.at_rest(self._now()))
            if not problems and quiet_s >= QUIET_S:
                break
            if self._now() >= end:
                if not problems:
                    self._break("rest", f"it is as wanted, but still written to: {self._storage.trace[-3:]}")
                break
            await self._ask_what_stands_still(quiet_s)
        if not self._found:
            self._found += problems
        if not self._found:
            await self._say_why_they_rest()
        if not self._found:
            await self._stay_at_rest()

    async def _ask_what_stands_still(self, quiet_s: float) -> None:
        """An explanation must not claim that no action is needed after the promised time without a change."""
        kind = next(kind for kind in list_kinds() if kind.resource == self._resource)
        try:
            namespace = NAMESPACE if kind.resource.namespaced else ""
            document = decode(await self._client.get(kind.resource, namespace, NAME))
        except NotFoundError:
            return
        for condition in (document.get("status") or {}).get("conditions") or ():
            is_wait = condition["type"] == WAITING and str(condition.get("message")).endswith(NOTHING)
            if not is_wait or condition["status"] != "True" or condition.get("reason") in AT_REST:
                continue
            promised_s = compute_longest_wait_s(Code(condition["reason"]), document.get("spec") or {})
            if quiet_s > promised_s:
                words = f"{condition['reason']} ({condition['message']})"
                self._break(
                    "said", f"nothing moves for {quiet_s:g} s, and it says {words} within {promised_s:g} s"
                )

    async def _say_why_they_rest(self) -> None:
        """The object reports the first cause of explain, if that has a remedy and the object has neither ended
        nor is paused; and it does not claim of anything unchanged that it ends automatically."""
        kind = next(kind for kind in list_kinds() if kind.resource == self._resource)
        if kind.control is None or kind.control.standing is None:
            return
        key = Key(NAMESPACE if kind.resource.namespaced else "", NAME)
        try:
            document = decode(await self._client.get(kind.resource, key.namespace, key.name))
            settings = ManagerSettings(gates=self._kind.gates)
            explanation = await read_and_explain(
                self._client, key, now=self._clock(), kind=kind, settings=settings
            )
        except (NotFoundError, CommandError):
            return
        conditions = (document.get("status") or {}).get("conditions") or ()
        codes = {item.get("reason") for item in conditions if item["status"] == "True"}
        first = next((wait for wait in explanation.waits if wait.code not in AT_REST), None)
        is_open = explanation.phase not in (Phase.COMPLETED, Phase.FAILED, Phase.PAUSED)
        unsaid = codes | {Code.NO_MANAGER, Code.NODE_LOST}
        if is_open and first is not None and first.remedy and first.code not in unsaid:
            self._break("said", f"explain names {first.code} ({first.words}), its conditions {sorted(codes)}")
        for condition in conditions:
            is_wait = condition["type"] == WAITING and str(condition.get("message")).endswith(NOTHING)
            if is_wait and condition.get("reason") not in AT_REST:
                self._break(
                    "said", f"nothing moves, and it says {condition['reason']}: {condition['message']}"
                )

    async def _stay_at_rest(self) -> None:
        """A restarted manager, and one that only waits, write nothing."""
        await self._kill()
        self._start_manager()
        before = len(self._storage.trace)
        await asyncio.sleep(REST_S)
        extra = [
            line
            for line in self._storage.trace[before:]
            if "manager" in line and " events " not in line and " leases." not in line
        ]
        if extra:
            self._break("rest", f"at rest, but written to after a restart: {extra[:5]}")
