"""Validation of references to fields of a pod or container: in environment variables and in downward API volumes.

    a reference ──▶ check_field_ref(), check_resource_ref() ──▶ Causes

Pure; containers.py and volumes.py call these checks.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from pykruise.kube.pod_rules.field_errors import (
    make_invalid_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.pod_rules.field_rules import Causes
from pykruise.kube.pod_rules.names import is_qualified_name

__all__ = ["IN_FILES", "IN_VARIABLES", "check_field_ref", "check_resource_ref"]

Doc = Mapping[str, Any]
IN_VARIABLES: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
"""Fields of a pod that environment variables can contain."""
IN_FILES: Final = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
"""Fields of a pod that files of a downward API volume can contain."""
_OTHERS: Final = ("spec.restartPolicy", "schedulerName", "status.phase")
"""Known fields that neither of them can contain."""
_RESOURCES: Final = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)


def check_field_ref(reference: Doc, path: str, allowed: Collection[str]) -> Causes:
    """Yield the errors of a `fieldRef`. `allowed`: IN_VARIABLES or IN_FILES."""
    field_path, version = reference.get("fieldPath") or "", reference.get("apiVersion")
    if not version:
        yield make_required_error(f"{path}.apiVersion")
        return
    if not field_path:
        yield make_required_error(f"{path}.fieldPath")
        return
    if version != "v1":
        detail = f"error converting fieldPath: unsupported pod version: {version}"
        yield make_invalid_error(f"{path}.fieldPath", field_path, detail)
        return
    subscripted = re.fullmatch(r"(metadata\.(?:labels|annotations))\['(.*)'\]", field_path)
    if subscripted:
        key = subscripted[2] if subscripted[1].endswith("labels") else subscripted[2].lower()
        for message in is_qualified_name(key):
            yield make_invalid_error(path, subscripted[2], message)
    elif field_path in allowed:
        return
    elif field_path in (*IN_VARIABLES, *IN_FILES, *_OTHERS):
        yield make_not_supported_error(f"{path}.fieldPath", field_path, allowed)
    else:
        detail = f"error converting fieldPath: field label not supported: {field_path}"
        yield make_invalid_error(f"{path}.fieldPath", field_path, detail)


def check_resource_ref(reference: Doc, path: str, *, needs_container: bool = False) -> Causes:
    """Yield the errors of a `resourceFieldRef`. `needs_container`: whether it must name a container."""
    resource = reference.get("resource") or ""
    if needs_container and not reference.get("containerName"):
        yield make_required_error(f"{path}.containerName")
    elif not resource:
        yield make_required_error(f"{path}.resource")
    elif resource not in _RESOURCES and ".hugepages-" not in resource:
        yield make_not_supported_error(f"{path}.resource", resource, _RESOURCES)
