"""Bringing daemon pods into service: readiness conditions, and updates in place under way.

WorkingSet ──▶ plan_refresh() ──▶ Phase

Pure. Runs in every plan, also while paused and under OnDelete: whoever waits for a condition waits for this.
Daemon pods have no lifecycle states but PreparingDelete, so conditions are all there is to write.
"""

from collections.abc import Collection, Mapping
from typing import Final

from pykruise.kinds.daemonset.working_set import WorkingSet
from pykruise.kube.clock import Instant
from pykruise.kube.documents import Document
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from pykruise.plans.actions import Patch
from pykruise.plans.in_place import Progress, go_on, told_of
from pykruise.plans.phases import MOST_AT_ONCE, Phase, pod_chain, pod_key, version
from pykruise.plans.plan import Chain, Note, Stage, Step
from pykruise.pods.readiness import missing_conditions
from pykruise.pods.selector_guard import LOOK_AGAIN_S
from pykruise.pods.views import PodView

__all__ = ["BROKEN", "plan_refresh"]

BROKEN: Final = "BrokenUpdateState"

_NOT_UPDATING: Final = Progress()


def plan_refresh(ws: WorkingSet, *, except_for: Collection[str]) -> Phase:
    """The writes for each pod that is not as far as it could be; `except_for` are pods written to anyway."""
    in_place = ws.settings.in_place
    chains: list[Chain] = []
    left: dict[str, str] = {}
    broken: dict[str, str] = {}
    times: list[Instant] = []
    is_partial = False
    for pod in ws.pods:
        if not pod.may_be_updating and not pod.open_gates:
            continue
        if not pod.is_active or pod.name in except_for:
            continue
        if len(chains) == MOST_AT_ONCE:
            is_partial = True
            break
        progress = go_on(pod, now=ws.now, settings=in_place) if pod.may_be_updating else _NOT_UPDATING
        steps = progress.steps or _steps(ws, pod, progress)
        if progress.look_at is not None:
            times.append(progress.look_at)
        if progress.is_broken:
            broken[pod.name] = progress.waits
        if steps:
            chains.append(pod_chain(pod, *steps))
        elif progress.waits:
            left[pod.name] = progress.waits
    return Phase(
        stages=(Stage(name="refresh pods", chains=tuple(chains)),) if chains else (),
        left=left,
        notes=_told(broken),
        failure=told_of(broken),
        failure_reason=BROKEN,
        look_at=min(times, default=None),
        is_partial=is_partial,
    )


def _told(broken: Mapping[str, str]) -> tuple[Note, ...]:
    if not broken:
        return ()
    return (
        Note(
            reason=BROKEN,
            message=told_of(broken),
            warning=True,
            again_after_s=LOOK_AGAIN_S,
        ),
    )


def _steps(ws: WorkingSet, pod: PodView, progress: Progress) -> tuple[Step, ...]:
    """The conditions that are due to the pod, in one patch; empty: none is."""
    # Without a node nothing can become ready.
    missing = missing_conditions(pod, now=ws.now) if pod.node_name else []
    own = {condition["type"] for condition in progress.conditions}
    conditions: list[Document] = [
        *progress.conditions,
        *(one for one in missing if one["type"] not in own),
    ]
    if not conditions:
        return ()
    # A condition that is turned must be of the pod that was looked at: another update may just have begun.
    replaced = any(pod.condition(condition["type"]) is not None for condition in conditions)
    action = Patch(
        resource=PODS,
        key=pod_key(pod),
        patch_type=PatchType.STRATEGIC,
        body={"status": {"conditions": conditions}},
        subresource="status",
        uid=pod.uid,
        resource_version=version(pod, unchanged=replaced or progress.is_complete),
    )
    because = ", and ".join(f"nothing holds {condition['type']} back" for condition in conditions)
    return (Step(action=action, because=because),)
