"""HorizontalPodAutoscalers: they scale their target by a metric from an annotation, because simulated pods use no
resources.

annotation sandbox.pykruise.io/metric ──▶ compute_wanted_replicas() ──▶ PATCH <workload>/scale, and the status

The annotation has the current value of the metric, as an average over the pods: a percentage of their requests, or a
quantity of the metric (`150m`). This is the rule of Kubernetes' horizontal controller with one metric, but without
delays (windows, policies): every 15 seconds the controller adapts the scale to the metric.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pykruise.kube.cache.cache import Change
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ApiError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.resources import HORIZONTAL_POD_AUTOSCALERS, Resource
from pykruise.kube.values.quantities import parse_quantity
from pykruise.runtime.actions import Patch
from pykruise.runtime.control import Control
from pykruise.runtime.objects import DocumentView
from pykruise.runtime.operator import Work
from pykruise.runtime.plan import Plan, Step
from pykruise.runtime.read import Around, Read
from pykruise.runtime.wakes import Wake
from pykruise.sandbox.controllers.pods import make_document_views
from pykruise.sandbox.controllers.steps import make_normal_note, run_in_order, write_status
from pykruise.sandbox.inventory import discover

METRIC: Final = "sandbox.pykruise.io/metric"
"""Annotation of a HorizontalPodAutoscaler with the current value of its metric."""

TOLERANCE: Final = 0.1
"""Largest relative difference between metric and target that causes no scaling."""

EVERY_S: Final = 15.0


def compute_wanted_replicas(spec: Mapping[str, Any], *, current: int, metric: str) -> int:
    """Return the number of pods that the autoscaler wants when there are `current` pods. Without a valid metric, the
    result is `current`, but at least minReplicas and at most maxReplicas.
    """
    target, value = _find_target(spec), _parse_number(metric)
    wanted = current
    if target and value is not None and current:
        ratio = value / target
        if abs(ratio - 1) > TOLERANCE:
            wanted = math.ceil(current * ratio)
    if not current:
        return 0  # scaled to 0 manually, which disables the autoscaler
    least, most = int(spec.get("minReplicas") or 1), int(spec["maxReplicas"])
    return max(least, min(wanted, most))


def read_current_metrics(spec: Mapping[str, Any], *, metric: str) -> list[Document] | None:
    """The first metric as the status shows it; None when the annotation has no valid value."""
    value, metrics = _parse_number(metric), spec.get("metrics") or ()
    if value is None or not metrics:
        return None
    kind = str(metrics[0]["type"])
    field = kind[:1].lower() + kind[1:]
    source = {name: metric for name, metric in metrics[0][field].items() if name != "target"}
    target = metrics[0][field]["target"]
    if target.get("averageUtilization") is not None:
        result: Document = {"averageUtilization": round(value)}
    else:
        result = {"averageValue" if "averageValue" in target else "value": metric}
    return [{"type": kind, field: {**source, "current": result}}]


def _find_target(spec: Mapping[str, Any]) -> float | None:
    """Target of the first metric; without metrics, 80 percent of the requested CPU."""
    for metric in spec.get("metrics") or ():
        for source in metric.values():
            result = source.get("target") if isinstance(source, Mapping) else None
            if result:
                said = result.get("averageUtilization", result.get("averageValue", result.get("value")))
                return _parse_number(str(said))
    return 80.0


def _parse_number(text: str) -> float | None:
    try:
        return float(parse_quantity(text))
    except ValueError:
        return None


def _build_status_without_scale(autoscaler: DocumentView, message: str, now: Instant) -> Document:
    if any(condition.get("message") == message for condition in autoscaler.status.get("conditions") or ()):
        return autoscaler.status
    condition = {
        "type": "AbleToScale",
        "status": "False",
        "reason": "FailedGetScale",
        "message": message,
        "lastTransitionTime": format_time(now),
    }
    return {"desiredReplicas": 0, "currentMetrics": None, "conditions": [condition]}


class Scaled(msgspec.Struct, frozen=True, kw_only=True):
    """Object that an autoscaler scales."""

    resource: Resource
    key: Key
    replicas: int


class AutoscalerSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """All that a decision about one autoscaler needs."""

    autoscaler: DocumentView
    scaled: Scaled | None
    problem: str = ""
    """The reason why the scale of the target cannot be read."""
    now: Instant


async def read_snapshot(autoscaler: DocumentView, read: Read[Any]) -> AutoscalerSnapshot | None:
    """Read the target's scale from the API server, because the target can be of any kind."""
    if autoscaler.is_deleting:
        return None
    try:
        scaled = await _read_scale(autoscaler, read)
    except (ApiError, LookupError) as error:
        return AutoscalerSnapshot(autoscaler=autoscaler, scaled=None, problem=str(error), now=read.now())
    return AutoscalerSnapshot(autoscaler=autoscaler, scaled=scaled, now=read.now())


async def _read_scale(autoscaler: DocumentView, read: Read[Any]) -> Scaled:
    """Read the target's scale. Raises LookupError when the kind does not exist, ApiError when the object cannot be
    read.
    """
    target = autoscaler.spec["scaleTargetRef"]
    inventory = await discover(read.live)
    resource = inventory.find(api_version=target.get("apiVersion", ""), kind=target["kind"])
    if resource is None:
        raise LookupError(f"no matches for kind {target['kind']}")
    key = Key(autoscaler.namespace, target["name"])
    scale = decode(await read.live.get(resource, key.namespace, key.name, subresource="scale"))
    return Scaled(resource=resource, key=key, replicas=int((scale.get("spec") or {}).get("replicas") or 0))


def plan_autoscaler(snapshot: AutoscalerSnapshot) -> Plan:
    """Scale the target if the metric requires it, then write the status."""
    autoscaler, scaled = snapshot.autoscaler, snapshot.scaled
    if scaled is None:
        status = _build_status_without_scale(autoscaler, snapshot.problem, snapshot.now)
        return Plan(status=status, requeue_after_s=EVERY_S)
    metric = autoscaler.annotations.get(METRIC, "")
    wanted = compute_wanted_replicas(autoscaler.spec, current=scaled.replicas, metric=metric)
    status = {
        "currentReplicas": scaled.replicas,
        "desiredReplicas": wanted,
        "currentMetrics": read_current_metrics(autoscaler.spec, metric=metric),
    }
    if wanted == scaled.replicas:
        if "lastScaleTime" in autoscaler.status:
            status["lastScaleTime"] = autoscaler.status["lastScaleTime"]
        return Plan(status=status, requeue_after_s=EVERY_S)
    status["lastScaleTime"] = format_time(snapshot.now)
    steps = (
        _build_scale_step(scaled, wanted, metric),
        write_status(
            HORIZONTAL_POD_AUTOSCALERS,
            autoscaler,
            status,
            because="the status must show the metric and the wanted replicas",
        ),
    )
    return Plan(stages=run_in_order("scale", steps), requeue_after_s=EVERY_S)


def _build_scale_step(scaled: Scaled, wanted: int, metric: str) -> Step:
    action = Patch(
        resource=scaled.resource,
        key=scaled.key,
        patch_type=PatchType.MERGE,
        body={"spec": {"replicas": wanted}},
        subresource="scale",
    )
    done = make_normal_note(
        "SuccessfulRescale", f"New size: {wanted}; reason: the metric is {metric or 'unknown'}"
    )
    return Step(action=action, because="the metric differs from its target", done=done)


AUTOSCALER_VIEWS: Final = make_document_views(HORIZONTAL_POD_AUTOSCALERS)


def _enqueue_changed_autoscaler(change: Change[DocumentView], _: Around[Any]) -> tuple[Key, ...]:
    """Enqueue a changed autoscaler. A change of only the status enqueues nothing: before the next decision, the average
    must include the new pods.
    """
    old, new = change.old, change.new
    if old is None or new is None or (old.spec, old.annotations) != (new.spec, new.annotations):
        return (change.key,)
    return ()


WORK: Final = Work(
    resource=HORIZONTAL_POD_AUTOSCALERS,
    control=Control(
        name="horizontalpodautoscaling",
        component="horizontal-pod-autoscaler",
        objects=AUTOSCALER_VIEWS,
        wakes=lambda _: (Wake(on=AUTOSCALER_VIEWS, keys=_enqueue_changed_autoscaler),),
        snapshot=read_snapshot,
        object_of=lambda snapshot: snapshot.autoscaler,
        plan=plan_autoscaler,
    ),
)
