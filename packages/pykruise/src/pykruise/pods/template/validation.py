"""Validation of a pod template, before any pod is created from it.

template ──▶ types of its fields ──▶ defaults ──▶ Kubernetes' rules for pods (kube/pod_rules/pods.py) ──▶ field errors

Pure. Checked is what a pod of the template would be: with its defaults, and with a volume for each claim
template. A field that these rules do not know yet, in a newer Kubernetes, is no error.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.containers import check_whitespace
from pykruise.kube.pod_rules.field_errors import forbidden, invalid
from pykruise.kube.pod_rules.names import is_qualified_name, is_valid_label_value
from pykruise.kube.pod_rules.pods import check_pod_spec
from pykruise.kube.schemas.builtin_types import DecodeError, decoder_for
from pykruise.kube.schemas.served_fields import ServedFields
from pykruise.kube.values.go_text import excerpt, quoted
from pykruise.kube.values.quantities import parse_quantity
from pykruise.pods.template.defaults import with_defaults
from pykruise.pods.template.metadata import single_pod_errors
from pykruise.pods.template.typed_parts import POD_TEMPLATE

MOST_WARNINGS: Final = 16

_LENIENT: Final = re.compile(
    r"\.((podAffinity|podAntiAffinity)\..*\.matchExpressions\[\d+\]\.values\[\d+\]"
    r"|topologySpreadConstraints\[\d+\]\.labelSelector\.match(Labels|Expressions\[\d+\]\.values\[\d+\]))$"
)
"""Where label values may be anything. Rule: OpenKruise, for templates of before Kubernetes asked for more."""

_RELAXED: Final = re.compile(
    r"\w+ .*\.((c|initC)ontainers\[\d+\]\.restartPolicy|dnsConfig\.searches\[\d+\])"
    r"|FieldValueNotSupported .*\.tolerations\[\d+\]\.operator"
)
"""Where later Kubernetes minors allow more: a container restarts by rules of its own (1.34), tolerations compare
numbers (1.35), search domains may have underscores (1.34). The API server decides when the pods are made."""


def template_errors(
    template: Mapping[str, Any], path: str, *, further_volumes: Sequence[str] = ()
) -> list[Cause]:
    """All errors found in a template at `path`. `further_volumes`: names of its claim templates."""
    metadata = template.get("metadata") or {}
    spec = template.get("spec") or {}
    errors = labels_errors(metadata.get("labels") or {}, f"{path}.metadata.labels")
    errors += single_pod_errors(metadata, f"{path}.metadata")
    for key in metadata.get("annotations") or {}:
        for problem in is_qualified_name(key.lower()):
            errors.append(invalid(f"{path}.metadata.annotations", key, problem))
    errors += _spec_errors(spec, f"{path}.spec", further_volumes)
    if spec.get("ephemeralContainers"):
        errors.append(forbidden(f"{path}.spec.ephemeralContainers", "not allowed in a pod template"))
    return errors


def unknown_field_warnings(
    template: Mapping[str, Any],
    path: str,
    served: ServedFields = ServedFields(),  # noqa: B008 - frozen
) -> list[str]:
    """A warning for each field of a template that the API server does not know. It stays: a newer one may know it.

    The first MOST_WARNINGS; worded as API servers word theirs.
    """
    try:
        unknown = served.unknown_in(template, POD_TEMPLATE)
    except DecodeError:
        return []
    return [f"unknown field {quoted(excerpt(f'{path}.{place}'))}" for place in unknown[:MOST_WARNINGS]]


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


def _spec_errors(given: Mapping[str, Any], path: str, further_volumes: Sequence[str]) -> list[Cause]:
    amounts = [
        error
        for group in ("initContainers", "containers")
        for index, container in enumerate(given.get(group) or ())
        for error in amount_errors(container, f"{path}.{group}[{index}]")
    ]
    if amounts:
        return amounts
    decoder = decoder_for(POD_TEMPLATE)
    assert decoder is not None, "its types are in the package's data"
    try:
        template, unknown = decoder.decode({"spec": given})
    except DecodeError as error:
        return [invalid(path, "", str(error))]
    spec = with_defaults(template)["spec"]
    spec.pop("ephemeralContainers", None)  # not allowed at all
    spec["volumes"] = [*(spec.get("volumes") or ()), *map(_claim_volume, further_volumes)]
    causes = [*check_pod_spec(spec, path, is_pod=False), *check_whitespace(spec, path)]
    if (grace := spec["terminationGracePeriodSeconds"]) < 0:
        at_least = "must be greater than or equal to 0"
        causes.append(invalid(f"{path}.terminationGracePeriodSeconds", grace, at_least))
    return list(_without_unknown(causes, path, unknown))


def amount_errors(container: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Amounts of a container that are none. Nothing can be read of what has one of them, so they are looked for
    first."""
    resources = container.get("resources") or {}
    for bound in ("limits", "requests"):
        for name, text in (resources.get(bound) or {}).items():
            try:
                parse_quantity(text)
            except ValueError as error:
                yield invalid(f"{path}.resources.{bound}[{name}]", text, str(error))


def _claim_volume(name: str) -> Document:
    return {"name": name, "persistentVolumeClaim": {"claimName": "claim"}}


def _without_unknown(errors: Iterable[Cause], path: str, unknown: Collection[str]) -> Iterator[Cause]:
    """Without what upstream or a newer Kubernetes lets pass, and what an unknown field beside it may well satisfy."""
    beside = {f"{path}{place.removeprefix('spec').rpartition('.')[0]}" for place in unknown}
    for error in errors:
        is_lenient = _LENIENT.search(error.field) or _RELAXED.fullmatch(f"{error.reason} {error.field}")
        if not is_lenient and error.field not in beside:
            yield error
