"""Presentation of SidecarSets: fields, verbs, columns, and progress.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from typing import Final

from pykruise.plans.progress import Count, ProgressCounts, Rollout
from pykruise.plans.shown import Cell, Field, Metrics, Shown, Verbs
from pykruise.plans.shown_lines import make_pods_line

_STRATEGY: Final = "spec.updateStrategy"

SHOWN: Final = Shown(
    kind="SidecarSet",
    board="rollouts",
    place=100,
    progress=Rollout(
        counts=ProgressCounts(
            wanted=Count("status.matchedPods"),
            updated=Count("status.updatedPods"),
            updated_ready=Count("status.updatedReadyPods"),
            ready=Count("status.readyPods"),
            available=Count("status.readyPods"),
        ),
    ),
    line=make_pods_line(
        "SidecarSet",
        pods="matched",
        done=lambda progress: (
            f": {progress.wanted} matched, {progress.updated} updated, {progress.updated_ready} ready"
        ),
    ),
    columns=(
        Cell("MATCHED", "status.matchedPods"),
        Cell("UPDATED", "status.updatedPods"),
        Cell("READY", "status.readyPods"),
        Cell("INJECTED", "status.matchedPods"),
    ),
    fields={
        "partition": Field(f"{_STRATEGY}.partition"),
        "maxUnavailable": Field(f"{_STRATEGY}.maxUnavailable"),
        "paused": Field(f"{_STRATEGY}.paused"),
    },
    pod_spec="spec",
    verbs=Verbs(
        history="revisions",
        restored="spec",
        revision_label="kruise.io/sidecarset-name",
        strategy=Field(f"{_STRATEGY}.type"),
        strategies=("RollingUpdate", "NotUpdate"),
    ),
    pods="selected",
    pod_mark="kruise.io/sidecarset",
    metrics=Metrics(
        counts={
            "status_observed_generation": Count("status.observedGeneration"),
            "status_replicas_matched": Count("status.matchedPods"),
            "status_replicas_updated": Count("status.updatedPods"),
            "status_replicas_ready": Count("status.readyPods"),
            "status_replicas_updated_ready": Count("status.updatedReadyPods"),
        },
        texts={"spec_strategy_type": "spec.updateStrategy.type"},
    ),
)
