"""Groups of the pods of a workload with the option gang-min-count: the objects Workload and PodGroup of Kubernetes.

view of a workload + Read ──▶ read_groups() ──▶ FoundGroups: its groups, or why groups are not supported
FoundGroups + minCount + its pods ──▶ keep_groups() ──▶ writes that are sent before pods are created
                                 ──▶ drop_groups() ──▶ deletions of groups without pods

The functions that plan are pure. Without the gate, Workloads and PodGroups are not watched. Without the option, they
are not created.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.ids import Key
from pykruise.kube.patches.types import PatchType
from pykruise.kube.pod_rules.field_errors import make_invalid_error
from pykruise.kube.rbac import READ, Right, make_right
from pykruise.kube.resources import POD_GROUPS, WORKLOADS, Resource
from pykruise.plans.phases import CreatePod, PlanPhase
from pykruise.plans.pod_writes import stage_of
from pykruise.plans.purposes import Purpose
from pykruise.pods.settings import Gate
from pykruise.pods.view.pod_view import PodView
from pykruise.pods.workload.options import GANG_MIN_COUNT
from pykruise.pods.workload.pod_groups import (
    TEMPLATE_NAME,
    GroupView,
    build_pod_group,
    build_workload,
    find_free_name,
    format_workload_name,
    project_group,
    read_priority_class,
)
from pykruise.pods.workload.views import WorkloadView
from pykruise.runtime.actions import Create, delete_object, patch_object
from pykruise.runtime.ownership import check_still_there
from pykruise.runtime.plan import Chain, Note, Plan, Stage, Step
from pykruise.runtime.read import Read
from pykruise.runtime.views import BY_CONTROLLER, BY_NAMESPACE, Views

GROUP_GATE: Final = "PodGroups"

GROUP_GATES: Final[Mapping[str, Gate]] = {
    GROUP_GATE: Gate(
        False,
        "alpha",
        f"the pods of a workload with the annotation {GANG_MIN_COUNT.annotation} start together",
    )
}
"""Feature gates of the kinds whose pods can be started as a group. OpenKruise does not have them."""


_SERVER_GATE: Final = "GenericWorkload"
"""Feature gate of Kubernetes that groups of pods need."""


def list_server_gates(gates: Callable[[str], bool]) -> frozenset[str]:
    """Return the feature gates of Kubernetes that must be on in a sandbox if these gates of the manager are on."""
    return frozenset({_SERVER_GATE}) if gates(GROUP_GATE) else frozenset()


def _index_by_controller(group: GroupView) -> tuple[str, ...]:
    return (group.controller_uid,) if group.controller_uid else ()


POD_GROUP_VIEWS, WORKLOAD_VIEWS = (
    Views[GroupView](
        resource=resource,
        projector=lambda: project_group,
        indexes={BY_CONTROLLER: _index_by_controller, BY_NAMESPACE: lambda group: (group.namespace,)},
        is_apart=True,
    )
    for resource in (POD_GROUPS, WORKLOADS)
)

NO_GATE: Final = (
    f"needs the feature gate {GROUP_GATE}: start the manager with --feature-gates={GROUP_GATE}=true, or remove the "
    "annotation"
)
NOT_SERVED: Final = (
    f"needs the API {POD_GROUPS.api_version}, which the API server does not serve: enable it and the feature gate "
    f"{_SERVER_GATE} in Kubernetes 1.37 or later, or remove the annotation"
)

LOOK_AGAIN_S: Final = 30.0
"""Seconds until the manager looks again whether the API is served."""


class GroupSettings(Protocol):
    """Settings of a kind whose pods can be started as a group."""

    @property
    def pod_groups(self) -> bool: ...


class FoundGroups(msgspec.Struct, frozen=True, kw_only=True):
    """The objects Workload and PodGroup for the pods of one workload."""

    problem: str = ""
    """Reason why the option is not supported; empty if it is supported or not set."""
    workload: GroupView | None = None
    groups: Mapping[str, GroupView] = {}
    """Name → PodGroup that the workload controls."""
    taken: frozenset[str] = frozenset()
    """Names of other PodGroups in the namespace, and of terminating PodGroups."""
    orphans: Mapping[str, GroupView] = {}
    """Name → PodGroup in the namespace without an owner, for example of adopted pods."""
    taken_workloads: frozenset[str] = frozenset()
    """Names of other objects Workload in the namespace, for example of a deleted owner."""

    @property
    def is_any(self) -> bool:
        """Whether the workload has an object Workload or PodGroup."""
        return bool(self.groups) or self.workload is not None


def list_group_rights(kind: str) -> Mapping[str, tuple[Right, ...]]:
    """Return the further permissions that the controller of a kind needs if the gate is on."""
    why = f"{kind}: to group pods for the scheduler (gate {GROUP_GATE})"
    verbs = (*READ, "create", "patch", "delete")
    return {GROUP_GATE: tuple(make_right(resource, *verbs, why=why) for resource in (POD_GROUPS, WORKLOADS))}


def list_group_reads(settings: GroupSettings) -> Sequence[Views[Any]]:
    """Return the views that a kind reads for groups; none if the gate is off."""
    return (POD_GROUP_VIEWS, WORKLOAD_VIEWS) if settings.pod_groups else ()


async def read_groups(view: WorkloadView, read: Read[Any]) -> FoundGroups:
    """Return the groups of a workload, or the reason why groups are not supported."""
    is_wanted = GANG_MIN_COUNT.annotation in view.annotations
    if not read.settings.pod_groups:
        return FoundGroups(problem=_format_problem(NO_GATE) if is_wanted else "")
    for views in (POD_GROUP_VIEWS, WORKLOAD_VIEWS):
        is_served = await read.wait_served(views) if is_wanted else read.is_read(views)
        if not is_served:
            return FoundGroups(problem=_format_problem(NOT_SERVED) if is_wanted else "")
    owned = {group.name: group for group in read.list_owned(POD_GROUP_VIEWS, view.uid)}
    groups = {name: group for name, group in owned.items() if not group.is_deleting}
    every = read.list_by_index(POD_GROUP_VIEWS, BY_NAMESPACE, view.namespace) if is_wanted else ()
    workload = next(iter(read.list_owned(WORKLOAD_VIEWS, view.uid)), None)
    others = read.list_by_index(WORKLOAD_VIEWS, BY_NAMESPACE, view.namespace) if is_wanted else ()
    return FoundGroups(
        workload=workload,
        taken_workloads=frozenset(other.name for other in others if other is not workload),
        groups=groups,
        taken=frozenset(group.name for group in every if group.name not in groups),
        orphans={group.name: group for group in every if not group.is_owned and not group.is_deleting},
    )


def _format_problem(problem: str) -> str:
    return f"{GANG_MIN_COUNT.field}: {problem}"


# Writes


def list_used_names(pods: Iterable[PodView], phase: PlanPhase) -> frozenset[str]:
    """Return the names of the groups of these pods, and of the pods that the phase creates."""
    created = (
        decision.document["spec"].get("schedulingGroup")
        for stage in phase.decided
        for decision in stage.decisions
        if isinstance(decision, CreatePod)
    )
    return frozenset(
        [*(pod.pod_group for pod in pods), *(group["podGroupName"] for group in created if group)]
    )


def look_again(plan: Plan, stored_groups: FoundGroups) -> Plan:
    """Return the plan. If groups are not supported, the plan looks again after LOOK_AGAIN_S."""
    return msgspec.structs.replace(plan, requeue_after_s=LOOK_AGAIN_S) if stored_groups.problem else plan


def list_taken_names(stored_groups: FoundGroups, pods: Iterable[PodView]) -> Collection[str]:
    """Return the names that a new PodGroup must not have: of other PodGroups, and of groups of existing pods."""
    return stored_groups.taken | {pod.pod_group for pod in pods}


def keep_groups(
    stored_groups: FoundGroups,
    *,
    owner: WorkloadView,
    resource: Resource,
    used: Collection[str],
    min_count: int,
    template: Mapping[str, Any],
) -> tuple[Stage, ...]:
    """Return the stages that create the object Workload and the PodGroups of pods, and set `min_count` in all of them.
    A PodGroup without an owner is adopted; a PodGroup of another owner is not changed. `used`: see list_used_names().
    `template`: pod template of new pods.
    """
    needed = set(used) - {""}
    priority_class = read_priority_class(template)
    base = format_workload_name(resource, owner.name)
    workload = (
        stored_groups.workload.name
        if stored_groups.workload
        else find_free_name(base, stored_groups.taken_workloads)
    )
    document = build_workload(owner, resource, workload, min_count=min_count, priority_class=priority_class)
    chains = [
        *_keep_workload(stored_groups.workload, document, min_count=min_count, priority_class=priority_class)
    ]
    adopted = [stored_groups.orphans[name] for name in sorted(needed & stored_groups.orphans.keys())]
    chains += [_adopt_group(group, owner.build_reference(resource)) for group in adopted]
    for name in sorted(needed - stored_groups.taken):
        group = stored_groups.groups.get(name)
        if group is None:
            document = build_pod_group(
                owner, resource, name, workload=workload, min_count=min_count, priority_class=priority_class
            )
            chains.append(_create(POD_GROUPS, document, f"{min_count} of the group's pods start together"))
        elif group.min_count not in (None, min_count):
            body = {"spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}}}
            action = patch_object(POD_GROUPS, group, body)
            chains.append(_build_chain(name, Step(action=action, because=_explain_change(group, min_count))))
    check = check_still_there(
        resource,
        owner.key,
        uid=owner.uid,
        resource_version=str(owner.resource_version),
        purpose=Purpose.CHECK_ADOPTER,
    )
    return (*([check] if adopted else ()), *stage_of(Purpose.KEEP_GROUPS, chains))


def _adopt_group(group: GroupView, reference: Document) -> Chain:
    action = patch_object(POD_GROUPS, group, {"metadata": {"ownerReferences": [reference]}}, unchanged=True)
    return _build_chain(group.name, Step(action=action, because="the pods of the group are adopted"))


def _keep_workload(
    stored: GroupView | None, document: Document, *, min_count: int, priority_class: str
) -> Iterator[Chain]:
    if stored is None:
        yield _create(WORKLOADS, document, "the pods of its owner are scheduled in groups")
    elif stored.is_deleting:
        return
    elif stored.min_count is None or stored.priority_class != priority_class:
        step = Step(
            action=delete_object(WORKLOADS, stored),
            because="its template cannot be changed; it is created again",
        )
        yield _build_chain(stored.name, step)
    elif stored.min_count != min_count:
        path = "/spec/podGroupTemplates/0"
        patch = [
            {"op": "test", "path": f"{path}/name", "value": TEMPLATE_NAME},
            {"op": "replace", "path": f"{path}/schedulingPolicy/gang/minCount", "value": min_count},
        ]
        action = patch_object(WORKLOADS, stored, patch, patch_type=PatchType.JSON)
        yield _build_chain(stored.name, Step(action=action, because=_explain_change(stored, min_count)))


def drop_groups(stored_groups: FoundGroups, *, used: Collection[str], is_wanted: bool) -> Iterator[Chain]:
    """Yield the deletions of PodGroups without pods. If the option is not set (`is_wanted` is False) and no PodGroup
    has pods, also delete the object Workload. `used`: names of the PodGroups of pods that exist or are being created.
    """
    unused = [group for name, group in sorted(stored_groups.groups.items()) if name not in used]
    for group in unused:
        action = delete_object(POD_GROUPS, group)
        yield _build_chain(group.name, Step(action=action, because="none of the pods has this group"))
    workload = stored_groups.workload
    if (
        not is_wanted
        and workload is not None
        and not workload.is_deleting
        and len(unused) == len(stored_groups.groups)
    ):
        action = delete_object(WORKLOADS, workload)
        yield _build_chain(workload.name, Step(action=action, because="no pod has a group"))


def _explain_change(group: GroupView, min_count: int) -> str:
    return f"minCount changes from {group.min_count} to {min_count}"


def _create(resource: Resource, document: dict[str, Any], because: str) -> Chain:
    metadata = document["metadata"]
    name = metadata["name"]
    failed = Note(
        reason=f"FailedCreate{resource.kind}",
        message=f"failed to create {resource.kind} {name}",
        warning=True,
    )
    step = Step(
        action=Create(resource=resource, key=Key(metadata["namespace"], name), body=document),
        because=because,
        failed=failed,
    )
    return _build_chain(name, step)


def _build_chain(name: str, *steps: Step) -> Chain:
    return Chain(subject=name, steps=steps)


# Admission


def explain_no_gate(settings: GroupSettings) -> str:
    """Return the reason why the settings do not allow groups; empty if they do."""
    return "" if settings.pod_groups else NO_GATE


def find_gate_errors(
    doc: Mapping[str, Any], *, old: Mapping[str, Any] | None, problem: str
) -> Iterator[Cause]:
    """Yield an error if the option is newly set or changed but not supported. `problem` is the reason; empty if the
    option is supported. A stored option is not an error, so that other fields can be changed.
    """
    text = _read_text(doc) if problem else None
    if text is not None and text != _read_text(old or {}):
        yield make_invalid_error(GANG_MIN_COUNT.field, text, problem)


def _read_text(doc: Mapping[str, Any]) -> str | None:
    text: str | None = ((doc.get("metadata") or {}).get("annotations") or {}).get(GANG_MIN_COUNT.annotation)
    return text
