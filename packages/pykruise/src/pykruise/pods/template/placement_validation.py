"""Validation of tolerations that a subset adds to its pods.

documents ──▶ find_toleration_errors() ──▶ field errors

Pure. These are the rules of Kubernetes before 1.35, in which no toleration compares numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    make_invalid_error,
    make_not_supported_error,
)
from pykruise.kube.pod_rules.names import is_qualified_name, is_valid_label_value
from pykruise.kube.pod_rules.nodes import NO_EXECUTE, NO_SCHEDULE

_EFFECTS: Final = (NO_SCHEDULE, "PreferNoSchedule", NO_EXECUTE)
_TOLERATION_OPERATORS: Final = ("Equal", "Exists")

Document = Mapping[str, Any]


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
