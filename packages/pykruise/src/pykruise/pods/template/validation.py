"""Validation of a pod template, before any pod is created from it.

template ──▶ types of its fields ──▶ defaults ──▶ Kubernetes' rules for pods (kube/pod_rules/pods.py) ──▶ field errors

Pure. The check covers the pod that the template would create: with its defaults, and with a volume for each claim
template. A field of a newer Kubernetes that these rules do not know is not an error.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from pykruise.kube.pod_rules.containers import check_whitespace
from pykruise.kube.pod_rules.field_errors import make_forbidden_error, make_invalid_error
from pykruise.kube.pod_rules.names import is_qualified_name, is_valid_label_value
from pykruise.kube.pod_rules.pods import check_pod_spec
from pykruise.kube.schemas.builtin_types import DecodeError, find_decoder
from pykruise.kube.schemas.served_fields import ServedFields
from pykruise.kube.values.go_text import excerpt, quote_text
from pykruise.kube.values.quantities import parse_quantity
from pykruise.pods.template.defaults import add_defaults
from pykruise.pods.template.metadata import find_single_pod_errors
from pykruise.pods.template.typed_parts import POD_TEMPLATE

MOST_WARNINGS: Final = 16

_LENIENT: Final = re.compile(
    r"\.((podAffinity|podAntiAffinity|nodeAffinity)\..*\.matchExpressions\[\d+\]\.values\[\d+\]"
    r"|topologySpreadConstraints\[\d+\]\.labelSelector\.match(Labels|Expressions\[\d+\]\.values\[\d+\]))$"
)
"""Fields whose label values are not validated, because templates from before Kubernetes validated them may be invalid.
OpenKruise has the same rule.
"""

_RELAXED: Final = re.compile(
    r"\w+ .*\.((c|initC)ontainers\[\d+\]\.restartPolicy|dnsConfig\.searches\[\d+\])"
    r"|FieldValueNotSupported .*\.tolerations\[\d+\]\.operator"
    r"|FieldValueInvalid .*\.securityContext\.procMount"
)
"""Errors that some Kubernetes minors do not raise: a container has its own restart rules (1.34), tolerations compare
numbers (1.35), search domains may contain underscores (1.34), `procMount: Unmasked` has no effect without its feature
gate (before 1.33). The API server decides when the pods are created.
"""


def find_template_errors(
    template: Mapping[str, Any], path: str, *, further_volumes: Sequence[str] = ()
) -> list[Cause]:
    """All errors of a template at `path`. `further_volumes`: names of its claim templates."""
    metadata = template.get("metadata") or {}
    spec = template.get("spec") or {}
    errors = find_labels_errors(metadata.get("labels") or {}, f"{path}.metadata.labels")
    errors += find_single_pod_errors(metadata, f"{path}.metadata")
    for key in metadata.get("annotations") or {}:
        for problem in is_qualified_name(key.lower()):
            errors.append(make_invalid_error(f"{path}.metadata.annotations", key, problem))
    errors += _find_spec_errors(spec, f"{path}.spec", further_volumes)
    if spec.get("ephemeralContainers"):
        errors.append(
            make_forbidden_error(f"{path}.spec.ephemeralContainers", "not allowed in a pod template")
        )
    return errors


def list_unknown_field_warnings(
    template: Mapping[str, Any],
    path: str,
    served: ServedFields = ServedFields(),  # noqa: B008 - frozen
) -> list[str]:
    """One warning for each field of a template that the API server does not know, in the words of API servers.

    The field is kept, because a newer API server may know it. Only the first MOST_WARNINGS fields are reported.
    """
    try:
        unknown = served.list_unknown_fields(template, POD_TEMPLATE)
    except DecodeError:
        return []
    return [f"unknown field {quote_text(excerpt(f'{path}.{place}'))}" for place in unknown[:MOST_WARNINGS]]


def find_pod_spec_errors(spec: Mapping[str, Any], path: str) -> list[Cause]:
    """All errors of a pod spec at `path`."""
    return _find_spec_errors(spec, path, ())


def find_labels_errors(labels: Mapping[str, Any], path: str) -> list[Cause]:
    """Errors of invalid label keys and values."""
    errors: list[Cause] = []
    for key, value in labels.items():
        errors += [make_invalid_error(path, key, problem) for problem in is_qualified_name(key)]
        errors += [make_invalid_error(path, value, problem) for problem in is_valid_label_value(value)]
    return errors


def _find_spec_errors(given: Mapping[str, Any], path: str, further_volumes: Sequence[str]) -> list[Cause]:
    amounts = [
        error
        for group in ("initContainers", "containers")
        for index, container in enumerate(given.get(group) or ())
        for error in find_amount_errors(container, f"{path}.{group}[{index}]")
    ]
    if amounts:
        return amounts
    decoder = find_decoder(POD_TEMPLATE)
    assert decoder is not None, "its types are in the package's data"
    try:
        template, unknown = decoder.decode({"spec": given})
    except DecodeError as error:
        return [make_invalid_error(path, "", str(error))]
    spec = add_defaults(template)["spec"]
    spec.pop("ephemeralContainers", None)  # a template must not have the field
    spec["volumes"] = [*(spec.get("volumes") or ()), *map(_make_claim_volume, further_volumes)]
    causes = [*check_pod_spec(spec, path, is_pod=False), *check_whitespace(spec, path)]
    if (grace := spec["terminationGracePeriodSeconds"]) < 0:
        at_least = "must be greater than or equal to 0"
        causes.append(make_invalid_error(f"{path}.terminationGracePeriodSeconds", grace, at_least))
    return list(_drop_accepted(causes, path, unknown))


def find_amount_errors(container: Mapping[str, Any], path: str) -> Iterator[Cause]:
    """Errors of a container's invalid quantities. They are checked first, because a container with such a quantity
    cannot be decoded.
    """
    resources = container.get("resources") or {}
    for bound in ("limits", "requests"):
        for name, text in (resources.get(bound) or {}).items():
            try:
                parse_quantity(text)
            except ValueError as error:
                yield make_invalid_error(f"{path}.resources.{bound}[{name}]", text, str(error))


def _make_claim_volume(name: str) -> Document:
    return {"name": name, "persistentVolumeClaim": {"claimName": "claim"}}


def _drop_accepted(errors: Iterable[Cause], path: str, unknown: Collection[str]) -> Iterator[Cause]:
    """Drop errors for values that OpenKruise or a newer Kubernetes accepts, or that an unknown field beside them may
    allow.
    """
    beside = {f"{path}{place.removeprefix('spec').rpartition('.')[0]}" for place in unknown}
    for error in errors:
        is_lenient = _LENIENT.search(error.field) or _RELAXED.fullmatch(f"{error.reason} {error.field}")
        if not is_lenient and error.field not in beside:
            yield error
