"""Errors of a ContainerRecreateRequest that do not depend on its pod: all in one response, each with its field.

spec ──▶ errors_of() ──▶ field errors

Pure. admission.py finds the errors that depend on the pod.
"""

from collections.abc import Iterator
from typing import Final

from pykruise.kinds.containerrecreaterequest.types import ContainerRecreateRequestSpec
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import make_invalid_error, make_required_error
from pykruise.kube.pod_rules.field_rules import check_not_negative, check_one_of, check_segment

LEAST_DEADLINE_S: Final = 3
POLICIES: Final = ("Fail", "Ignore")


def errors_of(spec: ContainerRecreateRequestSpec) -> Iterator[Cause]:
    """Find all field errors of the request that do not depend on its pod."""
    if not spec.pod_name:
        yield make_required_error("spec.podName")
    yield from check_segment(spec.pod_name, "spec.podName")
    if not spec.containers:
        yield make_required_error("spec.containers")
    deadline = spec.active_deadline_seconds
    if deadline is not None and deadline < LEAST_DEADLINE_S:
        yield make_invalid_error(
            "spec.activeDeadlineSeconds", deadline, f"must be {LEAST_DEADLINE_S} or more"
        )
    yield from check_not_negative(spec.ttl_seconds_after_finished, "spec.ttlSecondsAfterFinished")
    if (strategy := spec.strategy) is not None:
        path = "spec.strategy"
        yield from check_not_negative(
            strategy.termination_grace_period_seconds, f"{path}.terminationGracePeriodSeconds"
        )
        yield from check_not_negative(
            strategy.unready_grace_period_seconds, f"{path}.unreadyGracePeriodSeconds"
        )
        yield from check_not_negative(strategy.min_started_seconds, f"{path}.minStartedSeconds")
        if strategy.failure_policy:
            yield from check_one_of(strategy.failure_policy, f"{path}.failurePolicy", POLICIES)
