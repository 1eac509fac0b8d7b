"""Presentation of the kind UnitedDeployment: its fields, verbs and columns, and the progress of an object.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from typing import Final

from pykruise.plans.progress import Count, ProgressCounts, Rollout, Sum
from pykruise.plans.shown import Cell, Field, Metrics, Shown, Verbs
from pykruise.plans.shown_lines import make_pods_line

_TEMPLATES: Final = (
    "statefulSetTemplate",
    "advancedStatefulSetTemplate",
    "cloneSetTemplate",
    "deploymentTemplate",
)

SHOWN: Final = Shown(
    kind="UnitedDeployment",
    board="rollouts",
    place=90,
    progress=Rollout(
        counts=ProgressCounts(
            wanted=Count("spec.replicas", Count("status.replicas")),
            updated=Count("status.updatedReplicas"),
            updated_ready=Count("status.updatedReadyReplicas"),
            ready=Count("status.readyReplicas"),
            available=Count("status.readyReplicas"),
        ),
        partitions=Sum("spec.updateStrategy.manualUpdate.partitions"),
    ),
    line=make_pods_line("UnitedDeployment", pods="new"),
    columns=(
        Cell("DESIRED", "spec.replicas", "-"),
        Cell("UPDATED", "status.updatedReplicas"),
        Cell("READY", "status.readyReplicas"),
        Cell("AVAILABLE", "status.updatedReadyReplicas"),
    ),
    fields={"replicas": Field("spec.replicas")},
    partitions=Field("spec.updateStrategy.manualUpdate.partitions"),
    subsets="spec.topology.subsets",
    templates=tuple(f"spec.template.{name}.spec.template" for name in _TEMPLATES),
    verbs=Verbs(restart="env", history="revisions", scales=True),
    metrics=Metrics(
        counts={
            "spec_replicas": Count("spec.replicas"),
            "status_observed_generation": Count("status.observedGeneration"),
            "status_replicas": Count("status.replicas"),
            "status_replicas_ready": Count("status.readyReplicas"),
            "status_replicas_updated": Count("status.updatedReplicas"),
            "status_replicas_updated_ready": Count("status.updatedReadyReplicas"),
        },
    ),
)
