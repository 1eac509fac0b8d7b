"""Presentation of the kind PersistentPodState: its fields, verbs and columns, and the progress of an object.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from typing import Final

from pykruise.plans.progress import Items, PhaseRules
from pykruise.plans.shown import Cell, Shown

SHOWN: Final = Shown(
    kind="PersistentPodState",
    place=180,
    progress=PhaseRules(),
    columns=(Cell("TARGET", "spec.targetRef.name", "-"), Cell("PODS", Items("status.podStates"))),
)
