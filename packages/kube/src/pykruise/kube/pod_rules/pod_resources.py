"""Validation of the resources of a whole pod (`spec.resources`), and the requests that follow from them.

    a defaulted spec ──▶ check_pod_resources() ──▶ Causes
                     ──▶ fill_pod_resources()  ──▶ the same spec, with the pod's missing requests filled in

Pure. Rule: Kubernetes' pod-level resources (KEP 2837): they replace the requests and limits of the containers, which
must fit into them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.pod_rules.containers import check_claims, check_resources, collect_claim_names
from pykruise.kube.pod_rules.field_errors import make_forbidden_error, make_invalid_error
from pykruise.kube.pod_rules.field_rules import Causes
from pykruise.kube.values.quantities import Quantity, format_quantity

__all__ = ["POD_RESOURCES", "check_pod_resources", "fill_pod_resources", "sum_container_requests"]

Doc = Mapping[str, Any]
POD_RESOURCES: Final = ("cpu", "memory")
"""Resources that `spec.resources` of a pod can contain and that can change while the pod runs. `spec.resources` can
also contain huge pages, but their amount cannot change.
"""


def check_pod_resources(spec: Doc, path: str) -> Causes:
    """Yield the errors of `spec.resources`: the amounts must be valid, and the containers must fit into them."""
    resources: Doc = spec["resources"]
    if (spec.get("os") or {}).get("name") == "windows":
        yield make_forbidden_error(f"{path}.resources", "may not be set for a windows pod")
        return
    if resources.get("claims") is not None:
        yield make_forbidden_error(
            f"{path}.resources.claims", "claims may not be set for Resources at pod-level"
        )
        yield from check_claims(resources, f"{path}.resources", collect_claim_names(spec))
    wrong = list(check_resources(resources, f"{path}.resources"))
    yield from wrong
    if wrong:
        return
    requests = resources.get("requests") or {}
    for name, asked in sum_container_requests(spec).items():
        if name in requests and asked > Quantity.parse(requests[name]).nano:
            text = format_quantity(requests[name])
            detail = "must be greater than or equal to aggregate container requests"
            yield make_invalid_error(f"{path}.resources.requests[{name}]", text, detail)
    limits = resources.get("limits") or {}
    for index, container in enumerate(spec.get("containers") or ()):
        for name, limit in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and Quantity.parse(limit).nano > Quantity.parse(limits[name]).nano:
                detail = f"must be less than or equal to pod limits of {limits[name]}"
                yield make_invalid_error(
                    f"{path}.resources.containers[{index}][{name}].limits", limit, detail
                )


def sum_container_requests(spec: Doc) -> dict[str, int]:
    """Return the requests of all containers together, in nano units: the sum of regular containers and sidecars or, if
    that is more, the amount that an init container needs together with the sidecars before it.
    """
    sidecars: dict[str, int] = {}
    start: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        asked = _read_requests(container)
        if container.get("restartPolicy") == "Always":
            _add_amounts(sidecars, asked.items())
            asked = sidecars
        else:
            asked = _sum_amounts(sidecars, asked)
        start = {name: max(start.get(name, 0), asked.get(name, 0)) for name in {*start, *asked}}
    running = dict(sidecars)
    for container in spec.get("containers") or ():
        _add_amounts(running, _read_requests(container).items())
    return {name: max(start.get(name, 0), running.get(name, 0)) for name in sorted({*start, *running})}


def fill_pod_resources(spec: Document) -> None:
    """Fill in missing requests of a pod that has limits: from its containers' requests, else from its limits."""
    resources = spec.get("resources")
    if not resources or not resources.get("limits"):
        return
    requests = dict(resources.get("requests") or {})
    for name, nano in sum_container_requests(spec).items():
        if name in POD_RESOURCES and name not in requests:
            requests[name] = _format_like(nano, resources["limits"].get(name))
    for name, limit in resources["limits"].items():
        if name in POD_RESOURCES or name.startswith("hugepages-"):
            requests.setdefault(name, limit)
    spec["resources"] = {**resources, "requests": requests}


def _format_like(nano: int, limit: Any) -> str:
    """Return an amount with binary suffixes (`Ki`, `Mi`, `Gi`, …) if the limit has one."""
    if isinstance(limit, str) and limit.endswith("i") and nano % _NANO == 0:
        amount, power = nano // _NANO, 0
        while amount and amount % 1024 == 0 and power < len(_BINARY):
            amount, power = amount // 1024, power + 1
        return f"{amount}{_BINARY[power - 1] if power else ''}"
    return format_quantity(f"{nano}n")


_NANO: Final = 10**9
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def _read_requests(container: Doc) -> dict[str, int]:
    asked = (container.get("resources") or {}).get("requests") or {}
    return {name: Quantity.parse(amount).nano for name, amount in asked.items()}


def _sum_amounts(left: Mapping[str, int], right: Mapping[str, int]) -> dict[str, int]:
    total = dict(left)
    _add_amounts(total, right.items())
    return total


def _add_amounts(total: dict[str, int], amounts: Iterable[tuple[str, int]]) -> None:
    for name, nano in amounts:
        total[name] = total.get(name, 0) + nano
