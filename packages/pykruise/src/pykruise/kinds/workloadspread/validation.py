"""Validation of a WorkloadSpread (v1beta1): all errors in one response, each with its field.

spec + SpreadSurroundings (white list, other WorkloadSpreads, target) ──▶ errors_of() ──▶ field errors

Pure. Rule numbers refer to the specification's tables.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pykruise.kinds.workloadspread.patch_validation import patch_errors
from pykruise.kinds.workloadspread.targets import BUILT_IN
from pykruise.kinds.workloadspread.types import ScheduleStrategy, Subset, WorkloadSpreadSpec
from pykruise.kinds.workloadspread.view import ADAPTIVE, STATEFUL_SET, target_of
from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    drop_stored_errors,
    make_invalid_error,
    make_required_error,
    make_too_many_error,
)
from pykruise.kube.pod_rules.field_rules import check_segment
from pykruise.kube.pod_rules.placement import check_node_term, check_preferred_terms
from pykruise.kube.values.counts import format_count
from pykruise.kube.values.group_kinds import GroupKind
from pykruise.plans.targets import TARGET_RESOURCES
from pykruise.pods.template.placement_validation import find_toleration_errors
from pykruise.pods.workload.allowed_workloads import AllowedList, WhiteList
from pykruise.pods.workload.validation import find_label_selector_errors

TARGET: Final = "spec.targetRef"
WINDOW_S: Final = 295
"""Maximum seconds for all subsets together: a pod must be tried in every subset before the first one opens again
after 300 s.
"""

MOST_SUBSETS: Final = 256
"""Maximum number of subsets. Each is inspected for each pod, and stored in the status once per version of the
workload.
"""

_INT32_MAX: Final = 2**31 - 1
_PERCENT: Final = re.compile(r"-?[0-9]{1,18}%", re.ASCII)


class SpreadSurroundings(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that the checks of a WorkloadSpread need besides the object itself."""

    white_list: WhiteList = WhiteList()
    white_list_problem: str = ""
    """Reason why the white list cannot be read. It matters only to kinds that need an entry on the list."""
    others: Mapping[str, tuple[GroupKind, str] | None] = {}
    """Targets of the other WorkloadSpreads of the namespace, by name; None: the object names no workload."""
    target: Document | None = None
    """The workload; None: it does not exist yet, or the template of its kind is unknown."""


def errors_of(
    spec: WorkloadSpreadSpec,
    around: SpreadSurroundings,
    *,
    has_target: bool = True,
    old: WorkloadSpreadSpec | None = None,
) -> list[Cause]:
    """Find all field errors. `has_target`: whether targetRef was set at all; `old`: the stored spec on an update."""
    errors = [*_find_target_errors(spec, around, has_target=has_target)]
    errors += _find_subsets_errors(spec, around, () if old is None else old.subsets)
    if len(spec.subsets) > MOST_SUBSETS and (old is None or old.subsets != spec.subsets):
        errors.append(make_too_many_error("spec.subsets", len(spec.subsets), MOST_SUBSETS))
    errors += _find_strategy_errors(spec)
    errors += _find_filter_errors(spec)
    if old is not None and has_target and target_of(old) != target_of(spec):
        detail = "group, kind and name of the workload cannot be changed"
        errors.append(make_invalid_error(TARGET, _format_target(spec), detail))
    return errors


def _format_target(spec: WorkloadSpreadSpec) -> str:
    target_reference = spec.target_ref
    return f"{target_reference.api_version} {target_reference.kind} {target_reference.name}".strip()


# ── targetRef ────────────────────────────────────────────────────────────────


def _find_target_errors(
    spec: WorkloadSpreadSpec, around: SpreadSurroundings, *, has_target: bool
) -> Iterator[Cause]:
    if not has_target:  # rule 1
        yield make_required_error(TARGET)
        return
    reference = spec.target_ref
    if not (reference.api_version and reference.kind and reference.name):  # rule 2
        yield make_invalid_error(TARGET, _format_target(spec), "apiVersion, kind and name must be given")
        return
    target = target_of(spec)
    if target is None:  # rule 3
        yield make_invalid_error(
            TARGET, _format_target(spec), f"apiVersion {reference.api_version!r} is not <group>/<version>"
        )
        return
    yield from check_segment(reference.name, f"{TARGET}.name")
    if target[0] not in BUILT_IN:  # rules 3 to 5
        if around.white_list_problem:
            yield Cause(
                reason="InternalError", message=f"Internal error: {around.white_list_problem}", field=TARGET
            )
        elif around.white_list.find(target[0]) is None:
            yield make_invalid_error(TARGET, _format_target(spec), _describe_refusal(target[0]))
    for name, other in around.others.items():  # rule 6
        if other == target:
            yield make_invalid_error(
                TARGET, _format_target(spec), f"WorkloadSpread {name} already spreads this workload"
            )
            return


def _describe_refusal(kind: GroupKind) -> str:
    groups = [resource.group for resource in TARGET_RESOURCES if resource.kind == kind.kind]
    hint = f"{kind.kind} is permitted in group {' and '.join(groups)}; " if groups else ""
    return f"GroupKind is not permitted: {hint}others must be on the white list in ConfigMap kruise-configuration"


# ── subsets ──────────────────────────────────────────────────────────────────


def _find_subsets_errors(
    spec: WorkloadSpreadSpec, around: SpreadSurroundings, stored: Sequence[Subset]
) -> Iterator[Cause]:
    if not spec.subsets:
        yield make_required_error("spec.subsets", "at least one subset is required")
        return
    before = {subset.name: subset for subset in stored}
    seen: set[str] = set()
    for index, subset in enumerate(spec.subsets):
        path = f"spec.subsets[{index}]"
        if not subset.name:
            yield make_invalid_error(f"{path}.name", "", "must not be empty")
        elif subset.name in seen:
            yield make_invalid_error(
                f"{path}.name", subset.name, "two subsets have this name; each subset needs its own name"
            )
        seen.add(subset.name)
        yield from _find_placement_errors(subset, path)
        if subset.patch is not None:
            yield from _find_new_patch_errors(subset, before.get(subset.name), around, path=f"{path}.patch")
    yield from _find_limits_errors(spec)


def _find_new_patch_errors(
    subset: Subset, stored: Subset | None, around: SpreadSurroundings, *, path: str
) -> list[Cause]:
    """Find the errors of a patch that the stored patch of the subset does not have."""
    before = [] if stored is None else [stored]
    return drop_stored_errors(
        list(patch_errors(subset, around.target, path=path)),
        lambda: (error for item in before for error in patch_errors(item, around.target, path=path)),
    )


def _find_placement_errors(subset: Subset, path: str) -> Iterator[Cause]:
    if subset.required_node_selector is not None:
        term = msgspec.to_builtins(subset.required_node_selector)
        yield from check_node_term(term, f"{path}.requiredNodeSelector", checks_values=True)
    if subset.preferred_node_selector is not None:
        yield from check_preferred_terms(
            msgspec.to_builtins(subset.preferred_node_selector), f"{path}.preferredNodeSelector"
        )
    if subset.tolerations is not None:
        yield from find_toleration_errors(msgspec.to_builtins(subset.tolerations), f"{path}.tolerations")


def _find_limits_errors(spec: WorkloadSpreadSpec) -> Iterator[Cause]:
    """Yield the errors of rule 2.6, which stops at the first error, and rule 3."""
    limited = [
        (index, subset.max_replicas)
        for index, subset in enumerate(spec.subsets)
        if subset.max_replicas is not None
    ]
    total = 0
    for index, value in limited:
        path = f"spec.subsets[{index}].maxReplicas"
        if isinstance(value, str) is not isinstance(limited[0][1], str):
            yield make_invalid_error(path, value, "all maxReplicas must be numbers, or all percentages")
            return
        if isinstance(value, int):
            if value < 0:
                yield make_invalid_error(path, value, "must be greater than or equal to 0")
                return
            continue
        if spec.target_ref.kind == STATEFUL_SET:
            yield make_invalid_error(
                path, value, "must be a number: pods of a StatefulSet are placed by their ordinals"
            )
            return
        if not _PERCENT.fullmatch(value):
            yield make_invalid_error(path, value, "must be a number, or a whole percentage such as 50%")
            return
        if int(value[:-1]) < 0:
            yield make_invalid_error(path, value, "must be greater than or equal to 0%")
            return
        total += int(value[:-1])
        if total > 100:
            yield make_invalid_error(path, value, f"percentages add up to {total}%, which is more than 100%")
            return
    has_shares = bool(limited) and isinstance(limited[0][1], str)
    if has_shares and total < 100 and spec.subsets[-1].max_replicas is not None:
        detail = (
            f"percentages add up to {total}%; make the sum 100%, or remove maxReplicas from the last subset"
        )
        yield make_invalid_error("spec.subsets[0].maxReplicas", spec.subsets[0].max_replicas, detail)


# ── scheduleStrategy, targetFilter ───────────────────────────────────────────


def _find_strategy_errors(spec: WorkloadSpreadSpec) -> Iterator[Cause]:
    strategy = spec.schedule_strategy or ScheduleStrategy()
    path = "spec.scheduleStrategy"
    if strategy.type not in ("", "Fixed", ADAPTIVE):
        yield make_invalid_error(f"{path}.type", strategy.type, "must be Adaptive or Fixed")
    if strategy.adaptive is None:
        return
    if strategy.type != ADAPTIVE:
        yield make_invalid_error(f"{path}.type", strategy.type, "must be Adaptive when adaptive is set")
    count = len(spec.subsets)
    if count > 1 and spec.subsets[-1].max_replicas is not None:
        detail = (
            "the last subset must have no maxReplicas: it takes the pods that find no node in other subsets"
        )
        yield make_invalid_error(f"{path}.adaptive", msgspec.to_builtins(strategy.adaptive), detail)
    seconds = strategy.adaptive.reschedule_critical_seconds
    most = WINDOW_S // (count - 1) if count > 1 else _INT32_MAX
    if seconds is not None and not 0 <= seconds <= most:
        detail = (
            f"must be between 0 and {most}: a pod that finds no node must reach the last of "
            f"{format_count(count, 'subset')} within {WINDOW_S} s"
        )
        yield make_invalid_error(f"{path}.adaptive.rescheduleCriticalSeconds", seconds, detail)


def _find_filter_errors(spec: WorkloadSpreadSpec) -> Iterator[Cause]:
    if spec.target_filter is not None:
        selector = msgspec.to_builtins(spec.target_filter.selector)
        yield from find_label_selector_errors(selector, "spec.targetFilter")


def find_stored_errors(spec: WorkloadSpreadSpec) -> list[Cause]:
    """Find the errors of a stored spec that do not depend on other objects. Other objects decide whether the target may
    be spread and whether the patches can be applied.
    """
    target = target_of(spec)
    listed = (AllowedList(target=target[0]),) if target is not None else ()
    alone = msgspec.structs.replace(
        spec, subsets=[msgspec.structs.replace(subset, patch=None) for subset in spec.subsets]
    )
    return errors_of(alone, SpreadSurroundings(white_list=WhiteList(workloads=listed)))
