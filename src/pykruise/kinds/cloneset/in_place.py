"""Updates in place of a CloneSet's pods: who can, the lifecycle's turns on the way, and the writes.

pods to update ──▶ Differences ──▶ begin() ──▶ chains, or what each pod waits for

Pure. The engine (pods/in_place, plans/in_place.py) knows what changes and when it is done; this adds what is a
CloneSet's: its hooks, labels and policy.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pykruise.kinds.cloneset.types import PodUpdatePolicy
from pykruise.kinds.cloneset.working_set import WorkingSet
from pykruise.kube.documents import Document
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import PODS
from pykruise.plans.actions import Patch
from pykruise.plans.in_place import begin_steps, begun_at_once
from pykruise.plans.phases import Phase, pod_chain, version
from pykruise.plans.plan import Chain, Stage, Step
from pykruise.pods import keys
from pykruise.pods.in_place import (
    NotInPlace,
    UpdateSpec,
    difference,
    start,
)
from pykruise.pods.lifecycle import LifecycleHook, LifecycleState, is_hooked, state_metadata
from pykruise.pods.readiness import PRE_UPDATE_HOOK, hold_back
from pykruise.pods.revisions import RevisionView
from pykruise.pods.views import PodView

__all__ = ["Differences", "begin", "is_in_place_policy"]

_UPDATABLE: Final = frozenset({"", *LifecycleState} - {LifecycleState.PREPARING_DELETE})


def is_in_place_policy(policy: str) -> bool:
    """Whether pods are to be changed rather than recreated."""
    return policy in (PodUpdatePolicy.IN_PLACE_IF_POSSIBLE, PodUpdatePolicy.IN_PLACE_ONLY)


class Differences:
    """What separates the pods from the target, by the revision each is of; worked out once per revision."""

    def __init__(self, ws: WorkingSet, target: RevisionView) -> None:
        self._ws = ws
        self._target = target
        self._revisions = {one.hash: one for one in reversed(ws.snapshot.revisions)}
        self._found: dict[str, UpdateSpec | NotInPlace] = {}

    def of(self, pod: PodView) -> UpdateSpec | NotInPlace:
        """What changes on the pod, or why it has to be recreated."""
        found = self._found.get(pod.revision)
        if found is None:
            found = self._found[pod.revision] = self.between(self._revisions.get(pod.revision))
        return found

    def between(self, old: RevisionView | None) -> UpdateSpec | NotInPlace:
        """The same for pods of a revision; None: it is not stored any more."""
        spec = self._ws.spec
        strategy = spec.rolling_update.in_place_update_strategy if spec.rolling_update else None
        return difference(
            old,
            self._target,
            revision=_label_of(self._ws, self._target),
            settings=self._ws.settings.in_place,
            grace_seconds=strategy.grace_period_seconds if strategy else 0,
            ignore_claims=spec.policy == PodUpdatePolicy.IN_PLACE_ONLY,
        )

    def refusals(self, pods: Iterable[PodView]) -> dict[str, str]:
        """Pods that the policy gives no way to update at all, by name, with the reason."""
        only = self._ws.spec.policy == PodUpdatePolicy.IN_PLACE_ONLY
        refused: dict[str, str] = {}
        for pod in pods:
            if pod.state not in _UPDATABLE:
                refused[pod.name] = f"its lifecycle state {pod.state!r} is not known to this version"
            elif only and isinstance(found := self.of(pod), NotInPlace):
                refused[pod.name] = (
                    f"cannot be updated in place, and InPlaceOnly forbids more: {found.reason}"
                )
        return refused


def _label_of(ws: WorkingSet, revision: RevisionView) -> str:
    """The revision as pods name it."""
    return revision.hash if ws.settings.short_hash else revision.name


# Beginning


def begin(ws: WorkingSet, pods: Sequence[PodView], target: RevisionView, differences: Differences) -> Phase:
    """The next turn of every pod, in their order; all of them can be updated in place."""
    chains: list[Chain] = []
    left: dict[str, str] = {}
    begun, most = 0, begun_at_once(len(ws.pods))
    for pod in pods:
        waits = _why_not_now(ws, pod)
        if waits:
            left[pod.name] = waits
        elif begun == most:
            left[pod.name] = "waits for its turn: others are being updated"
        else:
            begun += 1
            found = differences.of(pod)
            assert isinstance(found, UpdateSpec)
            chains.append(pod_chain(pod, *_turn(ws, pod, found, target)))
    stages = (Stage(name="update pods", chains=tuple(chains)),) if chains else ()
    return Phase(stages=stages, left=left, is_partial=begun == most and len(pods) > begun)


def _hook(ws: WorkingSet) -> LifecycleHook | None:
    return ws.spec.lifecycle.in_place_update if ws.spec.lifecycle else None


def _why_not_now(ws: WorkingSet, pod: PodView) -> str:
    """What the pod waits for before anything is written to it; empty: nothing."""
    hook = _hook(ws)
    if pod.is_specified_delete:
        return "specified for deletion; its successor will be of the new revision"
    if pod.state == LifecycleState.PREPARING_UPDATE and is_hooked(hook, pod):
        return "waits until the inPlaceUpdate hook is taken off the pod"
    if pod.state == LifecycleState.UPDATED and hook is None:
        return "its last update in place is about to end"
    return ""


def _turn(ws: WorkingSet, pod: PodView, spec: UpdateSpec, target: RevisionView) -> tuple[Step, ...]:
    """The writes of one pod: into PreparingUpdate when the hook is to be asked, else the update itself."""
    hook = _hook(ws)
    if hook is not None and pod.state == LifecycleState.UPDATED:
        return (_prepare(ws, pod, hook, target, with_hook=True),)
    has_been_asked = pod.state in (LifecycleState.PREPARING_UPDATE, LifecycleState.UPDATING)
    if hook is not None and is_hooked(hook, pod) and not has_been_asked:
        return (_prepare(ws, pod, hook, target, with_hook=False),)
    writes = start(
        pod,
        spec,
        labels={keys.REVISION_LABEL: _label_of(ws, target), keys.TEMPLATE_HASH_LABEL: target.hash},
        metadata=state_metadata(LifecycleState.UPDATING, now=ws.now),
        now=ws.now,
        settings=ws.settings.in_place,
    )
    return begin_steps(pod, writes, revision=target.name)


def _prepare(
    ws: WorkingSet, pod: PodView, hook: LifecycleHook, target: RevisionView, *, with_hook: bool
) -> Step:
    """Into PreparingUpdate. `with_hook` puts the hook on the pod again: it has to be released once more."""
    metadata: dict[str, Any] = state_metadata(LifecycleState.PREPARING_UPDATE, now=ws.now)
    if with_hook:
        metadata["labels"] |= hook.labels_handler or {}
        if hook.finalizers_handler:
            metadata["finalizers"] = list(hook.finalizers_handler)
    conditions = hold_back(pod, PRE_UPDATE_HOOK, now=ws.now) if hook.mark_pod_not_ready else []
    body: Document = {"metadata": metadata}
    if conditions:
        body["status"] = {"conditions": conditions}
    return Step(
        action=Patch(
            resource=PODS,
            key=ws.key(pod),
            patch_type=PatchType.STRATEGIC,
            body=body,
            subresource="status" if conditions else "",
            uid=pod.uid,
            # Had a pod that does not serve become ready meanwhile, it would cost a place in the budget.
            resource_version=version(pod, unchanged=bool(conditions) or not pod.is_serving),
        ),
        because=f"to be updated in place to {target.name}; the inPlaceUpdate hook holds it",
    )
