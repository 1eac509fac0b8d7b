"""The pods of a CloneSet as one group of Kubernetes' scheduler: the option gang-min-count.

pods + limits ──▶ find_gang() ──▶ PodGang: groups of new pods, minCount ──▶ scale.py, update.py
spec ──▶ find_option_conflicts() ──▶ field errors, if the strategy would not let a group be started or updated

Pure. All pods of the group are updated in the same way: all in place, or all by recreation.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.kinds.cloneset.limits import CloneSetLimits, Mark
from pykruise.kinds.cloneset.snapshot import ReadableCloneSet
from pykruise.kinds.cloneset.types import CLONE_SETS, CloneSetSpec
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import make_invalid_error
from pykruise.kube.values.int_or_percent import IntOrPercent
from pykruise.plans.in_place import Differences
from pykruise.plans.pod_groups import list_taken_names
from pykruise.pods.api import PodUpdatePolicy
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.options import GANG_MIN_COUNT
from pykruise.pods.workload.pod_groups import (
    TOGETHER,
    PodGang,
    choose_gang,
    find_gang_errors,
    format_workload_name,
    read_min_count,
    resolve_amount,
)
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.reasons import Reason

REPLACED_LATER: Final = Reason(
    Code.TURN, "is deleted once all pods of the new group are available (maxSurge)"
)


def find_gang(
    snapshot: ReadableCloneSet,
    limits: CloneSetLimits,
    *,
    update: RevisionView,
    current: RevisionView,
    pods: Sequence[PodView],
    marks: Sequence[Mark],
    differences: Differences,
    surges: bool,
) -> PodGang | None:
    """Return the gang of the CloneSet; None if the option is not set."""
    cloneset, spec = snapshot.cloneset, snapshot.cloneset.spec
    value = GANG_MIN_COUNT.read(cloneset.annotations)
    if value is None:
        return None
    old = [pod for pod, mark in zip(pods, marks, strict=True) if not mark.is_new]
    replaces_beside = surges and limits.max_surge > 0
    return choose_gang(
        value,
        limits.replicas,
        workload=format_workload_name(CLONE_SETS, cloneset.name),
        new=[pod for pod, mark in zip(pods, marks, strict=True) if mark.is_new],
        old=old,
        in_place=not replaces_beside and spec.is_in_place and not differences.split(old)[1],
        recreates=_recreates_together(spec, limits),
        update=update,
        current=current,
        taken=list_taken_names(snapshot.groups, snapshot.pods),
    )


def is_new_group_incomplete(limits: CloneSetLimits, marks: Sequence[Mark], *, surges: bool) -> bool:
    """Whether pods of an older revision are kept, because not all pods of the new group are available."""
    available = sum(mark.is_new and mark.is_available for mark in marks)
    has_old = any(not mark.is_new for mark in marks)
    return has_old and surges and limits.max_surge > 0 and available < limits.replicas


def list_superfluous_pods(old: Sequence[PodView], *, unavailable: Collection[str]) -> list[PodView]:
    """Return the pods of all older groups except one, which is kept until the new group is complete: the group with the
    most available pods. `unavailable`: names of pods.

    There are several older groups if the template changes again before a new group is complete.
    """
    available = Counter(pod.pod_group for pod in old if pod.name not in unavailable)
    kept = max((pod.pod_group for pod in old), key=lambda group: available[group], default="")
    return [pod for pod in old if pod.pod_group != kept]


def _recreates_together(spec: CloneSetSpec, limits: CloneSetLimits) -> bool:
    """Whether the strategy allows the recreation of all pods at the same time."""
    if spec.policy == PodUpdatePolicy.IN_PLACE_ONLY:
        return False
    is_whole = max(limits.max_unavailable, limits.max_surge) >= limits.replicas
    return is_whole and limits.partition == 0 and not (spec.is_paused or spec.is_on_delete)


# Admission


def find_option_conflicts(metadata: Mapping[str, Any], template: Any, spec: CloneSetSpec) -> Iterator[Cause]:
    """Yield the reasons why the pods could not be started or updated as a group; none without the option."""
    value = read_min_count(metadata)
    if value is None:
        return
    block, scale = spec.rolling_update, spec.scale_strategy
    yield from find_gang_errors(
        value,
        spec.replicas,
        template,
        is_on_delete=spec.is_on_delete,
        partition=block.partition if block is not None else None,
        scale_limit=scale.max_unavailable if scale is not None else None,
    )
    if block is not None and spec.replicas > 0 and not spec.is_on_delete:
        yield from _find_limit_errors(spec.replicas, surge=block.max_surge, down=block.max_unavailable)


def _find_limit_errors(
    replicas: int, *, surge: IntOrPercent | None, down: IntOrPercent | None
) -> Iterator[Cause]:
    surging, unavailable = (
        0 if amount is None else resolve_amount(amount, replicas) for amount in (surge, down)
    )
    if max(surging, unavailable) >= replicas:
        return
    name, amount = ("maxSurge", surge) if surging > 0 else ("maxUnavailable", down)
    other = "" if surging > 0 else ", or maxSurge 100%,"
    problem = f"must be 100%{other} with {GANG_MIN_COUNT.field}: {TOGETHER}"
    yield make_invalid_error(f"spec.updateStrategy.rollingUpdate.{name}", amount, problem)
