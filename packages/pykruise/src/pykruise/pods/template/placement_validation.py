"""Validation of a pod's placement: node selector terms, preferences, tolerations.

documents ──▶ find_node_term_errors(), find_preferred_terms_errors(), find_toleration_errors() ──▶ field errors

Pure. Same rules as Kubernetes' validation of pods.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    make_forbidden_error,
    make_invalid_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.pod_rules.names import is_dns1123_subdomain, is_qualified_name, is_valid_label_value
from pykruise.kube.pod_rules.nodes import NO_EXECUTE, NO_SCHEDULE

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_EFFECTS: Final = (NO_SCHEDULE, "PreferNoSchedule", NO_EXECUTE)
_TOLERATION_OPERATORS: Final = ("Equal", "Exists")
_NODE_NAME: Final = "metadata.name"

Document = Mapping[str, Any]


def find_node_term_errors(term: Document, path: str) -> Iterator[Cause]:
    """Errors of a NodeSelectorTerm."""
    for index, item in enumerate(term.get("matchExpressions") or ()):
        yield from _find_expression_errors(item, f"{path}.matchExpressions[{index}]")
    for index, item in enumerate(term.get("matchFields") or ()):
        yield from _find_field_errors(item, f"{path}.matchFields[{index}]")


def _find_expression_errors(item: Document, path: str) -> Iterator[Cause]:
    operator, values = item.get("operator") or "", item.get("values") or ()
    match operator:
        case "In" | "NotIn" if not values:
            yield make_required_error(
                f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"
            )
        case "Exists" | "DoesNotExist" if values:
            yield make_forbidden_error(
                f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
        case "Gt" | "Lt" if len(values) != 1:
            yield make_required_error(
                f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"
            )
        case _ if operator not in _OPERATORS:
            yield make_invalid_error(f"{path}.operator", operator, "not a valid selector operator")
    key = item.get("key") or ""
    yield from (make_invalid_error(f"{path}.key", key, problem) for problem in is_qualified_name(key))
    if operator in ("In", "NotIn"):
        for index, value in enumerate(values):
            for problem in is_valid_label_value(value):
                yield make_invalid_error(f"{path}.values[{index}]", value, problem)


def _find_field_errors(item: Document, path: str) -> Iterator[Cause]:
    operator, values = item.get("operator") or "", item.get("values") or ()
    if operator not in ("In", "NotIn"):
        yield make_invalid_error(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        yield make_required_error(
            f"{path}.values",
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
        )
    if (key := item.get("key") or "") != _NODE_NAME:
        yield make_invalid_error(f"{path}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        for problem in is_dns1123_subdomain(value):
            yield make_invalid_error(f"{path}.values[{index}]", value, problem)


def find_preferred_terms_errors(terms: Sequence[Document], path: str) -> Iterator[Cause]:
    """Errors of a list of PreferredSchedulingTerms."""
    for index, term in enumerate(terms):
        weight = term.get("weight") or 0
        if not 1 <= weight <= 100:
            yield make_invalid_error(f"{path}[{index}].weight", weight, "must be in the range 1-100")
        yield from find_node_term_errors(term.get("preference") or {}, f"{path}[{index}].preference")


def find_toleration_errors(tolerations: Sequence[Document], path: str) -> Iterator[Cause]:
    """Errors of a list of tolerations."""
    for index, toleration in enumerate(tolerations):
        yield from _find_errors_of_toleration(toleration, f"{path}[{index}]")


def _find_errors_of_toleration(toleration: Document, path: str) -> Iterator[Cause]:
    key, operator = toleration.get("key"), toleration.get("operator") or ""
    value, effect = toleration.get("value") or "", toleration.get("effect") or ""
    if key:
        yield from (make_invalid_error(f"{path}.key", key, problem) for problem in is_qualified_name(key))
    elif operator != "Exists":
        yield make_invalid_error(
            f"{path}.operator",
            operator,
            'operator must be Exists when `key` is empty, which means "match all"',
        )
    if toleration.get("tolerationSeconds") is not None and effect != NO_EXECUTE:
        yield make_invalid_error(
            f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"
        )
    match operator:
        case "" | "Equal":
            for problem in is_valid_label_value(value):
                yield make_invalid_error(f"{path}.operator", value, problem)
        case "Exists" if value:
            yield make_invalid_error(
                f"{path}.operator", toleration, "value must be empty when `operator` is 'Exists'"
            )
        case _ if operator not in _TOLERATION_OPERATORS:
            yield make_not_supported_error(f"{path}.operator", operator, _TOLERATION_OPERATORS)
    if effect and effect not in _EFFECTS:
        yield make_not_supported_error(f"{path}.effect", effect, _EFFECTS)
