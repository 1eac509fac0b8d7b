"""The remedy of a write that the manager's own webhook rejects because a feature gate is off."""

import pytest

from pykruise.kube.errors import ErrorStatus, ForbiddenError, InvalidError
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
