"""HorizontalPodAutoscalers: they scale what they name by a metric that a script says, as pods here use nothing.

annotation sandbox.pykruise.io/metric ──▶ wanted_replicas() ──▶ PATCH <workload>/scale, and the status

The annotation has the present value of the metric, an average over the pods: percent of what they ask for, or an amount
of the metric (`150m`). Rule: Kubernetes' horizontal controller with one metric. What makes it wait (windows,
policies) is not here: it looks every 15 seconds, and goes where the metric says.
"""

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from pykruise.kube.cache import Change
from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document, decode
from pykruise.kube.errors import ApiError, NotFoundError
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.quantities import parse_quantity
from pykruise.kube.resources import Resource
from pykruise.runtime.objects import DocumentView
from pykruise.sandbox.controllers.base import Loop, Shared
from pykruise.sandbox.inventory import discover

__all__ = ["AUTOSCALERS", "METRIC", "Autoscalers", "current_metrics", "wanted_replicas"]

AUTOSCALERS: Final = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")

METRIC: Final = "sandbox.pykruise.io/metric"
"""Annotation of a HorizontalPodAutoscaler: what its metric is now."""

TOLERANCE: Final = 0.1
"""How far from its target the metric may be without a change."""

EVERY_S: Final = 15.0


def wanted_replicas(spec: Mapping[str, Any], *, current: int, metric: str) -> int:
    """How many pods the autoscaler wants where there are `current`. Without a metric that can be read: as many as
    there are, within its bounds."""
    target, value = _target(spec), _number(metric)
    wanted = current
    if target and value is not None and current:
        ratio = value / target
        if abs(ratio - 1) > TOLERANCE:
            wanted = math.ceil(current * ratio)
    if not current:
        return 0  # scaled to nothing by hand: it is off
    least, most = int(spec.get("minReplicas") or 1), int(spec["maxReplicas"])
    return max(least, min(wanted, most))


def current_metrics(spec: Mapping[str, Any], *, metric: str) -> list[Document] | None:
    """The metric as the status shows it, which is its first; None where it is not said."""
    value, metrics = _number(metric), spec.get("metrics") or ()
    if value is None or not metrics:
        return None
    kind = str(metrics[0]["type"])
    field = kind[:1].lower() + kind[1:]
    source = {name: one for name, one in metrics[0][field].items() if name != "target"}
    target = metrics[0][field]["target"]
    if target.get("averageUtilization") is not None:
        found: Document = {"averageUtilization": round(value)}
    else:
        found = {"averageValue" if "averageValue" in target else "value": metric}
    return [{"type": kind, field: {**source, "current": found}}]


def _target(spec: Mapping[str, Any]) -> float | None:
    """Of its first metric; 80 percent of the CPU where it has none."""
    for metric in spec.get("metrics") or ():
        for source in metric.values():
            found = source.get("target") if isinstance(source, Mapping) else None
            if found:
                said = found.get("averageUtilization", found.get("averageValue", found.get("value")))
                return _number(str(said))
    return 80.0


def _number(text: str) -> float | None:
    try:
        return float(parse_quantity(text))
    except ValueError:
        return None


class Autoscalers(Loop):
    """Scales workloads of any kind that has a scale."""

    name = "horizontalpodautoscaling"
    component = "horizontal-pod-autoscaler"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.cache = shared.cache(AUTOSCALERS)
        self.cache.subscribe(self._on_autoscaler)

    def _on_autoscaler(self, change: Change[DocumentView]) -> None:
        """Its own status wakes it only with the next look: pods that have just come change the average first."""
        old, new = change.old, change.new
        if old is None or new is None or (old.spec, old.annotations) != (new.spec, new.annotations):
            self.queue.add(change.key)

    async def sync(self, key: Key) -> float | None:
        autoscaler = self.cache.get(key)
        if autoscaler is None or autoscaler.is_deleting:
            return None
        try:
            resource, scale = await self._scale_of(autoscaler)
        except (ApiError, LookupError) as error:
            await self._report(autoscaler, _unable(autoscaler, str(error), self.clock()))
            return EVERY_S
        current = int((scale.get("spec") or {}).get("replicas") or 0)
        metric = autoscaler.annotations.get(METRIC, "")
        wanted = wanted_replicas(autoscaler.spec, current=current, metric=metric)
        status: Document = {
            "currentReplicas": current,
            "desiredReplicas": wanted,
            "currentMetrics": current_metrics(autoscaler.spec, metric=metric),
        }
        if wanted != current:
            name = autoscaler.spec["scaleTargetRef"]["name"]
            await self.shared.client.patch(
                resource,
                key.namespace,
                name,
                {"spec": {"replicas": wanted}},
                patch_type=PatchType.MERGE,
                subresource="scale",
            )
            text = f"New size: {wanted}; reason: the metric is {metric or 'not said'}"
            self.tell(AUTOSCALERS, autoscaler, "SuccessfulRescale", text)
            status["lastScaleTime"] = format_time(self.clock())
        elif "lastScaleTime" in autoscaler.status:
            status["lastScaleTime"] = autoscaler.status["lastScaleTime"]
        await self._report(autoscaler, status)
        return EVERY_S

    async def _scale_of(self, autoscaler: DocumentView) -> tuple[Resource, Document]:
        """Raises LookupError for a kind that is not there, ApiError for an object."""
        target = autoscaler.spec["scaleTargetRef"]
        inventory = await discover(self.shared.client)
        resource = inventory.find(api_version=target.get("apiVersion", ""), kind=target["kind"])
        if resource is None:
            raise LookupError(f"no matches for kind {target['kind']}")
        raw = await self.shared.client.get(
            resource, autoscaler.namespace, target["name"], subresource="scale"
        )
        return resource, decode(raw)

    async def _report(self, autoscaler: DocumentView, status: Document) -> None:
        with suppress(NotFoundError):
            await self.shared.patch_status(AUTOSCALERS, autoscaler, status)


def _unable(autoscaler: DocumentView, message: str, now: Instant) -> Document:
    if any(one.get("message") == message for one in autoscaler.status.get("conditions") or ()):
        return autoscaler.status
    condition = {
        "type": "AbleToScale",
        "status": "False",
        "reason": "FailedGetScale",
        "message": message,
        "lastTransitionTime": format_time(now),
    }
    return {"desiredReplicas": 0, "currentMetrics": None, "conditions": [condition]}
