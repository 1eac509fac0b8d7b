"""Validation of a ResourceDistribution.

document, spec, stored document ──▶ errors_of() ──▶ all field errors

Pure. Only an API server can decide whether the resource could be created; admission.py sends it a dry run if this
validation finds no error in the resource. A resource may be a Secret, so no message contains its contents.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pykruise.kinds.resourcedistribution.types import NamespaceList, ResourceDistributionSpec, Targets
from pykruise.kube.documents import get_path, is_same
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.field_errors import (
    format_shown,
    make_internal_error,
    make_invalid_error,
    make_invalid_shown_error,
)
from pykruise.kube.pod_rules.names import is_dns1123_label
from pykruise.kube.values.selectors import SelectorError, parse_selector
from pykruise.plans.stored_values import to_document
from pykruise.pods.workload.validation import find_metadata_errors

RESOURCE: Final = "spec.resource"

_SUPPORTED: Final = frozenset({("v1", "ConfigMap"), ("v1", "Secret")})
_TARGETS: Final = "spec.targets"


def errors_of(
    doc: Mapping[str, Any], spec: ResourceDistributionSpec, *, old: Mapping[str, Any] | None = None
) -> list[Cause]:
    """All field errors. `old`: the stored object of an update. An unchanged spec is not checked again."""
    causes = list(find_metadata_errors(doc.get("metadata") or {}))
    if old is not None and is_same(doc.get("spec"), old.get("spec")):
        return causes
    if not spec.resource:
        return [*causes, make_invalid_shown_error(RESOURCE, '""', "empty resource is not allowed")]
    if not _is_an_object(spec.resource):
        return [*causes, make_internal_error(RESOURCE, "apiVersion and kind are required")]
    selector = get_path(doc, "spec", "targets", "namespaceSelector", default=None)
    return [*causes, *_find_resource_errors(spec.resource, old), *_find_target_errors(spec.targets, selector)]


def _is_an_object(resource: Mapping[str, Any]) -> bool:
    return all(isinstance(resource.get(key), str) and resource[key] for key in ("apiVersion", "kind"))


def _find_resource_errors(resource: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[Cause]:
    if (resource["apiVersion"], resource["kind"]) not in _SUPPORTED:
        yield make_invalid_shown_error(
            RESOURCE, _describe(resource), "only a Secret or a ConfigMap (v1) can be distributed"
        )
    if old is None:
        return
    stored = get_path(old, "spec", "resource", default=None)
    if not isinstance(stored, Mapping) or not _is_an_object(stored):
        yield make_internal_error(RESOURCE, "the stored resource cannot be read")
    elif _read_identity(stored) != _read_identity(resource):
        detail = f"apiVersion, kind and name are immutable: the stored resource is {_describe(stored)}"
        yield make_invalid_shown_error(RESOURCE, _describe(resource), detail)


def _read_identity(resource: Mapping[str, Any]) -> tuple[Any, ...]:
    return resource["apiVersion"], resource["kind"], get_path(resource, "metadata", "name", default="")


def _describe(resource: Mapping[str, Any]) -> str:
    """Describe the resource in a message, without its contents."""
    version, kind, name = _read_identity(resource)
    return format_shown(f"{version} {kind} {name}".rstrip())


def _find_target_errors(targets: Targets, selector: Mapping[str, Any] | None) -> Iterator[Cause]:
    included, excluded = _list_names(targets.included_namespaces), _list_names(targets.excluded_namespaces)
    for field, names in (("includedNamespaces", included), ("excludedNamespaces", excluded)):
        for name in names:
            for problem in is_dns1123_label(name):
                yield make_invalid_error(f"{_TARGETS}.{field}", name, problem)
    both = {*included} & {*excluded}
    for name in dict.fromkeys(name for name in included if name in both):
        yield make_invalid_error(_TARGETS, name, "a namespace cannot be both included and excluded")
    try:
        parse_selector(selector)
    except SelectorError as error:
        yield make_invalid_error(f"{_TARGETS}.namespaceSelector", selector, str(error))


def _list_names(listed: NamespaceList | None) -> list[str]:
    return [item.name for item in (listed.items if listed is not None else None) or ()]


def find_stored_errors(spec: ResourceDistributionSpec) -> list[Cause]:
    """Errors of a stored spec, without comparing it to other objects."""
    return errors_of(to_document(spec), spec)
