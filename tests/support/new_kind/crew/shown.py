"""Presentation of the kind Crew: its fields, verbs and columns, and the progress of a Crew.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from typing import Final

from pykruise.plans.progress import Count, ProgressCounts, Rollout
from pykruise.plans.shown import TEMPLATE, Cell, Field, Metrics, Shown, Verbs

__all__ = ["SHOWN"]

SHOWN: Final = Shown(
    kind="Crew",
    board="rollouts",
    progress=Rollout(
        counts=ProgressCounts(
            wanted=Count("spec.size", 1),
            updated=Count("status.size"),
            ready=Count("status.ready"),
            available=Count("status.ready"),
        ),
        details="{ready} of {wanted} are on deck",
    ),
    columns=(Cell("SIZE", "spec.size", 1), Cell("READY", "status.ready")),
    fields={"size": Field("spec.size", "spec.members"), "paused": Field("spec.paused")},
    templates=TEMPLATE,
    verbs=Verbs(restart="env"),
    metrics=Metrics(counts={"status_ready": Count("status.ready")}, has_conditions=False),
)
