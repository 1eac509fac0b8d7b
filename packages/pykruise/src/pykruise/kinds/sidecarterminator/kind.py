"""Registration of the sidecar terminator for the rest of the program. It reconciles pods whose main containers have
ended.

KIND ──▶ roles, controllers (plans/kind.py)
"""

from typing import Final

from pykruise.kinds.sidecarterminator.groups import is_interesting
from pykruise.kinds.sidecarterminator.plan import (
    REQUESTS,
    SidecarTerminatorSnapshot,
    format_request_name,
    plan_termination,
)
from pykruise.kube.cache.metadata_view import MetadataView, project_metadata
from pykruise.kube.ids import Key
from pykruise.kube.rbac import READ, make_right
from pykruise.kube.resources import PODS
from pykruise.plans.kind import Kind
from pykruise.plans.views import NODE_VIEWS, POD_VIEWS
from pykruise.pods.settings import NoSettings
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.control import Control, is_same_object
from pykruise.runtime.read import Read
from pykruise.runtime.views import Views
from pykruise.runtime.wakes import wake_itself

REQUEST_VIEWS: Final = Views[MetadataView](
    resource=REQUESTS, projector=lambda: project_metadata, is_apart=True
)


async def read_snapshot(pod: PodView, read: Read[NoSettings]) -> SidecarTerminatorSnapshot:
    """Read the pod with its node from the caches."""
    return SidecarTerminatorSnapshot(
        pod=pod,
        node=read.get(NODE_VIEWS, Key("", pod.node_name)),
        has_request=read.get(REQUEST_VIEWS, Key(pod.namespace, format_request_name(pod))) is not None,
        now=read.now(),
    )


KIND = Kind(
    resource=PODS,
    gates=("SidecarTerminator",),
    control=Control(
        name="sidecarterminator",
        component="sidecarterminator-controller",
        objects=POD_VIEWS,
        reads=lambda _: (NODE_VIEWS, REQUEST_VIEWS),
        wakes=lambda _: (wake_itself(POD_VIEWS, when=is_interesting),),
        snapshot=read_snapshot,
        object_of=lambda snapshot: snapshot.pod,
        plan=plan_termination,
        is_current=is_same_object,
    ),
    rights=(make_right(REQUESTS, *READ, "create", why="sidecars of jobs: to stop them"),),
)
