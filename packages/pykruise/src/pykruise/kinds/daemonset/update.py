"""Selection of the nodes that are updated to the update revision now, and how their pods change.

DaemonSetWorkingSet ──▶ plan_update() ──▶ PlanPhase

Pure. The partition and the node selector determine which nodes are updated. maxUnavailable or maxSurge limits how many
are updated at the same time. A node whose pod was unavailable before does not count against this limit, because an
update can only help; with the option strict-max-unavailable it counts. The nodes of nodes_left_out.py do not count.
With rollingUpdateType InPlaceIfPossible, pods are updated in place if possible. Otherwise the old pod is deleted, and
the next plan creates the new pod; with surge, the new pod is created first.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kinds.daemonset.node_state import NodeState, is_leaving
from pykruise.kinds.daemonset.nodes_left_out import find_nodes_left_out
from pykruise.kinds.daemonset.placement import Place
from pykruise.kinds.daemonset.pods import Going, make_stay_reason, plan_coming_and_going
from pykruise.kinds.daemonset.revisions import hash_of
from pykruise.kinds.daemonset.working_set import DaemonSetWorkingSet, OldAndNew
from pykruise.kube.values.counts import format_count
from pykruise.plans.failed_resizes import (
    explain_infeasible,
    find_overdue_refusals,
    make_recreation_note,
    read_refused_since,
)
from pykruise.plans.in_place import Differences, Recall, count_begun_updates
from pykruise.plans.nodes_out_of_service import explain_left_out
from pykruise.plans.phases import (
    MAX_UNAVAILABLE_USED_UP,
    ON_DELETE,
    OTHERS_FIRST,
    PAUSED,
    DecidedStage,
    PlanPhase,
    UpdatePod,
    skip,
)
from pykruise.plans.purposes import Purpose
from pykruise.pods.in_place import UpdateSpec, start
from pykruise.pods.reasons import CODES, Code
from pykruise.pods.view import keys
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.waiting import WAITING
from pykruise.runtime.reasons import Reason

BY_PARTITION: Final = Reason(Code.PARTITION, "the partition allows no more nodes to be updated")
BY_SELECTOR: Final = Reason(Code.NODE_SELECTOR, "rollingUpdate.selector does not select its node")
"""Reason why a pod is not updated: the selector in `updateStrategy.rollingUpdate` does not match the labels of the
pod's node.
"""

MOST_NAMED: Final = 5
"""Maximum number of nodes that a reason names."""

MAX_SURGE_USED_UP: Final = Reason(
    Code.BUDGET, "waits for its turn: maxSurge is used up", "wait, or raise maxSurge"
)
NEW_POD_FIRST: Final = Reason(Code.TURN, "stays until the new pod of its node is available")


def plan_update(ws: DaemonSetWorkingSet) -> PlanPhase:
    """Return the update phase. Call this only if no node needs a pod and no pod must be deleted."""
    old = ws.old_pods
    if ws.spec.is_on_delete:
        return PlanPhase(skipped=skip(old, ON_DELETE))
    if ws.spec.is_paused:
        return PlanPhase(skipped=skip(old, PAUSED))
    if not old:
        return PlanPhase()
    chosen, skipped = _choose_nodes(ws)
    phase = _plan_surge(ws, chosen) if ws.limits.max_surge > 0 else _replace_pods(ws, chosen)
    notes = [
        make_recreation_note(pod, explain_infeasible(ws.settings.in_place))
        for here in chosen
        if (pod := here.staying) is not None and ws.has_given_up(pod) and pod.name in phase.touched
    ]
    return msgspec.structs.replace(phase, skipped={**skipped, **phase.skipped}, notes=(*phase.notes, *notes))


# Which nodes


def _choose_nodes(ws: DaemonSetWorkingSet) -> tuple[list[OldAndNew], dict[str, Reason]]:
    """Return the nodes to update, in order, and the reasons why the pods of other nodes are not updated.

    The partition allows a number of nodes to be updated. Nodes that are updated or are being updated are first in the
    order and use up this number. So if the partition is raised, no started update is undone.
    """
    updated: list[OldAndNew | None] = []  # None is a settled node, which is only counted
    updating: list[OldAndNew] = []
    rest: list[OldAndNew] = []
    skipped: dict[str, Reason] = {}
    selector = ws.snapshot.daemonset.node_selector
    for state in reversed(ws.overview.states.values()):
        if not _is_counted(ws, state):
            continue
        if ws.is_settled(state):
            updated.append(None)
            continue
        here = OldAndNew(ws, state)
        if not here.is_clear or here.new is not None:
            updated.append(here)
        elif here.staying is None or ws.has_given_up(here.staying):
            updating.append(here)
        elif selector is None or selector.matches(state.labels):
            rest.append(here)
        else:
            skipped[here.staying.name] = BY_SELECTOR
    order = [*updated, *updating, *rest]
    places = max(len(order) + len(skipped) - ws.limits.partition, 0)
    for old_and_new in order[places:]:
        if old_and_new is not None and old_and_new.old is not None:
            skipped[old_and_new.old.name] = BY_PARTITION
    return [item for item in order[:places] if item is not None], skipped


def _is_counted(ws: DaemonSetWorkingSet, state: NodeState) -> bool:
    """Whether the partition counts the node."""
    return state.has_part and (state.place is Place.RUN or not ws.settings.prune_ineligible_nodes)


# Old pods first


def _replace_pods(ws: DaemonSetWorkingSet, chosen: Sequence[OldAndNew]) -> PlanPhase:
    """Plan the updates without surge: unavailable pods immediately, and available pods within maxUnavailable.

    A pod that is unavailable because of an earlier update counts against maxUnavailable; a pod that is unavailable for
    another reason does not. With the option strict-max-unavailable, unavailable pods are updated within maxUnavailable
    too, before available pods.
    """
    left_out = find_nodes_left_out(ws, (here.state for here in chosen))
    busy: list[NodeState] = []
    at_once: list[PodView] = []
    unavailable: list[PodView] = []
    candidates: list[PodView] = []
    for here in chosen:
        new, old = here.new, here.staying
        if here.is_clear and new is not None and old is None:
            if is_leaving(new) or not ws.is_available(new):
                busy.append(here.state)
        elif not here.is_clear or new is not None or old is None:  # the node is being updated
            busy.append(here.state)
        elif ws.is_available(old):
            candidates.append(old)
        elif ws.is_strict and here.state.name not in left_out:
            unavailable.append(old)
        else:
            at_once.append(old)
            if ws.is_coming(old):  # the pod is unavailable because of an earlier update, so it counts
                busy.append(here.state)
    busy = [state for state in busy if state.name not in left_out]
    room = max(ws.limits.max_unavailable - len(busy), 0)
    turns = [*unavailable, *candidates]
    skipped = skip(turns[room:], _explain_used_up(busy))
    phase = _change_pods(ws, [*at_once, *turns[:room]])
    kept = _explain_pods_left_out(chosen, left_out, touched=phase.touched)
    return msgspec.structs.replace(phase, skipped={**kept, **skipped, **phase.skipped})


def _explain_pods_left_out(
    chosen: Sequence[OldAndNew], left_out: Mapping[str, str], *, touched: Collection[str]
) -> dict[str, Reason]:
    """Return the reasons why pods on nodes that do not count against maxUnavailable are not changed now."""
    return {
        pod.name: explain_left_out(name, why)
        for here in chosen
        if (why := left_out.get(name := here.state.name))
        for pod in here.state.pods
        if pod.name not in touched
    }


def _explain_used_up(busy: Sequence[NodeState]) -> Reason:
    """Return the reason why pods wait for these nodes. Its message names the nodes that are not ready."""
    lost = [state.name for state in busy if state.is_lost]
    if not lost:
        return MAX_UNAVAILABLE_USED_UP
    names = f"{', '.join(lost[:MOST_NAMED])}{' …' if len(lost) > MOST_NAMED else ''}"
    count = format_count(len(lost), "node is", "nodes are")
    message = f"{MAX_UNAVAILABLE_USED_UP.message}; {count} not ready: {names}"
    return Reason(Code.LOST_NODES, message, CODES[Code.LOST_NODES].helps)


def _change_pods(ws: DaemonSetWorkingSet, pods: Sequence[PodView]) -> PlanPhase:
    """Plan in-place updates of pods, if the strategy is InPlaceIfPossible and they are possible. Delete all
    other pods.
    """
    if not ws.spec.is_in_place:
        return _recreate_pods(ws, pods, {})
    reasons = {pod.name: why for pod in pods if (why := _explain_recreation(ws, pod))}
    changes, others = _make_differences(ws).split([pod for pod in pods if pod.name not in reasons])
    reasons |= others
    if overdue := find_overdue_refusals(
        changes,
        refused_since=read_refused_since(ws.snapshot.daemonset.status.conditions, WAITING),
        settings=ws.settings.in_place,
        now=ws.now,
    ):
        changes = [(pod, change) for pod, change in changes if pod.name not in overdue]
        reasons |= overdue
    in_place = _begin(ws, changes)
    recreated = _recreate_pods(ws, [pod for pod in pods if pod.name in reasons], reasons)
    return PlanPhase(
        decided=(*in_place.decided, *recreated.decided),
        skipped={**in_place.skipped, **recreated.skipped},
        is_partial=in_place.is_partial or recreated.is_partial,
    )


def _recreate_pods(ws: DaemonSetWorkingSet, pods: Iterable[PodView], reasons: Mapping[str, str]) -> PlanPhase:
    target = ws.revisions.current.name
    going = [
        Going(
            pod,
            f"recreated for revision {target}"
            + (f" ({reason})" if (reason := reasons.get(pod.name)) else "")
            + ("" if ws.is_available(pod) else "; it does not serve"),
        )
        for pod in pods
    ]
    return plan_coming_and_going(ws, nodes=(), why="", going=going)


# In place


def _explain_recreation(ws: DaemonSetWorkingSet, pod: PodView) -> str:
    """Return why the pod must be recreated for every change; empty if this depends on the change."""
    if keys.IN_PLACE_READY not in pod.readiness_gates:
        return "it lacks the readiness gate for in-place updates"
    return explain_infeasible(ws.settings.in_place) if ws.has_given_up(pod) else ""


def _make_differences(ws: DaemonSetWorkingSet) -> Differences:
    """Return the changes that update pods to the update revision."""
    return Differences(
        {hash_of(revision): revision for revision in ws.revisions.old},
        ws.revisions.current,
        Recall(),
        undeclaring=ws.snapshot.undeclaring,
        revision=ws.revisions.label,
        settings=ws.settings.in_place,
    )


def _begin(ws: DaemonSetWorkingSet, pods: Sequence[tuple[PodView, UpdateSpec]]) -> PlanPhase:
    most = min(ws.limits.burst, count_begun_updates(ws.pod_count))
    target = ws.revisions.current.name
    decisions = [
        UpdatePod(
            pod=pod,
            writes=start(pod, change, labels=ws.pod_labels, now=ws.now, settings=ws.settings.in_place),
            revision=target,
        )
        for pod, change in pods[:most]
    ]
    stage = DecidedStage(purpose=Purpose.UPDATE_PODS, decisions=decisions)
    skipped = skip((pod for pod, _ in pods[most:]), OTHERS_FIRST)
    return PlanPhase(decided=(stage,), skipped=skipped, is_partial=len(pods) > most)


# New pods first


def _plan_surge(ws: DaemonSetWorkingSet, chosen: Sequence[OldAndNew]) -> PlanPhase:
    """Plan the updates with maxSurge: create the new pod of a node, and delete the old pod after the new pod is
    available. A node out of service does not count against maxSurge: its old pod is not ready, so manage.py deletes
    this pod. With the option strict-max-unavailable, nodes whose pod is unavailable count too.
    """
    surging = 0
    at_once: list[PodView] = []
    unavailable: list[PodView] = []
    candidates: list[PodView] = []
    going: list[Going] = []
    skipped: dict[str, Reason] = {}
    for here in chosen:
        new, old = here.new, here.staying
        if not here.is_clear:
            surging += 1
        elif old is None:
            continue
        elif new is None:
            if here.state.place is not Place.RUN:
                message = f"its node must not get another pod: {here.state.because}"
                skipped[old.name] = Reason(Code.PLACEMENT, message)
            else:
                waits = unavailable if ws.is_strict else at_once
                (candidates if ws.is_available(old) else waits).append(old)
        elif not ws.is_available(new) or is_leaving(new):
            surging += 1
            skipped[old.name] = make_stay_reason(new.name)
        else:
            going.append(Going(old, f"{new.name} has replaced it"))
    room = max(ws.limits.max_surge - surging, 0)
    turns = [*unavailable, *candidates]
    replaced = [*at_once, *turns[:room]]
    skipped |= skip(replaced, NEW_POD_FIRST)
    skipped |= skip(turns[room:], MAX_SURGE_USED_UP)
    why = f"gets a pod of revision {ws.revisions.current.name} before the old pod is deleted"
    phase = plan_coming_and_going(ws, nodes=[pod.target_node for pod in replaced], why=why, going=going)
    return msgspec.structs.replace(phase, skipped={**skipped, **phase.skipped})
