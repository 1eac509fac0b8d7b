"""Rules of pods: defaults on creation, allowed changes, binding to a node and in-place resize.

    a pod as sent ──▶ PodStrategy ──▶ a pod as stored, or Causes
    pods/binding  ──▶ bind(pod, binding)   ──▶ the pod on its node, or BindError (409)
    pods/resize   ──▶ resize(new, old)     ──▶ the pod with new resources; check_resize() validates it

Pure. pod_spec.py (defaults) and kube/pod_rules (checks) handle the fields below `spec`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from pykruise.kube.clock import Instant, format_time
from pykruise.kube.documents import Document, decode, deep_copy, encode_canonical, is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.containers import check_whitespace
from pykruise.kube.pod_rules.field_errors import (
    make_forbidden_error,
    make_invalid_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.pod_rules.field_rules import Causes, check_immutable, check_subdomain
from pykruise.kube.pod_rules.names import is_qualified_name
from pykruise.kube.pod_rules.placement import check_tolerations
from pykruise.kube.pod_rules.pod_resources import fill_pod_resources
from pykruise.kube.pod_rules.pods import check_names, check_pod_spec
from pykruise.kube.schemas.releases import Release
from pykruise.sandbox.apiserver.builtin.pod_spec import (
    compute_qos_class,
    fill_pod,
)
from pykruise.sandbox.apiserver.builtin.strategy import BuiltinStrategy, keep


class PodStrategy(BuiltinStrategy):
    """Pods: after the creation, only images and a few other fields of the spec can change."""

    has_status = True

    def default(self, doc: Document) -> Document:
        fill_pod(doc, self.release)
        return doc

    def default_changed(self, new: Document, old: Document) -> Document:
        return new if new.get("spec") == old["spec"] else self.default(new)

    def prepare_create(self, doc: Document) -> Document:
        if self.release.has("PodLevelResources"):
            fill_pod_resources(doc["spec"])
        status: Document = {"phase": "Pending", "qosClass": compute_qos_class(doc["spec"])}
        if doc["spec"].get("schedulingGates"):
            status["conditions"] = [_build_gated_condition(doc)]
        doc["status"] = status
        return doc

    def is_spec_changed(self, new: Document, old: Document) -> bool | None:
        """Whether the generation increases. Pods have a generation since Kubernetes 1.33."""
        if not self.release.is_at_least(_FIRST_WITH_GENERATION):
            return None
        return new.get("spec") != old.get("spec")

    def validate_create(self, doc: Document) -> list[Cause]:
        spec = doc.get("spec") or {}
        causes = list(_check_pod(doc, self.release))
        if spec.get("ephemeralContainers"):
            causes.append(make_forbidden_error("spec.ephemeralContainers", "cannot be set on create"))
        if spec.get("nodeName") and spec.get("schedulingGates"):
            detail = "cannot be set until all schedulingGates have been cleared"
            causes.append(make_forbidden_error("spec.nodeName", detail))
        return causes

    def prepare_update(self, new: Document, old: Document) -> Document:
        keep(new, old, "status")
        return new

    def prepare_status_update(self, new: Document, old: Document) -> Document:
        super().prepare_status_update(new, old)
        keep(new["metadata"], old["metadata"], "ownerReferences")
        status = new.setdefault("status", {})
        qos = (old.get("status") or {}).get("qosClass")
        if not status.get("qosClass") and qos:
            status["qosClass"] = qos
        if status.get("podIP") and not status.get("podIPs"):
            # `podIPs` is newer than `podIP`: if a client writes only `podIP`, the server sets both.
            status["podIPs"] = [{"ip": status["podIP"]}]
        return new

    def validate_update(self, new: Document, old: Document) -> list[Cause]:
        if new["spec"] == old["spec"]:
            return []  # the stored spec is known to be valid
        causes = list(_check_pod(new, self.release))
        return causes + list(_check_changes(new["spec"], old["spec"], self.release))

    def validate_status_update(self, new: Document, old: Document) -> list[Cause]:
        return list(_check_status(new, old))

    def compute_grace_period(self, doc: Document, options: Mapping[str, Any]) -> int | None:
        spec, status = doc.get("spec") or {}, doc.get("status") or {}
        period = options.get("gracePeriodSeconds")
        if period is None:
            period = spec.get("terminationGracePeriodSeconds") or 0
        if not spec.get("nodeName") or status.get("phase") in ("Failed", "Succeeded"):
            return 0
        return 1 if period < 0 else int(period)

    def resize(self, new: Document, old: Document) -> Document:
        """Return the old pod with the new pod's fields that a resize may change (pods/resize), as a new document."""
        if self.release.is_at_least(_FIRST_WITH_RESIZE_CONDITIONS):
            return _apply_resize(new, old, self.release)
        return _apply_resize_before_1_33(new, old, self.release)

    def check_resize(self, new: Document, old: Document) -> list[Cause]:
        """Field errors of a resize; `new` is the result of `resize`."""
        causes = list(_check_pod(new, self.release))
        if self.release.is_at_least(_FIRST_WITH_RESIZE_CONDITIONS):
            return [*causes, *_check_resize(new, old, self.release)]
        return [*causes, *_check_resize_before_1_33(new, old)]

    def add_ephemeral_containers(self, new: Document, old: Document) -> Document:
        """Return the old pod with the new pod's ephemeral containers (pods/ephemeralcontainers), as a new document."""
        pod: Document = deep_copy(old)
        keep(pod["spec"], new.get("spec") or {}, "ephemeralContainers")
        fill_pod(pod, self.release)
        return pod

    def check_ephemeral_containers(self, new: Document, old: Document) -> list[Cause]:
        """Field errors of added ephemeral containers. Existing ephemeral containers must not be removed or changed."""
        causes = list(_check_pod(new, self.release))
        after = {each.get("name"): each for each in new["spec"].get("ephemeralContainers") or ()}
        for container in old["spec"].get("ephemeralContainers") or ():
            name = container.get("name")
            if name not in after:
                detail = f'existing ephemeral containers "{name}" may not be removed\n'
                causes.append(make_forbidden_error("spec.ephemeralContainers", detail))
            elif not is_same(after[name], container):
                detail = f'existing ephemeral containers "{name}" may not be changed\n'
                causes.append(make_forbidden_error("spec.ephemeralContainers", detail))
        return causes


_FIRST_WITH_GENERATION: Final = "1.33"
_FIRST_WITH_RESIZE_CONDITIONS: Final = "1.33"
"""First release in which conditions report a resize, instead of `status.resize`."""


def _build_gated_condition(doc: Document) -> Document:
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": (doc.get("metadata") or {}).get("creationTimestamp"),
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


def _check_pod(pod: Mapping[str, Any], release: Release) -> Causes:
    spec, name = pod.get("spec") or {}, (pod.get("metadata") or {}).get("name") or ""
    # Pods of a workload mostly differ only in hostname and nodeName, so the result for the other fields is cached.
    shared = encode_canonical(
        {field: value for field, value in spec.items() if field not in ("hostname", "nodeName")}
    )
    if len(shared) > _LONGEST_REMEMBERED:
        return _check_spec(spec, name, release)
    is_valid = _is_valid(shared, name if b'"ephemeral"' in shared else "", release)
    return check_names(spec, "spec") if is_valid else _check_spec(spec, name, release)


_LONGEST_REMEMBERED: Final = 16 * 1024


@lru_cache(maxsize=1_024)
def _is_valid(spec: bytes, name: str, release: Release) -> bool:
    """Whether a spec is valid. `name`: the pod's name, which is part of the claim names of its ephemeral volumes."""
    return next(_check_spec(decode(spec), name, release), None) is None


def _check_spec(spec: Mapping[str, Any], name: str, release: Release) -> Causes:
    yield from check_pod_spec(spec, "spec", pod_name=name, release=release)
    if not spec.get("serviceAccountName"):
        yield from _check_no_tokens(spec.get("volumes") or ())
    yield from check_whitespace(spec, "spec")


def _check_no_tokens(volumes: Sequence[Mapping[str, Any]]) -> Causes:
    for index, volume in enumerate(volumes):
        for position, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                path = f"spec.volumes[{index}].projected.sources[{position}].serviceAccountToken"
                yield make_forbidden_error(path, "must not be specified when serviceAccountName is not set")


# --- what an update may change ---

_UPDATABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _check_changes(new: Document, old: Document, release: Release) -> Causes:
    for field in ("containers", "initContainers"):
        if len(new.get(field) or ()) != len(old.get(field) or ()):
            yield make_forbidden_error(f"spec.{field}", "pod updates may not add or remove containers")
            return
        yield from _check_images(new.get(field) or (), f"spec.{field}")
    wrong = list(_check_deadline(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")))
    yield from wrong
    if wrong and new.get("activeDeadlineSeconds") is not None:
        return
    if new.get("tolerations") != old.get("tolerations"):
        yield from _check_added_tolerations(
            new.get("tolerations") or [], old.get("tolerations") or [], release
        )
    yield from _check_removed_gates(new.get("schedulingGates") or [], old.get("schedulingGates") or [])
    munged = _with_allowed_changes_undone(new, old)
    if munged != old:
        detail = (
            f"pod updates may not change fields other than {_UPDATABLE}\n{_format_differences(munged, old)}"
        )
        yield make_forbidden_error("spec", detail)


def _check_images(containers: Sequence[Document], path: str) -> Causes:
    for index, container in enumerate(containers):
        image = container.get("image") or ""
        if not image:
            yield make_required_error(f"{path}[{index}].image")
        if image != image.strip():
            detail = "must not have leading or trailing whitespace"
            yield make_invalid_error(f"{path}[{index}].image", image, detail)


def _check_deadline(new: int | None, old: int | None) -> Causes:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            yield make_invalid_error(path, None, "must not update from a positive integer to nil value")
    elif not 0 <= new <= 2**31 - 1:
        yield make_invalid_error(path, new, f"must be between 0 and {2**31 - 1}, inclusive")
    elif old is not None and old < new:
        yield make_invalid_error(path, new, "must be less than or equal to previous value")


def _check_added_tolerations(new: Sequence[Document], old: Sequence[Document], release: Release) -> Causes:
    def without_seconds(toleration: Document) -> Document:
        return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}

    kept = [without_seconds(toleration) for toleration in new]
    if any(without_seconds(toleration) not in kept for toleration in old):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield make_forbidden_error("spec.tolerations", detail)
        return
    yield from check_tolerations(new, "spec.tolerations", release)


def _check_removed_gates(new: Sequence[Document], old: Sequence[Document]) -> Causes:
    known = {gate.get("name") for gate in old}
    for index, gate in enumerate(new):
        if gate.get("name") not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield make_forbidden_error(f"spec.schedulingGates[{index}].name", detail)


def _with_allowed_changes_undone(new: Document, old: Document) -> Document:
    munged = dict(new)
    for field in ("containers", "initContainers"):
        if new.get(field):
            munged[field] = [
                _with_image_of(container, before)
                for container, before in zip(new[field], old[field], strict=True)
            ]
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        keep(munged, old, field)
    if old.get("terminationGracePeriodSeconds", 0) < 0 and new.get("terminationGracePeriodSeconds") == 1:
        munged["terminationGracePeriodSeconds"] = old["terminationGracePeriodSeconds"]
    if old.get("schedulingGates"):
        # A pod with scheduling gates may be restricted to fewer nodes.
        if _keeps_all_items(new.get("nodeSelector") or {}, old.get("nodeSelector") or {}):
            keep(munged, old, "nodeSelector")
        if _narrows_nodes(new.get("affinity") or {}, old.get("affinity") or {}):
            keep(munged, old, "affinity")
    return munged


def _with_image_of(container: Document, before: Document) -> Document:
    munged = dict(container)
    keep(munged, before, "image")
    return munged


def _keeps_all_items(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    return all(new.get(key) == value for key, value in old.items())


def _narrows_nodes(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether an update only adds node affinity. The number of existing nodeSelectorTerms must not change."""

    def others(affinity: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in affinity.items() if key != "nodeAffinity"}

    def terms(affinity: Mapping[str, Any]) -> list[Any] | None:
        node = affinity.get("nodeAffinity") or {}
        must = node.get("requiredDuringSchedulingIgnoredDuringExecution")
        return None if must is None else must.get("nodeSelectorTerms") or []

    if others(new) != others(old):
        return False
    before, after = terms(old), terms(new)
    if before is None:
        return True
    if after is None or len(after) != len(before):
        return False
    return all(
        all(requirement in (later.get(field) or ()) for requirement in earlier.get(field) or ())
        for earlier, later in zip(before, after, strict=True)
        for field in ("matchExpressions", "matchFields")
    )


def _format_differences(new: Any, old: Any) -> str:
    """List the fields that differ: for each, a line `- path: old value` and a line `+ path: new value`."""
    lines = []
    for path, before, after in _find_differences(new, old, "spec"):
        lines += [f"- {path}: {before!r}"] if before is not _ABSENT else []
        lines += [f"+ {path}: {after!r}"] if after is not _ABSENT else []
    return "\n".join(lines)


_ABSENT: Final = object()


def _find_differences(new: Any, old: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(new, dict) and isinstance(old, dict):
        for key in sorted(new.keys() | old.keys()):
            yield from _find_differences(new.get(key, _ABSENT), old.get(key, _ABSENT), f"{path}.{key}")
    elif isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        for index, (after, before) in enumerate(zip(new, old, strict=True)):
            yield from _find_differences(after, before, f"{path}[{index}]")
    elif new is _ABSENT or old is _ABSENT or not is_same(new, old):
        yield path, old, new


# --- status ---


def _check_status(new: Document, old: Document) -> Causes:
    status, before = new.get("status") or {}, old.get("status") or {}
    for index, condition in enumerate(status.get("conditions") or ()):
        kind = condition.get("type") or ""
        if kind not in ("PodScheduled", "Ready", "Initialized"):
            for message in is_qualified_name(kind):
                # apiserver reports this odd path as well.
                yield make_invalid_error(f"metadata.conditions[{index}].Type", kind, message)
    nominated = status.get("nominatedNodeName")
    if nominated and nominated != before.get("nominatedNodeName"):
        yield from check_subdomain(nominated, "status.nominatedNodeName")
    yield from check_immutable(status.get("qosClass"), before.get("qosClass"), "status.qosClass")
    policy = (old.get("spec") or {}).get("restartPolicy")
    restartable = {
        container.get("name")
        for container in (old.get("spec") or {}).get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    for field in ("containerStatuses", "initContainerStatuses"):
        spared = restartable if field == "initContainerStatuses" else set()
        yield from _check_stay_terminated(
            status.get(field) or (), before.get(field) or (), f"status.{field}", policy, spared
        )


def _check_stay_terminated(
    new: Sequence[Document], old: Sequence[Document], path: str, policy: str | None, spared: set[Any]
) -> Causes:
    """Check that a terminated container that is not restarted stays terminated."""
    if policy == "Always":
        return
    running = {status.get("name") for status in new if (status.get("state") or {}).get("terminated") is None}
    for index, status in enumerate(old):
        ended = (status.get("state") or {}).get("terminated")
        if ended is None or status.get("name") in spared:
            continue
        if ended.get("exitCode") and policy == "OnFailure":
            continue
        if status.get("name") in running:
            yield make_forbidden_error(
                f"{path}[{index}].state", "may not be transitioned to non-terminated state"
            )


# --- subresources ---


class BindError(Exception):
    """The pod cannot be bound. The response is a conflict (409) with this message."""


def check_binding(binding: Mapping[str, Any]) -> list[Cause]:
    """Field errors of a Binding."""
    target = binding.get("target") or {}
    causes = []
    if target.get("kind") not in (None, "", "Node"):
        causes.append(make_not_supported_error("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        causes.append(make_required_error("target.name"))
    return causes


def bind(pod: Document, binding: Mapping[str, Any], *, now: Instant | None = None) -> Document:
    """Return the pod assigned to the node that the binding names, as a new document.

    `now` becomes the transition time of the PodScheduled condition; without it there is no transition time.
    Raises BindError when the pod is being deleted, is already assigned, or still has scheduling gates.
    """
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    name = metadata.get("name", "")
    if metadata.get("deletionTimestamp"):
        raise BindError(f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise BindError(f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise BindError(f"pod {name} has non-empty .spec.schedulingGates")
    bound = dict(pod)
    bound["spec"] = {**spec, "nodeName": binding["target"]["name"]}
    additions = (binding.get("metadata") or {}).get("annotations")
    if additions:
        annotations = {**(metadata.get("annotations") or {}), **additions}
        bound["metadata"] = {**metadata, "annotations": annotations}
    status = pod.get("status") or {}
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": None if now is None else format_time(now),
    }
    others = [each for each in status.get("conditions") or () if each.get("type") != "PodScheduled"]
    bound["status"] = {**status, "conditions": [*others, condition]}
    return bound


def _apply_resize_before_1_33(new: Document, old: Document, release: Release) -> Document:
    """Return the old pod with the new pod's container resources and resize policies, as a new document."""
    pod: Document = deep_copy(old)
    wanted = {
        container.get("name"): container for container in (new.get("spec") or {}).get("containers") or ()
    }
    changed = False
    for container in pod["spec"]["containers"]:
        sent = wanted.get(container.get("name"))
        if sent is None:
            continue
        asked = sent.get("resources") or {}
        if asked.get("requests") and not is_same(asked, container.get("resources") or {}):
            changed = True
        for field in ("resources", "resizePolicy"):
            keep(container, sent, field)
    if changed:
        pod.setdefault("status", {})["resize"] = "Proposed"
    resource_version = (new.get("metadata") or {}).get("resourceVersion")
    if resource_version:
        pod["metadata"]["resourceVersion"] = resource_version
    fill_pod(pod, release)
    return pod


def _apply_resize(new: Document, old: Document, release: Release) -> Document:
    """Return the old pod with the new pod's resources: the resources of the containers and, if they can change, of the
    pod itself.
    """
    pod: Document = deep_copy(old)
    if version := (new.get("metadata") or {}).get("resourceVersion"):
        pod["metadata"]["resourceVersion"] = version
    spec: Document = new.get("spec") or {}
    for field in ("containers", "initContainers"):
        names = [container.get("name") for container in spec.get(field) or ()]
        if names != [container.get("name") for container in pod["spec"].get(field) or ()]:
            keep(pod["spec"], spec, field)  # the check of the resize rejects the changed list
            continue
        for container, sent in zip(pod["spec"].get(field) or (), spec.get(field) or (), strict=True):
            for part in ("resources", "resizePolicy"):
                keep(container, sent, part)
    if release.has("InPlacePodLevelResourcesVerticalScaling"):
        if spec.get("resources") is not None or not release.has("PodLevelResourcesFixDefaulting"):
            keep(pod["spec"], spec, "resources")
        if release.has("PodLevelResourcesFixDefaulting"):
            fill_pod_resources(pod["spec"])
    fill_pod(pod, release)
    return pod


def _check_resize_before_1_33(new: Document, old: Document) -> Causes:
    yield from _check_same_qos(new, old)
    for index, (after, before) in enumerate(
        zip(new["spec"]["containers"], old["spec"]["containers"], strict=True)
    ):
        for kind in ("requests", "limits"):
            then = (before.get("resources") or {}).get(kind) or {}
            now = (after.get("resources") or {}).get(kind) or {}
            if not then.keys() <= now.keys():
                place = f"spec.containers[{index}].resources.{kind}"
                yield make_forbidden_error(place, f"resource {kind} cannot be removed")
            if _without_resizable(now) != _without_resizable(then):
                yield make_forbidden_error("spec", "only cpu and memory resources are mutable")


def _check_same_qos(new: Document, old: Document) -> Causes:
    if compute_qos_class(new["spec"]) != compute_qos_class(old["spec"]):
        qos = (new.get("status") or {}).get("qosClass") or ""
        yield make_invalid_error("spec", qos, "Pod QOS Class may not change as a result of resizing")
    if not _can_node_resize(old):
        yield make_forbidden_error("spec", "Pod running on node without support for resize")


def _check_resize(new: Document, old: Document, release: Release) -> Causes:
    """Check a resize. This is the rule of ValidatePodResize of Kubernetes 1.33 and later."""
    yield from _check_same_qos(new, old)
    after, before = new["spec"], old["spec"]
    if _has_amounts(after) or _has_amounts(before):
        if not release.has("InPlacePodLevelResourcesVerticalScaling"):
            yield make_forbidden_error("", _NO_POD_LEVEL)
            return
        yield from _check_pod_level(after.get("resources"), before.get("resources"))
    for field in ("containers", "initContainers"):
        names = [[each.get("name") for each in spec.get(field) or ()] for spec in (after, before)]
        if len(names[0]) != len(names[1]):
            yield make_forbidden_error(f"spec.{field}", f"{field} may not be added or removed on resize")
            return
        for index, (name, known) in enumerate(zip(*names, strict=True)):
            if name != known:
                place = f"spec.{field}[{index}].name"
                yield make_forbidden_error(place, f"{field} may not be renamed or reordered on resize")
        if names[0] != names[1]:
            return
        for index, pair in enumerate(zip(after.get(field) or (), before.get(field) or (), strict=True)):
            yield from _check_container_resize(*pair, f"spec.{field}[{index}]", field, release)


_NO_POD_LEVEL: Final = (
    "resize of pods with pod-level resources is forbidden when "
    "InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled"
)


def _has_amounts(spec: Mapping[str, Any]) -> bool:
    resources = spec.get("resources") or {}
    return bool(resources.get("requests") or resources.get("limits"))


def _check_pod_level(after: Document | None, before: Document | None) -> Causes:
    if before is not None and after is None:
        yield make_forbidden_error("spec.resources", "pod-level resources cannot be removed")
        return
    now, then = after or {}, before or {}
    for kind in ("requests", "limits"):
        if not (then.get(kind) or {}).keys() <= (now.get(kind) or {}).keys():
            yield make_forbidden_error(
                f"spec.resources.{kind}", f"pod-level resource {kind} cannot be removed"
            )
    if _select_unresizable_part(now) != _select_unresizable_part(then):
        yield make_forbidden_error("spec", "only cpu and memory resources are mutable at pod-level")


def _check_container_resize(
    after: Document, before: Document, path: str, field: str, release: Release
) -> Causes:
    now, then = after.get("resources") or {}, before.get("resources") or {}
    can_resize = (
        field == "containers"
        or before.get("restartPolicy") == "Always"
        or release.has("InPlacePodVerticalScalingInitContainers")
    )
    if not can_resize:
        if not is_same(after, before):
            yield make_forbidden_error("spec", "resources for non-sidecar init containers are immutable")
        return
    for kind in ("requests", "limits"):
        if not (then.get(kind) or {}).keys() <= (now.get(kind) or {}).keys():
            yield make_forbidden_error(f"{path}.resources.{kind}", f"resource {kind} cannot be removed")
    if _select_unresizable_part(now) != _select_unresizable_part(then) or not is_same(
        after.get("resizePolicy"), before.get("resizePolicy")
    ):
        place, what = ("spec", "resources") if field == "containers" else (path, _OF_INIT)
        yield make_forbidden_error(place, f"only cpu and memory {what} are mutable")


_OF_INIT: Final = "resources for init or sidecar containers"


def _select_unresizable_part(resources: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resources without the quantities that a resize may change."""
    rest = {kind: _without_resizable(resources.get(kind) or {}) for kind in ("requests", "limits")}
    return {**rest, "claims": resources.get("claims") or []}


def _without_resizable(resources: Mapping[str, Any]) -> dict[str, Any]:
    return {name: amount for name, amount in resources.items() if name not in ("cpu", "memory")}


def _can_node_resize(pod: Document) -> bool:
    """Whether the pod's node can resize it: a kubelet that can do this reports the resources of running containers."""
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if (status.get("state") or {}).get("running") is not None:
            return status.get("resources") is not None
    return True
