"""Container launch priority: the containers of a pod start in order. Each container waits for its barrier.

pod ──▶ read_priorities() ──▶ add_barriers() ──▶ every container waits for a key of the ConfigMap `<pod>-barrier`

The environment of a container refers to a key of the ConfigMap, its barrier. The kubelet cannot start the container
before this key exists. The controller (plan.py) adds the keys from the highest priority to the lowest. Pure, except for
the random name of a pod without a name.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykruise.kube.admission import AdmissionRequest
from pykruise.kube.documents import Document, annotations_of
from pykruise.kube.values.cel import Interests
from pykruise.kube.values.go_text import excerpt
from pykruise.kube.values.hashing import draw_suffix
from pykruise.plans.pod_steps import PodSteps, StepContext, StepError
from pykruise.pods.lifecycle.launch_order import BARRIER_VARIABLE, format_barrier_key, format_barrier_name

ORDER_ANNOTATION: Final = "apps.kruise.io/container-launch-priority"
ORDERED: Final = "Ordered"
PRIORITY_VARIABLE: Final = "KRUISE_CONTAINER_PRIORITY"

LONGEST_GENERATED: Final = 58
"""Maximum number of characters of `generateName` that are used, because a suffix of five characters follows."""

ASKS_FOR_ORDER: Final = (
    f'(has(object.metadata.annotations) && "{ORDER_ANNOTATION}" in object.metadata.annotations) || '
    "object.spec.containers.exists(c, has(c.env) && "
    f'c.env.exists(e, e.name == "{PRIORITY_VARIABLE}"))'
)
"""CEL expression: the pod requests launch priorities."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_LARGEST = 2**63


def read_priorities(pod: Mapping[str, Any]) -> list[int]:
    """Return the priority of each container; an empty list if all containers can start at the same time.

    Raises StepError for a priority that is not an integer.
    """
    containers: Sequence[Mapping[str, Any]] = (pod.get("spec") or {}).get("containers") or []
    if len(containers) == 1:
        return []
    if annotations_of(pod).get(ORDER_ANNOTATION) == ORDERED:
        return [-number for number in range(len(containers))]
    priorities = [_parse_priority(container, number) for number, container in enumerate(containers)]
    return priorities if len(set(priorities)) > 1 else []


def _parse_priority(container: Mapping[str, Any], number: int) -> int:
    """Return the priority of a container. If the variable is set several times, its last value is used, as in the
    container.
    """
    values = [env.get("value") for env in container.get("env") or () if env.get("name") == PRIORITY_VARIABLE]
    if not values:
        return 0
    text = values[-1] or ""
    if not _INTEGER.fullmatch(text) or not -_LARGEST <= int(text) < _LARGEST:
        raise StepError(
            f"spec.containers[{number}].env: {PRIORITY_VARIABLE} is {excerpt(text)!r}; it must be a whole number"
        )
    return int(text)


def add_barriers(pod: Document, order: Sequence[int], *, name: str) -> Document:
    """Return the pod with the name `name`, and with a barrier as the last variable of each container without a
    barrier.
    """
    spec = pod["spec"]
    containers = [
        container if _has_barrier(container) else _add_barrier(container, _build_barrier(name, priority))
        for container, priority in zip(spec["containers"], order, strict=True)
    ]
    metadata = {**(pod.get("metadata") or {}), "name": name}
    return {**pod, "metadata": metadata, "spec": {**spec, "containers": containers}}


def _has_barrier(container: Mapping[str, Any]) -> bool:
    return any(env.get("name") == BARRIER_VARIABLE for env in container.get("env") or ())


def _add_barrier(container: Document, barrier: Document) -> Document:
    return {**container, "env": [*(container.get("env") or ()), barrier]}


def _build_barrier(name: str, priority: int) -> Document:
    key = {"name": format_barrier_name(name), "key": format_barrier_key(priority)}
    return {"name": BARRIER_VARIABLE, "valueFrom": {"configMapKeyRef": key}}


class LaunchPriority:
    """The step of the webhook `/mutate-pod`. It runs after injection, so that injected containers also start in
    order.
    """

    def __init__(self, context: StepContext) -> None:
        self._rng = context.rng

    def build_match_condition(self, interests: Interests) -> str:
        """Return a CEL expression that matches pods that request an order."""
        return ASKS_FOR_ORDER

    async def change(self, pod: Document, request: AdmissionRequest) -> Document | None:
        order = read_priorities(pod)
        if not order:
            return None
        return add_barriers(pod, order, name=self._choose_name(pod.get("metadata") or {}))

    def _choose_name(self, metadata: Mapping[str, Any]) -> str:
        """Return the pod's name. If the API server would generate the name, it is chosen here instead, because the name
        of the ConfigMap contains it.
        """
        name: str = metadata.get("name") or ""
        prefix: str | None = metadata.get("generateName")
        if name or not prefix:
            return name
        return prefix[:LONGEST_GENERATED] + draw_suffix(self._rng)


def _has_order(template: Document) -> bool:
    """Whether the containers of the template start in order. False if a priority is unreadable, because such pods are
    rejected.
    """
    try:
        return bool(read_priorities(template))
    except StepError:
        return False


STEPS: Final = PodSteps(
    name="container-launch-priority", order=40, mutate=LaunchPriority, serves_template=_has_order
)
