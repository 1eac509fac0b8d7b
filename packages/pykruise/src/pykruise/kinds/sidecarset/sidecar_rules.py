"""Validation of the sidecars: their own settings, and the rules for containers of a pod.

spec [+ the stored one] ──▶ find_sidecar_errors() ──▶ field errors

Pure. The sidecars are checked as a pod that has only these containers.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.kinds.sidecarset.defaults import DISABLED
from pykruise.kinds.sidecarset.expressions import ResourceExpressionError, check
from pykruise.kinds.sidecarset.hashes import is_native
from pykruise.kinds.sidecarset.sidecar_containers import ENABLED, parse_label_or_annotation
from pykruise.kinds.sidecarset.sidecar_contents import AFTER, BEFORE, HOT, name_hot_pair
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.containers import check_probe
from pykruise.kube.pod_rules.field_errors import (
    drop_stored_errors,
    make_duplicate_error,
    make_forbidden_error,
    make_invalid_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.pod_rules.names import is_dns1123_label, is_qualified_name
from pykruise.kube.values.go_text import excerpt
from pykruise.kube.values.patterns import PatternError, compile_pattern
from pykruise.pods.template.validation import find_pod_spec_errors

_LONGEST_GRACE_S: Final = 2**63 - 1
"""Grace period of the pod as which the sidecars are checked. Pods that get the sidecars have other grace periods, so
this one must not limit the sidecars' hooks.
"""
_PLACEHOLDER: Final[Mapping[str, Any]] = {"name": "pod", "image": "pod"}


def find_sidecar_errors(spec: Mapping[str, Any], *, stored: Mapping[str, Any] | None = None) -> list[Cause]:
    """All errors of the sidecars. `stored` is the stored spec of an update; errors that the stored spec has too are
    ignored.
    """
    before = {container.get("name"): container for container in (stored or {}).get("containers") or ()}
    errors = drop_stored_errors(
        _find_own_errors(spec, before), lambda: _find_own_errors(stored or {}, before)
    )
    if stored is not None:
        errors += _find_update_errors(spec.get("containers") or [], before)
    return errors


def find_settings_errors(spec: Mapping[str, Any]) -> Iterator[Cause]:
    """Errors of the sidecar settings that plain containers do not have."""
    for name in ("initContainers", "containers"):
        for index, value in enumerate(spec.get(name) or ()):
            yield from _find_injection_errors(value, f"spec.{name}[{index}]")


def _find_own_errors(spec: Mapping[str, Any], before: Mapping[Any, Mapping[str, Any]]) -> list[Cause]:
    """Errors of the sidecars themselves. `before`: stored sidecars by name, for the check of hot sidecars."""
    containers: Sequence[Mapping[str, Any]] = spec.get("containers") or []
    init: Sequence[Mapping[str, Any]] = spec.get("initContainers") or []
    errors: list[Cause] = []
    for index, entry in enumerate(init):
        field = f"spec.initContainers[{index}]"
        if entry.get("resourcesPolicy") and not is_native(entry):
            detail = "is only for init containers with restartPolicy Always"
            errors.append(make_invalid_error(f"{field}.resourcesPolicy", "", detail))
        errors += _find_injection_errors(entry, field)
        if entry.get("restartPolicy") not in (None, "", "Always"):
            errors.append(
                make_not_supported_error(f"{field}.restartPolicy", entry["restartPolicy"], ("Always",))
            )
    for index, entry in enumerate(containers):
        field = f"spec.containers[{index}]"
        errors += _find_injection_errors(entry, field)
        if entry.get("restartPolicy"):
            errors.append(
                make_forbidden_error(f"{field}.restartPolicy", "may not be set for non-init containers")
            )
        errors += _find_hot_errors(entry, field, stored=before.get(entry.get("name")))
    errors += _find_hot_name_errors(containers, init)
    pod = {
        "containers": containers or [_PLACEHOLDER],
        "initContainers": init,
        "volumes": spec.get("volumes"),
        "terminationGracePeriodSeconds": _LONGEST_GRACE_S,
    }
    errors += find_pod_spec_errors(pod, "spec")
    known = {(error.reason, error.field) for error in errors}
    errors += [
        error for error in _find_startup_probe_errors(spec) if (error.reason, error.field) not in known
    ]
    return errors


def _find_startup_probe_errors(spec: Mapping[str, Any]) -> Iterator[Cause]:
    """Errors of incomplete startup probes. Defaults do not complete startup probes, because this would change hashes.
    OpenKruise rejects incomplete startup probes too: a Go manager could not store the SidecarSet again.
    """
    for field in ("initContainers", "containers"):
        for index, value in enumerate(spec.get(field) or ()):
            probe = value.get("startupProbe")
            if isinstance(probe, Mapping):
                yield from check_probe(probe, f"spec.{field}[{index}].startupProbe", "startupProbe")


def _find_injection_errors(sidecar: Mapping[str, Any], field: str) -> Iterator[Cause]:
    policy = sidecar.get("podInjectPolicy")
    if policy not in (None, "", BEFORE, AFTER):
        yield make_invalid_error(f"{field}.podInjectPolicy", policy, f"must be {BEFORE} or {AFTER}")
    for name in ("shareVolumePolicy", "shareVolumeDevicePolicy"):
        share = (sidecar.get(name) or {}).get("type")
        if share not in (None, "", ENABLED, DISABLED):
            yield make_invalid_error(f"{field}.{name}", share, f"must be {ENABLED} or {DISABLED}")
    for index, item in enumerate(sidecar.get("transferEnv") or ()):
        reference = (item.get("sourceContainerNameFrom") or {}).get("fieldRef")
        if reference is not None:
            yield from _find_reference_errors(
                reference, f"{field}.transferEnv[{index}].sourceContainerNameFrom.fieldRef"
            )
    if sidecar.get("resourcesPolicy"):
        yield from _find_policy_errors(sidecar, f"{field}.resourcesPolicy")


def _find_reference_errors(reference: Mapping[str, Any], field: str) -> Iterator[Cause]:
    version, path = reference.get("apiVersion"), reference.get("fieldPath")
    if not version:
        yield make_required_error(f"{field}.apiVersion")
        return
    if not path:
        yield make_required_error(f"{field}.fieldPath")
        return
    if version != "v1":
        yield make_invalid_error(
            f"{field}.fieldPath", path, f"apiVersion {excerpt(version)!r} is not supported; it must be 'v1'"
        )
        return
    errors = parse_label_or_annotation(path)
    if errors is None:
        yield make_invalid_error(
            f"{field}.fieldPath", path, "must be metadata.labels['<key>'] or metadata.annotations['<key>']"
        )
        return
    name, key = errors
    for problem in is_qualified_name(key.lower() if name == "annotations" else key):
        yield make_invalid_error(field, key, problem)


def _find_policy_errors(sidecar: Mapping[str, Any], field: str) -> Iterator[Cause]:
    policy, resources = sidecar["resourcesPolicy"], sidecar.get("resources") or {}
    if resources.get("limits") or resources.get("requests"):
        yield make_invalid_error(
            field, "", "cannot be set together with resources.limits or resources.requests"
        )
        return
    pattern = policy.get("targetContainersNameRegex") or ".*"
    try:
        compile_pattern(pattern)
    except PatternError as error:
        yield make_invalid_error(
            f"{field}.targetContainersNameRegex", pattern, f"is not a regular expression: {error}"
        )
    texts = policy.get("resourcesExpr") or {}
    if texts.get("limits") is None and texts.get("requests") is None:
        yield make_invalid_error(f"{field}.resourcesExpr", "", "limits or requests must be given")
    for bound in ("limits", "requests"):
        for resource in ("cpu", "memory"):
            text = (texts.get(bound) or {}).get(resource)
            if not text:
                continue
            try:
                check(text, variable=resource)
            except ResourceExpressionError as error:
                yield make_invalid_error(f"{field}.resourcesExpr.{bound}.{resource}", text, str(error))


# Hot sidecars


def _is_hot(sidecar: Mapping[str, Any]) -> bool:
    return (sidecar.get("upgradeStrategy") or {}).get("upgradeType") == HOT


def _find_hot_errors(
    sidecar: Mapping[str, Any], field: str, *, stored: Mapping[str, Any] | None
) -> Iterator[Cause]:
    """Error of a hot sidecar without an image for its idle container, unless the stored sidecar lacks the image too."""
    if not _is_hot(sidecar) or sidecar["upgradeStrategy"].get("hotUpgradeEmptyImage"):
        return
    if stored is not None and _is_hot(stored) and not stored["upgradeStrategy"].get("hotUpgradeEmptyImage"):
        return
    detail = "a sidecar with a hot upgrade needs an image for its idle container"
    yield make_required_error(f"{field}.upgradeStrategy.hotUpgradeEmptyImage", detail)


def _find_hot_name_errors(
    containers: Sequence[Mapping[str, Any]], init: Sequence[Mapping[str, Any]]
) -> Iterator[Cause]:
    names = {str(entry.get("name")) for entry in (*containers, *init)}
    for index, container in enumerate(containers):
        if _is_hot(container) and container.get("name"):
            yield from _find_pair_errors(str(container["name"]), f"spec.containers[{index}].name", names)


def _find_pair_errors(name: str, field: str, names: Collection[str]) -> Iterator[Cause]:
    first, second = name_hot_pair(name)
    yield from (make_duplicate_error(field, twin) for twin in (first, second) if twin in names)
    if not is_dns1123_label(name):
        yield from (
            make_invalid_error(field, name, f"a hot upgrade would name the container {first}: {text}")
            for text in is_dns1123_label(first)
        )


# Fields that an update must not change


def _find_update_errors(
    containers: Sequence[Mapping[str, Any]], stored: Mapping[Any, Mapping[str, Any]]
) -> Iterator[Cause]:
    for container in containers:
        name = container.get("name")
        before = stored.get(name)
        if before is None:
            yield make_invalid_error("spec.containers.name", name, f"container {name} is not found")
            continue
        was = (before.get("upgradeStrategy") or {}).get("upgradeType")
        now = (container.get("upgradeStrategy") or {}).get("upgradeType")
        if was and was != now:
            yield make_invalid_error(
                "spec.containers.upgradeStrategy.upgradeType", now, "upgradeType is immutable"
            )
