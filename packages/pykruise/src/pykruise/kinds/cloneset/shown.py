"""Presentation of the kind CloneSet: its fields, verbs and columns, and the progress of a CloneSet.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from typing import Final

from pykruise.plans.progress import Count, Difference, ProgressCounts, Rollout
from pykruise.plans.shown import TEMPLATE, Cell, Field, Metrics, Shown, Verbs
from pykruise.plans.shown_lines import make_revisions_line

_BLOCK: Final = "spec.updateStrategy.rollingUpdate"
_OLD: Final = "spec.updateStrategy"

SHOWN: Final = Shown(
    kind="CloneSet",
    board="rollouts",
    place=10,
    progress=Rollout(
        counts=ProgressCounts(
            wanted=Count("spec.replicas", 1),
            updated=Count("status.updatedReplicas"),
            updated_ready=Count("status.updatedReadyReplicas"),
            ready=Count("status.readyReplicas"),
            available=Count("status.availableReplicas"),
        ),
    ),
    line=make_revisions_line("CloneSet", has_ready=True),
    columns=(
        Cell("DESIRED", "spec.replicas", 1),
        Cell("UPDATED", "status.updatedReplicas"),
        Cell("UPDATED_READY", "status.updatedReadyReplicas"),
        Cell("UPDATED_AVAILABLE", "status.updatedAvailableReplicas"),
        Cell("READY", "status.readyReplicas"),
        Cell("TOTAL", "status.replicas"),
    ),
    fields={
        "replicas": Field("spec.replicas"),
        "partition": Field(f"{_BLOCK}.partition", f"{_OLD}.partition"),
        "maxUnavailable": Field(f"{_BLOCK}.maxUnavailable", f"{_OLD}.maxUnavailable"),
        "maxSurge": Field(f"{_BLOCK}.maxSurge", f"{_OLD}.maxSurge"),
        "paused": Field(f"{_BLOCK}.paused", f"{_OLD}.paused"),
    },
    templates=TEMPLATE,
    verbs=Verbs(
        restart="env",
        history="revisions",
        scales=True,
        exposes=True,
        victims="podsToDelete",
        strategy=Field(f"{_BLOCK}.podUpdatePolicy", f"{_OLD}.type"),
        strategies=("ReCreate", "InPlaceIfPossible", "InPlaceOnly", "OnDelete"),
    ),
    metrics=Metrics(
        counts={
            "spec_replicas": Count("spec.replicas"),
            "status_observed_generation": Count("status.observedGeneration"),
            "status_replicas": Count("status.replicas"),
            "status_replicas_available": Count("status.availableReplicas"),
            "status_replicas_ready": Count("status.readyReplicas"),
            "status_replicas_updated": Count("status.updatedReplicas"),
            "status_replicas_unavailable": Difference(
                Count("status.replicas"), Count("status.availableReplicas")
            ),
            "status_replicas_updated_ready": Count("status.updatedReadyReplicas"),
        },
        texts={"spec_strategy_type": "spec.updateStrategy.type"},
    ),
)
