"""SidecarSet's place in the manager: what it caches, what wakes it, and its four functions of a turn.

pod, namespace, revision or SidecarSet changed ──▶ queue ──▶ Reconciler(SidecarSetPlanner) ──▶ writes
"""

from collections.abc import Mapping
from typing import Any

from pykruise.kinds.sidecarset.managed import Crowd
from pykruise.kinds.sidecarset.plan import plan_sidecarset
from pykruise.kinds.sidecarset.readers import NamespaceView, project_namespace
from pykruise.kinds.sidecarset.revisions import SET_LABEL
from pykruise.kinds.sidecarset.snapshot import Settings, Snapshot, build_snapshot
from pykruise.kinds.sidecarset.types import SIDECAR_SETS
from pykruise.kinds.sidecarset.view import SidecarSetView, project_sidecarset
from pykruise.kube.cache import Cache, Change
from pykruise.kube.clock import Clock
from pykruise.kube.controller import Controller
from pykruise.kube.ids import Key
from pykruise.kube.queue import WorkQueue
from pykruise.kube.resources import NAMESPACES
from pykruise.plans.execute import Failure
from pykruise.plans.plan import Plan
from pykruise.plans.reconcile import KindContext, Owner, Reconciler
from pykruise.plans.sources import BY_NAME_PREFIX, BY_SIDECARSET, Sources
from pykruise.pods.names import LONGEST_REVISION_OWNER
from pykruise.pods.revisions import RevisionView
from pykruise.pods.sidecars import injected_sets
from pykruise.pods.views import PodView

NAME = "sidecarset"
COMPONENT = "sidecarset-controller"


def build(context: KindContext, *, settings: Settings) -> Controller[Key]:
    """The controller, its caches registered with the shared ones and its wake-ups subscribed."""
    sets = context.sources.add(SIDECAR_SETS, project_sidecarset)
    namespaces = context.sources.add(NAMESPACES, project_namespace)
    planner = SidecarSetPlanner(context.sources, sets, namespaces, settings=settings, clock=context.clock)
    queue = context.queue()
    waker = Waker(sets, queue)
    sets.subscribe(lambda change: queue.add(change.key))
    namespaces.subscribe(waker.namespace_changed)
    context.sources.pods.subscribe(waker.pod_changed)
    context.sources.revisions.subscribe(waker.revision_changed)
    turn = Reconciler(planner, context.executor, record=context.recorder(COMPONENT))
    return context.controller(NAME, turn, queue=queue)


class SidecarSetPlanner:
    """`plans.reconcile.Planner` of SidecarSet. Remembers what it made of pods, which a kill may lose."""

    def __init__(
        self,
        sources: Sources,
        sets: Cache[SidecarSetView],
        namespaces: Cache[NamespaceView],
        *,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._sources = sources
        self._sets = sets
        self._namespaces = namespaces
        self._settings = settings
        self._clock = clock
        self._crowds: dict[Key, Crowd] = {}

    def snapshot(self, key: Key) -> Snapshot | None:
        """The SidecarSet with the pods that list it and its revisions, as the caches have them now."""
        one = self._sets.get(key)
        if one is None:
            self._crowds.pop(key, None)
            return None
        prefix = (self._settings.namespace, one.name[:LONGEST_REVISION_OWNER])
        pods = self._sources.pods.by_index(BY_SIDECARSET, one.name)
        return build_snapshot(
            one,
            pods=pods,
            namespaces=self._labels({pod.namespace for pod in pods}) if one.namespace_selector else {},
            revisions=self._sources.revisions.by_index(BY_NAME_PREFIX, prefix),
            now=self._clock(),
            settings=self._settings,
            crowd=self._crowds.setdefault(key, Crowd()),
        )

    def _labels(self, names: set[str]) -> dict[str, Mapping[str, str]]:
        found = {name: self._namespaces.get(Key("", name)) for name in names}
        return {name: one.labels for name, one in found.items() if one is not None}

    def owner(self, snapshot: Snapshot) -> Owner:
        """The SidecarSet."""
        one = snapshot.sidecarset
        return Owner(
            resource=SIDECAR_SETS,
            key=one.key,
            uid=one.uid,
            resource_version=str(one.resource_version),
            stored_status=one.stored_status,
        )

    def plan(self, snapshot: Snapshot) -> Plan:
        """See plan.py."""
        return plan_sidecarset(snapshot)

    def status_after(self, snapshot: Snapshot, plan: Plan, failure: Failure) -> dict[str, Any] | None:
        """The status has no place for a failed write; its event tells it."""
        return None

    def is_current(self, snapshot: Snapshot) -> bool:
        """Whether the SidecarSet is still the same object with the same spec."""
        planned, now = snapshot.sidecarset, self._sets.get(snapshot.sidecarset.key)
        return (
            now is not None
            and now.uid == planned.uid
            and now.generation == planned.generation
            and now.is_deleting == planned.is_deleting
        )


class Waker:
    """Which SidecarSets an event is about."""

    def __init__(self, sets: Cache[SidecarSetView], queue: WorkQueue[Key]) -> None:
        self._sets = sets
        self._queue = queue

    def pod_changed(self, change: Change[PodView]) -> None:
        """Those that it lists, before and after."""
        for pod in (change.old, change.new):
            if pod is not None and pod.annotations:
                for name in injected_sets(pod.annotations):
                    self._queue.add(Key("", name))

    def namespace_changed(self, change: Change[NamespaceView]) -> None:
        """Those that select namespaces by their labels."""
        old, new = change.old, change.new
        if old is not None and new is not None and old is not new and old.labels == new.labels:
            return
        for one in self._sets.values():
            if one.namespace_selector is not None:
                self._queue.add(one.key)

    def revision_changed(self, change: Change[RevisionView]) -> None:
        """The one whose name it carries."""
        revision = change.new or change.old
        name = revision.labels.get(SET_LABEL) if revision is not None else None
        if name:
            self._queue.add(Key("", name))
