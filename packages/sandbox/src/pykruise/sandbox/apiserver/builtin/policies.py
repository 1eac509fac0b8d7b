"""Rules of kinds that govern other objects: disruption budgets, autoscalers, leases and priorities.

    an object as sent ──▶ …Strategy ──▶ the object as stored, or Causes

Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    make_forbidden_error,
    make_invalid_error,
    make_invalid_shown_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.pod_rules.field_rules import (
    Causes,
    check_at_most_100_percent,
    check_immutable,
    check_int_or_percent,
    check_label,
    check_not_negative,
    check_one_of,
    check_selector,
)
from pykruise.sandbox.apiserver.builtin.strategy import BuiltinStrategy

Doc = Mapping[str, Any]


class PodDisruptionBudgetStrategy(BuiltinStrategy):
    """PodDisruptionBudgets."""

    tracks_generation = True
    has_status = True
    allows_unconditional_update = False

    def prepare_create(self, doc: Document) -> Document:
        zero = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
        doc["status"] = dict.fromkeys(zero, 0)
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_budget(doc.get("spec") or {}))

    def validate_status_update(self, new: Document, old: Document) -> list[Cause]:
        causes: list[Cause] = []
        for field in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
            causes += check_not_negative((new.get("status") or {}).get(field), f"status.{field}")
        return causes


def _check_budget(spec: Doc) -> Causes:
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        text = "policy.PodDisruptionBudgetSpec{…}"
        yield make_invalid_shown_error("spec", text, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        yield from check_int_or_percent(spec.get(field), f"spec.{field}")
        yield from check_at_most_100_percent(spec.get(field), f"spec.{field}")
    yield from check_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in ("AlwaysAllow", "IfHealthyBudget"):
        yield make_not_supported_error(
            "spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget")
        )


class HorizontalPodAutoscalerStrategy(BuiltinStrategy):
    """HorizontalPodAutoscalers; they have a generation since Kubernetes 1.37."""

    has_status = True

    def is_spec_changed(self, new: Document, old: Document) -> bool | None:
        return new.get("spec") != old.get("spec") if self.release.is_at_least("1.37") else None

    def prepare_create(self, doc: Document) -> Document:
        doc["status"] = {"currentMetrics": None, "desiredReplicas": 0}
        return doc

    def default(self, doc: Document) -> Document:
        spec = doc.setdefault("spec", {})
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        if not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": 80}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
        behavior = spec.get("behavior")
        if behavior is not None:
            for direction, rules in _SCALING_RULES.items():
                given = behavior.get(direction) or {}
                behavior[direction] = {
                    **rules,
                    **{name: value for name, value in given.items() if value is not None},
                }
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        spec = doc.get("spec") or {}
        return [*_check_autoscaler(spec), *self._check_target(spec)]

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        spec, before = new.get("spec") or {}, old.get("spec") or {}
        kept = spec.get("scaleTargetRef") == before.get("scaleTargetRef")
        return [*_check_autoscaler(spec), *(() if kept else self._check_target(spec))]

    def _check_target(self, spec: Doc) -> Causes:
        """Check that the target's apiVersion names a group. Older API servers store a target that cannot be found."""
        version = (spec.get("scaleTargetRef") or {}).get("apiVersion") or ""
        if self.release.is_at_least("1.37") and "/" not in version:
            detail = "apiVersion must specify API group"
            yield make_invalid_error("spec.scaleTargetRef.apiVersion", version, detail)

    def validate_status_update(self, new: Document, old: Document) -> list[Cause]:
        status = new.get("status") or {}
        counts = ((name, status.get(name) or 0) for name in ("currentReplicas", "desiredReplicas"))
        return [cause for name, count in counts for cause in check_not_negative(count, f"status.{name}")]


_EVERY_15_S: Final = {"type": "Percent", "value": 100, "periodSeconds": 15}
_SCALING_RULES: Final[Mapping[str, Doc]] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _EVERY_15_S],
    },
    "scaleDown": {"selectPolicy": "Max", "policies": [_EVERY_15_S]},
}
"""Defaults of `behavior`."""
_LONGEST_WINDOW_S: Final = 3600
_LONGEST_PERIOD_S: Final = 1800

_METRIC_SOURCES: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}


def _check_autoscaler(spec: Doc) -> Causes:
    least, most = spec.get("minReplicas", 1), spec.get("maxReplicas") or 0
    if least < 0:
        yield make_invalid_error("spec.minReplicas", least, "must be greater than or equal to 0")
    if most < 1:
        yield make_invalid_error("spec.maxReplicas", most, "must be greater than 0")
    if most < least:
        text = "must be greater than or equal to `minReplicas`"
        yield make_invalid_error("spec.maxReplicas", most, text)
    target = spec.get("scaleTargetRef") or {}
    for field in ("kind", "name"):
        said = target.get(field)
        if not said:
            yield make_required_error(f"spec.scaleTargetRef.{field}", "")
        elif "/" in said:
            yield make_invalid_error(f"spec.scaleTargetRef.{field}", said, "may not contain '/'")
    metrics = spec.get("metrics") or ()
    for number, metric in enumerate(metrics):
        yield from _check_metric(metric, f"spec.metrics[{number}]")
    if least == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield make_forbidden_error("spec.metrics", text)
    yield from _check_behavior(spec.get("behavior") or {})


def _check_behavior(behavior: Doc) -> Causes:
    for direction in ("scaleUp", "scaleDown"):
        rules = behavior.get(direction)
        if rules is None:
            continue
        path = f"spec.behavior.{direction}"
        window = rules.get("stabilizationWindowSeconds") or 0
        if window < 0:
            detail = "must be greater than or equal to zero"
            yield make_invalid_error(f"{path}.stabilizationWindowSeconds", window, detail)
        if window > _LONGEST_WINDOW_S:
            detail = f"must be less than or equal to {_LONGEST_WINDOW_S}"
            yield make_invalid_error(f"{path}.stabilizationWindowSeconds", window, detail)
        choice = rules.get("selectPolicy")
        if choice is not None:
            yield from check_one_of(choice, f"{path}.selectPolicy", ("Disabled", "Max", "Min"))
        for number, policy in enumerate(rules.get("policies") or ()):
            yield from _check_scaling_policy(policy, f"{path}.policies[{number}]")


def _check_scaling_policy(policy: Doc, path: str) -> Causes:
    yield from check_one_of(policy.get("type"), f"{path}.type", ("Percent", "Pods"))
    period = policy.get("periodSeconds") or 0
    for field, number in (("value", policy.get("value") or 0), ("periodSeconds", period)):
        if number <= 0:
            yield make_invalid_error(f"{path}.{field}", number, "must be greater than zero")
    if period > _LONGEST_PERIOD_S:
        detail = f"must be less than or equal to {_LONGEST_PERIOD_S}"
        yield make_invalid_error(f"{path}.periodSeconds", period, detail)


def _check_metric(metric: Doc, path: str) -> Causes:
    kind = metric.get("type")
    if kind not in _METRIC_SOURCES:
        yield make_not_supported_error(f"{path}.type", kind, tuple(_METRIC_SOURCES))
        return
    field = _METRIC_SOURCES[kind]
    source = metric.get(field)
    if not source:
        yield make_required_error(f"{path}.{field}", "must populate information for the given metric source")
        return
    target = source.get("target") or {}
    if kind in ("Resource", "ContainerResource"):
        if target.get("averageUtilization") is None and target.get("averageValue") is None:
            text = "must set either a target raw value or a target utilization"
            yield make_required_error(f"{path}.{field}.target.averageUtilization", text)
    elif kind == "Pods" and target.get("averageValue") is None:
        yield make_required_error(
            f"{path}.pods.target.averageValue", "must specify a positive target averageValue"
        )


class LeaseStrategy(BuiltinStrategy):
    """Leases."""

    allows_create_on_update = True
    allows_unconditional_update = False

    def validate_create(self, doc: Document) -> list[Cause]:
        spec, causes = doc.get("spec") or {}, []
        seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if seconds is not None and seconds <= 0:
            causes.append(make_invalid_error("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            detail = "must be greater than or equal to 0"
            causes.append(make_invalid_error("spec.leaseTransitions", transitions, detail))
        return causes


class PriorityClassStrategy(BuiltinStrategy):
    """PriorityClasses: the value never changes."""

    tracks_generation = True

    def default(self, doc: Document) -> Document:
        doc.setdefault("preemptionPolicy", "PreemptLowerPriority")
        doc.setdefault("value", 0)
        return doc

    def is_spec_changed(self, new: Document, old: Document) -> bool | None:
        return False

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_priority_class(doc))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        causes = []
        if new.get("value") != old.get("value"):
            causes.append(make_forbidden_error("value", "may not be changed in an update."))
        policies = new.get("preemptionPolicy"), old.get("preemptionPolicy")
        return [*causes, *check_immutable(*policies, "preemptionPolicy")]


class PodGroupStrategy(BuiltinStrategy):
    """PodGroups: only the minCount of a gang can change."""

    has_status = True
    allows_unconditional_update = False

    def default(self, doc: Document) -> Document:
        doc.setdefault("spec", {}).setdefault("disruptionMode", {"single": {}})
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_gang(_read_scheduling_policy(doc), "spec.schedulingPolicy"))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        causes = self.validate_create(new)
        if ("gang" in _read_scheduling_policy(new)) != ("gang" in _read_scheduling_policy(old)):
            causes.append(make_invalid_error("spec.schedulingPolicy", None, "field is immutable"))
        for field in ("workloadRef", "disruptionMode", "priorityClassName"):
            causes += check_immutable(new["spec"].get(field), old["spec"].get(field), f"spec.{field}")
        return causes


class WorkloadStrategy(BuiltinStrategy):
    """Workloads: only the minCount of their gangs is checked."""

    allows_unconditional_update = False

    def validate_create(self, doc: Document) -> list[Cause]:
        templates = enumerate((doc.get("spec") or {}).get("podGroupTemplates") or ())
        return [
            cause
            for number, template in templates
            for cause in _check_gang(
                template.get("schedulingPolicy") or {}, f"spec.podGroupTemplates[{number}].schedulingPolicy"
            )
        ]


def _read_scheduling_policy(doc: Doc) -> Doc:
    policy: Doc = doc["spec"].get("schedulingPolicy") or {}
    return policy


def _check_gang(policy: Doc, path: str) -> Causes:
    least = (policy.get("gang") or {}).get("minCount", 1)
    if least < 1:
        yield make_invalid_error(f"{path}.gang.minCount", least, "must be greater than or equal to 1")


_SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def _check_priority_class(doc: Doc) -> Causes:
    name, value = (doc.get("metadata") or {}).get("name") or "", doc.get("value") or 0
    if name.startswith("system-"):
        if _SYSTEM_PRIORITIES.get(name) != value:
            why = (
                f"value of {name} PriorityClass must be {_SYSTEM_PRIORITIES[name]}"
                if name in _SYSTEM_PRIORITIES
                else f"{name} is not a known system priority class"
            )
            detail = (
                f"priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            )
            yield make_forbidden_error("metadata.name", detail)
    elif value > 1_000_000_000:
        yield make_forbidden_error("value", "maximum allowed value of a user defined priority is 1000000000")
    yield from check_one_of(
        doc.get("preemptionPolicy"), "preemptionPolicy", ("PreemptLowerPriority", "Never")
    )


class RuntimeClassStrategy(BuiltinStrategy):
    """RuntimeClasses: the handler never changes."""

    def validate_create(self, doc: Document) -> list[Cause]:
        handler = doc.get("handler") or ""
        return list(check_label(handler, "handler")) if handler else [make_required_error("handler")]

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        if new.get("handler") == old.get("handler"):
            return []
        return [make_invalid_shown_error("handler", "null", "field is immutable")]  # apiserver's message
