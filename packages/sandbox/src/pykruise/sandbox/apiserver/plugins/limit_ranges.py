"""LimitRanges: their defaults for pods, and their limits.

pod, range ──▶ default_resources() ──▶ the pod with requests and limits, and an annotation that lists them
pod or claim, range ──▶ find_violations() ──▶ messages

Pure. Same rules and messages as Kubernetes' admission plugin LimitRanger.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.values.quantities import Quantity
from pykruise.sandbox.apiserver.plugins.quota_usage import (
    Amounts,
    parse_amounts,
    sum_pod_limits,
    sum_pod_requests,
)

ANNOTATION: Final = "kubernetes.io/limit-ranger"

# ── defaults ─────────────────────────────────────────────────────────────────


def default_resources(pod: Document, limit_range: Document) -> None:
    """Give the containers default requests and limits. An annotation lists them."""
    defaults: dict[str, dict[str, Any]] = {"requests": {}, "limits": {}}
    for item in _list_limits_of_type(limit_range, "Container"):
        defaults["requests"] |= item.get("defaultRequest") or {}
        defaults["limits"] |= item.get("default") or {}
    notes: list[str] = []
    for member, what in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(member) or ():
            given = {
                kind: _fill_resources(container, kind, defaults[kind]) for kind in ("requests", "limits")
            }
            notes += [
                f"{', '.join(sorted(names))} {kind.rstrip('s')} for {what} {container['name']}"
                for kind, names in given.items()
                if names
            ]
    if notes:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _fill_resources(container: Document, kind: str, defaults: Mapping[str, Any]) -> list[str]:
    resources = container.get("resources") or {}
    own = resources.get(kind) or {}
    missing = [name for name in defaults if name not in own]
    if missing:
        container["resources"] = {**resources, kind: {**own, **{name: defaults[name] for name in missing}}}
    return missing


# ── limits ───────────────────────────────────────────────────────────────────

Rule = Callable[[str, str, Quantity, Amounts, Amounts], str]
"""type of the limit, resource, enforced value, requests, limits ──▶ error message, or empty."""


def find_violations(shelf: str, doc: Document, limit_range: Document) -> list[str]:
    """Return a message for each limit of the range that a pod or a claim violates."""
    violations: dict[str, None] = {}
    if shelf == "persistentvolumeclaims":
        asked = parse_amounts(((doc.get("spec") or {}).get("resources") or {}).get("requests"))
        for item in _list_limits_of_type(limit_range, "PersistentVolumeClaim"):
            violations |= dict.fromkeys(_find_violations(item, _OF_CLAIMS, asked, {}))
        return list(violations)
    spec = doc["spec"]
    for item in (limit_range.get("spec") or {}).get("limits") or ():
        if item.get("type") == "Container":
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
                own = container.get("resources") or {}
                parts = parse_amounts(own.get("requests")), parse_amounts(own.get("limits"))
                violations |= dict.fromkeys(_find_violations(item, _OF_PODS, *parts))
        elif item.get("type") == "Pod":
            without = {**spec, "overhead": {}}
            violations |= dict.fromkeys(
                _find_violations(item, _OF_PODS, sum_pod_requests(without), sum_pod_limits(without))
            )
    return list(violations)


def _list_limits_of_type(limit_range: Document, kind: str) -> list[Document]:
    return [item for item in (limit_range.get("spec") or {}).get("limits") or () if item.get("type") == kind]


def _find_violations(
    item: Document, rules: Sequence[tuple[str, Rule]], requests: Amounts, limits: Amounts
) -> Iterator[str]:
    for field, rule in rules:
        for name, enforced in sorted(parse_amounts(item.get(field)).items()):
            if why := rule(item["type"], name, enforced, requests, limits):
                yield why


def _check_minimum(kind: str, name: str, enforced: Quantity, requests: Amounts, limits: Amounts) -> str:
    said = f"minimum {name} usage per {kind} is {enforced}"
    if name not in requests:
        return f"{said}.  No request is specified"
    if requests[name] < enforced:
        return f"{said}, but request is {requests[name]}"
    if name in limits and limits[name] < enforced:
        return f"{said}, but limit is {limits[name]}"
    return ""


def _check_maximum(kind: str, name: str, enforced: Quantity, requests: Amounts, limits: Amounts) -> str:
    said = f"maximum {name} usage per {kind} is {enforced}"
    if name not in limits:
        return f"{said}.  No limit is specified"
    if limits[name] > enforced:
        return f"{said}, but limit is {limits[name]}"
    if name in requests and requests[name] > enforced:
        return f"{said}, but request is {requests[name]}"
    return ""


def _check_request_maximum(
    kind: str, name: str, enforced: Quantity, requests: Amounts, limits: Amounts
) -> str:
    said = f"maximum {name} usage per {kind} is {enforced}"
    if name not in requests:
        return f"{said}.  No request is specified"
    return f"{said}, but request is {requests[name]}" if requests[name] > enforced else ""


def _check_ratio(kind: str, name: str, enforced: Quantity, requests: Amounts, limits: Amounts) -> str:
    said = f"{name} max limit to request ratio per {kind} is {enforced}"
    if name not in requests or not requests[name].nano:
        return f"{said}, but no request is specified or request is 0"
    if name not in limits or not limits[name].nano:
        return f"{said}, but no limit is specified or limit is 0"
    ratio = limits[name].amount / requests[name].amount
    return f"{said}, but provided ratio is {float(ratio):f}" if ratio > enforced.amount else ""


_OF_CLAIMS: Final[Sequence[tuple[str, Rule]]] = (("min", _check_minimum), ("max", _check_request_maximum))
_OF_PODS: Final[Sequence[tuple[str, Rule]]] = (
    ("min", _check_minimum),
    ("max", _check_maximum),
    ("maxLimitRequestRatio", _check_ratio),
)
