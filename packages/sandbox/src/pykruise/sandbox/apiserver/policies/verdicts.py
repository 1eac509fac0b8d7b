"""Verdict of a policy about a write.

Policy + the variables of a write ──▶ judge() ──▶ Denial, …   (none: it is allowed)

Pure. Rules: apiserver's `policy/validating` validator: an expression that has no value counts as its failurePolicy
says; a variable is looked at only by who uses it, so what is wrong with it is an error there.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pykruise.sandbox.apiserver.custom.expressions import EvaluationError, Expression, conditions_hold
from pykruise.sandbox.apiserver.policies.reading import AdmissionPolicy, Validation, used_variables


class Denial(msgspec.Struct, frozen=True):
    """A validation that does not hold, or that has no value."""

    message: str
    reason: str = "Invalid"


def judge(policy: AdmissionPolicy, variables: Mapping[str, Any]) -> list[Denial]:
    """Everything that speaks against the write. `variables`: object, oldObject, request, params, namespaceObject."""
    if policy.broken:
        return [Denial(policy.broken)] if policy.fails_closed else []
    try:
        if not conditions_hold(policy.conditions, variables):
            return []
    except EvaluationError as err:
        return [Denial(str(err))] if policy.fails_closed else []
    world = _World(policy, variables)
    return [*_broken(policy, world), *_unvalued(policy, world)]


def _broken(policy: AdmissionPolicy, world: "_World") -> Iterator[Denial]:
    for validation in policy.validations:
        try:
            value = world.value(validation.expression)
        except EvaluationError as err:
            if policy.fails_closed:
                text = validation.expression.text
                yield Denial(f"expression '{text}' resulted in error: {err}")
            continue
        if value is not True:
            yield Denial(_message(validation, world), validation.reason)


def _message(validation: Validation, world: "_World") -> str:
    """Value of its message expression, its message, or the rule itself."""
    if validation.message_expression is not None:
        try:
            text = world.value(validation.message_expression)
        except EvaluationError:
            text = ""
        if isinstance(text, str) and (text := text.strip()) and "\n" not in text and len(text) <= _LONGEST:
            return text
    return validation.message or f"failed expression: {validation.expression.text.strip()}"


_LONGEST = 5 * 1024


def _unvalued(policy: AdmissionPolicy, world: "_World") -> Iterator[Denial]:
    """Audit annotations without a value: they are written nowhere, and refuse as Kubernetes does."""
    for annotation in policy.annotations:
        try:
            value = world.value(annotation)
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
    """Variables of a policy's expressions: each is evaluated at its first use."""

    def __init__(self, policy: AdmissionPolicy, variables: Mapping[str, Any]) -> None:
        self._given = dict(variables)
        self._expressions = dict(policy.variables)
        self._values: dict[str, Any] = {}
        self._errors: dict[str, str] = {}

    def value(self, expression: Expression) -> Any:
        """Its value. Raises EvaluationError."""
        used = used_variables(expression.text)
        for name in used:
            self._work_out(name)
        try:
            return expression.evaluate({**self._given, "variables": self._values})
        except EvaluationError as err:
            for name in used:
                if name in self._errors:
                    message = f'composited variable "{name}" fails to evaluate: {self._errors[name]}'
                    raise EvaluationError(message) from err
            raise

    def _work_out(self, name: str) -> None:
        if name in self._values or name in self._errors or name not in self._expressions:
            return
        try:
            self._values[name] = self.value(self._expressions[name])
        except EvaluationError as err:
            self._errors[name] = str(err)
