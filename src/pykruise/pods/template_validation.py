"""What is wrong with a pod template, before any pod is made of it.

template ──▶ template_errors() ──▶ field errors

Pure. These are the rules that users break: names, images, ports, mounts, amounts. The API server checks every
pod completely when it is created; a template that passes here and fails there shows up as FailedCreate.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from pykruise.kube.errors import Cause
from pykruise.kube.field_errors import duplicate, invalid, not_found, not_supported, required
from pykruise.kube.quantities import parse_quantity
from pykruise.kube.validation_rules import is_dns1123_label, is_qualified_name, is_valid_label_value

__all__ = ["labels_errors", "pod_spec_errors", "template_errors"]

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES = ("FallbackToLogsOnError", "File")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_HANDLERS = ("exec", "grpc", "httpGet", "tcpSocket")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")


def template_errors(
    template: Mapping[str, Any], path: str, *, further_volumes: Sequence[str] = ()
) -> list[Cause]:
    """All errors found in a template at `path`. `further_volumes`: names of its claim templates."""
    metadata = template.get("metadata") or {}
    spec = template.get("spec") or {}
    errors = labels_errors(metadata.get("labels") or {}, f"{path}.metadata.labels")
    for key in metadata.get("annotations") or {}:
        for problem in is_qualified_name(key.lower()):
            errors.append(invalid(f"{path}.metadata.annotations", key, problem))
    errors += _spec_errors(spec, f"{path}.spec", further_volumes)
    return errors


def pod_spec_errors(spec: Mapping[str, Any], path: str) -> list[Cause]:
    """All errors found in the spec of a pod at `path`."""
    return _spec_errors(spec, path, ())


def labels_errors(labels: Mapping[str, Any], path: str) -> list[Cause]:
    """Label keys and values that are not valid."""
    errors: list[Cause] = []
    for key, value in labels.items():
        errors += [invalid(path, key, problem) for problem in is_qualified_name(key)]
        errors += [invalid(path, value, problem) for problem in is_valid_label_value(value)]
    return errors


def _spec_errors(spec: Mapping[str, Any], path: str, further_volumes: Sequence[str]) -> list[Cause]:
    volumes = [volume.get("name") or "" for volume in spec.get("volumes") or ()]
    errors = list(_names_errors([*volumes, *further_volumes], f"{path}.volumes"))
    mountable = {*volumes, *further_volumes}
    containers = spec.get("containers") or []
    if not containers:
        errors.append(required(f"{path}.containers"))
    init = spec.get("initContainers") or []
    errors += _names_errors([one.get("name") or "" for one in containers], f"{path}.containers")
    errors += _names_errors([one.get("name") or "" for one in init], f"{path}.initContainers")
    taken = {one.get("name") for one in containers}
    for index, one in enumerate(init):
        if one.get("name") in taken:
            errors.append(duplicate(f"{path}.initContainers[{index}].name", one.get("name")))
    for field, found in (("initContainers", init), ("containers", containers)):
        for index, container in enumerate(found):
            errors += _container_errors(container, f"{path}.{field}[{index}]", mountable)
    errors += _affinity_errors(spec.get("affinity") or {}, f"{path}.affinity")
    grace = spec.get("terminationGracePeriodSeconds")
    if isinstance(grace, int) and grace < 0:
        errors.append(
            invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0")
        )
    return errors


def _affinity_errors(affinity: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Labels that pods are to be near to, or away from. Values in `matchExpressions` may be anything."""
    when = "DuringSchedulingIgnoredDuringExecution"
    for side in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(side) or {}
        places = [
            (f"required{when}[{index}]", term)
            for index, term in enumerate(terms.get(f"required{when}") or ())
        ]
        places += [
            (f"preferred{when}[{index}].podAffinityTerm", weighted.get("podAffinityTerm") or {})
            for index, weighted in enumerate(terms.get(f"preferred{when}") or ())
        ]
        for place, term in places:
            for name in ("labelSelector", "namespaceSelector"):
                labels = (term.get(name) or {}).get("matchLabels") or {}
                yield from labels_errors(labels, f"{path}.{side}.{place}.{name}.matchLabels")


def _names_errors(names: Sequence[str], path: str) -> Iterator[Cause]:
    """Names of a list: there, well-formed, each only once."""
    seen: set[str] = set()
    for index, name in enumerate(names):
        field = f"{path}[{index}].name"
        if not name:
            yield required(field)
            continue
        yield from (invalid(field, name, problem) for problem in is_dns1123_label(name))
        if name in seen:
            yield duplicate(field, name)
        seen.add(name)


def _container_errors(container: Mapping[str, Any], path: str, mountable: Collection[str]) -> list[Cause]:
    errors: list[Cause] = []
    image = container.get("image") or ""
    if not image:
        errors.append(required(f"{path}.image"))
    elif image != image.strip():
        errors.append(invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))
    for field, allowed in (
        ("imagePullPolicy", _PULL_POLICIES),
        ("terminationMessagePolicy", _MESSAGE_POLICIES),
    ):
        value = container.get(field)
        if value and value not in allowed:
            errors.append(not_supported(f"{path}.{field}", value, allowed))
    errors += _port_errors(container.get("ports") or (), f"{path}.ports")
    errors += _env_errors(container.get("env") or (), f"{path}.env")
    mounts, devices = container.get("volumeMounts") or (), container.get("volumeDevices") or ()
    mounted = {mount.get("mountPath") for mount in mounts}
    attached = {device.get("devicePath") for device in devices}
    errors += _place_errors(
        mounts, f"{path}.volumeMounts", "mountPath", mountable, taken=attached, others="volumeDevices"
    )
    errors += _place_errors(
        devices, f"{path}.volumeDevices", "devicePath", mountable, taken=mounted, others="volumeMounts"
    )
    errors += _resource_errors(container.get("resources") or {}, f"{path}.resources")
    for probe in _PROBES:
        found = container.get(probe)
        if found and not any(found.get(handler) for handler in _HANDLERS):
            errors.append(required(f"{path}.{probe}", "must specify a handler type"))
    return errors


def _port_errors(ports: Sequence[Mapping[str, Any]], path: str) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        at = f"{path}[{index}]"
        number = port.get("containerPort") or 0
        if not number:
            yield required(f"{at}.containerPort")
        elif not 0 < number < 65536:
            yield invalid(f"{at}.containerPort", number, "must be between 1 and 65535, inclusive")
        host = port.get("hostPort") or 0
        if host and not 0 < host < 65536:
            yield invalid(f"{at}.hostPort", host, "must be between 1 and 65535, inclusive")
        protocol = port.get("protocol")
        if protocol and protocol not in _PROTOCOLS:
            yield not_supported(f"{at}.protocol", protocol, _PROTOCOLS)
        name = port.get("name") or ""
        if name and (len(name) > 15 or not _PORT_NAME.fullmatch(name) or "--" in name):
            problem = (
                "must be no more than 15 lower case letters, digits and single '-', with at least one "
                "letter, and must not start or end with '-'"
            )
            yield invalid(f"{at}.name", name, problem)
        if name in seen:
            yield duplicate(f"{at}.name", name)
        seen |= {name} if name else set()


def _env_errors(env: Sequence[Mapping[str, Any]], path: str) -> Iterator[Cause]:
    for index, entry in enumerate(env):
        at = f"{path}[{index}]"
        name = entry.get("name") or ""
        if not name:
            yield required(f"{at}.name")
        elif "=" in name or not name.isprintable() or not name.isascii():
            yield invalid(f"{at}.name", name, "must consist of printable ASCII characters other than '='")
        if entry.get("value") and entry.get("valueFrom"):
            yield invalid(f"{at}.valueFrom", "", "may not be specified when `value` is not empty")


def _place_errors(
    entries: Sequence[Mapping[str, Any]],
    path: str,
    field: str,
    mountable: Collection[str],
    *,
    taken: Collection[Any],
    others: str,
) -> Iterator[Cause]:
    """Of volumeMounts or volumeDevices: each names what can be mounted, at a place (`field`) of its own, which
    is not one of those `taken` by the `others`."""
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        at = f"{path}[{index}]"
        name, place = entry.get("name") or "", entry.get(field) or ""
        if not name:
            yield required(f"{at}.name")
        elif name not in mountable:
            yield not_found(f"{at}.name", name)
        if not place:
            yield required(f"{at}.{field}")
        elif place in seen:
            yield invalid(f"{at}.{field}", place, "must be unique")
        if place in taken:
            yield invalid(f"{at}.{field}", place, f"must not already exist as a path in {others}")
        seen.add(place)


def _resource_errors(resources: Mapping[str, Any], path: str) -> Iterator[Cause]:
    limits = dict[str, Fraction]()
    for field in ("limits", "requests"):
        for name, text in (resources.get(field) or {}).items():
            at = f"{path}.{field}[{name}]"
            try:
                amount = parse_quantity(text)
            except ValueError as error:
                yield invalid(at, text, str(error))
                continue
            if amount < 0:
                yield invalid(at, text, "must be greater than or equal to 0")
            if field == "limits":
                limits[name] = amount
            elif name in limits and amount > limits[name]:
                shown = (resources.get("limits") or {})[name]
                yield invalid(
                    f"{path}.requests", text, f"must be less than or equal to {name} limit of {shown}"
                )
