"""Groups of pods that Kubernetes' scheduler starts together: the objects Workload and PodGroup.

minCount of the option + replicas ──▶ compute_min_count() ──▶ number of pods that start together
pods + names in use ──▶ choose_gang() ──▶ PodGang: minCount, and the groups of new pods
spec ──▶ find_gang_errors() ──▶ field errors of specs with which a group could not be started or updated
stored Workloads and PodGroups ──▶ GroupView;  owner + group ──▶ build_workload(), build_pod_group() ──▶ documents

Pure; serves every kind with the option gang-min-count. The scheduler applies minCount only when it places pods. Pods of
the group that already have a node are included in the count. So pods of an earlier revision must not be in the group of
their successors: a pod joins the group of the pods that stay with it, or a new group.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Any, Final

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import make_invalid_error
from pykruise.kube.resources import POD_GROUPS, WORKLOADS, Resource
from pykruise.kube.values.int_or_percent import IntOrPercent, Rounding, resolve
from pykruise.pods.reasons import Code
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.options import GANG_MIN_COUNT
from pykruise.pods.workload.revisions import RevisionView
from pykruise.pods.workload.views import WorkloadView
from pykruise.runtime.reasons import Reason

TEMPLATE_NAME: Final = "pods"
"""Name of the only template in a Workload."""

_EXCLUSIVE: Final = {
    "nodeName": "the pods would bypass the scheduler",
    "schedulingGroup": "the manager chooses the group of each pod",
    "evictionResponders": "Kubernetes accepts no pod with it in a group",
}
"""Fields of a pod spec that pods in a group cannot have, and why."""


TOGETHER: Final = "the pods of a group are updated together"

UPDATED_LATER: Final = Reason(
    Code.POD_GROUP,
    f"{TOGETHER}, but the partition or the limits of the strategy allow only some of them to be updated",
)
"""Reason for pods that could be updated now, but not together with all pods of their group."""

BEFORE_OTHERS: Final = "another pod of its group cannot be updated in place"
"""Reason why a pod of a group is recreated although it could be updated in place."""


class GroupView(msgspec.Struct, frozen=True, kw_only=True):
    """A PodGroup, or a Workload with one template."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    controller_uid: str = ""
    is_owned: bool = False
    """Whether the object has any owner."""
    is_deleting: bool = False
    min_count: int | None = None
    """Number of pods that start together; None if the group is not a gang."""
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
        is_owned=bool(meta.owner_references),
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
    """Return the group of a new pod: the group of most pods `beside` it, or a new name if there are no such pods. Empty
    if the pods beside it have no group, because they were created before the option was set. `taken`: names that are in
    use.
    """
    groups = Counter(pod.pod_group for pod in beside)
    if groups:
        return min(groups, key=lambda name: (-groups[name], name))
    return find_free_name(f"{workload}-{revision}", taken)


class PodGang(msgspec.Struct, frozen=True, kw_only=True):
    """Groups of the new pods, and the minCount of all groups."""

    min_count: int
    update: str
    """Group of new pods of the update revision; empty if these pods have no group."""
    current: str
    """Group of new pods of the current revision; empty if these pods have no group."""
    creates_current: bool
    """Whether new pods are created from the current revision, because the update of their group has to wait."""

    def group_of(self, revision: RevisionView, *, update: RevisionView) -> str:
        """Return the group of a new pod of this revision."""
        return self.update if revision.hash == update.hash else self.current


def choose_gang(
    value: IntOrPercent,
    replicas: int,
    *,
    workload: str,
    new: Sequence[PodView],
    old: Sequence[PodView],
    in_place: bool,
    recreates: bool,
    update: RevisionView,
    current: RevisionView,
    taken: Collection[str],
) -> PodGang:
    """Return the gang of a workload. `new`, `old`: its pods with and without the update revision. `in_place`: whether
    all old pods are updated in place, and so keep their group. `recreates`: whether all old pods may be recreated now.
    """
    return PodGang(
        min_count=compute_min_count(value, replicas),
        update=choose_group(
            new or (old if in_place else ()), workload=workload, revision=update.hash, taken=taken
        ),
        current=choose_group(old or new, workload=workload, revision=current.hash, taken=taken),
        creates_current=bool(old) and not in_place and not recreates,
    )


def explain_hold(cause: Reason | None) -> Reason:
    """Return the reason why no pod of a group is updated. `cause`: obstacle of one of them; None if a limit is the
    cause.
    """
    if cause is None:
        return UPDATED_LATER
    return Reason(cause.code, f"{TOGETHER}; {cause.message}", cause.remedy)


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


def add_group(spec: Document, group: str) -> Document:
    """Return the pod spec with this group; with an empty group, return the unchanged spec."""
    return {**spec, "schedulingGroup": {"podGroupName": group}} if group else spec


def read_priority_class(template: Mapping[str, Any]) -> str:
    """Return the priority class of the pods of a template."""
    return str((template.get("spec") or {}).get("priorityClassName") or "")


# Admission


def find_gang_errors(
    value: IntOrPercent,
    replicas: int,
    template: Any,
    *,
    is_on_delete: bool,
    partition: IntOrPercent | None,
    scale_limit: IntOrPercent | None,
) -> Iterator[Cause]:
    """Yield the errors of a spec with the option that all kinds with replicas have in common."""
    yield from find_template_errors(template)
    if isinstance(value, int) and 0 < replicas < value:
        yield make_invalid_error(
            GANG_MIN_COUNT.field, str(value), f"must be at most spec.replicas ({replicas})"
        )
    if is_on_delete:
        problem = f"must be RollingUpdate with {GANG_MIN_COUNT.field}: a single replaced pod cannot start a new group"
        yield make_invalid_error("spec.updateStrategy.type", "OnDelete", problem)
    elif partition is not None and 0 < resolve_amount(partition, replicas) < replicas:
        problem = f"must be 0 or 100% with {GANG_MIN_COUNT.field}: {TOGETHER}"
        yield make_invalid_error("spec.updateStrategy.rollingUpdate.partition", partition, problem)
    least = compute_min_count(value, replicas)
    if scale_limit is not None and replicas > 0 and resolve_amount(scale_limit, replicas) < least:
        problem = (
            f"must be at least the minCount of the group ({least}): a group with fewer pods cannot start"
        )
        yield make_invalid_error("spec.scaleStrategy.maxUnavailable", scale_limit, problem)


def resolve_amount(amount: IntOrPercent, replicas: int, *, rounding: Rounding = Rounding.UP) -> int:
    """Resolve an amount; an amount that cannot be read, which has an error of its own, counts as all pods."""
    try:
        return resolve(amount, of=replicas, rounding=rounding)
    except ValueError:
        return replicas


def find_template_errors(template: Any) -> Iterator[Cause]:
    """Yield an error for each field of the template that pods in a group cannot have."""
    if not isinstance(template, Mapping):
        return
    spec = template.get("spec")
    for field, why in _EXCLUSIVE.items():
        if isinstance(spec, Mapping) and spec.get(field):
            path = f"spec.template.spec.{field}"
            yield make_invalid_error(path, spec[field], f"is not allowed with {GANG_MIN_COUNT.field}: {why}")


def read_min_count(metadata: Mapping[str, Any]) -> IntOrPercent | None:
    """Return the value of the option in some metadata; None if the option is not set, or `find_option_errors` reports
    it.
    """
    try:
        return GANG_MIN_COUNT.read(metadata.get("annotations") or {})
    except (AttributeError, TypeError, ValueError):
        return None
