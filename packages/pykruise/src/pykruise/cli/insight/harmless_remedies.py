"""Drops remedies that would lose more pods, and adds the command that restores a working template.

waits, Sight, Plan ──▶ drop_harmful_remedies() ──▶ waits whose remedies may be followed literally

Pure, for every kind. The revision that a rollback restores is chosen by way_back.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.cli.insight.cluster_reading import Sight, list_claim_names
from pykruise.cli.insight.explanations import Wait
from pykruise.cli.insight.known_kinds import find_workload_insight
from pykruise.cli.insight.refused_writes import REFUSED_WRITES
from pykruise.cli.insight.way_back import find_revision_before, find_way_back
from pykruise.plans.insight import WorkloadInsight
from pykruise.pods.corrections import join_remedies
from pykruise.pods.reasons import OF_A_NAMED_NODE, Code, rank_of
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.plan import Plan

_LIMITS: Final = frozenset(
    {
        *(Code.BUDGET, Code.MAX_UNAVAILABLE, Code.SCALE_UP_LIMITED, Code.UPDATE_HELD, Code.TURN),
        *(Code.PARALLELISM, Code.PODS_ACTIVE, Code.CHILD_ACTIVE),
    }
)
"""Codes of limits that unavailable pods use up."""

OF_THE_TEMPLATE: Final = frozenset(
    {
        *(Code.IMAGE_PULL, Code.CONTAINER_FAILS, Code.UNSCHEDULABLE, Code.UNBOUND_CLAIMS, Code.NOT_READY),
        *(Code.RESIZE_INFEASIBLE, Code.RESIZE_DEFERRED, Code.READINESS_GATE, Code.NOT_MOUNTED),
    }
)
"""Codes of obstacles that a new template may have caused, so that the old template would remove them."""

_IN_PLACE_ONLY: Final = frozenset({Code.NOT_IN_PLACE, Code.CANNOT_UPDATE})


def drop_harmful_remedies(
    waits: Sequence[Wait], sight: Sight, plan: Plan, status: Mapping[str, Any], *, way_back: str | None = None
) -> tuple[Wait, ...]:
    """Return the waits without remedies that would make things worse.

    Obstacles that the new template may have caused get the command that restores the old template. When pods may only
    be updated in place and an obstacle prevents that, the obstacle comes first and the limits are left out.
    """
    blocked = [wait for wait in waits if wait.code in _IN_PLACE_ONLY]
    if blocked:
        waits = [*blocked, *(wait for wait in waits if wait not in blocked and wait.code not in _LIMITS)]
    back = _find_rollback_command(sight, plan, status) if way_back is None else way_back
    harmless = put_causes_first(waits, is_of_pods=_selects_pods(sight))
    if not isinstance(sight.kind.insight, WorkloadInsight):
        return harmless
    replaces = sight.kind.insight.replaces_stuck(sight.document["spec"])
    namespace = sight.document["metadata"]["namespace"]
    return tuple(
        wait
        if _is_about_older_pods(wait, plan) or _is_about_claim_templates(wait, sight)
        else add_way_back(wait, back, replaces_stuck=replaces, namespace=namespace)
        for wait in harmless
    )


def _selects_pods(sight: Sight) -> bool:
    """Whether the object selects pods whose templates it does not define."""
    return sight.kind.insight is not None and bool(sight.kind.insight.pod_selector)


def _is_about_older_pods(wait: Wait, plan: Plan) -> bool:
    """Whether all pods of the wait have an older revision: then the wait's remedy already asks to delete these pods."""
    reasons = [plan.skipped.get(pod) for pod in wait.pods]
    return bool(reasons) and all(
        reason is not None and reason.code == Code.OLDER_REVISION for reason in reasons
    )


def _is_about_claim_templates(wait: Wait, sight: Sight) -> bool:
    """Whether the pods of the wait cannot run because of PVCs of claim templates. Another template would not help."""
    names = (name for pod in wait.pods if pod in sight.pods for name in list_claim_names(sight.pods[pod]))
    return wait.code == Code.UNBOUND_CLAIMS and any(
        name in sight.claim_problems and sight.claim_problems[name].is_of_template for name in names
    )


def add_way_back(wait: Wait, back: str, *, replaces_stuck: bool, namespace: str) -> Wait:
    """Return the wait with the command that restores the old template, when the template may have caused it.
    `replaces_stuck`: stuck pods are replaced automatically after the template changes; otherwise a person has to
    delete them.
    """
    is_early = wait.code == Code.NOT_READY and not wait.remedy  # the readiness probe has not begun
    if wait.code not in OF_THE_TEMPLATE or wait.origin or is_early:
        return wait
    then = "" if replaces_stuck else f"; then kubectl delete pod {' '.join(wait.pods)} -n {namespace}"
    # A pod that has passed its readiness gate serves; a new pod would wait for the gate again.
    first = "" if wait.code == Code.READINESS_GATE else then
    ways = [f"{text}{after}" for text, after in ((wait.remedy, first), (back, then)) if text]
    return msgspec.structs.replace(wait, remedy=join_remedies(*ways))


def put_causes_first(waits: Sequence[Wait], *, is_of_pods: bool = False) -> tuple[Wait, ...]:
    """Return the waits with a new remedy for limits that stuck pods use up: raising such a limit would lose more pods
    to the same cause. A higher parallelism helps a job only if the cause is not in the job's own template.
    `is_of_pods`: the job selects pods of other owners, so that the cause of a pod that cannot start is not in the job.
    """
    causes = [wait for wait in waits if wait.pods and rank_of(wait.code) < rank_of(Code.GRACE_PERIOD)]
    is_rejected = any(wait.code in REFUSED_WRITES for wait in waits)
    if not causes and not is_rejected:
        return tuple(waits)
    single = _OF_A_NODE | _OF_A_POD if is_of_pods else _OF_A_NODE
    are_single = not is_rejected and all(wait.code in single for wait in causes)
    firsts = {
        **(dict.fromkeys(_LIMITS, _OTHERS_UNAVAILABLE) if causes else {}),
        **dict.fromkeys(_ACTIVE, _FIX),
        Code.PARALLELISM: _OTHERS_CONTINUE if are_single else _OTHERS_FAIL_TOO,
    }
    return tuple(
        msgspec.structs.replace(wait, remedy=firsts[Code(wait.code)]) if wait.code in firsts else wait
        for wait in waits
    )


_ACTIVE: Final = frozenset({Code.PODS_ACTIVE, Code.CHILD_ACTIVE})
"""Codes of waits for pods or jobs that must end. These waits are not about a limit."""

_OF_A_NODE: Final = OF_A_NAMED_NODE | {Code.NODE_LOST, Code.NO_AGENT, Code.UNSCHEDULABLE}
"""Codes of obstacles on one node, or of one pod on it, which do not stop a job on other nodes. A job creates a pod only
for a node that fits its template.
"""

_OF_A_POD: Final = frozenset(
    {
        *(Code.UNBOUND_CLAIMS, Code.SCHEDULING_GATED, Code.NO_SCHEDULER),
        *(Code.MOUNT_FAILS, Code.NOT_MOUNTED, Code.FINALIZER),
    }
)
"""Codes of obstacles in the template of a selected pod, which do not stop a job in pods of other templates."""

_OTHERS_UNAVAILABLE: Final = (
    "first fix the cause that blocks the pods above: a higher limit would make more pods unavailable for the same "
    "cause"
)
_FIX: Final = "first fix the cause above"
_OTHERS_FAIL_TOO: Final = f"{_FIX}: with a higher limit, the same cause would stop the others too"
_OTHERS_CONTINUE: Final = (
    "wait until the cause above is corrected, or raise spec.parallelism so that the others continue"
)


def _find_rollback_command(sight: Sight, plan: Plan, status: Mapping[str, Any]) -> str:
    """Return the command that rolls a workload back; empty when no older revision is stored."""
    history = _find_history(sight, plan, status)
    if history is None:
        return ""
    meta = sight.document["metadata"]
    return find_way_back(
        sight.kind.resource,
        meta["name"],
        meta["namespace"],
        revisions=history.revisions,
        serving=history.serving,
        current=history.current,
        is_paused=is_paused(sight),
    )


def is_paused(sight: Sight) -> bool:
    insight = sight.kind.insight
    strategy = insight.strategy(sight.document["spec"])[0] if isinstance(insight, WorkloadInsight) else None
    return strategy is not None and strategy.is_paused


def find_rollback_number(sight: Sight, plan: Plan, status: Mapping[str, Any]) -> int:
    history = _find_history(sight, plan, status)
    if history is None:
        return 0
    revision = find_revision_before(history.revisions, serving=history.serving, current=history.current)
    return 0 if revision is None else revision.number


class _History(msgspec.Struct, frozen=True):
    """Stored revisions, the names of those that have ready pods, and the name of the newest one."""

    revisions: Sequence[RevisionView]
    serving: frozenset[str]
    current: str


def _find_history(sight: Sight, plan: Plan, status: Mapping[str, Any]) -> _History | None:
    revisions: Sequence[RevisionView] = getattr(sight.snapshot, "revisions", ())
    if not isinstance(sight.kind.insight, WorkloadInsight) or not revisions:
        return None
    counts = find_workload_insight(sight.kind).counts(sight.document, status, plan)
    active = [pod for pod in sight.snapshot.pods if pod.is_active]
    ready = {pod.revision for pod in active if pod.is_ready}
    current = counts.revision.rpartition("-")[2]
    if active and not ready and all(pod.revision != current for pod in active):
        return None  # the newest revision has not been tried, and no older one serves
    serving = frozenset(revision.name for revision in revisions if revision.hash in ready)
    return _History(revisions, serving, counts.revision)
