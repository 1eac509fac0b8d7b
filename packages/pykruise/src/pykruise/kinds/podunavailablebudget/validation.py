"""Validation of a PodUnavailableBudget (v1beta1): all errors together, each with its field.

document + other budgets of the namespace + the stored document ──▶ errors_of() ──▶ field errors

Pure. Numbers of rules are those of the specification's table.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.kinds.podunavailablebudget.conversion import PROTECT_TOTAL_REPLICAS, total_of
from pykruise.kinds.podunavailablebudget.types import OPERATIONS, BudgetTarget, PodUnavailableBudgetSpec
from pykruise.kube.documents import Document, annotations_of, is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    make_invalid_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.pod_rules.field_rules import (
    check_at_most_100_percent,
    check_int_or_percent,
    check_segment,
    check_selector,
)
from pykruise.kube.schemas.typed_documents import read
from pykruise.kube.values.group_kinds import group_kind
from pykruise.kube.values.selectors import Selector, SelectorError, SelectorOperator, parse_selector
from pykruise.pods.workload.budgets import BudgetView

_WHOM: Final = "spec.selector, targetRef"
_HOW_MANY: Final = "spec.maxUnavailable, minAvailable"
_TOTAL: Final = f"metadata.annotations[{PROTECT_TOTAL_REPLICAS}]"


def errors_of(
    doc: Mapping[str, Any],
    spec: PodUnavailableBudgetSpec,
    *,
    old: Mapping[str, Any] | None = None,
    others: Sequence[BudgetView] = (),
) -> list[Cause]:
    """All field errors. `old`: the stored object of an update; `others`: the other budgets of the namespace."""
    given: Document = doc.get("spec") or {}
    return [
        *_find_total_errors(doc, spec, old),
        *_find_selection_errors(given, spec),
        *_find_amount_errors(spec),
        *_find_operation_errors(spec),
        *_find_ignored_selector_errors(given),
        *(_find_change_errors(given, old.get("spec") or {}) if old is not None else ()),
        *_find_conflict_errors(given, spec, others),
    ]


def _find_total_errors(
    doc: Mapping[str, Any], spec: PodUnavailableBudgetSpec, old: Mapping[str, Any] | None
) -> Iterator[Cause]:
    """Yield the errors of rules 1 and 2. An unchanged annotation does not block a change of the field."""
    text = annotations_of(doc).get(PROTECT_TOTAL_REPLICAS)
    if text is None:
        return
    if total_of(text) is None:
        yield make_invalid_error(_TOTAL, text, "must be a decimal number of pods")
        return
    total = spec.protect_total_replicas
    is_stale = old is not None and annotations_of(old).get(PROTECT_TOTAL_REPLICAS) == text
    if total is not None and str(total) != text and not is_stale:
        yield make_invalid_error(_TOTAL, text, f"must be equal to spec.protectTotalReplicas ({total})")


def _find_selection_errors(given: Mapping[str, Any], spec: PodUnavailableBudgetSpec) -> Iterator[Cause]:
    """Yield the errors of rules 3 to 7."""
    selector, target = given.get("selector"), spec.target_ref
    if selector is None and target is None:
        yield make_required_error(_WHOM, "no selector or targetRef defined in PodUnavailableBudget")
    elif selector is not None and target is not None:
        yield make_required_error(_WHOM, "selector and targetRef are mutually exclusive")
    elif target is not None:
        if not (target.api_version and target.kind and target.name):
            yield make_invalid_error(
                "spec.targetRef", _describe(target), "apiVersion, kind and name must be given"
            )
        elif group_kind(target.api_version, target.kind) is None:
            detail = f"apiVersion {target.api_version!r} is not <group>/<version>"
            yield make_invalid_error("spec.targetRef", _describe(target), detail)
        yield from check_segment(target.name, "spec.targetRef.name")
    elif selector is not None:
        yield from check_selector(selector, "spec.selector")
        if not (selector.get("matchLabels") or selector.get("matchExpressions")):
            yield make_invalid_error(
                "spec.selector", selector, "empty selector is not valid for PodUnavailableBudget."
            )


def _describe(target: BudgetTarget) -> str:
    return f"{target.api_version} {target.kind} {target.name}".strip()


def _find_amount_errors(spec: PodUnavailableBudgetSpec) -> Iterator[Cause]:
    """Yield the errors of rules 8 to 11."""
    if spec.max_unavailable is None and spec.min_available is None:
        yield make_required_error(
            _HOW_MANY, "no maxUnavailable or minAvailable defined in PodUnavailableBudget"
        )
    elif spec.max_unavailable is not None and spec.min_available is not None:
        yield make_required_error(_HOW_MANY, "maxUnavailable and minAvailable are mutually exclusive")
    amounts = {"spec.maxUnavailable": spec.max_unavailable, "spec.minAvailable": spec.min_available}
    for path, value in amounts.items():
        yield from check_int_or_percent(value, path)
        yield from check_at_most_100_percent(value, path)


def _find_operation_errors(spec: PodUnavailableBudgetSpec) -> Iterator[Cause]:
    """Yield the errors of rule 12."""
    for index, operation in enumerate(spec.protect_operations or ()):
        if operation not in OPERATIONS:
            yield make_not_supported_error(f"spec.protectOperations[{index}]", operation, OPERATIONS)


def _find_ignored_selector_errors(given: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield the errors of rule 13."""
    selector = given.get("ignoredPodSelector")
    if selector is None:
        return
    yield from check_selector(selector, "spec.ignoredPodSelector")
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield make_invalid_error(
            "spec.ignoredPodSelector",
            selector,
            "an empty selector would match every pod, so the budget would protect no pod",
        )


def _find_change_errors(new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[Cause]:
    """Yield the errors of rule 14."""
    if any(not is_same(new.get(field), old.get(field)) for field in ("selector", "targetRef")):
        yield make_required_error(_WHOM, "selector and targetRef cannot be modified")


# ── other budgets of the namespace ───────────────────────────────────────────


def _find_conflict_errors(
    given: Mapping[str, Any], spec: PodUnavailableBudgetSpec, others: Sequence[BudgetView]
) -> Iterator[Cause]:
    """Yield the errors of rules 15 and 16. Only the first conflict is reported."""
    target = spec.target_ref
    if target is not None:
        wanted = (group_kind(target.api_version, target.kind), target.name)
        for budget in others:
            if budget.target == wanted:
                yield make_invalid_error(
                    "spec.targetReference", _describe(target), _describe_conflict(budget.name)
                )
                return
        return
    try:
        selector = parse_selector(given.get("selector"))
    except SelectorError:
        return
    for budget in others:
        if (
            budget.target is None
            and not budget.selector.selects_nothing
            and may_overlap(selector, budget.selector)
        ):
            yield make_invalid_error("spec.selector", given.get("selector"), _describe_conflict(budget.name))
            return


def _describe_conflict(name: str) -> str:
    return f"PodUnavailableBudget {name} covers the same pods"


_Term = tuple[str, frozenset[str]]


def may_overlap(selector: Selector, other: Selector) -> bool:
    """Whether two selectors count as selecting the same pods: both have the same keys, and for each key a value can
    match both selectors.

    This is the rule of OpenKruise. Selectors with different keys may overlap too, but are accepted.
    """
    left, right = _build_terms(selector), _build_terms(other)
    return left.keys() == right.keys() and all(_is_compatible(left[key], right[key]) for key in left)


def _build_terms(selector: Selector) -> Mapping[str, _Term]:
    """Return one expression for each key of the selector. A label with a required value takes precedence over other
    expressions of the same key.
    """
    terms: dict[str, _Term] = {}
    for requirement in sorted(
        selector.requirements, key=lambda item: item.operator is SelectorOperator.EQUALS
    ):
        match requirement.operator:
            case SelectorOperator.EQUALS | SelectorOperator.DOUBLE_EQUALS | SelectorOperator.IN:
                terms[requirement.key] = ("In", frozenset(requirement.values))
            case SelectorOperator.NOT_EQUALS | SelectorOperator.NOT_IN:
                terms[requirement.key] = ("NotIn", frozenset(requirement.values))
            case SelectorOperator.EXISTS:
                terms[requirement.key] = ("Exists", frozenset())
            case _:
                terms[requirement.key] = ("DoesNotExist", frozenset())
    return terms


def _is_compatible(left: _Term, right: _Term) -> bool:
    (text, values), (other, others) = sorted((left, right), key=lambda term: _ORDER[term[0]])
    match text, other:
        case "In", "In":
            return bool(values & others)
        case "In", "NotIn":
            return not values <= others
        case "In" | "Exists", "DoesNotExist":
            return False
    return True


_ORDER: Final = {"In": 0, "NotIn": 1, "Exists": 2, "DoesNotExist": 3}


def find_stored_errors(view: BudgetView) -> list[Cause]:
    """Errors of a stored spec, without comparing it to other objects. `view.problem` reports an unreadable spec
    instead.
    """
    spec, _ = read(view.stored_spec, PodUnavailableBudgetSpec, path="spec")
    return [] if spec is None else errors_of({"spec": view.stored_spec}, spec)
