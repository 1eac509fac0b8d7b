"""ContainerRecreateRequest shows itself: its fields, verbs and columns, and how far one is.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from typing import Final

from pykruise.plans.progress import Counts, Is, Items, Phase, Positive, Rules, When
from pykruise.plans.shown import Cell, Shown

__all__ = ["SHOWN"]

_STATES: Final = "status.containerRecreateStates"
_FAILED: Final = Items(_STATES, "phase", "Failed")
_SUCCEEDED: Final = Items(_STATES, "phase", "Succeeded")

SHOWN: Final = Shown(
    kind="ContainerRecreateRequest",
    board="jobs",
    place=60,
    is_observed=False,
    progress=Rules(
        rules=(
            When(phase=Phase.FAILED, all=(Is("status.phase", ("Failed",)),)),
            When(phase=Phase.FAILED, all=(Is("status.phase", ("Completed",)), Positive(_FAILED))),
            When(phase=Phase.COMPLETED, all=(Is("status.phase", ("Completed", "Succeeded")),)),
        ),
        otherwise=Phase.PROGRESSING,
        counts=Counts(
            wanted=Items(_STATES),
            active=Items(_STATES, "phase", "Recreating"),
            succeeded=_SUCCEEDED,
            failed=_FAILED,
        ),
        details="{status.message}",
    ),
    columns=(
        Cell("PHASE", "status.phase", "Pending"),
        Cell("COMPLETED", _SUCCEEDED),
        Cell("FAILED", _FAILED),
    ),
)
