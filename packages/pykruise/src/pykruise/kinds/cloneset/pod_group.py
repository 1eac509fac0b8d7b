"""The pods of a CloneSet as one group of Kubernetes' scheduler: the option gang-min-count.

pods + limits ──▶ find_gang() ──▶ CloneSetGang: groups of new pods, minCount ──▶ scale.py, update.py
spec ──▶ find_gang_errors() ──▶ field errors of strategies with which a group could not be started or updated

Pure. The group is updated as one: all pods in place, or all by recreation. Without the option there is no gang.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pykruise.kinds.cloneset.limits import CloneSetLimits, Mark
from pykruise.kinds.cloneset.snapshot import ReadableCloneSet
from pykruise.kinds.cloneset.types import CLONE_SETS, CloneSetSpec
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import make_invalid_error
from pykruise.kube.values.int_or_percent import IntOrPercent, Rounding, resolve
from pykruise.plans.in_place import Differences
from pykruise.pods.api import PodUpdatePolicy
from pykruise.pods.in_place import UpdateSpec
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.options import GANG_MIN_COUNT
from pykruise.pods.workload.pod_groups import (
    choose_group,
    compute_min_count,
    find_template_errors,
    format_workload_name,
    read_min_count,
)
from pykruise.pods.workload.revisions import RevisionView
from pykruise.runtime.reasons import Reason

TOGETHER: Final = "the pods of a group are updated together"

UPDATED_LATER: Final = Reason(
    Code.POD_GROUP, f"{TOGETHER}, and maxUnavailable, maxSurge or the partition allows only some of them"
)
"""Reason for pods that could be updated now, but not together with all pods of their group."""

REPLACED_LATER: Final = Reason(
    Code.TURN, "is deleted once all pods of the new group are available (maxSurge)"
)


class CloneSetGang(msgspec.Struct, frozen=True, kw_only=True):
    """Groups of the new pods, and the minCount of all groups."""

    min_count: int
    update: str
    """Group of new pods of the update revision; empty: they have none."""
    current: str
    """Group of new pods of the current revision."""
    creates_current: bool
    """Whether missing pods have the current revision, because the update of their group has to wait."""
    is_incomplete: bool
    """Whether pods of an older revision stay because the pods of the new group are not all available."""

    def group_of(self, revision: RevisionView, *, update: RevisionView) -> str:
        """Return the group of a new pod of this revision."""
        return self.update if revision.hash == update.hash else self.current


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
) -> CloneSetGang | None:
    """Return the gang of the CloneSet; None: the option is not set."""
    cloneset, spec = snapshot.cloneset, snapshot.cloneset.spec
    value = GANG_MIN_COUNT.read(cloneset.annotations)
    if value is None:
        return None
    new = [pod for pod, mark in zip(pods, marks, strict=True) if mark.is_new]
    old = [pod for pod, mark in zip(pods, marks, strict=True) if not mark.is_new]
    replaces_beside = surges and limits.max_surge > 0
    in_place = not replaces_beside and spec.is_in_place and _are_all_in_place(old, differences)
    workload = format_workload_name(CLONE_SETS, cloneset.name)
    taken = snapshot.groups.taken | {pod.pod_group for pod in snapshot.pods}
    available = sum(mark.is_new and mark.is_available for mark in marks)
    return CloneSetGang(
        min_count=compute_min_count(value, limits.replicas),
        update=choose_group(
            new or (old if in_place else ()), workload=workload, revision=update.hash, taken=taken
        ),
        current=choose_group(old or new, workload=workload, revision=current.hash, taken=taken),
        creates_current=bool(old) and not in_place and not _recreates_together(spec, limits),
        is_incomplete=bool(old) and replaces_beside and available < limits.replicas,
    )


def _recreates_together(spec: CloneSetSpec, limits: CloneSetLimits) -> bool:
    """Whether the strategy allows the recreation of all pods at the same time."""
    if spec.policy == PodUpdatePolicy.IN_PLACE_ONLY:
        return False
    is_whole = max(limits.max_unavailable, limits.max_surge) >= limits.replicas
    return is_whole and limits.partition == 0 and not (spec.is_paused or spec.is_on_delete)


def _are_all_in_place(old: Sequence[PodView], differences: Differences) -> bool:
    return all(
        isinstance(differences.of_revision(revision), UpdateSpec)
        for revision in {pod.revision for pod in old}
    )


# Admission


def find_gang_errors(metadata: Mapping[str, Any], template: Any, spec: CloneSetSpec) -> Iterator[Cause]:
    """Yield the errors of a spec whose pods could not be started or updated as a group; none without the option."""
    value = read_min_count(metadata)
    if value is None:
        return
    yield from find_template_errors(metadata, template)
    if isinstance(value, int) and 0 < spec.replicas < value:
        yield make_invalid_error(
            GANG_MIN_COUNT.field, str(value), f"must be at most spec.replicas ({spec.replicas})"
        )
    strategy, block = "spec.updateStrategy", spec.rolling_update
    if spec.is_on_delete:
        problem = f"must be RollingUpdate with {GANG_MIN_COUNT.field}: a single deleted pod would start a group alone"
        yield make_invalid_error(f"{strategy}.type", "OnDelete", problem)
    elif block is not None and spec.replicas > 0:
        yield from _find_update_errors(spec, f"{strategy}.rollingUpdate")
    scale = spec.scale_strategy.max_unavailable if spec.scale_strategy is not None else None
    least = compute_min_count(value, spec.replicas)
    if scale is not None and spec.replicas > 0 and _resolve_up(scale, spec.replicas) < least:
        problem = f"must be at least the minCount of the group ({least}): fewer pods could not start"
        yield make_invalid_error("spec.scaleStrategy.maxUnavailable", scale, problem)


def _find_update_errors(spec: CloneSetSpec, path: str) -> Iterator[Cause]:
    block, replicas = spec.rolling_update, spec.replicas
    assert block is not None
    partition, surge, down = (
        0 if amount is None else _resolve_up(amount, replicas)
        for amount in (block.partition, block.max_surge, block.max_unavailable)
    )
    if 0 < partition < replicas:
        problem = f"must be 0 or 100% with {GANG_MIN_COUNT.field}: the pods of a group are updated together"
        yield make_invalid_error(f"{path}.partition", block.partition, problem)
    if max(surge, down) >= replicas:
        return
    name, amount = ("maxSurge", block.max_surge) if surge > 0 else ("maxUnavailable", block.max_unavailable)
    other = "" if surge > 0 else ", or maxSurge 100%,"
    problem = f"must be 100%{other} with {GANG_MIN_COUNT.field}: the pods of a group are updated together"
    yield make_invalid_error(f"{path}.{name}", amount, problem)


def _resolve_up(amount: IntOrPercent, replicas: int) -> int:
    """Resolve an amount; an amount that cannot be read, which has an error of its own, counts as all pods."""
    try:
        return resolve(amount, of=replicas, rounding=Rounding.UP)
    except ValueError:
        return replicas
