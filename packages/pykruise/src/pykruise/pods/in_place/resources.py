"""Cpu and memory of running containers: quality of service class, the body of a resize, and its completion.

Pure. Resources are changed through `pods/resize` if the API server has it (since 1.32; such a server rejects changes
in the spec), otherwise in the spec itself. Only quantities that differ from the live pod are sent, so that changes by a
vertical autoscaler are kept.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.values.quantities import Quantity
from pykruise.pods.in_place.pod import UpdatablePod
from pykruise.pods.in_place.update_spec import WHOLE_POD, ResourceChange
from pykruise.pods.view.containers import NO_RESOURCES, ContainerFacts, Resources

RESIZABLE: Final = ("cpu", "memory")
BOUNDS: Final = ("limits", "requests")
_FIRST_WITH_RESIZE: Final = (1, 32)
_VERSION: Final = re.compile(r"v?([0-9]+)[^.]*\.([0-9]+)[^.]*\.[0-9]")


def has_resize(discovery: Mapping[str, Any]) -> bool:
    """Whether the API resource list of `v1` contains `pods/resize`."""
    return any(resource.get("name") == "pods/resize" for resource in discovery.get("resources") or ())


def has_resize_by_version(git_version: str) -> bool:
    """Whether an API server of this version has `pods/resize`; used when discovery is not available.

    Vendors append to any part (`v1.32+gke.1`). A text that is not a version with three parts has no resize.
    """
    match = _VERSION.match(git_version)
    return match is not None and (int(match[1]), int(match[2])) >= _FIRST_WITH_RESIZE


def compute_effective_resources(container: Mapping[str, Any]) -> Document:
    """`resources` that a pod of the template gives this container: a limit implies an equal request.

    Other fields of the resources are kept.
    """
    resources: Mapping[str, Any] = container.get("resources") or {}
    limits = resources.get("limits") or {}
    implied = {name: limits[name] for name in RESIZABLE if name in limits}
    requests = {**implied, **(resources.get("requests") or {})}
    return {**resources, "requests": requests} if requests else dict(resources)


def qos_of(pod_spec: Mapping[str, Any]) -> str:
    """The quality of service class of a pod, from its own resources if it has any, otherwise from its containers.

    Raises ValueError for an invalid quantity.
    """
    own = pod_spec.get("resources") or {}
    if own.get("requests") or own.get("limits"):
        return compute_qos_class([{"resources": own}])
    return compute_qos_class([*pod_spec["containers"], *(pod_spec.get("initContainers") or ())])


def compute_qos_class(containers: Iterable[Mapping[str, Any]]) -> str:
    """`Guaranteed`, `Burstable` or `BestEffort`, from the cpu and memory of a template's containers.

    `containers`: regular and init containers. Raises ValueError for an invalid quantity.
    """
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    is_guaranteed = True
    for container in containers:
        resources = compute_effective_resources(container)
        named = _add(resources.get("limits"), limits)
        _add(resources.get("requests"), requests)
        is_guaranteed = is_guaranteed and named == len(RESIZABLE)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed and requests == limits else "Burstable"


def _add(amounts: Mapping[str, Any] | None, total: dict[str, int]) -> int:
    """Add cpu and memory to `total`. Returns how many of the two are given (zero does not count)."""
    named = 0
    for name in RESIZABLE:
        nano = Quantity.parse((amounts or {}).get(name, 0)).nano
        if nano > 0:
            named += 1
            total[name] = total.get(name, 0) + nano
    return named


def is_restarting(container: ContainerFacts, change: ResourceChange) -> bool:
    """Whether the change restarts the container, according to its resize policies."""
    return any(name in amounts for name in container.restarts_for for amounts in change.values())


def keep_differences(container: ContainerFacts, change: ResourceChange) -> ResourceChange:
    """Quantities of `change` that the live container does not have yet; empty if the container has all of them."""
    result: dict[str, dict[str, str]] = {}
    for bound in BOUNDS:
        for name, amount in (change.get(bound) or {}).items():
            if name in RESIZABLE and not _is_same_quantity(container.resources.get(bound, name), amount):
                result.setdefault(bound, {})[name] = amount
    return result


def resize_body(changes: Mapping[str, ResourceChange]) -> Document:
    """`spec` of the patch, with containers in the order of `changes`."""
    amounts = {
        name: {bound: dict(amounts) for bound, amounts in change.items()} for name, change in changes.items()
    }
    of_pod = amounts.pop(WHOLE_POD, None)
    body: Document = {"resources": of_pod} if of_pod else {}
    if amounts:
        body["containers"] = [{"name": name, "resources": change} for name, change in amounts.items()]
    return body


def find_unmet_resources(pod: UpdatablePod) -> str:
    """The first part (`container main`, `the pod`) whose actual resources differ from the spec; empty if no part
    differs.

    For a container without resources in the spec, the kubelet must report none.
    """
    in_force = {status.name: status.resources or NO_RESOURCES for status in pod.container_statuses}
    for container in pod.containers:
        resources = in_force.get(container.name)
        if resources is None or not _has_same_resources(resources, container.resources):
            return f"container {container.name}"
    asked, given = pod.resources, pod.resources_in_force
    if asked is not None and given is not None and not _has_same_resources(given, asked):
        return "the pod"
    return ""


def is_resize_pending(pod: UpdatablePod) -> bool:
    """Whether the kubelet reports a resize that it has not granted: `Deferred` or `Infeasible`."""
    return any(
        condition.type == "PodResizePending" and condition.status == "True" for condition in pod.conditions
    )


def explain_waiting_resize(pod: UpdatablePod) -> str:
    """The kubelet's report about a resize without progress, such as `Infeasible: Node didn't have enough cpu`."""
    for condition in pod.conditions:
        if condition.type in ("PodResizePending", "PodResizeInProgress") and condition.status == "True":
            said = [part for part in (condition.reason, condition.message) if part]
            if said:
                return ": ".join(said)
    return ""


def _has_same_resources(left: Resources, right: Resources) -> bool:
    return all(
        _is_same_quantity(left.get(bound, name), right.get(bound, name))
        for bound in BOUNDS
        for name in RESIZABLE
    )


def _is_same_quantity(left: str | None, right: str | None) -> bool:
    if left is None or right is None or left == right:
        return left == right
    try:
        return Quantity.parse(left).nano == Quantity.parse(right).nano
    except ValueError:
        return False
