"""Validation of a pod's placement: affinity, spread and tolerations.

    a defaulted spec ──▶ check_affinity(), check_spread(), check_tolerations() ──▶ Causes

Pure; pods.py calls these checks.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykruise.kube.pod_rules.field_errors import (
    make_duplicate_error,
    make_forbidden_error,
    make_invalid_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.pod_rules.field_rules import (
    Causes,
    check_label,
    check_one_of,
    check_qualified_name,
    check_selector,
    check_subdomain,
)
from pykruise.kube.pod_rules.names import is_valid_label_value
from pykruise.kube.schemas.releases import NEWEST, Release

__all__ = [
    "check_affinity",
    "check_node_term",
    "check_preferred_terms",
    "check_spread",
    "check_tolerations",
]

Doc = Mapping[str, Any]
_DECIMAL: Final = re.compile(r"0|-?[1-9][0-9]*")


def check_affinity(affinity: Doc, path: str, release: Release = NEWEST) -> Causes:
    """Yield the errors of node affinity, pod affinity and pod anti-affinity."""
    node = affinity.get("nodeAffinity") or {}
    must = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    if must is not None:
        place = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        terms = must.get("nodeSelectorTerms") or ()
        if not terms:
            yield make_required_error(place, "must have at least one node selector term")
        checks_values = release.is_at_least(_WITH_CHECKED_VALUES)
        for index, term in enumerate(terms):
            yield from check_node_term(term, f"{place}[{index}]", checks_values=checks_values)
    preferred = node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    place = f"{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    yield from check_preferred_terms(preferred, place)
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        hard, soft = (
            "requiredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
        )
        for index, term in enumerate(rules.get(hard) or ()):
            yield from _check_pod_term(term, f"{path}.{kind}.{hard}[{index}]")
        for index, preferred in enumerate(rules.get(soft) or ()):
            place = f"{path}.{kind}.{soft}[{index}]"
            yield from _check_weight(preferred, place)
            yield from _check_pod_term(preferred.get("podAffinityTerm") or {}, f"{place}.podAffinityTerm")


_WITH_CHECKED_VALUES: Final = "1.37"
"""Minor from which this module rejects invalid label values in required node affinity. API servers of 1.32 accept such
values.
"""


def check_preferred_terms(terms: Sequence[Doc], path: str) -> Causes:
    """Yield the errors of preferred node selector terms. Label values are not checked, as in Kubernetes."""
    for index, preferred in enumerate(terms):
        yield from _check_weight(preferred, f"{path}[{index}]")
        preference = preferred.get("preference") or {}
        yield from check_node_term(preference, f"{path}[{index}].preference", checks_values=False)


def _check_weight(preferred: Doc, path: str) -> Causes:
    weight = preferred.get("weight") or 0
    if not 1 <= weight <= 100:
        yield make_invalid_error(f"{path}.weight", weight, "must be in the range 1-100")


def check_node_term(term: Doc, path: str, *, checks_values: bool) -> Causes:
    """Yield the errors of a node selector term. `checks_values`: whether the values of In and NotIn must be valid label
    values.
    """
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        here = f"{path}.matchExpressions[{index}]"
        yield from _check_node_requirement(requirement, here)
        if not checks_values or requirement.get("operator") not in ("In", "NotIn"):
            continue
        for position, value in enumerate(requirement.get("values") or ()):
            for message in is_valid_label_value(value):
                yield make_invalid_error(f"{here}.values[{position}]", value, message)
    for index, requirement in enumerate(term.get("matchFields") or ()):
        yield from _check_node_field(requirement, f"{path}.matchFields[{index}]")


def _check_node_requirement(requirement: Doc, path: str) -> Causes:
    operator, values = requirement.get("operator") or "", requirement.get("values") or ()
    match operator:
        case "In" | "NotIn":
            if not values:
                yield make_required_error(
                    f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"
                )
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield make_forbidden_error(f"{path}.values", detail)
        case "Gt" | "Lt":
            if len(values) != 1:
                detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield make_required_error(f"{path}.values", detail)
        case _:
            yield make_invalid_error(f"{path}.operator", operator, "not a valid selector operator")
    yield from check_qualified_name(requirement.get("key") or "", f"{path}.key")


_NODE_NAME: Final = "metadata.name"


def _check_node_field(requirement: Doc, path: str) -> Causes:
    key, operator = requirement.get("key") or "", requirement.get("operator") or ""
    values = requirement.get("values") or ()
    if operator not in ("In", "NotIn"):
        yield make_invalid_error(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield make_required_error(f"{path}.values", detail)
    if key != _NODE_NAME:
        yield make_invalid_error(f"{path}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        yield from check_subdomain(value, f"{path}.values[{index}]")


def _check_pod_term(term: Doc, path: str) -> Causes:
    yield from check_selector(term.get("labelSelector"), f"{path}.labelSelector")
    yield from check_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for index, namespace in enumerate(term.get("namespaces") or ()):
        yield from check_label(namespace, f"{path}.namespace[{index}]")
    own, others = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    for field, keys in (("matchLabelKeys", own), ("mismatchLabelKeys", others)):
        yield from _check_label_keys(keys, term, f"{path}.{field}")
    excluded = frozenset(others)
    for index, key in enumerate(own):
        if key in excluded:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield make_invalid_error(f"{path}.matchLabelKeys[{index}]", key, detail)
    if not term.get("topologyKey"):
        yield make_required_error(f"{path}.topologyKey", "can not be empty")
    yield from check_qualified_name(term.get("topologyKey") or "", f"{path}.topologyKey")


def _check_label_keys(keys: Sequence[str], term: Doc, path: str) -> Causes:
    """Yield the errors of `matchLabelKeys` or `mismatchLabelKeys`, which complete the term's labelSelector."""
    if not keys:
        return
    if term.get("labelSelector") is None:
        yield make_forbidden_error(path, "must not be specified when labelSelector is not set")
        return
    for index, key in enumerate(keys):
        yield from check_qualified_name(key, f"{path}[{index}]")


def check_spread(spec: Doc, path: str) -> Causes:
    """Yield the errors of `topologySpreadConstraints`."""
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        here = f"{path}[{index}]"
        if constraint.get("maxSkew", 0) <= 0:
            yield make_invalid_error(
                f"{here}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero"
            )
        key, action = constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""
        if not key:
            yield make_required_error(f"{here}.topologyKey", "can not be empty")
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            place = f"{here}.whenUnsatisfiable"
            yield make_not_supported_error(place, action, ("DoNotSchedule", "ScheduleAnyway"))
        if (key, action) in seen:
            yield make_duplicate_error(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        seen.add((key, action))
        least = constraint.get("minDomains")
        if least is not None and least <= 0:
            yield make_invalid_error(f"{here}.minDomains", least, "must be greater than zero")
        if least is not None and action != "DoNotSchedule":
            detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            yield make_invalid_error(f"{here}.minDomains", least, detail)
        for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            policy = constraint.get(field)
            if policy is not None and policy not in ("Honor", "Ignore"):
                yield make_not_supported_error(f"{here}.{field}", policy, ("Honor", "Ignore"))
        keys = constraint.get("matchLabelKeys") or ()
        yield from _check_label_keys(keys, constraint, f"{here}.matchLabelKeys")
        yield from check_selector(constraint.get("labelSelector"), f"{here}.labelSelector")


def check_tolerations(tolerations: Sequence[Doc], path: str, release: Release = NEWEST) -> Causes:
    """Yield the errors of the tolerations of a pod."""
    compares = release.has("TaintTolerationComparisonOperators")
    for index, toleration in enumerate(tolerations):
        here = f"{path}[{index}]"
        key, operator = toleration.get("key") or "", toleration.get("operator") or ""
        value, effect = toleration.get("value") or "", toleration.get("effect") or ""
        if key:
            yield from check_qualified_name(key, f"{here}.key")
        elif operator != "Exists":
            detail = (
                'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            )
            yield make_invalid_error(f"{here}.operator", operator, detail)
        if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
            detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield make_invalid_error(f"{here}.effect", effect, detail)
        if operator in ("", "Equal"):
            wrong = is_valid_label_value(value)
            if wrong:
                yield make_invalid_error(f"{here}.operator", value, ";".join(wrong))
        elif operator == "Exists":
            if value:
                yield make_invalid_error(
                    f"{here}.operator", value, "value must be empty when `operator` is 'Exists'"
                )
        elif compares and operator in ("Gt", "Lt"):
            if not _DECIMAL.fullmatch(value) or not -(2**63) <= int(value) < 2**63:
                yield make_invalid_error(f"{here}.value", value, "must be a decimal integer of 64 bits")
        else:
            yield make_not_supported_error(f"{here}.operator", operator, ("Equal", "Exists"))
        yield from check_one_of(
            effect, f"{here}.effect", ("NoSchedule", "PreferNoSchedule", "NoExecute"), needed=False
        )
