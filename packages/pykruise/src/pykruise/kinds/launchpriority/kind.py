"""Container launch priority, as the rest of the program knows it: pods get barriers, which it opens in order.

KIND ──▶ pod admission, roles, controllers (plans/kind.py)

ConfigMaps are read one by one, when a pod waits: a mirror of all those of a cluster, for a few keys of a few
pods, would cost more than everything else that the manager remembers.
"""

import msgspec

from pykruise.kinds.launchpriority.plan import Barrier, LaunchPrioritySnapshot, is_waiting, plan_barriers
from pykruise.kinds.launchpriority.pod_steps import STEPS
from pykruise.kube.errors import NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.rbac import on
from pykruise.kube.resources import CONFIG_MAPS, PODS
from pykruise.plans.kind import Kind
from pykruise.plans.views import POD_VIEWS
from pykruise.pods.lifecycle.launch_order import barrier_name
from pykruise.pods.settings import NoSettings
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.control import Control, is_same_object
from pykruise.runtime.read import Read
from pykruise.runtime.wakes import itself


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
    """Fields of a ConfigMap that a plan needs. Raises msgspec.DecodeError for what is none."""
    config_map = _decode(raw)
    pods = (owner.uid for owner in config_map.metadata.owner_references or () if owner.kind == PODS.kind)
    return Barrier(
        uid=config_map.metadata.uid, owner_uid=next(pods, ""), keys=frozenset(config_map.data or ())
    )


async def snapshot(pod: PodView, read: Read[NoSettings]) -> LaunchPrioritySnapshot | None:
    """A pod that waits, with its ConfigMap; None: it does not wait, or is gone."""
    if not is_waiting(pod):
        return None
    try:
        barrier = read_barrier(await read.live.get(CONFIG_MAPS, pod.namespace, barrier_name(pod.name)))
    except NotFoundError:
        barrier = None
    # The pod may have changed meanwhile: what is planned from is what is known now.
    now = read.get(POD_VIEWS, Key(pod.namespace, pod.name))
    return LaunchPrioritySnapshot(pod=now, barrier=barrier) if now is not None else None


KIND = Kind(
    resource=PODS,
    control=Control(
        name="containerlaunchpriority",
        component="container-launch-priority-controller",
        objects=POD_VIEWS,
        wakes=lambda _: (itself(POD_VIEWS, when=is_waiting),),
        snapshot=snapshot,
        object_of=lambda snapshot: snapshot.pod,
        plan=plan_barriers,
        is_current=is_same_object,
    ),
    rights=(
        on(
            CONFIG_MAPS,
            *("get", "create", "patch", "delete"),
            why="containers that start one after the other: what they wait for",
        ),
    ),
    pods=STEPS,
)
