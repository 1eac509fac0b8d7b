"""The pods of a StatefulSet as one group of Kubernetes' scheduler: the option gang-min-count.

StatefulSetWorkingSet ──▶ find_gang() ──▶ StatefulSetGang: groups of new pods, and how pods are updated
StatefulSetGang ──▶ building.py, update.py (all pods or none), refresh.py
spec ──▶ find_option_conflicts() ──▶ field errors of specs with which a group could not be started or updated

Pure. The option requires Parallel: under OrderedReady, a pod is created only after the previous pod is ready, so a
group could never start.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from pykruise.kinds.statefulset.expansion import Growth
from pykruise.kinds.statefulset.status import resize_refused_since
from pykruise.kinds.statefulset.types import (
    ADVANCED_STATEFUL_SETS,
    ClaimUpdateType,
    ManagementPolicy,
    StatefulSetSpec,
)
from pykruise.kinds.statefulset.working_set import StatefulSetWorkingSet
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import make_invalid_error
from pykruise.kube.values.int_or_percent import Rounding
from pykruise.plans.failed_resizes import find_overdue_refusals
from pykruise.plans.in_place import Differences, make_only_in_place_reason
from pykruise.plans.pod_groups import list_taken_names
from pykruise.pods.api import PodUpdatePolicy
from pykruise.pods.reasons import Code
from pykruise.pods.workload.options import GANG_MIN_COUNT
from pykruise.pods.workload.pod_groups import (
    TOGETHER,
    PodGang,
    choose_gang,
    explain_hold,
    find_gang_errors,
    format_workload_name,
    read_min_count,
    resolve_amount,
)
from pykruise.pods.workload.views import WorkloadView
from pykruise.runtime.reasons import Reason

_CLAIMS_GROW: Final = Reason(
    Code.CLAIM_CANNOT_FOLLOW,
    "the expansion of claims restarts pods one by one",
    "set spec.volumeClaimUpdateStrategy.type to OnDelete",
)


_POLICY: Final = "spec.podManagementPolicy"
_MUST_BE_PARALLEL: Final = (
    f"must be {ManagementPolicy.PARALLEL} with {GANG_MIN_COUNT.field}: the pods of a group start together"
)


class StatefulSetGang(msgspec.Struct, frozen=True, kw_only=True):
    """The gang, and how its pods are updated."""

    pods: PodGang
    hold: Reason | None = None
    """Reason why no pod is updated; None: all pods are updated together."""
    failure: Reason | None = None
    """Reason why a pod cannot be updated at all."""
    recreates: bool = False
    """Whether the update recreates all pods."""


def find_gang(ws: StatefulSetWorkingSet, differences: Differences) -> StatefulSetGang | None:
    """Return the gang of the set; None: the option is not set."""
    statefulset, spec = ws.snapshot.statefulset, ws.spec
    value = GANG_MIN_COUNT.read(statefulset.annotations)
    if value is None:
        return None
    active = [pod for pod in ws.slot_pods if pod.is_active]
    old = [pod for pod in active if not ws.is_updated(pod)]
    changes, reasons = differences.split(old)
    if not reasons and spec.policy == PodUpdatePolicy.IN_PLACE_IF_POSSIBLE:
        reasons = find_overdue_refusals(
            changes, refused_since=resize_refused_since(ws), settings=ws.settings.in_place, now=ws.now
        )
    in_place = spec.is_in_place and not reasons
    failure: Reason | None = None
    if reasons and spec.policy == PodUpdatePolicy.IN_PLACE_ONLY:
        name, why = next(iter(reasons.items()))
        failure = Reason(Code.CANNOT_UPDATE, f"pod {name}: {make_only_in_place_reason(why).message}")
    cause = failure or (_CLAIMS_GROW if Growth(ws).is_on else None)
    limits = ws.limits
    is_whole = limits.partition == 0 and limits.max_unavailable >= limits.replicas
    may_update = is_whole and cause is None and not (spec.is_paused or spec.is_on_delete)
    return StatefulSetGang(
        pods=choose_gang(
            value,
            limits.replicas,
            workload=format_workload_name(ADVANCED_STATEFUL_SETS, statefulset.name),
            new=[pod for pod in active if ws.is_updated(pod)],
            old=old,
            in_place=in_place,
            recreates=may_update,
            update=ws.update,
            current=ws.current,
            taken=list_taken_names(ws.snapshot.groups, ws.snapshot.pods),
        ),
        hold=explain_hold(cause) if cause is not None or not is_whole else None,
        failure=failure,
        recreates=not in_place,
    )


def find_policy_problem(statefulset: WorkloadView, spec: StatefulSetSpec) -> str:
    """Return why the pods of a stored set cannot be a group; empty: they can, or the option is not set."""
    if spec.is_parallel or GANG_MIN_COUNT.annotation not in statefulset.annotations:
        return ""
    return f"{_POLICY}: {_MUST_BE_PARALLEL}"


# Admission


def find_option_conflicts(
    metadata: Mapping[str, Any], template: Any, spec: StatefulSetSpec
) -> Iterator[Cause]:
    """Yield the errors of a spec whose pods could not be started or updated as a group; none without the option."""
    value = read_min_count(metadata)
    if value is None:
        return
    field, replicas = GANG_MIN_COUNT.field, 1 if spec.replicas is None else spec.replicas
    if not spec.is_parallel:
        yield make_invalid_error(_POLICY, spec.pod_management_policy, _MUST_BE_PARALLEL)
    block, scale = spec.rolling_update, spec.scale_strategy
    yield from find_gang_errors(
        value,
        replicas,
        template,
        is_on_delete=spec.is_on_delete,
        partition=block.partition if block is not None else None,
        scale_limit=scale.max_unavailable if scale is not None else None,
    )
    if replicas > 0 and not spec.is_on_delete:
        down = block.max_unavailable if block is not None else None
        # Without a value, one pod may be unavailable.
        amount = 1 if down is None else resolve_amount(down, replicas, rounding=Rounding.DOWN)
        if amount < replicas:
            problem = f"must be 100% with {field}: {TOGETHER}"
            yield make_invalid_error("spec.updateStrategy.rollingUpdate.maxUnavailable", amount, problem)
    claims = spec.volume_claim_update_strategy
    if claims is not None and claims.type == ClaimUpdateType.ON_POD_ROLLING_UPDATE:
        problem = f"must be {ClaimUpdateType.ON_DELETE} with {field}: the expansion of claims restarts pods one by one"
        yield make_invalid_error("spec.volumeClaimUpdateStrategy.type", claims.type, problem)
