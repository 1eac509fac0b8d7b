"""Validation of an EphemeralJob: all errors in one response, each with its field.

document [+ the stored one] ──▶ errors_of() ──▶ field errors

Pure. Like OpenKruise, this module checks the containers. It also rejects negative numbers. Unchanged values of a stored
job are not checked again.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kinds.ephemeraljob.types import EphemeralJobSpec
from pykruise.kube.documents import get_path, is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    make_duplicate_error,
    make_forbidden_error,
    make_invalid_error,
)
from pykruise.kube.pod_rules.field_rules import check_not_negative
from pykruise.kube.pod_rules.pods import check_ephemeral_container
from pykruise.plans.stored_values import to_document
from pykruise.pods.template.validation import find_amount_errors

_PATH: Final = "spec.template.ephemeralContainers"
_POD_DEFAULTS: Final = {"terminationMessagePolicy": "File", "imagePullPolicy": "IfNotPresent"}
"""Fields that a pod's container must have. A job may omit them: the API server sets them in the pods."""
_MOUNTS: Final = ("volumeMounts", "volumeDevices")
_ANY_POD: Final[Mapping[str, Any]] = {"hostUsers": False}
"""Spec of the pod as part of which a container is checked. A container that is valid in some pod is valid in it."""
_MAY_BE_SET: Final = frozenset(
    {
        *("name", "image", "command", "args", "workingDir", "envFrom", "env", "terminationMessagePath"),
        *("securityContext", "stdin", "stdinOnce", "tty", "targetContainerName", *_POD_DEFAULTS, *_MOUNTS),
    }
)


def errors_of(doc: Mapping[str, Any], *, old: Mapping[str, Any] | None = None) -> list[Cause]:
    """Find all field errors of a document. `old` is the stored document on an update."""
    return [*_find_spec_amount_errors(doc, old), *_find_containers_errors(doc, old)]


def _find_spec_amount_errors(doc: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[Cause]:
    for field in ("replicas", "parallelism", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
        amount = get_path(doc, "spec", field)
        if amount != get_path(old, "spec", field):
            yield from check_not_negative(amount, f"spec.{field}")


def _find_containers_errors(doc: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[Cause]:
    containers, stored = (
        get_path(entry, "spec", "template", "ephemeralContainers", default=[]) for entry in (doc, old)
    )
    if is_same(containers, stored):
        return
    names: set[str] = set()
    for index, container in enumerate(containers):
        path, name = f"{_PATH}[{index}]", container.get("name")
        if name in names:
            yield make_duplicate_error(f"{path}.name", name)
        names.add(name)
        yield from _find_container_errors(container, path)


def _find_container_errors(container: Mapping[str, Any], path: str) -> Iterator[Cause]:
    if amounts := list(find_amount_errors(container, path)):
        yield from amounts
        return
    # Only the pods show which volumes exist. The API server checks mounts when the container is added to a pod.
    alone = {field: value for field, value in container.items() if value and field not in _MOUNTS}
    yield from check_ephemeral_container(
        {**_POD_DEFAULTS, **alone}, path, volumes={}, spec=_ANY_POD, claims=frozenset()
    )
    if (image := container.get("image") or "") != image.strip():
        yield make_invalid_error(f"{path}.image", image, "must not have leading or trailing whitespace")
    known = {"ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"}
    for field in sorted(container.keys() - _MAY_BE_SET - known - {"restartPolicy", "resizePolicy"}):
        yield make_forbidden_error(f"{path}.{field}", "cannot be set for an Ephemeral Container")
    for number, mount in enumerate(container.get("volumeMounts") or ()):
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):
                yield make_forbidden_error(
                    f"{path}.volumeMounts[{number}].{field}", "cannot be set for an Ephemeral Container"
                )


def find_stored_errors(spec: EphemeralJobSpec) -> list[Cause]:
    """Find errors of a stored spec, except errors of its containers: the API server validates containers when they are
    added to a pod.
    """
    return list(_find_spec_amount_errors(to_document(spec), None))
