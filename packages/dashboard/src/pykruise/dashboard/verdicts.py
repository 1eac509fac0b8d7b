"""The verdict of each row: the result of `explain` for its object, computed again when something changes.

Feeds: changed object or namespace ──▶ Verdicts ──look(), a few at a time──▶ Verdict ──▶ Feeds: phase, cause, remedy

A status does not show everything, for example that a write is rejected, or that the pods of another object fail. So the
dashboard runs explain on the caches. This uses a limited part of the processor time (1 / SHARE), however many objects
change. A changed object is examined at most once in AT_LEAST_S seconds. An object of a kind that owns pods is at rest
in the phases Healthy, Paused, Completed and Failed; all other objects are examined first. Until an object is examined,
its row shows the phase of the status. One task, in the event loop of the caches, reads and writes the entries.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

import msgspec

from pykruise.cli.errors import CommandError
from pykruise.cli.explain import read_and_explain
from pykruise.cli.insight.explanations import Explanation
from pykruise.cli.insight.gates import read_manager_settings
from pykruise.cli.insight.harmless_remedies import OF_THE_TEMPLATE
from pykruise.dashboard.aside import run_aside
from pykruise.kinds import find
from pykruise.kube.client.client import Client
from pykruise.kube.clock import Clock
from pykruise.kube.errors import KubeError
from pykruise.kube.ids import Key
from pykruise.kube.resources import Resource
from pykruise.manager.settings import ManagerSettings
from pykruise.plans.insight import WorkloadInsight
from pykruise.plans.kind import Kind
from pykruise.plans.progress import Phase
from pykruise.pods.reasons import Code

_log = logging.getLogger(__name__)

AT_LEAST_S: Final = 2.0
"""Minimum seconds between two examinations of the same object."""
AGAIN_S: Final = 30.0
"""Seconds after which an object that is not at rest is examined again without any change, because some states change
as time passes.
"""
SHARE: Final = 4
"""After a turn the task rests for SHARE - 1 times the duration of the turn."""
TURN_S: Final = 0.25
"""Minimum seconds between two turns. Several changes between two turns cause one examination."""
AT_ONCE: Final = 8
"""Maximum number of objects in one turn."""
MOST_WORDS: Final = 1_000

_AT_REST: Final = frozenset({Phase.HEALTHY, Phase.PAUSED, Phase.COMPLETED, Phase.FAILED})


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Short form of the `explain` result for one object. It may name pods, so only users who may list pods see it."""

    phase: str
    code: str = ""
    """Code of the cause; empty if the object waits for nothing."""
    words: str = ""
    remedy: str = ""
    pods: tuple[str, ...] = ()
    """The first pods or nodes that the cause affects."""
    count: int = 0
    """Number of all pods or nodes that the cause affects."""
    since: str = ""
    again: str = ""
    headline: str = ""
    rollback_to: int = 0
    """The revision for a rollback, if a rollback is a remedy; otherwise 0."""
    codes: tuple[str, ...] = ()
    """Codes of all causes, including the first cause, without duplicates."""
    part_codes: tuple[str, ...] = ()
    """Codes of the first cause and of a failed run. A parent object whose causes contain one of these codes already
    shows the cause.
    """


MOST_PODS: Final = 5


def build_verdict(explanation: Explanation) -> Verdict:
    """Return the short form of an explanation."""
    first = explanation.waits[0] if explanation.waits else None
    is_of_template = first is not None and first.code in OF_THE_TEMPLATE
    return Verdict(
        phase=explanation.phase,
        code=first.code if first is not None else "",
        words=first.words[:MOST_WORDS] if first is not None else "",
        remedy=first.remedy[:MOST_WORDS] if first is not None else "",
        pods=first.pods[:MOST_PODS] if first is not None else (),
        count=len(first.pods) if first is not None else 0,
        since=first.since if first is not None else "",
        again=first.again if first is not None else "",
        headline=explanation.headline[:MOST_WORDS],
        rollback_to=explanation.rollback_to if is_of_template else 0,
        codes=tuple(dict.fromkeys(wait.code for wait in explanation.waits)),
        part_codes=_list_part_codes(explanation),
    )


def _list_part_codes(explanation: Explanation) -> tuple[str, ...]:
    """Return the code of the first cause and, if the object has failed, RunFailed: see cli/insight/children.py."""
    ended = [Code.RUN_FAILED] if explanation.phase is Phase.FAILED else []
    return tuple(str(code) for code in (*(wait.code for wait in explanation.waits[:1]), *ended))


class Target(msgspec.Struct, frozen=True):
    """One object that has a row."""

    resource: Resource
    key: Key


class Known(msgspec.Struct, frozen=True):
    """A verdict, with the phase that the status showed at that time. If the status now shows another phase, the
    verdict is stale.
    """

    verdict: Verdict
    status_phase: str
    uid: str


class _Entry(msgspec.Struct):
    uid: str
    status_phase: str
    is_due: bool = True
    looked_at: float = float("-inf")


class Take(Protocol):
    """Callback with each verdict."""

    def __call__(self, target: Target, known: Known, /) -> None: ...


Aside = Callable[[Client, Callable[[Client], Awaitable[list["_Answer"]]]], Awaitable[list["_Answer"]]]
Settings = Callable[[Client, Clock], Awaitable[ManagerSettings]]
_Answer = tuple[Target, Explanation | None]


class Verdicts:
    """Verdicts of all rows. `client` reads from the caches. `aside` runs examinations outside the event loop."""

    def __init__(
        self,
        client: Client,
        take: Take,
        *,
        clock: Clock,
        aside: Aside = run_aside,
        settings: Settings = read_manager_settings,
    ) -> None:
        self._client = client
        self._take = take
        self._clock = clock
        self._aside = aside
        self._settings = settings
        self._entries: dict[Target, _Entry] = {}
        self._by_namespace: dict[str, set[Target]] = {}
        self._touched: set[str] = set()
        """Namespaces in which something changed. The empty text means a cluster-scoped object."""
        self._woken = asyncio.Event()

    def put(self, target: Target, *, uid: str, status_phase: str) -> None:
        """Note that an object is new or has changed."""
        if find_explained_kind(target.resource) is None:
            return
        entry = self._entries.get(target)
        if entry is None or entry.uid != uid:
            self._entries[target] = _Entry(uid, status_phase)
            self._by_namespace.setdefault(target.key.namespace, set()).add(target)
        else:
            entry.is_due, entry.status_phase = True, status_phase
        self._woken.set()

    def remove(self, target: Target) -> None:
        """Forget a deleted object."""
        if self._entries.pop(target, None) is not None:
            self._by_namespace[target.key.namespace].discard(target)

    def touch(self, namespace: str) -> None:
        """Note that another object, such as a pod, has changed in the namespace."""
        self._touched.add(namespace)
        self._woken.set()

    async def run(self) -> None:
        """Run until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            try:
                await self.turn(begun)
            except Exception:  # an object that cannot be explained must not stop the verdicts of others
                _log.exception("verdicts could not be computed")
            await asyncio.sleep(max(TURN_S, (SHARE - 1) * (loop.time() - begun)))
            if not any(self._wants_look(target, loop.time()) for target in self._entries):
                self._woken.clear()
                try:
                    async with asyncio.timeout(AT_LEAST_S):
                        await self._woken.wait()
                except TimeoutError:
                    pass

    def take_next_targets(self, now: float) -> list[Target]:
        """Return the objects of the next turn, those that are not at rest first, and mark them as examined."""
        self._spread_touches()
        due = [target for target in self._entries if self._wants_look(target, now)]
        due.sort(key=self._place_of)
        for target in due[:AT_ONCE]:
            entry = self._entries[target]
            entry.is_due, entry.looked_at = False, now
        return due[:AT_ONCE]

    async def turn(self, now: float) -> None:
        """Examine the objects of the next turn."""
        targets = self.take_next_targets(now)
        if not targets:
            return
        entries = {target: self._entries[target] for target in targets}
        before = {target: (entry.status_phase, entry.uid) for target, entry in entries.items()}
        clock = self._clock

        async def look(client: Client) -> list[_Answer]:
            settings = await self._settings(client, clock)
            answers: list[_Answer] = []
            for target in targets:
                kind = find_explained_kind(target.resource)
                assert kind is not None
                try:
                    said = await read_and_explain(
                        client, target.key, now=clock(), kind=kind, settings=settings
                    )
                except (CommandError, KubeError):
                    said = None
                answers.append((target, said))
            return answers

        for target, explanation in await self._aside(self._client, look):
            status_phase, uid = before[target]
            if explanation is not None and target in self._entries:
                self._take(target, Known(build_verdict(explanation), status_phase, uid))

    def _wants_look(self, target: Target, now: float) -> bool:
        entry = self._entries[target]
        age_s = now - entry.looked_at
        if entry.is_due:
            return age_s >= AT_LEAST_S
        return age_s >= AGAIN_S and not self._is_at_rest(target)

    def _place_of(self, target: Target) -> tuple[bool, float]:
        return self._is_at_rest(target), self._entries[target].looked_at

    def _is_at_rest(self, target: Target) -> bool:
        """Whether the object's status is complete, so that changes of related objects do not change the verdict."""
        kind = find_explained_kind(target.resource)
        is_told = kind is not None and isinstance(kind.insight, WorkloadInsight)
        return is_told and self._entries[target].status_phase in _AT_REST

    def _spread_touches(self) -> None:
        touched, self._touched = self._touched, set()
        names: Sequence[str] = tuple(self._by_namespace) if "" in touched else (*touched, "")
        for name in names if touched else ():
            for target in self._by_namespace.get(name, ()):
                if not self._is_at_rest(target):
                    self._entries[target].is_due = True


def find_explained_kind(resource: Resource) -> Kind | None:
    """Return the kind if explain supports it, otherwise None."""
    kind = find(resource.kind.lower())
    return kind if kind is not None and kind.resource == resource and kind.control is not None else None
