"""Registration of container launch priority for the rest of the program. Admission adds barriers to pods, and the
controller opens the barriers in order.

KIND ──▶ pod admission, roles, controllers (plans/kind.py)

The ConfigMap of a waiting pod is read from the API server. ConfigMaps are not cached: a cache of all ConfigMaps of a
cluster would need more memory than all other caches of the manager together.
"""

import msgspec

from pykruise.kinds.launchpriority.plan import Barrier, LaunchPrioritySnapshot, is_waiting, plan_barriers
from pykruise.kinds.launchpriority.pod_steps import STEPS
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.rbac import make_right
from pykruise.kube.resources import CONFIG_MAPS, PODS
from pykruise.plans.kind import Kind
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.lifecycle.launch_order import format_barrier_name
from pykruise.pods.settings import NoSettings
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.control import Control, is_same_object
from pykruise.runtime.read import Read
from pykruise.runtime.wakes import wake_itself


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
    """Return the fields of a ConfigMap that a plan needs. Raises msgspec.DecodeError if the bytes are not a
    ConfigMap.
    """
    config_map = _decode(raw)
    pods = (owner.uid for owner in config_map.metadata.owner_references or () if owner.kind == PODS.kind)
    return Barrier(
        uid=config_map.metadata.uid, owner_uid=next(pods, ""), keys=frozenset(config_map.data or ())
    )


async def read_snapshot(pod: PodView, read: Read[NoSettings]) -> LaunchPrioritySnapshot | None:
    """Read a waiting pod and its ConfigMap; None if the pod does not wait or was deleted."""
    if not is_waiting(pod):
        return None
    try:
        barrier = read_barrier(await read.live.get(CONFIG_MAPS, pod.namespace, format_barrier_name(pod.name)))
    except NotFoundError:
        barrier = None
    # The pod may have changed while its ConfigMap was read, so the plan uses the latest state of the pod.
    now = read.get(POD_VIEWS, Key(pod.namespace, pod.name))
    return LaunchPrioritySnapshot(pod=now, barrier=barrier) if now is not None else None


KIND = Kind(
    resource=PODS,
    control=Control(
        name="containerlaunchpriority",
        component="container-launch-priority-controller",
        objects=POD_VIEWS,
        wakes=lambda _: (wake_itself(POD_VIEWS, when=is_waiting),),
        snapshot=read_snapshot,
        object_of=lambda snapshot: snapshot.pod,
        plan=plan_barriers,
        is_current=is_same_object,
    ),
    rights=(
        make_right(
            CONFIG_MAPS,
            *("get", "create", "patch", "delete"),
            why="containers that start sequentially: to manage the ConfigMap that they wait for",
        ),
    ),
    pods=STEPS,
)
