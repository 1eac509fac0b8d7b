"""The sidecar terminator's place in the manager: it looks at pods whose main containers are done.

pod changed ──is_interesting──▶ queue ──▶ Reconciler(TerminatorPlanner) ──▶ writes
"""

import msgspec

from pykruise.kinds.sidecarterminator.groups import is_interesting
from pykruise.kinds.sidecarterminator.plan import REQUESTS, Snapshot, plan_termination, request_name
from pykruise.kube.cache import Cache, Change
from pykruise.kube.clock import Clock
from pykruise.kube.controller import Controller
from pykruise.kube.ids import Key
from pykruise.plans.plan import Plan
from pykruise.plans.pod_planner import PodPlanner
from pykruise.plans.reconcile import KindContext, Reconciler
from pykruise.plans.sources import Sources
from pykruise.pods.views import PodView

NAME = "sidecarterminator"
COMPONENT = "sidecarterminator-controller"


class RequestView(msgspec.Struct, frozen=True, kw_only=True):
    """That there is a ContainerRecreateRequest."""

    namespace: str
    name: str
    uid: str
    resource_version: int


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"


class _Object(msgspec.Struct):
    metadata: _Meta


_decode = msgspec.json.Decoder(_Object).decode


def project_request(raw: bytes | msgspec.Raw) -> RequestView:
    """A request's view. Raises msgspec.DecodeError for what is not an object."""
    meta = _decode(raw).metadata
    return RequestView(
        namespace=meta.namespace, name=meta.name, uid=meta.uid, resource_version=int(meta.resource_version)
    )


def build(context: KindContext) -> Controller[Key]:
    """The controller, its wake-ups subscribed."""
    requests = context.sources.add(REQUESTS, project_request)
    planner = TerminatorPlanner(context.sources, requests, clock=context.clock)
    queue = context.queue()

    def pod_changed(change: Change[PodView]) -> None:
        if change.new is not None and is_interesting(change.new):
            queue.add(change.key)

    context.sources.pods.subscribe(pod_changed)
    turn = Reconciler(planner, context.executor, record=context.recorder(COMPONENT))
    return context.controller(NAME, turn, queue=queue)


class TerminatorPlanner(PodPlanner[Snapshot]):
    """`plans.reconcile.Planner` of the sidecar terminator; its objects are pods."""

    def __init__(self, sources: Sources, requests: Cache[RequestView], *, clock: Clock) -> None:
        super().__init__(sources)
        self._requests = requests
        self._clock = clock

    def snapshot(self, key: Key) -> Snapshot | None:
        """The pod with its node, as the caches have them now."""
        pod = self.sources.pods.get(key)
        if pod is None:
            return None
        return Snapshot(
            pod=pod,
            node=self.sources.nodes.get(Key("", pod.node_name)),
            has_request=self._requests.get(Key(pod.namespace, request_name(pod))) is not None,
            now=self._clock(),
        )

    def plan(self, snapshot: Snapshot) -> Plan:
        """See plan.py."""
        return plan_termination(snapshot)
