"""Result of a policy for a write.

AdmissionPolicy + the variables of a write ──▶ judge() ──▶ Denial, …   (none: the policy allows the write)

Pure. Same rules as apiserver's `policy/validating` validator: if an expression cannot be evaluated, the failurePolicy
decides. A variable is evaluated only when an expression uses it, and its error is an error of that expression.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pykruise.sandbox.apiserver.custom.expressions import EvaluationError, Expression, evaluate_conditions
from pykruise.sandbox.apiserver.policies.reading import AdmissionPolicy, Validation, list_used_variables


class Denial(msgspec.Struct, frozen=True):
    """A validation that is not true, or that cannot be evaluated."""

    message: str
    reason: str = "Invalid"


def judge(policy: AdmissionPolicy, variables: Mapping[str, Any]) -> list[Denial]:
    """Return all denials of the write. `variables`: object, oldObject, request, params, namespaceObject."""
    if policy.broken:
        return [Denial(policy.broken)] if policy.fails_closed else []
    try:
        if not evaluate_conditions(policy.conditions, variables):
            return []
    except EvaluationError as err:
        return [Denial(str(err))] if policy.fails_closed else []
    world = _World(policy, variables)
    return [*_find_failed_validations(policy, world), *_find_failed_annotations(policy, world)]


def _find_failed_validations(policy: AdmissionPolicy, world: "_World") -> Iterator[Denial]:
    for validation in policy.validations:
        try:
            value = world.evaluate(validation.expression)
        except EvaluationError as err:
            if policy.fails_closed:
                text = validation.expression.text
                yield Denial(f"expression '{text}' resulted in error: {err}")
            continue
        if value is not True:
            yield Denial(_build_message(validation, world), validation.reason)


def _build_message(validation: Validation, world: "_World") -> str:
    """The value of the message expression, else the message, else the expression itself."""
    if validation.message_expression is not None:
        try:
            text = world.evaluate(validation.message_expression)
        except EvaluationError:
            text = ""
        if isinstance(text, str) and (text := text.strip()) and "\n" not in text and len(text) <= _LONGEST:
            return text
    return validation.message or f"failed expression: {validation.expression.text.strip()}"


_LONGEST = 5 * 1024


def _find_failed_annotations(policy: AdmissionPolicy, world: "_World") -> Iterator[Denial]:
    """Yield a denial for each audit annotation that is neither a string nor null, or that cannot be evaluated (unless
    failurePolicy is Ignore), as Kubernetes does. Annotations are not recorded.
    """
    for annotation in policy.annotations:
        try:
            value = world.evaluate(annotation)
        except EvaluationError as err:
            if policy.fails_closed:
                yield Denial(f"expression '{annotation.text}' resulted in error: {err}")
            continue
        if value is not None and not isinstance(value, str):
            yield Denial(
                f"valueExpression '{annotation.text}' resulted in unsupported return type: "
                f"{type(value).__name__}. Return type must be either string or null."
            )


class _World:
    """Variables of a policy's expressions. Each is evaluated on first use."""

    def __init__(self, policy: AdmissionPolicy, variables: Mapping[str, Any]) -> None:
        self._given = dict(variables)
        self._expressions = dict(policy.variables)
        self._values: dict[str, Any] = {}
        self._errors: dict[str, str] = {}

    def evaluate(self, expression: Expression) -> Any:
        """Evaluate the expression. Raises EvaluationError."""
        used = list_used_variables(expression.text)
        for name in used:
            self._evaluate_variable(name)
        try:
            return expression.evaluate({**self._given, "variables": self._values})
        except EvaluationError as err:
            for name in used:
                if name in self._errors:
                    message = f'composited variable "{name}" fails to evaluate: {self._errors[name]}'
                    raise EvaluationError(message) from err
            raise

    def _evaluate_variable(self, name: str) -> None:
        if name in self._values or name in self._errors or name not in self._expressions:
            return
        try:
            self._values[name] = self.evaluate(self._expressions[name])
        except EvaluationError as err:
            self._errors[name] = str(err)
