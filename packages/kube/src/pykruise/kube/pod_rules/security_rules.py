"""Validation of the security settings of pods and containers, and of the operating system that they require.

    a container's securityContext ──▶ check_container_security() ──▶ Causes
    a defaulted spec              ──▶ check_pod_security(), check_os() ──▶ Causes

Pure; pods.py and containers.py call these checks.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pykruise.kube.pod_rules.field_errors import (
    make_duplicate_error,
    make_forbidden_error,
    make_invalid_error,
    make_not_supported_error,
    make_required_error,
    make_too_long_error,
)
from pykruise.kube.pod_rules.field_rules import Causes
from pykruise.kube.pod_rules.file_paths import check_descending

__all__ = ["check_container_security", "check_os", "check_pod_security"]

Doc = Mapping[str, Any]
_MAX_INT32: Final = 2**31 - 1
_BAD_ID: Final = f"must be between 0 and {_MAX_INT32}, inclusive"
_PROFILE_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")


def check_container_security(context: Doc, path: str, *, uses_host_users: bool) -> Causes:
    """Yield the errors of a container's securityContext. `uses_host_users`: whether the pod uses the user namespace of
    its host.
    """
    yield from _check_ids(context, path)
    if (mount := context.get("procMount")) is not None:
        if mount not in ("Default", "Unmasked"):
            yield make_not_supported_error(f"{path}.procMount", mount, ("Default", "Unmasked"))
        if uses_host_users and mount == "Unmasked":
            detail = "`hostUsers` must be false to use `Unmasked`"
            yield make_invalid_error(f"{path}.procMount", mount, detail)
    yield from _check_seccomp(context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield make_invalid_error(path, context, detail)
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield make_invalid_error(path, context, detail)
    yield from _check_app_armor(context.get("appArmorProfile"), f"{path}.appArmorProfile")


def check_pod_security(spec: Doc, path: str) -> Causes:
    """Yield the errors of the pod's own securityContext."""
    context, place = spec.get("securityContext") or {}, f"{path}.securityContext"
    yield from _check_ids(context, place)
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        if not 0 <= group <= _MAX_INT32:
            yield make_invalid_error(f"{place}.supplementalGroups[{index}]", group, _BAD_ID)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield make_invalid_error(f"{place}.shareProcessNamespace", True, detail)
    yield from _check_sysctls(context.get("sysctls") or (), f"{place}.sysctls")
    yield from _check_choice(context, "fsGroupChangePolicy", place)
    yield from _check_seccomp(context.get("seccompProfile"), f"{place}.seccompProfile")
    yield from _check_app_armor(context.get("appArmorProfile"), f"{place}.appArmorProfile")
    yield from _check_choice(context, "supplementalGroupsPolicy", place)
    yield from _check_choice(context, "seLinuxChangePolicy", place)


_CHOICES: Final[Mapping[str, Sequence[str]]] = {
    "fsGroupChangePolicy": ("Always", "OnRootMismatch"),
    "seLinuxChangePolicy": ("MountOption", "Recursive"),
    "supplementalGroupsPolicy": ("Merge", "Strict"),
}


def _check_choice(context: Doc, field: str, path: str) -> Causes:
    value = context.get(field)
    if value is not None and value not in _CHOICES[field]:
        yield make_not_supported_error(f"{path}.{field}", value, _CHOICES[field])


def _check_ids(context: Doc, path: str) -> Causes:
    for field in ("fsGroup", "runAsUser", "runAsGroup"):
        value = context.get(field)
        if value is not None and not 0 <= value <= _MAX_INT32:
            yield make_invalid_error(f"{path}.{field}", value, _BAD_ID)


def _check_seccomp(profile: Doc | None, path: str) -> Causes:
    if profile is None:
        return
    kind, file = profile.get("type") or "", profile.get("localhostProfile")
    if not kind:
        yield make_required_error(f"{path}.type", "type is required when seccompProfile is set")
    elif kind not in _PROFILE_TYPES:
        yield make_not_supported_error(f"{path}.type", kind, _PROFILE_TYPES)
    place = f"{path}.localhostProfile"
    if kind == "Localhost":
        if file is None:
            yield make_required_error(place, "must be set when seccomp type is Localhost")
        else:
            yield from check_descending(file, place)
    elif file is not None:
        yield make_invalid_error(place, profile, "can only be set when seccomp type is Localhost")


_LONGEST_PROFILE: Final = 4_095


def _check_app_armor(profile: Doc | None, path: str) -> Causes:
    if profile is None:
        return
    kind, name, place = profile.get("type") or "", profile.get("localhostProfile"), f"{path}.localhostProfile"
    if not kind:
        yield make_required_error(f"{path}.type", "type is required when appArmorProfile is set")
    elif kind not in _PROFILE_TYPES:
        yield make_not_supported_error(f"{path}.type", kind, _PROFILE_TYPES)
    elif kind != "Localhost":
        if name is not None:
            yield make_invalid_error(place, name, "can only be set when AppArmor type is Localhost")
    elif not name:
        yield make_required_error(place, "must be set when AppArmor type is Localhost")
    else:
        if name != name.strip():
            yield make_invalid_error(place, name, "must not be padded with whitespace")
        if len(name.encode()) > _LONGEST_PROFILE:
            yield make_too_long_error(place, _LONGEST_PROFILE)


_LONGEST_SYSCTL: Final = 253
_SEGMENT: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL: Final = rf"({_SEGMENT}[\./])*{_SEGMENT}"
_VALID_SYSCTL: Final = re.compile(_SYSCTL)


def _check_sysctls(sysctls: Sequence[Doc], path: str) -> Causes:
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        place, name = f"{path}[{index}].name", sysctl.get("name") or ""
        if not name:
            yield make_required_error(place)
        elif len(name) > _LONGEST_SYSCTL or not _VALID_SYSCTL.fullmatch(name):
            detail = f"must have at most {_LONGEST_SYSCTL} characters and match regex ^{_SYSCTL}$"
            yield make_invalid_error(place, name, detail)
        elif name in seen:
            yield make_duplicate_error(place, name)
        seen.add(name)


# --- the operating system ---


def check_os(spec: Doc, path: str) -> Causes:
    """Yield the errors of `os`, and of fields that do not exist on this operating system."""
    if spec.get("os") is None:
        return
    name = spec["os"].get("name") or ""
    if not name:
        yield make_required_error(f"{path}.os.name")
    elif name == "linux":
        for context, place in _list_contexts(spec, path):
            if context.get("windowsOptions") is not None:
                detail = "windows options cannot be set for a linux pod"
                yield make_forbidden_error(f"{place}.windowsOptions", detail)
    elif name == "windows":
        yield from _check_windows(spec, path)
    else:
        yield make_not_supported_error(f"{path}.os", name, ("linux", "windows"))


def _check_windows(spec: Doc, path: str) -> Causes:
    (context, place), *others = _list_contexts(spec, path)
    yield from _check_absent(context, _NOT_IN_WINDOWS_PODS, place)
    yield from _check_absent(spec, ("hostUsers", "shareProcessNamespace"), path)
    for field in ("hostPID", "hostIPC"):
        if spec.get(field):
            yield make_forbidden_error(f"{path}.{field}", _NOT_ON_WINDOWS)
    for context, place in others:
        yield from _check_absent(context, _NOT_IN_WINDOWS_CONTAINERS, place)


_NOT_ON_WINDOWS: Final = "cannot be set for a windows pod"
_NOT_IN_WINDOWS_PODS: Final = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
)
_NOT_IN_WINDOWS_CONTAINERS: Final = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)


def _check_absent(context: Doc, fields: Sequence[str], path: str) -> Causes:
    for field in fields:
        if context.get(field) not in (None, []):
            yield make_forbidden_error(f"{path}.{field}", _NOT_ON_WINDOWS)


def _list_contexts(spec: Doc, path: str) -> list[tuple[Doc, str]]:
    """Return the securityContext of the pod, and then those of its containers, each with its path."""
    contexts: list[tuple[Doc, str]] = [(spec.get("securityContext") or {}, f"{path}.securityContext")]
    for group in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            place = f"{path}.{group}[{index}].securityContext"
            contexts.append((container.get("securityContext") or {}, place))
    return contexts
