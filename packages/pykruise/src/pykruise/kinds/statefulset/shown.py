"""Presentation of the kind Advanced StatefulSet: its fields, verbs and columns, and the progress of a set.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from typing import Final

from pykruise.plans.progress import Count, ProgressCounts, Rollout
from pykruise.plans.shown import TEMPLATE, Cell, Field, Metrics, Shown, Verbs
from pykruise.plans.shown_lines import make_revisions_line

_BLOCK: Final = "spec.updateStrategy.rollingUpdate"

SHOWN: Final = Shown(
    kind="StatefulSet",
    title="Advanced StatefulSet",
    board="rollouts",
    place=20,
    progress=Rollout(
        counts=ProgressCounts(
            wanted=Count("spec.replicas", 1),
            updated=Count("status.updatedReplicas"),
            ready=Count("status.readyReplicas"),
            available=Count("status.availableReplicas"),
        ),
    ),
    line=make_revisions_line("Advanced StatefulSet"),
    columns=(
        Cell("DESIRED", "spec.replicas", 1),
        Cell("CURRENT", "status.replicas"),
        Cell("UPDATED", "status.updatedReplicas"),
        Cell("READY", "status.readyReplicas"),
    ),
    fields={
        "replicas": Field("spec.replicas"),
        "partition": Field(f"{_BLOCK}.partition"),
        "maxUnavailable": Field(f"{_BLOCK}.maxUnavailable"),
        "paused": Field(f"{_BLOCK}.paused"),
    },
    templates=TEMPLATE,
    verbs=Verbs(
        restart="env",
        history="revisions",
        scales=True,
        exposes=True,
        victims="reserveOrdinals",
        strategy=Field(f"{_BLOCK}.podUpdatePolicy"),
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
            "status_replicas_current": Count("status.currentReplicas"),
        },
        texts={
            "spec_strategy_type": "spec.updateStrategy.type",
            "status_current_revision": "status.currentRevision",
            "status_update_revision": "status.updateRevision",
        },
    ),
)
