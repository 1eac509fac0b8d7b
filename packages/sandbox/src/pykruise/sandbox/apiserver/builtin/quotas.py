"""Rules of ResourceQuotas and LimitRanges. apiserver/plugins/limits.py enforces them.

    an object as sent ──▶ …Strategy ──▶ the object as stored, or Causes

Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    make_duplicate_error,
    make_forbidden_error,
    make_invalid_error,
    make_required_error,
)
from pykruise.kube.pod_rules.field_rules import Causes, check_qualified_name, check_quantity_not_negative
from pykruise.kube.values.quantities import Quantity
from pykruise.sandbox.apiserver.builtin.strategy import BuiltinStrategy, keep

_NATIVE: Final = ("cpu", "memory", "ephemeral-storage")
_COUNTED: Final = (
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
)
"""Resources that are counted in whole numbers only."""

_OF_QUOTAS: Final = frozenset(
    (
        *_NATIVE,
        *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _NATIVE),
        "requests.storage",
        *_COUNTED,
    )
)
_COMPUTE: Final = ("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory")
_SCOPES: Final = {
    "Terminating": ("pods", *_COMPUTE),
    "NotTerminating": ("pods", *_COMPUTE),
    "BestEffort": ("pods",),
    "NotBestEffort": ("pods", *_COMPUTE),
    "PriorityClass": ("pods", *_COMPUTE),
    "CrossNamespacePodAffinity": ("pods", *_COMPUTE),
}
"""Resources that a quota with a scope may limit, for each scope."""

_CONFLICTS: Final = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_EXISTS_ONLY: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
    "ResourceQuotaScopeCrossNamespacePodAffinity"
)


class ResourceQuotaStrategy(BuiltinStrategy):
    """ResourceQuotas."""

    has_status = True

    def prepare_create(self, doc: Document) -> Document:
        doc["status"] = {}
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        spec = doc.get("spec") or {}
        return [
            *_check_amounts(spec.get("hard"), "spec.hard"),
            *_check_scopes(spec),
            *_check_scope_selector(spec),
        ]

    def prepare_update(self, new: Document, old: Document) -> Document:
        keep(new, old, "status")
        return new

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        causes = self.validate_create(new)
        scopes, before = ((doc.get("spec") or {}).get("scopes") or () for doc in (new, old))
        if set(scopes) != set(before):
            causes.append(make_invalid_error("spec.scopes", list(scopes), "field is immutable"))
        return causes

    def validate_status_update(self, new: Document, old: Document) -> list[Cause]:
        status = new.get("status") or {}
        return [
            *_check_amounts(status.get("hard"), "status.hard"),
            *_check_amounts(status.get("used"), "status.used"),
        ]


def _check_amounts(amounts: Mapping[str, str] | None, path: str) -> Causes:
    for name, amount in sorted((amounts or {}).items()):
        place = f"{path}[{name}]"
        yield from _check_resource_name(name, place)
        if "/" not in name and not _is_of_quotas(name):
            yield make_invalid_error(place, name, "must be a standard resource for quota")
        yield from check_quantity_not_negative(amount, place)
        if name in _COUNTED and Quantity.parse(amount).milli % 1000:
            yield make_invalid_error(place, amount, "must be an integer")


def _is_of_quotas(name: str) -> bool:
    return name in _OF_QUOTAS or name.startswith(("hugepages-", "requests.hugepages-"))


def _check_resource_name(name: str, place: str) -> Causes:
    wrong = list(check_qualified_name(name, place))
    yield from wrong
    if not wrong and "/" not in name and not _is_of_quotas(name) and name != "storage":
        yield make_invalid_error(place, name, "must be a standard resource type or fully qualified")


def _check_scopes(spec: Document) -> Causes:
    scopes: Sequence[str] = spec.get("scopes") or ()
    for scope in scopes:
        if scope not in _SCOPES:
            yield make_invalid_error("spec.scopes", list(scopes), "unsupported scope")
        yield from _check_scope_fits(scope, spec, "spec.scopes", list(scopes))
    yield from _check_conflicts(scopes, "spec.scopes", list(scopes))


def _check_scope_fits(scope: str, spec: Document, path: str, value: object) -> Causes:
    fitting = _SCOPES.get(scope)
    for name in sorted(spec.get("hard") or {}):
        if fitting is not None and _is_of_quotas(name) and name not in fitting:
            yield make_invalid_error(path, value, "unsupported scope applied to resource")


def _check_conflicts(scopes: Sequence[str], path: str, value: object) -> Causes:
    for pair in _CONFLICTS:
        if set(pair) <= set(scopes):
            yield make_invalid_error(path, value, "conflicting scopes")


def _check_scope_selector(spec: Document) -> Causes:
    selector = spec.get("scopeSelector")
    if selector is None:
        return
    path = "spec.scopeSelector.matchExpressions"
    names = []
    for expression in selector.get("matchExpressions") or ():
        name, operator, values = (
            expression.get("scopeName") or "",
            expression.get("operator") or "",
            expression.get("values"),
        )
        names.append(name)
        if name not in _SCOPES:
            yield make_invalid_error(f"{path}.scopeName", name, "unsupported scope")
        yield from _check_scope_fits(name, spec, path, selector)
        if name in _SCOPES and name != "PriorityClass" and operator != "Exists":
            yield make_invalid_error(f"{path}.operator", operator, _EXISTS_ONLY)
        if operator in ("In", "NotIn"):
            if not values:
                text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                yield make_required_error(f"{path}.values", text)
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                yield make_invalid_error(f"{path}.values", values, text)
        else:
            yield make_invalid_error(f"{path}.operator", operator, "not a valid selector operator")
    yield from _check_conflicts(names, path, spec.get("scopes"))


# ── limit ranges ─────────────────────────────────────────────────────────────

_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_FIELDS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_COMPARED: Final = (
    ("min", "max", "min", "min value {0} is greater than max value {1}"),
    ("min", "defaultRequest", "defaultRequest", "min value {0} is greater than default request value {1}"),
    ("defaultRequest", "max", "defaultRequest", "default request value {0} is greater than max value {1}"),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "default request value {0} is greater than default limit value {1}",
    ),
    ("min", "default", "default", "min value {0} is greater than default value {1}"),
    ("default", "max", "default", "default value {0} is greater than max value {1}"),
)
"""Each entry has four items: the first field, the second field, the field that the error names, and the message. The
error is reported if the first field is greater than the second.
"""

_SHOWS_OTHER: Final = {("min", "default"): 0, ("default", "max"): 1}
"""Pairs of fields whose error shows the value of the first field (0) or of the second field (1), and not the value of
the field that the error names.
"""


class LimitRangeStrategy(BuiltinStrategy):
    """LimitRanges."""

    def default(self, doc: Document) -> Document:
        for item in (doc.get("spec") or {}).get("limits") or ():
            if item.get("type") != "Container":
                continue
            limits = {**(item.get("max") or {}), **(item.get("default") or {})}
            requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
            if limits:
                item["default"] = limits
            if requests:
                item["defaultRequest"] = requests
        return doc

    def validate_create(self, doc: Document) -> list[Cause]:
        causes: list[Cause] = []
        types: set[str] = set()
        for index, item in enumerate((doc.get("spec") or {}).get("limits") or ()):
            kind, place = item.get("type") or "", f"spec.limits[{index}]"
            causes += _check_type(kind, f"{place}.type")
            if kind in types:
                causes.append(make_duplicate_error(f"{place}.type", kind))
            types.add(kind)
            causes += _check_item(item, kind, place)
        return causes


def _check_type(kind: str, place: str) -> Causes:
    wrong = list(check_qualified_name(kind, place))
    yield from wrong
    if not wrong and "/" not in kind and kind not in _TYPES:
        yield make_invalid_error(place, kind, "must be a standard limit type or fully qualified")


def _check_item(item: Mapping[str, Any], kind: str, place: str) -> Causes:
    fields = {name: item.get(name) or {} for name in _FIELDS}
    if kind == "Pod":
        for name in ("default", "defaultRequest"):
            if fields[name]:
                yield make_forbidden_error(f"{place}.{name}", "may not be specified when `type` is 'Pod'")
            fields[name] = {}
    for name in _FIELDS:
        for resource in sorted(fields[name]):
            yield from _check_limited_name(resource, kind, f"{place}.{name}[{resource}]")
    if kind == "PersistentVolumeClaim" and "storage" not in {*fields["min"], *fields["max"]}:
        text = "either minimum or maximum storage value is required, but neither was provided"
        yield make_required_error(f"{place}.limits", text)
    for resource in sorted({value for values in fields.values() for value in values}):
        yield from _check_order(fields, resource, place)
        yield from _check_ratio(fields, resource, place)


def _check_limited_name(resource: str, kind: str, place: str) -> Causes:
    yield from _check_resource_name(resource, place)
    is_of_containers = "/" in resource or resource in _NATIVE or resource.startswith("hugepages-")
    if kind in ("Pod", "Container") and not is_of_containers:
        yield make_invalid_error(place, resource, "must be a standard resource for containers")


def _check_order(fields: Mapping[str, Mapping[str, Any]], resource: str, place: str) -> Causes:
    for less, more, named, words in _COMPARED:
        if resource not in fields[less] or resource not in fields[more]:
            continue
        pair = fields[less][resource], fields[more][resource]
        if Quantity.parse(pair[0]) > Quantity.parse(pair[1]):
            shown = _SHOWS_OTHER.get((less, more))
            value = fields[named][resource] if shown is None else pair[shown]
            yield make_invalid_error(f"{place}.{named}[{resource}]", value, words.format(*pair))


def _check_ratio(fields: Mapping[str, Mapping[str, Any]], resource: str, place: str) -> Causes:
    text = fields["maxLimitRequestRatio"].get(resource)
    if text is None:
        return
    ratio, at = Quantity.parse(text), f"{place}.maxLimitRequestRatio[{resource}]"
    if ratio.amount < 1:
        yield make_invalid_error(at, text, f"ratio {text} is less than 1")
    least, most = (fields[name].get(resource) for name in ("min", "max"))
    if least is not None and most is not None and Quantity.parse(least).nano:
        highest = Quantity.parse(most).amount / Quantity.parse(least).amount
        if ratio.amount > highest:
            yield make_invalid_error(at, text, f"ratio {text} is greater than max/min = {float(highest):f}")
