"""Validation of a PodProbeMarker: all errors in one response, each with its field.

document + typed spec [+ the stored document] ──▶ errors_of() ──▶ field errors

Pure. Same rules as OpenKruise, with two exceptions: a missing scheme is HTTP, as for a probe of a container, and the
condition types in RESERVED_TYPES are rejected.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from pykruise.kube.documents import get_path, is_same
from pykruise.kube.errors import Cause
from pykruise.kube.http.heads import flaw_of_value
from pykruise.kube.pod_rules.field_errors import (
    make_duplicate_error,
    make_forbidden_error,
    make_invalid_error,
    make_not_supported_error,
    make_required_error,
)
from pykruise.kube.pod_rules.field_rules import (
    check_annotations,
    check_labels,
    check_not_negative,
    check_port,
    check_qualified_name,
    check_selector,
)
from pykruise.kube.schemas.types import ExecAction, GrpcAction, HttpGetAction, Probe, TcpSocketAction
from pykruise.plans.stored_values import to_document
from pykruise.pods.probes.api import ContainerProbe, MarkerPolicy, PodProbeMarkerSpec
from pykruise.pods.probes.views import FAILED, RESERVED_TYPES, SUCCEEDED

_SCHEMES: Final = ("HTTP", "HTTPS")
_HEADER_NAME: Final = re.compile("[-A-Za-z0-9]+")


def errors_of(
    doc: Mapping[str, Any], spec: PodProbeMarkerSpec, *, old: Mapping[str, Any] | None = None
) -> list[Cause]:
    """Find all field errors of a document. `old` is the stored document on an update. A stored spec is not checked
    again, so that its marker can still be labelled and deleted.
    """
    if old is not None and is_same(doc.get("spec"), old.get("spec")):
        return []
    errors = [*_find_selector_errors(get_path(doc, "spec", "selector")), *_find_probes_errors(spec.probes)]
    if old is not None and not is_same(get_path(doc, "spec", "selector"), get_path(old, "spec", "selector")):
        errors.append(
            make_invalid_error("spec.selector", get_path(doc, "spec", "selector"), "field is immutable")
        )
    return errors


def _find_selector_errors(selector: Mapping[str, Any] | None) -> Iterator[Cause]:
    if not selector or not (selector.get("matchLabels") or selector.get("matchExpressions")):
        yield make_invalid_error("spec.selector", selector or {}, "must not be empty")
        return
    yield from check_selector(selector, "spec.selector")


def _find_probes_errors(probes: list[ContainerProbe]) -> Iterator[Cause]:
    if not probes:
        yield make_invalid_error("spec.probes", [], "must contain at least one probe")
    names: set[str] = set()
    types: set[str] = set()
    for index, probe in enumerate(probes):
        path = f"spec.probes[{index}]"
        yield from _find_name_errors(probe, path, names)
        yield from _find_probe_errors(probe.probe, f"{path}.probe")
        yield from _find_type_errors(probe, path, types)
        yield from _find_policy_errors(probe.marker_policy or (), f"{path}.markerPolicy")


def _find_name_errors(probe: ContainerProbe, path: str, seen: set[str]) -> Iterator[Cause]:
    name = probe.name
    if not name:
        yield make_required_error(f"{path}.name")
    elif "#" in name:
        yield make_invalid_error(f"{path}.name", name, "must not contain '#'")
    elif name in RESERVED_TYPES:
        yield make_invalid_error(f"{path}.name", name, "is reserved: it is the type of a pod condition")
    elif name in seen:
        yield make_duplicate_error(f"{path}.name", name)
    seen.add(name)
    if not probe.container_name:
        yield make_required_error(f"{path}.containerName")


def _find_type_errors(probe: ContainerProbe, path: str, seen: set[str]) -> Iterator[Cause]:
    type_, place = probe.pod_condition_type, f"{path}.podConditionType"
    if not type_:
        if not probe.marker_policy:
            yield make_required_error(place, "podConditionType or markerPolicy is required")
        return
    if type_ in seen:
        yield make_duplicate_error(place, type_)
    elif type_ in RESERVED_TYPES:
        yield make_invalid_error(place, type_, "is reserved: another controller sets this condition")
    else:
        yield from check_qualified_name(type_, place)
    seen.add(type_)


def _find_probe_errors(probe: Probe, path: str) -> Iterator[Cause]:
    given = [
        (name, action)
        for name, action in (
            ("exec", probe.exec),
            ("httpGet", probe.http_get),
            ("tcpSocket", probe.tcp_socket),
            ("grpc", probe.grpc),
        )
        if action is not None
    ]
    if not given:
        yield make_required_error(path, "must specify a handler type")
    for name, _ in given[1:]:
        yield make_forbidden_error(f"{path}.{name}", "may not specify more than 1 handler type")
    for name, action in given[:1]:
        yield from _find_action_errors(action, f"{path}.{name}")
    for field, value in (
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ):
        yield from check_not_negative(value, f"{path}.{field}")


def _find_action_errors(
    action: ExecAction | HttpGetAction | TcpSocketAction | GrpcAction, path: str
) -> Iterator[Cause]:
    if isinstance(action, ExecAction):
        if not action.command:
            yield make_required_error(f"{path}.command")
        return
    if isinstance(action, GrpcAction):
        yield from check_port(action.port, f"{path}.port")
        return
    if action.host:
        yield make_invalid_error(
            f"{path}.host", action.host, "must not be set: a probe is sent to the IP of the pod"
        )
    yield from check_port(action.port, f"{path}.port")
    if isinstance(action, HttpGetAction):
        yield from _find_http_errors(action, path)


def _find_http_errors(action: HttpGetAction, path: str) -> Iterator[Cause]:
    if not action.path:
        yield make_required_error(f"{path}.path")
    elif not _is_path(action.path):
        yield make_invalid_error(f"{path}.path", action.path, "is not a valid URL path")
    if action.scheme and action.scheme not in _SCHEMES:
        yield make_not_supported_error(f"{path}.scheme", action.scheme, _SCHEMES)
    for index, header in enumerate(action.http_headers or ()):
        if not _HEADER_NAME.fullmatch(header.name):
            detail = "must consist of letters, digits and '-'"
            yield make_invalid_error(f"{path}.httpHeaders[{index}].name", header.name, detail)
        if flaw := flaw_of_value(header.value):
            yield make_invalid_error(f"{path}.httpHeaders[{index}].value", header.value, flaw)


def _is_path(text: str) -> bool:
    try:
        urlsplit(text)
    except ValueError:
        return False
    return text.isprintable()


def _find_policy_errors(policies: Iterable[MarkerPolicy], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        place = f"{path}[{index}]"
        if policy.state not in (SUCCEEDED, FAILED):
            yield make_required_error(f"{place}.state", f"must be {SUCCEEDED} or {FAILED}")
        elif policy.state in seen:
            yield make_duplicate_error(f"{place}.state", policy.state)
        seen.add(policy.state)
        if not policy.labels and not policy.annotations:
            yield make_required_error(place, "labels or annotations are required")
        yield from check_labels(policy.labels, f"{place}.labels")
        yield from check_annotations(policy.annotations, f"{place}.annotations")


def find_stored_errors(spec: PodProbeMarkerSpec) -> list[Cause]:
    """Find all field errors of a stored spec."""
    return errors_of(to_document(spec), spec)
