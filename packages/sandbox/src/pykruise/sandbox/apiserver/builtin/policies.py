"""Rules of kinds that govern others: disruption budgets, leases, priorities, RBAC and webhook configurations.

    an object as sent ──▶ …Strategy ──▶ the object as stored, or Causes

Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykruise.kube.builtin_types import Decoder
from pykruise.kube.documents import Document, same
from pykruise.kube.errors import Cause
from pykruise.kube.field_errors import (
    duplicate,
    forbidden,
    invalid,
    invalid_shown,
    not_supported,
    required,
    too_many,
)
from pykruise.kube.field_rules import (
    Causes,
    check_at_most_100_percent,
    check_immutable,
    check_int_or_percent,
    check_not_negative,
    check_one_of,
    check_qualified_name,
    check_selector,
)
from pykruise.kube.go_text import quoted
from pykruise.kube.validation_rules import is_dns1035_label, is_dns1123_subdomain
from pykruise.sandbox.apiserver.builtin.strategy import Strategy
from pykruise.sandbox.apiserver.expressions import CONDITION_VARIABLES, ExpressionError, compile_expression

__all__ = [
    "AdmissionPolicyBindingStrategy",
    "AdmissionPolicyStrategy",
    "LeaseStrategy",
    "PodDisruptionBudgetStrategy",
    "PriorityClassStrategy",
    "RoleBindingStrategy",
    "RoleStrategy",
    "WebhookConfigurationStrategy",
    "check_expression",
    "check_match_conditions",
    "check_rule_with_operations",
]

Doc = Mapping[str, Any]


class PodDisruptionBudgetStrategy(Strategy):
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
        found: list[Cause] = []
        for field in ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"):
            found += check_not_negative((new.get("status") or {}).get(field), f"status.{field}")
        return found


def _check_budget(spec: Doc) -> Causes:
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        text = "policy.PodDisruptionBudgetSpec{…}"
        yield invalid_shown("spec", text, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        yield from check_int_or_percent(spec.get(field), f"spec.{field}")
        yield from check_at_most_100_percent(spec.get(field), f"spec.{field}")
    yield from check_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in ("AlwaysAllow", "IfHealthyBudget"):
        yield not_supported("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))


class HorizontalPodAutoscalerStrategy(Strategy):
    """HorizontalPodAutoscalers, as Kubernetes 1.37 has them."""

    has_status = True

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
                    **{name: one for name, one in given.items() if one is not None},
                }
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_autoscaler(doc.get("spec") or {}))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        return list(_check_autoscaler(new.get("spec") or {}))

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
"""What `behavior` has where it says nothing."""

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
        yield invalid("spec.minReplicas", least, "must be greater than or equal to 0")
    if most < 1:
        yield invalid("spec.maxReplicas", most, "must be greater than 0")
    if most < least:
        text = "must be greater than or equal to `minReplicas`"
        yield invalid("spec.maxReplicas", most, text)
    target = spec.get("scaleTargetRef") or {}
    for field in ("kind", "name"):
        said = target.get(field)
        if not said:
            yield required(f"spec.scaleTargetRef.{field}", "")
        elif "/" in said:
            yield invalid(f"spec.scaleTargetRef.{field}", said, "may not contain '/'")
    metrics = spec.get("metrics") or ()
    for number, metric in enumerate(metrics):
        yield from _check_metric(metric, f"spec.metrics[{number}]")
    if least == 0 and not any(one.get("type") in ("Object", "External") for one in metrics):
        text = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield forbidden("spec.metrics", text)


def _check_metric(metric: Doc, path: str) -> Causes:
    kind = metric.get("type")
    if kind not in _METRIC_SOURCES:
        yield not_supported(f"{path}.type", kind, tuple(_METRIC_SOURCES))
        return
    field = _METRIC_SOURCES[kind]
    source = metric.get(field)
    if not source:
        yield required(f"{path}.{field}", "must populate information for the given metric source")
        return
    target = source.get("target") or {}
    if kind in ("Resource", "ContainerResource"):
        if target.get("averageUtilization") is None and target.get("averageValue") is None:
            text = "must set either a target raw value or a target utilization"
            yield required(f"{path}.{field}.target.averageUtilization", text)
    elif kind == "Pods" and target.get("averageValue") is None:
        yield required(f"{path}.pods.target.averageValue", "must specify a positive target averageValue")


class LeaseStrategy(Strategy):
    """Leases."""

    allows_create_on_update = True
    allows_unconditional_update = False

    def validate_create(self, doc: Document) -> list[Cause]:
        spec, found = doc.get("spec") or {}, []
        seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if seconds is not None and seconds <= 0:
            found.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            detail = "must be greater than or equal to 0"
            found.append(invalid("spec.leaseTransitions", transitions, detail))
        return found


class PriorityClassStrategy(Strategy):
    """PriorityClasses: the value never changes."""

    tracks_generation = True

    def default(self, doc: Document) -> Document:
        doc.setdefault("preemptionPolicy", "PreemptLowerPriority")
        doc.setdefault("value", 0)
        return doc

    def spec_changed(self, new: Document, old: Document) -> bool | None:
        return False

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_priority_class(doc))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        found = []
        if new.get("value") != old.get("value"):
            found.append(forbidden("value", "may not be changed in an update."))
        policies = new.get("preemptionPolicy"), old.get("preemptionPolicy")
        return [*found, *check_immutable(*policies, "preemptionPolicy")]


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
            yield forbidden("metadata.name", detail)
    elif value > 1_000_000_000:
        yield forbidden("value", "maximum allowed value of a user defined priority is 1000000000")
    yield from check_one_of(
        doc.get("preemptionPolicy"), "preemptionPolicy", ("PreemptLowerPriority", "Never")
    )


# --- RBAC ---

_RBAC: Final = "rbac.authorization.k8s.io"


class RoleStrategy(Strategy):
    """Roles and ClusterRoles."""

    def __init__(self, decoder: Decoder | None = None, *, namespaced: bool = True) -> None:
        super().__init__(decoder)
        self._namespaced = namespaced

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_role(doc, namespaced=self._namespaced))


def _check_role(doc: Doc, *, namespaced: bool) -> Causes:
    for index, rule in enumerate(doc.get("rules") or ()):
        yield from _check_rule(rule, f"rules[{index}]", namespaced=namespaced)
    aggregation = doc.get("aggregationRule")
    if aggregation is not None and not aggregation.get("clusterRoleSelectors"):
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        yield required("aggregationRule.clusterRoleSelectors", detail)


def _check_rule(rule: Doc, path: str, *, namespaced: bool) -> Causes:
    if not rule.get("verbs"):
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        shown = f"[]string{{{', '.join(quoted(url) for url in urls)}}}"
        if namespaced:
            detail = "namespaced rules cannot apply to non-resource URLs"
            yield invalid_shown(f"{path}.nonResourceURLs", shown, detail)
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid_shown(f"{path}.nonResourceURLs", shown, detail)
        return
    if not rule.get("apiGroups"):
        yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield required(f"{path}.resources", "resource rules must supply at least one resource")


class RoleBindingStrategy(Strategy):
    """RoleBindings and ClusterRoleBindings: the role they bind never changes."""

    def __init__(self, decoder: Decoder | None = None, *, namespaced: bool = True) -> None:
        super().__init__(decoder)
        self._namespaced = namespaced

    def default(self, doc: Document) -> Document:
        role = doc.setdefault("roleRef", {})
        if not role.get("apiGroup"):
            role["apiGroup"] = _RBAC
        for subject in doc.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = _RBAC
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_binding(doc, namespaced=self._namespaced))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        found = self.validate_create(new)
        role = new.get("roleRef") or {}
        if not same(role, old.get("roleRef")):
            shown = ", ".join(
                f"{field}:{quoted(role.get(key) or '')}"
                for field, key in (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
            )
            found.append(invalid_shown("roleRef", f"rbac.RoleRef{{{shown}}}", "cannot change roleRef"))
        return found


def _check_binding(doc: Doc, *, namespaced: bool) -> Causes:
    role = doc.get("roleRef") or {}
    if role.get("apiGroup") != _RBAC:
        yield not_supported("roleRef.apiGroup", role.get("apiGroup") or "", (_RBAC,))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if role.get("kind") not in kinds:
        yield not_supported("roleRef.kind", role.get("kind") or "", kinds)
    if not role.get("name"):
        yield required("roleRef.name")
    for index, subject in enumerate(doc.get("subjects") or ()):
        yield from _check_subject(subject, f"subjects[{index}]", namespaced=namespaced)


def _check_subject(subject: Doc, path: str, *, namespaced: bool) -> Causes:
    name, group, kind = subject.get("name") or "", subject.get("apiGroup") or "", subject.get("kind") or ""
    if not name:
        yield required(f"{path}.name")
    match kind:
        case "ServiceAccount":
            for message in is_dns1123_subdomain(name) if name else ():
                yield invalid(f"{path}.name", name, message)
            if group:
                yield not_supported(f"{path}.apiGroup", group, ("",))
            if not namespaced and not subject.get("namespace"):
                yield required(f"{path}.namespace")
        case "User" | "Group":
            if group != _RBAC:
                yield not_supported(f"{path}.apiGroup", group, (_RBAC,))
        case _:
            yield not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group"))


# --- admission ---


class WebhookConfigurationStrategy(Strategy):
    """Mutating and validating webhook configurations."""

    tracks_generation = True
    allows_unconditional_update = False

    def __init__(self, decoder: Decoder | None = None, *, mutating: bool = False) -> None:
        super().__init__(decoder)
        self._mutating = mutating

    def default(self, doc: Document) -> Document:
        for webhook in doc.get("webhooks") or ():
            webhook.setdefault("failurePolicy", "Fail")
            webhook.setdefault("matchPolicy", "Equivalent")
            webhook.setdefault("namespaceSelector", {})
            webhook.setdefault("objectSelector", {})
            webhook.setdefault("timeoutSeconds", 10)
            if self._mutating:
                webhook.setdefault("reinvocationPolicy", "Never")
            for rule in webhook.get("rules") or ():
                rule.setdefault("scope", "*")
            service = (webhook.get("clientConfig") or {}).get("service")
            if service is not None:
                service.setdefault("port", 443)
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        return list(_check_webhooks(doc.get("webhooks") or ()))

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        return list(_check_webhooks(new.get("webhooks") or ()))


def _check_webhooks(webhooks: Sequence[Doc]) -> Causes:
    names: set[str] = set()
    for index, webhook in enumerate(webhooks):
        path, name = f"webhooks[{index}]", webhook.get("name") or ""
        yield from _check_webhook(webhook, path)
        if name in names:
            yield duplicate(f"{path}.name", name)
        elif name:
            names.add(name)


def _check_webhook(webhook: Doc, path: str) -> Causes:
    yield from _check_full_name(webhook.get("name") or "", f"{path}.name")
    for index, rule in enumerate(webhook.get("rules") or ()):
        yield from check_rule_with_operations(rule, f"{path}.rules[{index}]")
    for field, allowed in (
        ("failurePolicy", ("Fail", "Ignore")),
        ("matchPolicy", ("Equivalent", "Exact")),
        ("reinvocationPolicy", ("IfNeeded", "Never")),
    ):
        yield from check_one_of(webhook.get(field), f"{path}.{field}", allowed, needed=False)
    effects = webhook.get("sideEffects")
    if effects is None:
        yield required(f"{path}.sideEffects", "must specify one of None, NoneOnDryRun")
    elif effects not in ("None", "NoneOnDryRun"):
        yield not_supported(f"{path}.sideEffects", effects, ("None", "NoneOnDryRun"))
    timeout = webhook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= 30:
        detail = "the timeout value must be between 1 and 30 seconds"
        yield invalid(f"{path}.timeoutSeconds", timeout, detail)
    for field in ("namespaceSelector", "objectSelector"):
        yield from check_selector(webhook.get(field), f"{path}.{field}")
    yield from check_client_config(webhook.get("clientConfig") or {}, f"{path}.clientConfig")
    conditions = webhook.get("matchConditions") or ()
    yield from check_match_conditions(conditions, f"{path}.matchConditions", CONDITION_VARIABLES)
    yield from _check_review_versions(
        webhook.get("admissionReviewVersions") or (), f"{path}.admissionReviewVersions"
    )


def check_match_conditions(conditions: Sequence[Doc], path: str, variables: frozenset[str]) -> Causes:
    """`matchConditions`: names and expressions over these variables."""
    if len(conditions) > _MOST_CONDITIONS:
        yield too_many(path, len(conditions), _MOST_CONDITIONS)
    for index, condition in enumerate(conditions):
        here, name = f"{path}[{index}]", condition.get("name") or ""
        expression = (condition.get("expression") or "").strip()
        if not expression:
            yield required(f"{here}.expression")
        else:
            yield from check_expression(expression, f"{here}.expression", variables)
        if not name:
            yield required(f"{here}.name")
            continue
        yield from check_qualified_name(name, f"{here}.name")
        if any(each.get("name") == name for each in conditions[:index]):
            yield duplicate(f"{here}.name", name)


_MOST_CONDITIONS: Final = 64


def check_expression(text: str, path: str, variables: frozenset[str]) -> Causes:
    """One that can be compiled, over these variables."""
    try:
        compile_expression(text, variables)
    except ExpressionError as err:
        yield invalid(path, text, f"compilation failed: {err}")


def _check_full_name(name: str, path: str) -> Causes:
    if not name:
        yield required(path)
        return
    for message in is_dns1123_subdomain(name):
        yield invalid(path, name, message)
    if name.count(".") < 2:
        yield invalid(path, name, "should be a domain with at least three segments separated by dots")


def check_rule_with_operations(rule: Doc, path: str) -> Causes:
    """Which writes are meant: operations, groups, versions, resources, scope."""
    operations = rule.get("operations") or ()
    if not operations:
        yield required(f"{path}.operations")
    for index, operation in enumerate(operations):
        allowed = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
        yield from check_one_of(operation, f"{path}.operations[{index}]", allowed)
    for field in ("apiGroups", "apiVersions", "resources"):
        if not rule.get(field):
            yield required(f"{path}.{field}")
    yield from check_one_of(rule.get("scope"), f"{path}.scope", ("*", "Cluster", "Namespaced"), needed=False)


def check_client_config(config: Doc, path: str) -> Causes:
    """Where a webhook is: a URL or a service."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None and not url.startswith("https://"):
        scheme = url.partition("://")[0] if "://" in url else ""
        detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]"
        yield invalid(f"{path}.url", scheme, detail)
    elif service is not None:
        for field in ("name", "namespace"):
            if not service.get(field):
                yield required(f"{path}.service.{field}", f"service {field} is required")
        yield from _check_url_path(service.get("path") or "", f"{path}.service.path")


def _check_url_path(text: str, path: str) -> Causes:
    """The path of a webhook that is a service."""
    if text in ("", "/"):
        return
    if not text.startswith("/"):
        yield invalid(path, text, "must start with a '/'")
    for place, segment in enumerate(text[1:].removesuffix("/").split("/")):
        if not segment:
            yield invalid(path, text, f"segment[{place}] may not be empty")
            continue
        for message in is_dns1123_subdomain(segment):
            yield invalid(path, text, f"segment[{place}]: {message}")


def _check_review_versions(versions: Sequence[str], path: str) -> Causes:
    if not versions:
        yield required(path, "must specify one of v1, v1beta1")
        return
    for index, version in enumerate(versions):
        if version in versions[:index]:
            yield invalid(f"{path}[{index}]", version, "duplicate version")
            continue
        for message in is_dns1035_label(version):
            yield invalid(f"{path}[{index}]", version, message)
    if not {"v1", "v1beta1"} & set(versions):
        shown = f"[]string{{{', '.join(quoted(version) for version in versions)}}}"
        yield invalid_shown(path, shown, "must include at least one of v1, v1beta1")


# --- admission policies; their checks are loaded when one is written ---


def _fill_match_resources(doc: Any) -> None:
    if not isinstance(doc, dict):
        return
    doc.setdefault("matchPolicy", "Equivalent")
    doc.setdefault("namespaceSelector", {})
    doc.setdefault("objectSelector", {})
    for member in ("resourceRules", "excludeResourceRules"):
        for rule in doc.get(member) or ():
            rule.setdefault("scope", "*")


class AdmissionPolicyStrategy(Strategy):
    """ValidatingAdmissionPolicies."""

    tracks_generation = True
    has_status = True
    allows_unconditional_update = False

    def default(self, doc: Document) -> Document:
        spec = doc.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        _fill_match_resources(spec.get("matchConstraints"))
        return doc

    def prepare_create(self, doc: Document) -> Document:
        doc["status"] = {}
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        from pykruise.sandbox.apiserver.builtin.admission_policies import check_policy

        return list(check_policy(doc.get("spec") or {}, (doc.get("metadata") or {}).get("name") or ""))


class AdmissionPolicyBindingStrategy(Strategy):
    """ValidatingAdmissionPolicyBindings."""

    tracks_generation = True
    allows_unconditional_update = False

    def default(self, doc: Document) -> Document:
        _fill_match_resources(doc.setdefault("spec", {}).get("matchResources"))
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        from pykruise.sandbox.apiserver.builtin.admission_policies import check_policy_binding

        return list(check_policy_binding(doc.get("spec") or {}))
