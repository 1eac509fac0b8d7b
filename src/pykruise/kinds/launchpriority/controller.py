"""Container launch priority's place in the manager: it looks at pods that have a barrier still to be opened.

pod changed ──is_waiting──▶ queue ──▶ the pod's ConfigMap is read ──▶ Reconciler(LaunchPlanner) ──▶ writes

ConfigMaps are read one by one, when a pod waits: a mirror of all those of a cluster, for a few keys of a few
pods, would cost more than everything else that the manager remembers.
"""

from collections.abc import Awaitable, Callable

import msgspec

from pykruise.kinds.launchpriority.plan import Barrier, Snapshot, is_waiting, plan_barriers
from pykruise.kube.cache import Change
from pykruise.kube.client import Client
from pykruise.kube.controller import Controller
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.resources import CONFIG_MAPS, PODS
from pykruise.plans.plan import Plan
from pykruise.plans.pod_planner import PodPlanner
from pykruise.plans.reconcile import KindContext, Reconciler
from pykruise.plans.sources import Sources
from pykruise.pods.launch_order import barrier_name
from pykruise.pods.views import PodView

NAME = "containerlaunchpriority"
COMPONENT = "container-launch-priority-controller"


class _Owner(msgspec.Struct):
    kind: str = ""
    uid: str = ""


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    owner_references: tuple[_Owner, ...] | None = None


class _ConfigMap(msgspec.Struct):
    metadata: _Meta
    data: dict[str, str] | None = None


_decode = msgspec.json.Decoder(_ConfigMap).decode


def read_barrier(raw: bytes) -> Barrier:
    """What a plan needs of a ConfigMap. Raises msgspec.DecodeError for what is none."""
    found = _decode(raw)
    pods = [owner.uid for owner in found.metadata.owner_references or () if owner.kind == PODS.kind]
    return Barrier(
        uid=found.metadata.uid, owner_uid=pods[0] if pods else "", keys=frozenset(found.data or ())
    )


def build(context: KindContext) -> Controller[Key]:
    """The controller, its wake-ups subscribed."""
    planner = LaunchPlanner(context.sources, context.client)
    queue = context.queue()

    def pod_changed(change: Change[PodView]) -> None:
        if change.new is not None and is_waiting(change.new):
            queue.add(change.key)

    context.sources.pods.subscribe(pod_changed)
    reconcile = Reconciler(planner, context.executor, record=context.recorder(COMPONENT))
    return context.controller(NAME, _looking_first(planner, reconcile), queue=queue)


def _looking_first(
    planner: "LaunchPlanner", reconcile: Callable[[Key], Awaitable[float | None]]
) -> Callable[[Key], Awaitable[float | None]]:
    async def turn(key: Key) -> float | None:
        await planner.look(key)
        return await reconcile(key)

    return turn


class LaunchPlanner(PodPlanner[Snapshot]):
    """`plans.reconcile.Planner` of launch priorities; its objects are pods."""

    def __init__(self, sources: Sources, client: Client) -> None:
        super().__init__(sources)
        self._client = client
        self._barriers: dict[Key, Barrier | None] = {}

    async def look(self, key: Key) -> None:
        """Read the pod's ConfigMap, if it waits for one; the next `snapshot()` of the pod takes it along."""
        self._barriers.pop(key, None)
        pod = self.sources.pods.get(key)
        if pod is None or not is_waiting(pod):
            return
        try:
            raw = await self._client.get(CONFIG_MAPS, key.namespace, barrier_name(key.name))
        except NotFoundError:
            self._barriers[key] = None
        else:
            self._barriers[key] = read_barrier(raw)

    def snapshot(self, key: Key) -> Snapshot | None:
        """The pod as the cache has it now, with the ConfigMap that was read for it."""
        pod = self.sources.pods.get(key)
        if pod is None or key not in self._barriers:
            return None
        return Snapshot(pod=pod, barrier=self._barriers.pop(key))

    def plan(self, snapshot: Snapshot) -> Plan:
        """See plan.py."""
        return plan_barriers(snapshot)
