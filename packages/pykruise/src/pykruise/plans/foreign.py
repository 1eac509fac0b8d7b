"""Other kinds that `kubectl kruise` and the dashboard show in the same way as ours: Kubernetes' own, and Rollouts.

FOREIGN ──▶ kinds.shown_of(): a declaration (plans/shown.py), as for our kinds

Pure. For the kinds of Kubernetes, the lines are the same as those of kubectl.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pykruise.kube.documents import get_path
from pykruise.kube.values.go_text import quote_text
from pykruise.plans.progress import (
    Count,
    Differs,
    Has,
    Is,
    Less,
    Phase,
    PhaseRules,
    Progress,
    ProgressCounts,
    Rollout,
    When,
)
from pykruise.plans.shown import TEMPLATE, Cell, Field, Shown, Verbs
from pykruise.plans.shown_lines import make_pods_line

ROLLOUTS: Final = "rollouts.kruise.io"
"""API group of OpenKruise's Rollouts, which are a separate project."""

Document = Mapping[str, Any]

_BLOCK: Final = "spec.updateStrategy.rollingUpdate"


def _format_deployment_line(document: Document, progress: Progress) -> str:
    what = f"deployment {quote_text(document['metadata']['name'])}"
    waiting = f"Waiting for {what} rollout to finish: "
    if progress.is_done:
        return f"{what} successfully rolled out"
    if progress.updated < progress.wanted:
        return f"{waiting}{progress.updated} out of {progress.wanted} new replicas have been updated..."
    if (total := Count("status.replicas").of(document)) > progress.updated:
        return f"{waiting}{total - progress.updated} old replicas are pending termination..."
    return f"{waiting}{progress.available} of {progress.updated} updated replicas are available..."


def _format_statefulset_line(document: Document, progress: Progress) -> str:
    status = document.get("status") or {}
    if progress.ready < progress.wanted:
        return f"Waiting for {progress.wanted - progress.ready} pods to be ready..."
    target = progress.wanted - progress.kept
    if get_path(document, "spec", "updateStrategy", "rollingUpdate") is not None:
        if progress.updated < target:
            done = f"{progress.updated} out of {target} new pods have been updated..."
            return f"Waiting for partitioned roll out to finish: {done}"
        return f"partitioned roll out complete: {progress.updated} new pods have been updated..."
    if status.get("updateRevision") != status.get("currentRevision"):
        pods = f"{progress.updated} pods at revision {status.get('updateRevision', '')}"
        return f"waiting for statefulset rolling update to complete {pods}..."
    pods = f"{status.get('currentReplicas', 0)} pods at revision {status.get('currentRevision', '')}"
    return f"statefulset rolling update complete {pods}..."


def current_step_of(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a Rollout's status that describes the current step; empty if the Rollout is in no step."""
    status = document.get("status") or {}
    part: Mapping[str, Any] = status.get("canaryStatus") or status.get("blueGreenStatus") or {}
    return part


def _format_rollout_line(document: Document, progress: Progress) -> str:
    name, status = quote_text(document["metadata"]["name"]), document.get("status") or {}
    phase = status.get("phase") or "Initial"
    if progress.is_done:
        return f"rollout {name} is {phase.lower()}"
    part = current_step_of(document)
    step = part.get("currentStepIndex", 0)
    where = f"step {step}, {part.get('currentStepState') or 'not begun'}" if part else phase
    text = f"Waiting for rollout {name} to finish: {phase}, {where}..."
    return f"{text} {status['message']}" if status.get("message") else text


def _make_step_reader(name: str) -> Callable[[Document], Any]:
    return lambda document: current_step_of(document).get(name) or "-"


_DEPLOYMENT: Final = Shown(
    group="apps",
    kind="Deployment",
    title="deployment",
    board="rollouts",
    progress=Rollout(
        counts=ProgressCounts(
            wanted=Count("spec.replicas", 1),
            updated=Count("status.updatedReplicas"),
            ready=Count("status.readyReplicas"),
            available=Count("status.availableReplicas"),
        ),
        pending=(Less(Count("status.updatedReplicas"), Count("status.replicas")),),
    ),
    line=_format_deployment_line,
    fields={
        "replicas": Field("spec.replicas"),
        "paused": Field("spec.paused"),
        "maxUnavailable": Field("spec.strategy.rollingUpdate.maxUnavailable"),
        "maxSurge": Field("spec.strategy.rollingUpdate.maxSurge"),
    },
    templates=TEMPLATE,
    verbs=Verbs(
        resumed=None,
        restart="annotation",
        history="replicasets",
        scales=True,
        exposes=True,
        strategy=Field("spec.strategy.type"),
        strategies=("RollingUpdate", "Recreate"),
    ),
)

_STATEFUL_SET: Final = Shown(
    group="apps",
    kind="StatefulSet",
    title="statefulset",
    board="rollouts",
    progress=Rollout(
        counts=ProgressCounts(
            wanted=Count("spec.replicas", 1),
            updated=Count("status.updatedReplicas"),
            ready=Count("status.readyReplicas"),
            available=Count("status.readyReplicas"),
        ),
        pending=(
            Has("spec.updateStrategy.rollingUpdate", is_there=False),
            Differs("status.updateRevision", "status.currentRevision"),
        ),
    ),
    line=_format_statefulset_line,
    fields={
        "replicas": Field("spec.replicas"),
        "partition": Field(f"{_BLOCK}.partition"),
        "maxUnavailable": Field(f"{_BLOCK}.maxUnavailable"),
    },
    templates=TEMPLATE,
    verbs=Verbs(
        restart="annotation",
        history="revisions",
        scales=True,
        strategy=Field("spec.updateStrategy.type"),
        strategies=("RollingUpdate", "OnDelete"),
    ),
)

_DAEMON_SET: Final = Shown(
    group="apps",
    kind="DaemonSet",
    title="daemon set",
    board="rollouts",
    is_per_node=True,
    progress=Rollout(
        counts=ProgressCounts(
            wanted=Count("status.desiredNumberScheduled"),
            updated=Count("status.updatedNumberScheduled"),
            ready=Count("status.numberReady"),
            available=Count("status.numberAvailable"),
        ),
    ),
    line=make_pods_line("daemon set", pods="new", is_per_node=True),
    fields={
        "maxUnavailable": Field(f"{_BLOCK}.maxUnavailable"),
        "maxSurge": Field(f"{_BLOCK}.maxSurge"),
    },
    templates=TEMPLATE,
    verbs=Verbs(
        restart="annotation",
        history="revisions",
        strategy=Field("spec.updateStrategy.type"),
        strategies=("RollingUpdate", "OnDelete"),
    ),
)

_ROLLOUT: Final = Shown(
    group=ROLLOUTS,
    kind="Rollout",
    board="rollouts",
    place=40,
    progress=PhaseRules(
        rules=(
            When(phase=Phase.HEALTHY, all=(Is("status.phase", ("Healthy", "Disabled")),)),
            When(phase=Phase.PAUSED, all=(Is("status.canaryStatus.currentStepState", ("StepPaused",)),)),
            When(phase=Phase.PAUSED, all=(Is("status.blueGreenStatus.currentStepState", ("StepPaused",)),)),
        ),
        otherwise=Phase.PROGRESSING,
    ),
    line=_format_rollout_line,
    columns=(
        Cell("STATUS", "status.phase", "-"),
        Cell("CANARY_STEP", _make_step_reader("currentStepIndex")),
        Cell("CANARY_STATE", _make_step_reader("currentStepState")),
        Cell("MESSAGE", "status.message", "-"),
    ),
    fields={"paused": Field("spec.strategy.paused")},
)

FOREIGN: Final = (
    _DEPLOYMENT,
    _STATEFUL_SET,
    _DAEMON_SET,
    Shown(group="apps", kind="ReplicaSet", templates=TEMPLATE, verbs=Verbs(exposes=True)),
    Shown(group="", kind="ReplicationController", templates=TEMPLATE, verbs=Verbs(exposes=True)),
    Shown(group="", kind="Pod", pod_spec="spec", verbs=Verbs(exposes=True)),
    Shown(group="", kind="Service", verbs=Verbs(exposes=True)),
    Shown(group="batch", kind="Job", templates=TEMPLATE),
    Shown(group="batch", kind="CronJob", templates=("spec.jobTemplate.spec.template",)),
    _ROLLOUT,
)
"""Declarations of all kinds that are not ours."""
