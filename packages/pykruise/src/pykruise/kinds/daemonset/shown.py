"""Presentation of the kind Advanced DaemonSet: its fields, verbs and columns, and the progress of a rollout.

a document ──▶ SHOWN.progress_of() (plans/progress.py)
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import get_path
from pykruise.plans.progress import Count, ProgressCounts, Rollout
from pykruise.plans.shown import TEMPLATE, Cell, Field, Metrics, Shown, Verbs
from pykruise.plans.shown_lines import make_pods_line

_BLOCK: Final = "spec.updateStrategy.rollingUpdate"


def _format_node_selector(document: Mapping[str, Any]) -> str:
    result = get_path(document, "spec", "template", "spec", "nodeSelector")
    return ",".join(f"{key}={result[key]}" for key in sorted(result)) if result else "<none>"


SHOWN: Final = Shown(
    kind="DaemonSet",
    title="Advanced DaemonSet",
    board="rollouts",
    place=30,
    is_per_node=True,
    progress=Rollout(
        counts=ProgressCounts(
            wanted=Count("status.desiredNumberScheduled"),
            updated=Count("status.updatedNumberScheduled"),
            ready=Count("status.numberReady"),
            available=Count("status.numberAvailable"),
        ),
    ),
    line=make_pods_line("Advanced DaemonSet", pods="new", is_per_node=True),
    columns=(
        Cell("DESIRED", "status.desiredNumberScheduled"),
        Cell("CURRENT", "status.currentNumberScheduled"),
        Cell("READY", "status.numberReady"),
        Cell("UP-TO-DATE", "status.updatedNumberScheduled"),
        Cell("AVAILABLE", "status.numberAvailable"),
        Cell("NODE SELECTOR", _format_node_selector),
    ),
    fields={
        "partition": Field(f"{_BLOCK}.partition"),
        "maxUnavailable": Field(f"{_BLOCK}.maxUnavailable"),
        "maxSurge": Field(f"{_BLOCK}.maxSurge"),
        "paused": Field(f"{_BLOCK}.paused"),
    },
    templates=TEMPLATE,
    verbs=Verbs(
        restart="env",
        history="revisions",
        strategy=Field(f"{_BLOCK}.rollingUpdateType"),
        strategies=("Standard", "InPlaceIfPossible", "OnDelete"),
    ),
    metrics=Metrics(
        counts={
            "status_observed_generation": Count("status.observedGeneration"),
            "status_current_number_scheduled": Count("status.currentNumberScheduled"),
            "status_desired_number_scheduled": Count("status.desiredNumberScheduled"),
            "status_number_available": Count("status.numberAvailable"),
            "status_number_misscheduled": Count("status.numberMisscheduled"),
            "status_number_ready": Count("status.numberReady"),
            "status_number_unavailable": Count("status.numberUnavailable"),
            "status_updated_number_scheduled": Count("status.updatedNumberScheduled"),
        },
        texts={"spec_strategy_type": "spec.updateStrategy.type"},
    ),
)
