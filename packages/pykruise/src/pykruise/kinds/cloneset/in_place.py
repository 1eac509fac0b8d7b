"""Updates in place of a CloneSet's pods: the pods that can be updated, their steps through the lifecycle, and the
writes.

pods to update ──▶ CloneSetDifferences ──▶ begin() ──▶ chains, or the reason why each pod waits

Pure. The engine (pods/in_place, plans/in_place.py) knows what changes and when an update is complete. This module
adds what only a CloneSet has: its hooks, labels and policy.
"""

from collections.abc import Sequence
from typing import Final

from pykruise.kinds.cloneset.working_set import CloneSetWorkingSet
from pykruise.plans.in_place import ByRevision, begun_at_once, only_in_place, unknown_state
from pykruise.plans.in_place_steps import TurnTarget, update_turn, waits_for
from pykruise.plans.phases import OTHERS_FIRST, PlanPhase, pod_chain, skip, stage_of
from pykruise.plans.purposes import Purpose
from pykruise.pods.api import PodUpdatePolicy
from pykruise.pods.in_place import NotInPlace, UpdateSpec
from pykruise.pods.lifecycle.states import LifecycleState
from pykruise.pods.reasons import Code
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.plan import Chain
from pykruise.runtime.reasons import Reason

_HELD: Final = frozenset({LifecycleState.PREPARING_UPDATE.value, LifecycleState.UPDATED.value})
"""States in which a pod may wait for something other than its turn."""

_UPDATABLE: Final = frozenset({"", *LifecycleState} - {LifecycleState.PREPARING_DELETE})


SPECIFIED: Final = Reason(Code.SPECIFIED, "specified for deletion; its successor will be of the new revision")


class CloneSetDifferences(ByRevision):
    """Differences between the pods' revisions and the target."""

    def __init__(self, ws: CloneSetWorkingSet, target: RevisionView) -> None:
        revisions: dict[str, RevisionView] = {revision.hash: revision for revision in ws.snapshot.revisions}
        super().__init__(revisions, undeclaring=ws.snapshot.undeclaring)
        self._ws = ws
        self._target = target

    def between(self, old: RevisionView | None) -> UpdateSpec | NotInPlace:
        """See `ByRevision.between`."""
        spec = self._ws.spec
        return self._ws.recall.difference(
            old,
            self._target,
            revision=self._ws.label_of(self._target),
            settings=self._ws.settings.in_place,
            grace_seconds=spec.in_place.grace_period_seconds,
            ignore_claims=spec.policy == PodUpdatePolicy.IN_PLACE_ONLY,
        )

    def obstacles(self, pods: Sequence[PodView]) -> dict[str, str]:
        """Names of pods that cannot be updated in place, with the reason."""
        if self._ws.snapshot.undeclaring:  # then pods of one revision differ by their nodes
            ways = ((pod.name, self.of(pod)) for pod in pods)
            return {name: way.reason for name, way in ways if isinstance(way, NotInPlace)}
        one_of_each = {pod.revision: pod for pod in pods}
        obstacles = {name: self.of(pod) for name, pod in one_of_each.items()}
        reasons = {name: value.reason for name, value in obstacles.items() if isinstance(value, NotInPlace)}
        if not reasons:  # there is one result per revision, and usually no revision has an obstacle
            return {}
        return {pod.name: reasons[pod.revision] for pod in pods if pod.revision in reasons}

    def refusals(self, pods: Sequence[PodView]) -> dict[str, Reason]:
        """Names of pods that the policy does not allow to be updated at all, with the reason."""
        refused: dict[str, Reason] = {}
        if self._ws.spec.policy == PodUpdatePolicy.IN_PLACE_ONLY:
            refused = {name: only_in_place(why) for name, why in self.obstacles(pods).items()}
        return refused | {pod.name: unknown_state(pod) for pod in pods if pod.state not in _UPDATABLE}


# Start of updates


def begin(
    ws: CloneSetWorkingSet, pods: Sequence[PodView], target: RevisionView, differences: CloneSetDifferences
) -> PlanPhase:
    """Take the next step of every pod, in the given order. All of the pods can be updated in place."""
    chains: list[Chain] = []
    skipped: dict[str, Reason] = {}
    most = begun_at_once(len(ws.pods))
    going_to = TurnTarget(
        revision=target.name,
        labels={keys.REVISION_LABEL: ws.label_of(target), keys.TEMPLATE_HASH_LABEL: target.hash},
        hook=ws.spec.hooks.in_place_update,
        now=ws.now,
        settings=ws.settings.in_place,
    )
    to_delete = {pod.name for pod in ws.to_delete}
    looked_at = 0
    for pod in pods:
        if len(chains) == most:
            break
        looked_at += 1
        if waits := SPECIFIED if pod.name in to_delete else waits_for(pod, going_to.hook):
            skipped[pod.name] = waits
            continue
        result = differences.of(pod)
        assert isinstance(result, UpdateSpec)
        steps, _ = update_turn(pod, result, going_to)
        chains.append(pod_chain(pod, *steps))
    later = pods[looked_at:]
    skipped |= skip(later, OTHERS_FIRST)
    for pod in later:
        if pod.state in _HELD and (waits := waits_for(pod, going_to.hook)):
            skipped[pod.name] = waits
    stages = stage_of(Purpose.UPDATE_PODS, chains)
    return PlanPhase(stages=stages, skipped=skipped, is_partial=len(chains) == most and len(pods) > most)
