"""Operation of a request on a pod, as budgets classify it.

AdmissionRequest of an update ──▶ operation_of_update() ──▶ UPDATE, RESIZE; None: no budget protects against it

Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

from pykruise.kube.documents import annotations_of, is_same, labels_of
from pykruise.kube.values.quantities import is_same_quantity
from pykruise.pods.in_place.resources import RESIZABLE, qos_of
from pykruise.pods.workload.budgets import UNAVAILABLE_LABEL, Operation

CONFIG_SOURCE: Final = "kubernetes.io/config.source"
"""Annotation of static and mirror pods: the source from which the kubelet read the pod."""

Pod = Mapping[str, Any]


def operation_of_update(old: Pod, new: Pod) -> Operation | None:
    """Operation of an update that the pod's budget must allow. None: the update neither changes the spec nor
    marks the pod as unavailable.
    """
    is_marked = _is_unavailable(new) and not _is_unavailable(old)
    if not is_marked and is_same(old["spec"], new["spec"]):
        return None
    return Operation.RESIZE if not is_marked and is_resized_in_place(old, new) else Operation.UPDATE


def _is_unavailable(pod: Pod) -> bool:
    return any(label.startswith(UNAVAILABLE_LABEL) for label in labels_of(pod))


def is_resized_in_place(old: Pod, new: Pod) -> bool:
    """Whether the update changes only quantities of cpu and memory, in containers that need no restart for it."""
    if any(_is_static(pod) for pod in (old, new)):
        return False
    if not is_same(_without_resources(old), _without_resources(new)) or _compute_qos(old) != _compute_qos(
        new
    ):
        return False
    return all(map(_is_resized, old["spec"]["containers"], new["spec"]["containers"]))


def _is_static(pod: Pod) -> bool:
    return annotations_of(pod).get(CONFIG_SOURCE, "api") != "api"


def _without_resources(pod: Pod) -> Mapping[str, Any]:
    # `resizePolicy` is compared: an update that also changes `resizePolicy` is more than a resize.
    bare = [
        {key: value for key, value in container.items() if key != "resources"}
        for container in pod["spec"]["containers"]
    ]
    return {**pod["spec"], "containers": bare}


def _compute_qos(pod: Pod) -> str:
    spec = pod["spec"]
    return qos_of(spec)


def _is_resized(old: Pod, new: Pod) -> bool:
    """Whether the only changes of the container are quantities whose change needs no restart."""
    before, after = old.get("resources") or {}, new.get("resources") or {}
    return all(
        _is_kept(name, before.get(bound) or {}, after.get(bound) or {})
        or (name in RESIZABLE and not _needs_restart_for(new, name))
        for bound in ("requests", "limits")
        for name in {*(before.get(bound) or {}), *(after.get(bound) or {})}
    )


def _is_kept(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    return name in before and name in after and is_same_quantity(before[name], after[name])


def _needs_restart_for(container: Pod, name: str) -> bool:
    policies = {
        item.get("resourceName"): item.get("restartPolicy") for item in container.get("resizePolicy") or ()
    }
    return (policies.get(name) or "NotRequired") != "NotRequired"
