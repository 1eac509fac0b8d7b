"""Presentation of the kind WorkloadSpread: its fields, verbs and columns, and the progress of an object.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from typing import Final

from pykruise.plans.progress import Items, PhaseRules
from pykruise.plans.shown import Cell, Metrics, Shown

SHOWN: Final = Shown(
    kind="WorkloadSpread",
    place=170,
    progress=PhaseRules(),
    columns=(Cell("TARGET", "spec.targetRef.name", "-"), Cell("SUBSETS", Items("spec.subsets"))),
    pods="marked",
    pod_mark="apps.kruise.io/matched-workloadspread",
    metrics=Metrics(
        has_conditions=False,
        items="status.subsetStatuses",
        item_label="subset",
        item_counts={
            "status_subset_replicas": ("replicas", "Its pods."),
            "status_subset_replicas_missing": (
                "missingReplicas",
                "Pods that the subset can still get; -1: no limit.",
            ),
        },
    ),
)
