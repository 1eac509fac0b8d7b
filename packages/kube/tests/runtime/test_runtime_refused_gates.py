"""Remedies of writes that the manager's own webhooks reject: a feature gate is off, a budget allows no disruption."""

import pytest

from pykruise.kube.errors import (
    DISRUPTION_BUDGET,
    REMEDY,
    Cause,
    ErrorStatus,
    ForbiddenError,
    InvalidError,
    StatusDetails,
)
from pykruise.runtime.reasons import WriteFault
from pykruise.runtime.refusals import explain_error, split_remedy

REJECTED = (
    'admission webhook "vimagelistpulljob-v1beta1.kb.io" denied the request: feature-gate ImagePullJobGate is not'
    " enabled"
)


@pytest.mark.parametrize("kind", [ForbiddenError, InvalidError])
def test_the_remedy_names_the_gate_and_where_it_is_set(kind: type[ForbiddenError | InvalidError]) -> None:
    error = kind(ErrorStatus(message=REJECTED))

    code, remedy = explain_error(error, unknown=WriteFault.WRITE_FAILED, namespace="shop")

    assert code is WriteFault.WEBHOOK
    assert "add ImagePullJobGate=true to --feature-gates (of Deployment kruise-controller-manager" in remedy
    assert split_remedy(f"{error}; {remedy}", namespace="shop") == (str(error), remedy)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ((), "wait until more pods of the budget serve, or change the budget to allow more"),
        ((Cause(reason=REMEDY, message="raise maxUnavailable"),), "raise maxUnavailable"),
    ],
    ids=["an API server", "the manager's webhook"],
)
def test_the_statement_of_a_budget_is_not_shown_as_a_remedy(more: tuple[Cause, ...], expected: str) -> None:
    statement = "The disruption budget x needs 2 healthy pods and has 2 currently"
    details = StatusDetails(causes=(Cause(reason=DISRUPTION_BUDGET, message=statement), *more))
    error = ForbiddenError(ErrorStatus(message="Cannot evict pod", details=details))

    answer = explain_error(error, unknown=WriteFault.WRITE_FAILED, namespace="shop")

    assert answer == (WriteFault.DISRUPTION_REFUSED, expected)
