"""Admission of ContainerRecreateRequests: on creation, it copies the data that the agent needs from the pod.

CREATE ──▶ errors_of() ──▶ read the pod and its node ──▶ fill_in() ──▶ the request to store
UPDATE ──▶ rejected (403) if an immutable field changes: the spec, POD_LABEL, NODE_LABEL or UNREADY_SINCE

One mutating webhook validates and completes the request, as in OpenKruise.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kinds.containerrecreaterequest.conversion import UNREADY_SINCE
from pykruise.kinds.containerrecreaterequest.types import (
    CONTAINER_RECREATE_REQUESTS,
    ContainerRecreateRequestSpec,
)
from pykruise.kinds.containerrecreaterequest.validation import errors_of
from pykruise.kinds.containerrecreaterequest.view import ACTIVE_LABEL, NODE_LABEL, POD_LABEL, read_spec
from pykruise.kube.admission import ALLOWED, AdmissionAnswer, AdmissionRequest, Reviewer, is_reviewed_write
from pykruise.kube.documents import Document, annotations_of, deep_copy, get_path, is_same, labels_of
from pykruise.kube.errors import Cause, ErrorStatus
from pykruise.kube.pod_rules.containers import check_http_head
from pykruise.kube.pod_rules.field_errors import (
    build_bad_request,
    build_refusal,
    make_duplicate_error,
    make_forbidden_error,
    make_invalid_error,
    make_not_found_error,
)
from pykruise.plans.review import Lookups
from pykruise.pods.view.nodes import VIRTUAL_NODE, is_virtual_node
from pykruise.pods.view.pod_view import is_active
from pykruise.pods.workload.admission import name_of

_FIXED: Final = (POD_LABEL, NODE_LABEL)
_COPIED: Final = ("preStop", "ports", "statusContext")
_HOOKS: Final = ("exec", "httpGet", "tcpSocket")


def build_mutating_review(lookups: Lookups) -> Reviewer:
    """Return the admission review. Without lookups (in a simulation) it checks only the request, and not the pod."""

    async def review(request: AdmissionRequest) -> AdmissionAnswer:
        if not is_reviewed_write(request):
            return ALLOWED
        if request.object is None:
            return AdmissionAnswer(refusal=build_bad_request("the request has no object"))
        if request.operation == "UPDATE":
            return AdmissionAnswer(refusal=_check_immutable_fields(request.object, request.old_object or {}))
        spec, problem = read_spec({"podName": "", "containers": [], **(request.object.get("spec") or {})})
        if spec is None:
            return AdmissionAnswer(refusal=build_bad_request(problem))
        if errors := list(errors_of(spec)):
            return _refuse(request, errors)
        if lookups.pods is None or lookups.nodes is None:
            return AdmissionAnswer(object=_with_defaults(request.object))
        pod = await lookups.pods(request.namespace, spec.pod_name)
        if pod is None:
            return _refuse(request, [make_not_found_error("spec.podName", spec.pod_name)])
        if errors := list(_find_pod_errors(spec, pod)):
            return _refuse(request, errors)
        node = await lookups.nodes(pod["spec"]["nodeName"])
        if node is None:
            detail = f"its node {pod['spec']['nodeName']} does not exist"
            return _refuse(request, [make_invalid_error("spec.podName", spec.pod_name, detail)])
        return AdmissionAnswer(
            object=fill_in(request.object, pod, node),
            warnings=(*_warn_of_last_run(spec, pod), *_warn_of_late_probes(spec, pod)),
        )

    return review


def _warn_of_last_run(spec: ContainerRecreateRequestSpec, pod: Document) -> Iterator[str]:
    """Warn about containers that the kubelet never starts again. Init containers that run as sidecars are always
    restarted, and SidecarTerminator ends containers on purpose.
    """
    conditions = get_path(pod, "status", "conditions", default=())
    if get_path(pod, "spec", "restartPolicy", default="") != "Never" or any(
        condition.get("type") == "SidecarTerminated" for condition in conditions
    ):
        return
    regular = {container["name"] for container in pod["spec"].get("containers") or ()}
    for index, container in enumerate(spec.containers):
        if container.name in regular:
            yield (
                f"spec.containers[{index}]: the request stops container {container.name}, and the kubelet does not"
                f" start it again: restartPolicy of pod {spec.pod_name} is Never"
            )


def _warn_of_late_probes(spec: ContainerRecreateRequestSpec, pod: Document) -> Iterator[str]:
    """Warn about a deadline that ends before a container can be ready."""
    deadline_s = spec.active_deadline_seconds
    if deadline_s is None:
        return
    known = _list_containers(pod)
    for container in spec.containers:
        probes = (known[container.name].get(field) or {} for field in ("readinessProbe", "startupProbe"))
        probed_s = max(probe.get("initialDelaySeconds") or 0 for probe in probes)
        if deadline_s <= probed_s:
            yield (
                f"spec.activeDeadlineSeconds: container {container.name} is probed only {probed_s} s after its start"
                f" (initialDelaySeconds), so it cannot be ready within {deadline_s} s"
            )


def _refuse(request: AdmissionRequest, errors: list[Cause]) -> AdmissionAnswer:
    return AdmissionAnswer(refusal=build_refusal(CONTAINER_RECREATE_REQUESTS, name_of(request), errors))


def _check_immutable_fields(new: Document, old: Document) -> ErrorStatus | None:
    """Return a response with code 403 if an immutable field changed; None if the change is allowed."""
    what = ""
    if not _has_same_spec(new, old):
        what = "spec is immutable"
    for label in _FIXED:
        if labels_of(new).get(label) != labels_of(old).get(label):
            what = f"label {label} is immutable"
    since = annotations_of(old).get(UNREADY_SINCE)
    if since and annotations_of(new).get(UNREADY_SINCE) != since:
        what = f"annotation {UNREADY_SINCE} is immutable"
    return ErrorStatus(status="Failure", message=what, reason="Forbidden", code=403) if what else None


def _has_same_spec(new: Document, old: Document) -> bool:
    """Whether the specs have the same values. A field with its zero value equals a missing field, because typed clients
    in Go leave out some zero values.
    """
    if is_same(new.get("spec"), old.get("spec")):
        return True
    (spec, _), (old_spec, _) = read_spec(new.get("spec") or {}), read_spec(old.get("spec") or {})
    return spec is not None and spec == old_spec


# Errors


def _find_pod_errors(spec: ContainerRecreateRequestSpec, pod: Document) -> Iterator[Cause]:
    """Yield errors of the request that depend on its pod."""
    path, name = "spec.podName", spec.pod_name
    status = pod.get("status") or {}
    is_left_to_it = any(
        condition.get("type") == "SidecarTerminated" for condition in status.get("conditions") or ()
    )
    if not is_active(pod) and not is_left_to_it:
        yield make_invalid_error(path, name, "the pod has ended, or is being deleted")
        return
    if not get_path(pod, "spec", "nodeName"):
        yield make_invalid_error(path, name, "the pod has no node")
        return
    known, statuses = _list_containers(pod), _list_statuses(pod)
    seen: set[str] = set()
    for index, container in enumerate(spec.containers):
        here = f"spec.containers[{index}]"
        if container.name in seen:
            yield make_duplicate_error(f"{here}.name", container.name)
        seen.add(container.name)
        for field, value in zip(
            _COPIED, (container.pre_stop, container.ports, container.status_context), strict=True
        ):
            if value is not None:
                yield make_forbidden_error(f"{here}.{field}", "is copied from the pod and must not be given")
        if container.name not in known:
            yield make_not_found_error(f"{here}.name", container.name)
        elif not (statuses.get(container.name) or {}).get("containerID"):
            yield make_invalid_error(f"{here}.name", container.name, "the container has not been started")
        elif get := get_path(known[container.name], "lifecycle", "preStop", "httpGet", default=None):
            yield from check_http_head(get, f"{here}.preStop.httpGet")


def _list_containers(pod: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the containers that can be recreated, by name: regular containers, and init containers that run as
    sidecars.
    """
    spec = pod["spec"]
    sidecars = [
        container
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    ]
    return {sidecar["name"]: sidecar for sidecar in (*sidecars, *(spec.get("containers") or ()))}


def _list_statuses(pod: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    status = pod.get("status") or {}
    lists = (status.get("initContainerStatuses") or (), status.get("containerStatuses") or ())
    return {status["name"]: status for statuses in lists for status in statuses}


# Data that admission adds


def _with_defaults(doc: Document) -> Document:
    defaults: Document = deep_copy(doc)
    metadata = defaults["metadata"] = defaults.get("metadata") or {}
    metadata["labels"] = {**(metadata.get("labels") or {}), ACTIVE_LABEL: "true"}
    strategy = defaults["spec"].get("strategy") or {}
    defaults["spec"]["strategy"] = {**strategy, "failurePolicy": strategy.get("failurePolicy") or "Fail"}
    return defaults


def fill_in(doc: Document, pod: Mapping[str, Any], node: Mapping[str, Any]) -> Document:
    """Return a copy of the request, with everything that the agent needs to know about the pod."""
    result = _with_defaults(doc)
    labels, strategy = result["metadata"]["labels"], result["spec"]["strategy"]
    labels[POD_LABEL] = pod["metadata"]["uid"]
    labels[NODE_LABEL] = pod["spec"]["nodeName"]
    if is_virtual_node(labels_of(node)):
        labels.update((VIRTUAL_NODE,))
    if strategy.get("terminationGracePeriodSeconds") is None:
        grace = pod["spec"].get("terminationGracePeriodSeconds")
        if grace is not None:
            strategy["terminationGracePeriodSeconds"] = grace
    known, statuses = _list_containers(pod), _list_statuses(pod)
    result["spec"]["containers"] = [
        _with_context(container, known[container["name"]], statuses[container["name"]])
        for container in result["spec"]["containers"]
    ]
    return result


def _with_context(
    target: Mapping[str, Any], container: Mapping[str, Any], status: Mapping[str, Any]
) -> Document:
    context = {
        **target,
        "statusContext": {
            "containerID": status["containerID"],
            "restartCount": status.get("restartCount") or 0,
        },
    }
    hook = get_path(container, "lifecycle", "preStop", default={})
    if copied := {kind: hook[kind] for kind in _HOOKS if hook.get(kind) is not None}:
        context["preStop"] = copied
        if "httpGet" in copied and container.get("ports"):
            context["ports"] = container["ports"]
    return context
