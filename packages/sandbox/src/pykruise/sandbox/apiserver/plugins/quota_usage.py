"""Usage of a ResourceQuota by an object, and the quotas that match the object.

shelf, document ──▶ usage_of() ──▶ {"pods": 1, "requests.cpu": 100m, "count/pods": 1, ...}
quota, document ──▶ is_concerned() ──▶ whether its scopes match

Pure. Same rules as Kubernetes' quota evaluators for pods, services, persistent volume claims, and object counts.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.values.quantities import Quantity
from pykruise.sandbox.apiserver.builtin.pod_spec import compute_qos_class

Amounts = dict[str, Quantity]
"""Quantities by resource name."""

ONE: Final = Quantity.parse("1")
ZERO: Final = Quantity.parse("0")
_NATIVE: Final = ("cpu", "memory", "ephemeral-storage")
_OF_PODS: Final = frozenset(
    (
        "count/pods",
        "pods",
        *_NATIVE,
        *(f"{kind}.{name}" for kind in ("requests", "limits") for name in _NATIVE),
    )
)
_MUST_BE_SAID: Final = frozenset(
    ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
)
_OF_SERVICES: Final = frozenset(
    ("count/services", "services", "services.nodeports", "services.loadbalancers")
)
_OF_CLAIMS: Final = ("persistentvolumeclaims", "requests.storage")
_BY_CLASS: Final = ".storageclass.storage.k8s.io/"
_LEGACY: Final = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
"""Kinds whose objects are counted under their plain name, too, and not only under `count/…`."""


def parse_amounts(amounts: Mapping[str, Any] | None) -> Amounts:
    """Parse the quantities of a document; invalid quantities are left out."""
    made: Amounts = {}
    for name, text in (amounts or {}).items():
        try:
            made[name] = Quantity.parse(text)
        except ValueError:
            continue
    return made


def format_amounts(value: Mapping[str, Quantity]) -> str:
    """Format quantities for a message: `cpu=1,pods=2`."""
    return ",".join(f"{name}={value[name]}" for name in sorted(value))


# ── usage ────────────────────────────────────────────────────────────────────


def usage_of(shelf: str, doc: Document) -> Amounts:
    """Resources that the object uses."""
    match shelf:
        case "pods":
            return _compute_pod_usage(doc)
        case "services":
            return _compute_service_usage(doc)
        case "persistentvolumeclaims":
            return _compute_claim_usage(doc)
        case _:
            usage = {f"count/{shelf}": ONE}
            if shelf in _LEGACY:
                usage[shelf] = ONE
            return usage


def _compute_pod_usage(pod: Document) -> Amounts:
    usage: Amounts = {"count/pods": ONE}
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return usage
    usage["pods"] = ONE
    for name, amount in sum_pod_requests(pod["spec"]).items():
        if name in _NATIVE or name.startswith("hugepages-"):
            usage[name] = usage[f"requests.{name}"] = amount
        else:
            usage[f"requests.{name}"] = amount
    for name, amount in sum_pod_limits(pod["spec"]).items():
        if name in _NATIVE:
            usage[f"limits.{name}"] = amount
    return usage


def _compute_service_usage(service: Document) -> Amounts:
    spec = service.get("spec") or {}
    ports, kind = spec.get("ports") or (), spec.get("type")
    usage = {"count/services": ONE, "services": ONE}
    usage |= {"services.loadbalancers": ZERO, "services.nodeports": ZERO}
    if kind == "LoadBalancer":
        usage["services.loadbalancers"] = ONE
        if spec.get("allocateLoadBalancerNodePorts") is False:
            ports = [port for port in ports if port.get("nodePort")]
    if kind in ("NodePort", "LoadBalancer"):
        usage["services.nodeports"] = Quantity.parse(len(ports))
    return usage


def _compute_claim_usage(claim: Document) -> Amounts:
    spec = claim.get("spec") or {}
    usage = {"persistentvolumeclaims": ONE, "count/persistentvolumeclaims": ONE}
    storage = parse_amounts((spec.get("resources") or {}).get("requests")).get("storage")
    if storage is not None:
        usage["requests.storage"] = storage
    if name := spec.get("storageClassName"):
        for resource in _OF_CLAIMS:
            if resource in usage:
                usage[f"{name}{_BY_CLASS}{resource}"] = usage[resource]
    return usage


def sum_pod_requests(spec: Document) -> Amounts:
    """Requests of the pod: those in `spec.resources`, else those of its regular containers and sidecars, or its
    start-up peak if that is higher. The overhead is added.
    """
    return _sum_pod_amounts(spec, "requests", overhead=parse_amounts(spec.get("overhead")))


def sum_pod_limits(spec: Document) -> Amounts:
    """Limits of the pod, computed like its requests. The overhead is added only for resources with a limit."""
    limits = _sum_pod_amounts(spec, "limits", overhead={})
    for name, amount in parse_amounts(spec.get("overhead")).items():
        if name in limits:
            limits[name] = limits[name] + amount
    return limits


def _sum_pod_amounts(spec: Document, kind: str, *, overhead: Amounts) -> Amounts:
    total: Amounts = {}
    for container in spec.get("containers") or ():
        total = _add(total, _read_amounts(container, kind))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = _read_amounts(container, kind)
        if container.get("restartPolicy") == "Always":
            total, sidecars = _add(total, own), _add(sidecars, own)
            running = sidecars
        else:
            running = _add(own, sidecars)
        peak = _compute_maximum(peak, running)
    total = _compute_maximum(total, peak)
    total |= parse_amounts((spec.get("resources") or {}).get(kind))
    return _add(total, overhead)


def _read_amounts(container: Document, kind: str) -> Amounts:
    return parse_amounts((container.get("resources") or {}).get(kind))


def _add(left: Amounts, right: Amounts) -> Amounts:
    return left | {name: left[name] + amount if name in left else amount for name, amount in right.items()}


def _compute_maximum(left: Amounts, right: Amounts) -> Amounts:
    return left | {
        name: max(left[name], amount) if name in left else amount for name, amount in right.items()
    }


# ── matching quotas ──────────────────────────────────────────────────────────


def select_matching(shelf: str, names: Iterable[str]) -> list[str]:
    """Select the resources of a quota that objects of this kind use."""
    return [name for name in names if shelf in shelves_of(name)]


def shelves_of(name: str) -> tuple[str, ...]:
    """Kinds of objects that use this resource of a quota."""
    if name in _OF_PODS or name.startswith(("hugepages-", "requests.hugepages-")):
        return ("pods",)
    if name in _OF_SERVICES:
        return ("services",)
    if name in _OF_CLAIMS or any(name.endswith(_BY_CLASS + claim) for claim in _OF_CLAIMS):
        return ("persistentvolumeclaims",)
    if name.startswith("count/"):
        return (name.removeprefix("count/"),)
    if name in _LEGACY:
        return (name,)
    return ("pods",) if name.startswith("requests.") and "/" in name else ()


def describe_missing_requests(required: Iterable[str], pod: Document) -> str:
    """Describe the requests and limits that quotas require and containers do not have; empty when none is missing."""
    spec = pod["spec"]
    resources = spec.get("resources") or {}
    if resources.get("requests") or resources.get("limits"):
        return ""
    missing: dict[str, set[str]] = {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        own = container.get("resources") or {}
        for name in _MUST_BE_SAID.intersection(required):
            kind, _, bare = name.rpartition(".")
            if bare not in (own.get(kind or "requests") or {}):
                missing.setdefault(name, set()).add(container["name"])
    texts = [f"{name} for: {','.join(sorted(missing[name]))}" for name in sorted(missing)]
    return f"must specify {'; '.join(texts)}" if texts else ""


def is_concerned(quota: Document, shelf: str, doc: Document) -> bool:
    """Whether the scopes of a quota match the object. A quota with scopes matches only pods."""
    spec = quota.get("spec") or {}
    scopes = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes") or ()]
    scopes += (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    if not scopes:
        return True
    return shelf == "pods" and all(_is_in(scope, doc["spec"]) for scope in scopes)


def _is_in(scope: Mapping[str, Any], spec: Document) -> bool:
    find = _SCOPES.get(scope.get("scopeName") or "")
    return find is not None and find(scope, spec)


def _has_deadline(scope: Mapping[str, Any], spec: Document) -> bool:
    return (spec.get("activeDeadlineSeconds") or -1) >= 0 or spec.get("activeDeadlineSeconds") == 0


def _is_best_effort(scope: Mapping[str, Any], spec: Document) -> bool:
    return compute_qos_class(spec) == "BestEffort"


def _has_priority_class(scope: Mapping[str, Any], spec: Document) -> bool:
    name = spec.get("priorityClassName") or ""
    match scope.get("operator"):
        case "In":
            return name in (scope.get("values") or ())
        case "NotIn":
            return name not in (scope.get("values") or ())
        case "DoesNotExist":
            return not name
        case _:
            return bool(name)


def _reaches_into_other_namespaces(scope: Mapping[str, Any], spec: Document) -> bool:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        part = affinity.get(kind) or {}
        terms = list(part.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        for weighted in part.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            terms.append(weighted.get("podAffinityTerm") or {})
        if any(term.get("namespaces") or term.get("namespaceSelector") is not None for term in terms):
            return True
    return False


def _negate(
    find: Callable[[Mapping[str, Any], Document], bool],
) -> Callable[[Mapping[str, Any], Document], bool]:
    return lambda scope, spec: not find(scope, spec)


_SCOPES: Final[Mapping[str, Callable[[Mapping[str, Any], Document], bool]]] = {
    "Terminating": _has_deadline,
    "NotTerminating": _negate(_has_deadline),
    "BestEffort": _is_best_effort,
    "NotBestEffort": _negate(_is_best_effort),
    "PriorityClass": _has_priority_class,
    "CrossNamespacePodAffinity": _reaches_into_other_namespaces,
}
