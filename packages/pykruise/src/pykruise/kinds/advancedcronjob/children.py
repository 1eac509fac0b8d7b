"""Children of an AdvancedCronJob: their kind, name, content and result.

bytes of a Job, BroadcastJob or ImageListPullJob ──▶ project_child() ──▶ ChildView
AdvancedCronJob + tick ──▶ build_child_document()

Pure. A tick is a time of the schedule.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from pykruise.kube.clock import Instant, format_time, parse_optional_time
from pykruise.kube.documents import Document, get_path, is_same
from pykruise.kube.ids import Key
from pykruise.kube.resources import JOBS, Resource
from pykruise.pods.template.metadata import drop_single_pod_keys
from pykruise.pods.workload.derived_names import LONGEST_LABEL, LONGEST_NAME
from pykruise.pods.workload.revisions import drop_zero_values, reduce_to_essence
from pykruise.runtime.views import BY_CONTROLLER, Views

SCHEDULED_AT: Final = "apps.kruise.io/scheduled-at"

JOB: Final = JOBS
BROADCAST_JOB: Final = Resource("apps.kruise.io", "v1beta1", "broadcastjobs", "BroadcastJob")
IMAGE_LIST_PULL_JOB: Final = Resource("apps.kruise.io", "v1beta1", "imagelistpulljobs", "ImageListPullJob")

TEMPLATES: Final[Mapping[str, Resource]] = {
    "jobTemplate": JOB,
    "imageListPullJobTemplate": IMAGE_LIST_PULL_JOB,
    "broadcastJobTemplate": BROADCAST_JOB,
}
"""Field of `spec.template` → resource of the children that are created from it. The first field that is set is used."""


_WITH_PODS: Final = ("jobTemplate", "broadcastJobTemplate")
"""Fields whose value contains a pod template."""
AMOUNTS: Final = (
    ("completionPolicy", "activeDeadlineSeconds"),
    ("completionPolicy", "ttlSecondsAfterFinished"),
    ("failurePolicy", "restartLimit"),
)
"""Policy of a BroadcastJob's spec, and its field. The controller of BroadcastJobs treats a negative value as 0: the
deadline has passed, the job is deleted when it has ended, and no restart is allowed.
"""
_SELECTORS: Final = frozenset({"selector", "podSelector"})
"""Fields in which `{}` selects everything."""


def has_same_meaning(name: str, new: Any, old: Any) -> bool:
    """Return whether two values of the field `name` of `spec.template` mean the same, whichever client wrote them."""
    return is_same(new, old) or is_same(_convert_to_meaning(name, new), _convert_to_meaning(name, old))


def _convert_to_meaning(name: str, template: Any) -> Any:
    if not isinstance(template, Mapping):
        return template
    pod = get_path(template, "spec", "template")
    if name not in _WITH_PODS or not isinstance(pod, Mapping):
        return drop_zero_values(template, keep=_SELECTORS)
    spec: Document = dict(template["spec"])
    if get_path(spec, "failurePolicy", "restartLimit") == 0:
        spec["failurePolicy"] = {**spec["failurePolicy"], "restartLimit": None}
    meaning: Document = drop_zero_values({**template, "spec": spec}, keep=_SELECTORS)
    return {**meaning, "spec": {**meaning.get("spec", {}), "template": _convert_pod_template(pod)}}


def _convert_pod_template(template: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return reduce_to_essence(template)
    except (AttributeError, TypeError, ValueError):
        return template  # a stored part of a wrong type: it is compared unchanged


class Ending(StrEnum):
    """Result of a child."""

    ACTIVE = "active"
    SUCCESSFUL = "successful"
    FAILED = "failed"


class ChildView(msgspec.Struct, frozen=True, kw_only=True):
    """One child as stored in the cache."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    kind: str
    controller_uid: str = ""
    scheduled_at: Instant | None = None
    """Due time of the child; None if its annotation is missing or unreadable."""
    started_at: str = ""
    ending: Ending = Ending.ACTIVE
    ended_at: Instant | None = None
    """Time of the end; None if the child is active, or if the time is missing or unreadable."""
    has_failed_pods: bool = False
    """Whether the child ended with success although some of its pods failed. This is possible for a BroadcastJob with
    the failure policy Continue.
    """
    is_deleting: bool = False
    is_suspended: bool = False
    starts_no_pod: bool = False
    """Whether the parallelism of a Job is 0."""
    is_managed_elsewhere: bool = False
    """Whether a controller other than Kubernetes' own manages a Job. The Job's pods are perhaps in another cluster."""
    failure: str = ""
    """Message of the condition by which a job reports its failure."""

    @property
    def has_failed(self) -> bool:
        """Whether the child, or a part of its work, has failed."""
        return self.ending is Ending.FAILED or self.has_failed_pods


class _Owner(msgspec.Struct):
    uid: str = ""
    controller: bool | None = None


class _Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    annotations: dict[str, str] | None = None
    owner_references: tuple[_Owner, ...] | None = None
    deletion_timestamp: str | None = None


class _Condition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    message: str = ""
    last_transition_time: str | None = None


class _Status(msgspec.Struct, rename="camel"):
    conditions: tuple[_Condition, ...] | None = None
    start_time: str | None = None
    completion_time: str | None = None
    desired: int = 0
    succeeded: int = 0
    failed: int = 0


class _Spec(msgspec.Struct, rename="camel"):
    suspend: bool | None = None
    parallelism: int | str | None = None
    managed_by: str | None = None


class _Child(msgspec.Struct):
    metadata: _Meta
    spec: _Spec | None = None
    status: _Status | None = None


_decode = msgspec.json.Decoder(_Child).decode


def project_child(raw: bytes | msgspec.Raw, kind: str) -> ChildView:
    """Return the view of a child. Raises msgspec.DecodeError if the bytes are not a Kubernetes object."""
    child = _decode(raw)
    meta, status, spec = child.metadata, child.status or _Status(), child.spec or _Spec()
    ending = _read_pull_ending(status) if kind == IMAGE_LIST_PULL_JOB.kind else _read_job_ending(status)
    return ChildView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=int(meta.resource_version),
        kind=kind,
        controller_uid=next(
            (reference.uid for reference in meta.owner_references or () if reference.controller), ""
        ),
        scheduled_at=_read_scheduled_time(meta.annotations),
        started_at=status.start_time or "",
        ending=ending,
        ended_at=None if ending is Ending.ACTIVE else _find_end_time(status),
        # When a Kubernetes Job succeeds, it has replaced its failed pods.
        has_failed_pods=kind == BROADCAST_JOB.kind and ending is Ending.SUCCESSFUL and status.failed > 0,
        is_deleting=meta.deletion_timestamp is not None,
        is_suspended=spec.suspend is True,
        starts_no_pod=kind == JOB.kind and spec.parallelism == 0,
        is_managed_elsewhere=(spec.managed_by or _JOB_CONTROLLER) != _JOB_CONTROLLER,
        failure=next((item.message for item in status.conditions or () if _is_failure(item)), ""),
    )


_JOB_CONTROLLER: Final = "kubernetes.io/job-controller"
"""Value of spec.managedBy for Kubernetes' own controller of Jobs."""


def _is_failure(condition: _Condition) -> bool:
    return condition.type == "Failed" and condition.status == "True"


def tick_of(document: Mapping[str, Any]) -> Instant | None:
    """Return the tick for which the child was created; None if its annotation is missing or unreadable."""
    return _read_scheduled_time((document.get("metadata") or {}).get("annotations"))


def _read_scheduled_time(annotations: Mapping[str, str] | None) -> Instant | None:
    return parse_optional_time((annotations or {}).get(SCHEDULED_AT))


def _read_job_ending(status: _Status) -> Ending:
    """Return the result of a job: the first condition of type Failed or Complete that is True."""
    for condition in status.conditions or ():
        if condition.status == "True" and condition.type in ("Failed", "Complete"):
            return Ending.FAILED if condition.type == "Failed" else Ending.SUCCESSFUL
    return Ending.ACTIVE


def _find_end_time(status: _Status) -> Instant | None:
    """Return the time of the end. A Kubernetes Job that failed has it only in its condition."""
    failures = (item.last_transition_time for item in status.conditions or () if _is_failure(item))
    return parse_optional_time(status.completion_time or next(failures, None))


def _read_pull_ending(status: _Status) -> Ending:
    if not status.completion_time:
        return Ending.ACTIVE
    return Ending.SUCCESSFUL if status.succeeded == status.desired else Ending.FAILED


def _list_controllers(child: ChildView) -> tuple[str, ...]:
    return (child.controller_uid,) if child.controller_uid else ()


BY_STEM: Final = "stem"
"""Index of children by namespace and by their name without the last dash and the text after it. For a child that an
AdvancedCronJob created, this is the name of the AdvancedCronJob.
"""


def _list_stems(child: ChildView) -> tuple[Key, ...]:
    return (Key(child.namespace, child.name.rpartition("-")[0]),)


def _build_views(resource: Resource) -> Views[ChildView]:
    """Return views of children, with a cache of their own. If pykruise also reconciles objects of this resource, these
    objects are in another cache too.
    """
    return Views[ChildView](
        resource=resource,
        projector=lambda: lambda raw: project_child(raw, resource.kind),
        indexes={BY_CONTROLLER: _list_controllers, BY_STEM: _list_stems},
        is_apart=True,
    )


CHILD_VIEWS: Final[Mapping[str, Views[ChildView]]] = {
    resource.kind: _build_views(resource) for resource in TEMPLATES.values()
}
"""Kind of children → the views of all objects of this kind, also of objects that no AdvancedCronJob created."""


def format_child_name(owner: str, tick: Instant) -> str:
    """Return the name of the child for this tick. The same tick gives the same name, so no child is created twice."""
    return f"{owner}-{int(tick)}"


def is_name_too_long(resource: Resource, owner: str, tick: Instant) -> bool:
    """Whether the child's name would be too long. The pods of a Job or BroadcastJob have a label with the job's name,
    so this name must not be longer than a label value.
    """
    longest = LONGEST_NAME if resource == IMAGE_LIST_PULL_JOB else LONGEST_LABEL
    return len(format_child_name(owner, tick)) > longest


def build_child_document(
    resource: Resource,
    template: Mapping[str, Any],
    *,
    owner: Document,
    namespace: str,
    tick: Instant,
) -> Document:
    """Return the object to create for the tick. Of the template's metadata, only labels and annotations are copied.
    The pod template of a BroadcastJob is copied without keys about a single pod, and its negative amounts become 0,
    because admission rejects them.
    """
    given: Mapping[str, Any] = template.get("metadata") or {}
    metadata: Document = {
        "name": format_child_name(owner["name"], tick),
        "namespace": namespace,
        "annotations": {**(given.get("annotations") or {}), SCHEDULED_AT: format_time(tick)},
        "ownerReferences": [owner],
    }
    if given.get("labels"):
        metadata["labels"] = given["labels"]
    spec: Document = template.get("spec") or {}
    if resource == BROADCAST_JOB:
        spec = _replace_negative_amounts(spec)
        if spec.get("template"):
            spec = {**spec, "template": drop_single_pod_keys(spec["template"])}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": spec,
    }


def _replace_negative_amounts(spec: Document) -> Document:
    """Return the spec of a BroadcastJob with 0 in place of each negative amount of AMOUNTS."""
    result = dict(spec)
    for policy, field in AMOUNTS:
        value = get_path(result, policy, field)
        if isinstance(value, int) and value < 0:
            result[policy] = {**result[policy], field: 0}
    return result


def end_document(document: Document, began: Instant, ended: Instant, is_good: bool) -> Document:
    """Return the child with the status that the child's own controller writes when the child has ended."""
    status: Document = {"startTime": format_time(began), "completionTime": format_time(ended)}
    if document["kind"] == IMAGE_LIST_PULL_JOB.kind:
        status |= {"desired": 1, "succeeded": int(is_good)}
    else:
        status["conditions"] = [{"type": "Complete" if is_good else "Failed", "status": "True"}]
    return {**document, "status": status}
