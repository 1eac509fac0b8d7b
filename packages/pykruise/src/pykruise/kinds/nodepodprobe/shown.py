"""Presentation of the kind NodePodProbe: its fields, verbs and columns, and the progress of an object.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from typing import Final

from pykruise.plans.progress import Items, Less, PhaseRules
from pykruise.plans.shown import Cell, Shown

SHOWN: Final = Shown(
    kind="NodePodProbe",
    place=190,
    is_observed=False,
    is_made_for_nodes=True,
    unreported=Less(Items("status.podProbeStatuses"), Items("spec.podProbes")),
    progress=PhaseRules(),
    columns=(Cell("PODS", Items("spec.podProbes")),),
)
