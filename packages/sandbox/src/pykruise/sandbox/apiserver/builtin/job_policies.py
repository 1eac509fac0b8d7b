"""Validation of a Job's policies: failure policy, success policy, limits per index, manager.

the spec of a job ──▶ check_index_limits(), check_policies() ──▶ Causes

Pure. Same rules as Kubernetes' validation of batch/v1.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import orjson

from pykruise.kube.pod_rules.field_errors import (
    make_duplicate_error,
    make_invalid_error,
    make_invalid_shown_error,
    make_invalid_whole_error,
    make_not_supported_error,
    make_required_error,
    make_too_long_error,
    make_too_many_error,
)
from pykruise.kube.pod_rules.field_rules import Causes, check_not_negative, check_qualified_name
from pykruise.kube.pod_rules.names import is_dns1123_subdomain
from pykruise.kube.values.go_text import quote_text

Doc = Mapping[str, Any]

_MOST: Final = 100_000
"""Maximum of `parallelism` and of failed indexes in an indexed job. With more `completions` than this number, stricter
limits apply.
"""
_MOST_OF_MANY: Final = 10_000
_MOST_RULES: Final = 20
_MOST_CODES: Final = 255
_MOST_PATTERNS: Final = 20
_LONGEST_INDEXES: Final = 64 * 1024
_LONGEST_MANAGER: Final = 63

_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")


def _format_valid_values(values: Sequence[str]) -> str:
    return f"valid values: [{' '.join(quote_text(value) for value in values)}]"


# --- limits per index ---


def check_index_limits(spec: Doc, path: str) -> Causes:
    """Check `completions`, `parallelism`, `backoffLimitPerIndex` and `maxFailedIndexes` for the completion mode."""
    if spec.get("completionMode") == "Indexed":
        yield from _check_indexed(spec, path)
        return
    for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
        if spec.get(field) is not None:
            yield make_invalid_error(f"{path}.{field}", spec[field], "requires indexed completion mode")


def _check_indexed(spec: Doc, path: str) -> Causes:
    completions, parallelism, failed = (
        spec.get(field) for field in ("completions", "parallelism", "maxFailedIndexes")
    )
    if completions is None:
        yield make_required_error(f"{path}.completions", "when completion mode is Indexed")
    if (parallelism or 0) > _MOST:
        detail = f"must be less than or equal to {_MOST} when completion mode is Indexed"
        yield make_invalid_error(f"{path}.parallelism", parallelism, detail)
    if completions is not None and failed is not None and failed > completions:
        yield make_invalid_error(
            f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"
        )
    if failed is not None and failed > _MOST:
        yield make_invalid_error(f"{path}.maxFailedIndexes", failed, f"must be less than or equal to {_MOST}")
    if (completions or 0) <= _MOST or spec.get("backoffLimitPerIndex") is None:
        return
    if failed is None:
        detail = f"must be specified when completions is above {_MOST}"
        yield make_required_error(f"{path}.maxFailedIndexes", detail)
    detail = (
        f"must be less than or equal to {_MOST_OF_MANY} when completions are above {_MOST} and used with "
        "backoff limit per index"
    )
    for field, value in (("parallelism", parallelism), ("maxFailedIndexes", failed)):
        if (value or 0) > _MOST_OF_MANY:
            yield make_invalid_error(f"{path}.{field}", value, detail)


def check_managed_by(name: str | None, path: str) -> Causes:
    """Check that the name is a domain and a path. This is the rule of Kubernetes' domain-prefixed paths."""
    if name is None:
        return
    if not name:
        yield make_required_error(path)
        return
    domain, _, rest = name.partition("/")
    if not domain or not rest:
        yield make_invalid_error(path, name, 'must be a domain-prefixed path (such as "acme.io/foo")')
    else:
        for message in is_dns1123_subdomain(domain):
            yield make_invalid_error(path, domain, message)
        if not re.fullmatch(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", rest):
            pattern = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
            yield make_invalid_error(path, rest, f"Invalid path (regex used for validation is '{pattern}')")
    if len(name) > _LONGEST_MANAGER:
        yield make_too_long_error(path, _LONGEST_MANAGER)


# --- policies ---


def check_policies(spec: Doc, path: str) -> Causes:
    """Check `podFailurePolicy` and `successPolicy`."""
    if (failures := spec.get("podFailurePolicy")) is not None:
        yield from _check_failure_policy(failures, spec, f"{path}.podFailurePolicy.rules")
    if (success := spec.get("successPolicy")) is None:
        return
    if spec.get("completionMode") != "Indexed":
        detail = "requires indexed completion mode"
        yield make_invalid_shown_error(f"{path}.successPolicy", show_success_policy(success), detail)
    else:
        yield from _check_success_policy(success, spec, f"{path}.successPolicy.rules")


def _check_failure_policy(policy: Doc, spec: Doc, path: str) -> Causes:
    rules = policy.get("rules") or ()
    if len(rules) > _MOST_RULES:
        yield make_too_many_error(path, len(rules), _MOST_RULES)
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = (*(pod.get("containers") or ()), *(pod.get("initContainers") or ()))
    names = frozenset(container.get("name") or "" for container in containers)
    for index, rule in enumerate(rules):
        yield from _check_failure_rule(rule, spec, f"{path}[{index}]", names)


def _check_failure_rule(rule: Doc, spec: Doc, path: str, names: frozenset[str]) -> Causes:
    action = rule.get("action") or ""
    if not action:
        yield make_required_error(f"{path}.action", _format_valid_values(_ACTIONS))
    elif action == "FailIndex":
        if spec.get("backoffLimitPerIndex") is None:
            yield make_invalid_error(f"{path}.action", action, "requires the backoffLimitPerIndex to be set")
    elif action not in _ACTIONS:
        yield make_not_supported_error(f"{path}.action", action, _ACTIONS)
    codes, patterns = rule.get("onExitCodes"), rule.get("onPodConditions") or ()
    if codes is not None:
        yield from _check_exit_codes(codes, f"{path}.onExitCodes", names)
    if patterns:
        yield from _check_patterns(patterns, f"{path}.onPodConditions")
    if codes is not None and patterns:
        detail = "specifying both OnExitCodes and OnPodConditions is not supported"
        yield make_invalid_whole_error(path, detail)
    if codes is None and not patterns:
        yield make_invalid_whole_error(path, "specifying one of OnExitCodes and OnPodConditions is required")


def _check_patterns(patterns: Sequence[Doc], path: str) -> Causes:
    if len(patterns) > _MOST_PATTERNS:
        yield make_too_many_error(path, len(patterns), _MOST_PATTERNS)
    for index, pattern in enumerate(patterns):
        here = f"{path}[{index}]"
        yield from check_qualified_name(pattern.get("type") or "", f"{here}.type")
        status = pattern.get("status") or ""
        if not status:
            yield make_required_error(f"{here}.status", _format_valid_values(_STATUSES))
        elif status not in _STATUSES:
            yield make_not_supported_error(f"{here}.status", status, _STATUSES)


def _check_exit_codes(codes: Doc, path: str, names: frozenset[str]) -> Causes:
    operator, values = codes.get("operator") or "", codes.get("values") or ()
    if not operator:
        yield make_required_error(f"{path}.operator", _format_valid_values(_OPERATORS))
    elif operator not in _OPERATORS:
        yield make_not_supported_error(f"{path}.operator", operator, _OPERATORS)
    name = codes.get("containerName")
    if name is not None and name not in names:
        detail = "must be one of the container or initContainer names in the pod template"
        yield make_invalid_error(f"{path}.containerName", name, detail)
    if not values:
        yield make_invalid_shown_error(f"{path}.values", "[]", "at least one value is required")
    elif len(values) > _MOST_CODES:
        yield make_too_many_error(f"{path}.values", len(values), _MOST_CODES)
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            yield make_invalid_error(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        if value in values[:index]:
            yield make_duplicate_error(f"{path}.values[{index}]", value)
    if any(value > other for value, other in pairwise(values)):
        shown = f"[{','.join(str(value) for value in values)}]"
        yield make_invalid_shown_error(f"{path}.values", shown, "must be ordered")


def show_success_policy(policy: Doc | None) -> str:
    """Format a success policy as apiserver shows it in a message."""
    if policy is None:
        return "null"
    members = ("succeededIndexes", "succeededCount")
    rules = [
        {f"{member[0].upper()}{member[1:]}": rule.get(member) for member in members}
        for rule in policy.get("rules") or ()
    ]
    return orjson.dumps({"Rules": rules}).decode()


def _check_success_policy(policy: Doc, spec: Doc, path: str) -> Causes:
    rules = policy.get("rules") or ()
    if not rules:
        yield make_required_error(
            path, "at least one rules must be specified when the successPolicy is specified"
        )
    if len(rules) > _MOST_RULES:
        yield make_too_many_error(path, len(rules), _MOST_RULES)
    completions = spec.get("completions")
    if completions is None:
        return  # another check reports that `completions` is missing; without it, no rule can be checked
    for index, rule in enumerate(rules):
        yield from _check_success_rule(rule, completions, f"{path}[{index}]")


def _check_success_rule(rule: Doc, completions: int, path: str) -> Causes:
    count, text = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and text is None:
        yield make_required_error(
            path, "at least one of succeededCount or succeededIndexes must be specified"
        )
    total = 0
    if text is not None:
        if len(text) > _LONGEST_INDEXES:
            yield make_too_long_error(f"{path}.succeededIndexes", _LONGEST_INDEXES)
        try:
            total = _count_indexes(text, completions)
        except ValueError as err:
            detail = f"error parsing succeededIndexes: {err}"
            yield make_invalid_error(f"{path}.succeededIndexes", text, detail)
    if count is None:
        return
    here = f"{path}.succeededCount"
    yield from check_not_negative(count, here)
    if count > completions:
        detail = f"must be less than or equal to {completions} (the number of specified completions)"
        yield make_invalid_error(here, count, detail)
    if text is not None and count > total:
        detail = (
            f"must be less than or equal to {total} (the number of indexes in the specified "
            "succeededIndexes field)"
        )
        yield make_invalid_error(here, count, detail)


def _count_indexes(text: str, completions: int) -> int:
    """Return how many indexes `0-2,5` contains. Raises ValueError with Kubernetes' message."""
    total, last = 0, -1
    for part in text.split(",") if text else ():
        ends = part.split("-")
        if len(ends) > 2:
            raise ValueError(
                f"the fragment {quote_text(part)} violates the requirement that an index interval can have at "
                "most two parts separated by '-'"
            )
        numbers = [_parse_index(end, completions) for end in ends]
        if len(numbers) == 2 and numbers[0] >= numbers[1]:
            raise ValueError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
        if last >= numbers[0]:
            raise ValueError(f"non-increasing order, previous: {last}, current: {numbers[0]}")
        total += numbers[-1] - numbers[0] + 1
        last = numbers[-1]
    return total


def _parse_index(text: str, completions: int) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text, re.ASCII):
        raise ValueError(f"cannot convert string to integer for index: {quote_text(text)}")
    if int(text) >= completions:
        raise ValueError(f"too large index: {quote_text(text)}")
    return int(text)
