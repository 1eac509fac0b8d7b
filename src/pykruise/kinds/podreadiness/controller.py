"""Pod readiness's place in the manager: it looks at new pods that have the gate KruisePodReady.

pod changed ──lacks_condition──▶ queue ──▶ Reconciler(ReadinessPlanner) ──▶ one write
"""

from pykruise.kinds.podreadiness.plan import Snapshot, lacks_condition, plan_readiness
from pykruise.kube.cache import Change
from pykruise.kube.clock import Clock
from pykruise.kube.controller import Controller
from pykruise.kube.ids import Key
from pykruise.plans.plan import Plan
from pykruise.plans.pod_planner import PodPlanner
from pykruise.plans.reconcile import KindContext, Reconciler
from pykruise.plans.sources import Sources
from pykruise.pods.views import PodView

NAME = "podreadiness"
COMPONENT = "pod-readiness-controller"


def build(context: KindContext) -> Controller[Key]:
    """The controller, its wake-ups subscribed."""
    queue = context.queue()

    def pod_changed(change: Change[PodView]) -> None:
        if change.new is not None and lacks_condition(change.new):
            queue.add(change.key)

    context.sources.pods.subscribe(pod_changed)
    planner = ReadinessPlanner(context.sources, clock=context.clock)
    turn = Reconciler(planner, context.executor, record=context.recorder(COMPONENT))
    return context.controller(NAME, turn, queue=queue)


class ReadinessPlanner(PodPlanner[Snapshot]):
    """`plans.reconcile.Planner` of pod readiness; its objects are pods."""

    def __init__(self, sources: Sources, *, clock: Clock) -> None:
        super().__init__(sources)
        self._clock = clock

    def snapshot(self, key: Key) -> Snapshot | None:
        """The pod as the cache has it now."""
        pod = self.sources.pods.get(key)
        return None if pod is None else Snapshot(pod=pod, now=self._clock())

    def plan(self, snapshot: Snapshot) -> Plan:
        """See plan.py."""
        return plan_readiness(snapshot)
