"""The sidecar terminator's place in the manager: it looks at pods whose main containers are done.

pod changed ──is_interesting──▶ queue ──▶ Reconciler(TerminatorPlanner) ──▶ writes
"""

from typing import Any

import msgspec

from pykruise.kinds.sidecarterminator.groups import is_interesting
from pykruise.kinds.sidecarterminator.plan import REQUESTS, Snapshot, plan_termination, request_name
from pykruise.kube.cache import Cache, Change
from pykruise.kube.clock import Clock
from pykruise.kube.controller import Controller
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.plans.execute import Failure
from pykruise.plans.plan import Plan
from pykruise.plans.reconcile import KindContext, Owner, Reconciler
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


class TerminatorPlanner:
    """`plans.reconcile.Planner` of the sidecar terminator; its objects are pods."""

    def __init__(self, sources: Sources, requests: Cache[RequestView], *, clock: Clock) -> None:
        self._sources = sources
        self._requests = requests
        self._clock = clock

    def snapshot(self, key: Key) -> Snapshot | None:
        """The pod with its node, as the caches have them now."""
        pod = self._sources.pods.get(key)
        if pod is None:
            return None
        return Snapshot(
            pod=pod,
            node=self._sources.nodes.get(Key("", pod.node_name)),
            has_request=self._requests.get(Key(pod.namespace, request_name(pod))) is not None,
            now=self._clock(),
        )

    def owner(self, snapshot: Snapshot) -> Owner:
        """The pod."""
        pod = snapshot.pod
        return Owner(
            resource=PODS,
            key=Key(pod.namespace, pod.name),
            uid=pod.uid,
            resource_version=str(pod.resource_version),
            stored_status={},
        )

    def plan(self, snapshot: Snapshot) -> Plan:
        """See plan.py."""
        return plan_termination(snapshot)

    def status_after(self, snapshot: Snapshot, plan: Plan, failure: Failure) -> dict[str, Any] | None:
        """A pod's status is not this controller's to report."""
        return None

    def is_current(self, snapshot: Snapshot) -> bool:
        """Whether the pod is still the same."""
        now = self._sources.pods.get(Key(snapshot.pod.namespace, snapshot.pod.name))
        return now is not None and now.uid == snapshot.pod.uid
