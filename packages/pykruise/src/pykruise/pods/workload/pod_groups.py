"""Groups of pods that Kubernetes' scheduler starts together: the objects Workload and PodGroup.

minCount of the option + replicas ──▶ compute_min_count() ──▶ number of pods that start together
pods + names in use ──▶ choose_group() ──▶ name of the group of a new pod
stored Workloads and PodGroups ──▶ GroupView;  owner + group ──▶ build_workload(), build_pod_group() ──▶ documents

Pure; serves every kind with the option gang-min-count. The scheduler applies minCount only to pods without a node, and
pods with a node count. So pods of an earlier revision must not be in the group of their successors: a pod joins the
group of the pods that stay with it, or a new group.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, count
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import make_invalid_error
from pykruise.kube.resources import POD_GROUPS, WORKLOADS, Resource
from pykruise.kube.values.int_or_percent import IntOrPercent, Rounding, resolve
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.options import GANG_MIN_COUNT
from pykruise.pods.workload.views import WorkloadView

TEMPLATE_NAME: Final = "pods"
"""Name of the only template in a Workload."""

_EXCLUSIVE: Final = {
    "schedulingGroup": "the manager chooses the group of each pod",
    "evictionResponders": "Kubernetes accepts no pod with it in a group",
}
"""Fields of a pod spec that pods in a group cannot have, and why."""


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """A PodGroup, or a Workload with one template."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    controller_uid: str = ""
    is_deleting: bool = False
    min_count: int | None = None
    """None: the group is no gang."""
    priority_class: str = ""


class _Owner(msgspec.Struct):
    uid: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    owner_references: tuple[_Owner, ...] | None = None
    deletion_timestamp: str | None = None


class _Gang(msgspec.Struct, rename="camel"):
    min_count: int | None = None


class _Policy(msgspec.Struct):
    gang: _Gang | None = None


class _Group(msgspec.Struct, rename="camel"):
    scheduling_policy: _Policy | None = None
    priority_class_name: str | None = None
    pod_group_templates: tuple["_Group", ...] | None = None


class _Object(msgspec.Struct):
    metadata: _Meta
    spec: _Group | None = None


_decode = msgspec.json.Decoder(_Object).decode


def project_group(raw: bytes | msgspec.Raw) -> GroupView:
    """Return the view of a PodGroup or Workload. Raises msgspec.DecodeError when the text is neither."""
    document = _decode(raw)
    meta, spec = document.metadata, document.spec or _Group()
    group = spec.pod_group_templates[0] if spec.pod_group_templates else spec
    policy = group.scheduling_policy
    return GroupView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version or 0),
        controller_uid=next((owner.uid for owner in meta.owner_references or () if owner.controller), ""),
        is_deleting=meta.deletion_timestamp is not None,
        min_count=policy.gang.min_count if policy is not None and policy.gang is not None else None,
        priority_class=group.priority_class_name or "",
    )


def compute_min_count(value: IntOrPercent, replicas: int) -> int:
    """Return the number of pods that start together: at least one, and at most all `replicas`."""
    return max(min(resolve(value, of=replicas, rounding=Rounding.UP), replicas), 1)


def format_workload_name(resource: Resource, name: str) -> str:
    """Return the name of the Workload of an object."""
    return f"{resource.kind.lower()}-{name}"


def choose_group(beside: Iterable[PodView], *, workload: str, revision: str, taken: Collection[str]) -> str:
    """Return the group of a new pod: that of most pods `beside` it, or a new name without such pods. Empty: the pods
    beside it have no group, because they were created before the option was set. `taken`: names that are in use.
    """
    groups = Counter(pod.pod_group for pod in beside)
    if groups:
        return min(groups, key=lambda name: (-groups[name], name))
    return find_free_name(f"{workload}-{revision}", taken)


def find_free_name(base: str, taken: Collection[str]) -> str:
    """Return the name, or the name with the first number that makes it free: `base`, `base-2`, `base-3`."""
    names = chain((base,), (f"{base}-{number}" for number in count(2)))
    return next(name for name in names if name not in taken)


# Documents


def build_workload(
    owner: WorkloadView, resource: Resource, name: str, *, min_count: int, priority_class: str
) -> Document:
    """Build the Workload of an object."""
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "ownerReferences": [owner.build_reference(resource)],
        },
        "spec": {
            "controllerRef": {"apiGroup": resource.group, "kind": resource.kind, "name": owner.name},
            "podGroupTemplates": [{"name": TEMPLATE_NAME, **_build_policy(min_count, priority_class)}],
        },
    }


def build_pod_group(
    owner: WorkloadView,
    resource: Resource,
    name: str,
    *,
    workload: str,
    min_count: int,
    priority_class: str,
) -> Document:
    """Build a PodGroup of an object. `workload`: name of its Workload."""
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "ownerReferences": [owner.build_reference(resource)],
        },
        "spec": {
            "workloadRef": {"workloadName": workload, "templateName": TEMPLATE_NAME},
            **_build_policy(min_count, priority_class),
        },
    }


def _build_policy(min_count: int, priority_class: str) -> Document:
    policy: Document = {"schedulingPolicy": {"gang": {"minCount": min_count}}}
    return {**policy, "priorityClassName": priority_class} if priority_class else policy


def add_group(spec: Mapping[str, Any], group: str) -> Document:
    """Return the pod spec in this group; empty: unchanged."""
    return {**spec, "schedulingGroup": {"podGroupName": group}} if group else dict(spec)


def read_priority_class(template: Mapping[str, Any]) -> str:
    """Return the priority class of the pods of a template."""
    return str((template.get("spec") or {}).get("priorityClassName") or "")


# Admission


def find_template_errors(metadata: Mapping[str, Any], template: Any) -> Iterator[Cause]:
    """Yield an error for each field of the template that pods in a group cannot have."""
    if read_min_count(metadata) is None or not isinstance(template, Mapping):
        return
    spec = template.get("spec")
    for field, why in _EXCLUSIVE.items():
        if isinstance(spec, Mapping) and spec.get(field):
            path = f"spec.template.spec.{field}"
            yield make_invalid_error(path, spec[field], f"is not allowed with {GANG_MIN_COUNT.field}: {why}")


def read_min_count(metadata: Mapping[str, Any]) -> IntOrPercent | None:
    """Return the value of the option in some metadata; None: it is not set, or `find_option_errors` reports it."""
    try:
        return GANG_MIN_COUNT.read(metadata.get("annotations") or {})
    except (AttributeError, TypeError, ValueError):
        return None
