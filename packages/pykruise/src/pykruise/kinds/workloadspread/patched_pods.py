"""Pods that do not run because of the patch of their subset.

SpreadSnapshot + Grouped ──▶ find_patch_obstacles() ──▶ (pod, Reason) ──▶ plan.py, the command explain

Pure. A patch counts as a possible cause only if it sets the part of the pod that fails: the image, the container, or
the volumes.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kinds.workloadspread.snapshot import SpreadSnapshot
from pykruise.kinds.workloadspread.subset_grouping import Grouped
from pykruise.kinds.workloadspread.types import Subset
from pykruise.kube.documents import get_path
from pykruise.pods.corrections import KEEPS_OLD_ONE, Correction
from pykruise.pods.lifecycle.blockers import blocker_of
from pykruise.pods.reasons import REPEATED, Code
from pykruise.pods.view.pod_view import PodView
from pykruise.runtime.reasons import Reason

_CONTAINERS: Final = ("containers", "initContainers")


def find_patch_obstacles(snapshot: SpreadSnapshot, groups: Grouped) -> Iterator[tuple[PodView, Reason]]:
    """Yield pods that have a node and are not ready, each with an obstacle that the patch of its subset may cause."""
    for number, subset in enumerate(snapshot.spread.subsets):
        correction = correction_of_patch(number, subset)
        for pod in _list_unready(groups, subset):
            reason = blocker_of(pod, None, now=snapshot.now, correction=correction)
            if reason is not None and reason.code in REPEATED and _may_cause(_read_spec(subset), pod, reason):
                yield pod, reason


def list_unready_patched(snapshot: SpreadSnapshot, groups: Grouped) -> Iterator[PodView]:
    """Pods that have a node and are not ready, and whose subset has a patch."""
    return (pod for subset in snapshot.spread.subsets for pod in _list_unready(groups, subset))


def _list_unready(groups: Grouped, subset: Subset) -> Iterator[PodView]:
    pods = groups.list_pods(subset.name) if _read_spec(subset) else ()
    return (pod for pod in pods if pod.is_active and pod.node_name and not pod.is_ready)


def correction_of_patch(number: int, subset: Subset) -> Correction:
    """Return the correction for errors in the patch of a subset. A corrected patch does not change existing pods."""
    where = f"spec.subsets[{number}].patch"
    return Correction(where=where, name=f"{where} (subset {subset.name})", then=KEEPS_OLD_ONE)


def _read_spec(subset: Subset) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = get_path(subset.patch or {}, "spec", default={})
    return spec


def _may_cause(patched: Mapping[str, Any], pod: PodView, reason: Reason) -> bool:
    """Whether the patch sets the image, container or volumes that the obstacle concerns."""
    named = [item for field in _CONTAINERS for item in patched.get(field) or ()]
    item = next((item for item in named if item.get("name") == reason.container), None)
    if not reason.container:
        return reason.code == Code.NOT_MOUNTED and "volumes" in patched
    if item is None:
        return False
    if reason.code != Code.IMAGE_PULL:
        return bool(item.keys() - {"name"})
    return any(item.get("image") == container.image for container in (*pod.containers, *pod.sidecars)) or any(
        item.get("image") == status.image for status in pod.init_statuses
    )
