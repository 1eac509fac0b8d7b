"""Progress of a job that pulls images on nodes. The rules are the same for one image and for a list of images.

the kind's counts ──▶ pull_rules() ──▶ PhaseRules (plans/progress.py)

Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import get_path
from pykruise.plans.progress import (
    Count,
    Difference,
    Has,
    Is,
    Number,
    Phase,
    PhaseRules,
    Positive,
    ProgressCounts,
    When,
    Zero,
)

_ENDED: Final = Has("status.completionTime")


def pull_rules(*, succeeded: Count, failed: Number, unit: str) -> PhaseRules:
    """Return the rules. `unit` is what is counted: nodes or images."""
    active, desired = Count("status.active"), Count("status.desired")
    done = f"{unit}: {{succeeded}} of {{wanted}}"
    in_part = f"{done}, {{failed}} failed"
    return PhaseRules(
        rules=(
            When(phase=Phase.FAILED, all=(_ENDED, Positive(failed)), details=in_part),
            When(
                phase=Phase.FAILED,
                all=(_ENDED, Zero(desired)),
                details=f"the job has ended, and it selected no {unit}",
            ),
            When(phase=Phase.COMPLETED, all=(_ENDED,)),
            When(phase=Phase.DEGRADED, all=(Positive(failed),), details=in_part),
            When(
                phase=Phase.PROGRESSING,
                all=(Has("status.startTime", is_there=False),),
                details="the job has not started",
            ),
            When(phase=Phase.DEGRADED, all=(Zero(desired),), details=f"the job selects no {unit}"),
            # A job of type Never does not end. When all pulls have succeeded, it is as its spec requests.
            When(
                phase=Phase.HEALTHY,
                all=(
                    Is("spec.completionPolicy.type", ("Never",)),
                    Zero(active),
                    Zero(Difference(desired, succeeded)),
                ),
            ),
        ),
        otherwise=Phase.PROGRESSING,
        counts=ProgressCounts(wanted=desired, active=active, succeeded=succeeded, failed=failed),
        details=done,
    )


def pull_phase(document: Mapping[str, Any]) -> str:
    """Return the phase for the table of jobs: Completed, Running or Pending."""
    if get_path(document, "status", "completionTime"):
        return "Completed"
    return "Running" if get_path(document, "status", "startTime") else "Pending"
