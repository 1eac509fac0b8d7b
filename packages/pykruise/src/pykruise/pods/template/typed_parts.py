"""Parts of a spec that its schema leaves open (templates, containers), read as their Kubernetes types.

spec + Parts ──▶ fill_parts() ──▶ the spec, with Go's zero values for nulls in lists and maps of the parts
             ──▶ read_spec()    ──▶ the typed spec, or the first part of it that cannot be read, and why

Pure. A CRD stores such parts without checks (`x-kubernetes-preserve-unknown-fields`), so an API server accepts
`containers: 3`. After this check, everything built from the parts (defaults, rules, revisions, pods) can rely on
their types. An invalid quantity does not make a part unreadable; it is an error of its field.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar

from pykruise.kube.documents import Document, get_path
from pykruise.kube.schemas.builtin_types import (
    AmountError,
    DecodeError,
    Decoder,
    find_decoder,
    go_type_of,
    name_json_kind,
)
from pykruise.kube.schemas.typed_documents import read
from pykruise.kube.schemas.zero_values import fill_zero_values

T = TypeVar("T")

Parts = Mapping[str, str]
"""Path below the spec (`template.jobTemplate`) → its Kubernetes type; a list has the prefix `[]`."""

POD_TEMPLATE: Final = "io.k8s.api.core.v1.PodTemplateSpec"
LABEL_SELECTOR: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"
CLAIMS: Final = "[]io.k8s.api.core.v1.PersistentVolumeClaim"
NO_PARTS: Final[Parts] = {}
TEMPLATE: Final[Parts] = {"template": POD_TEMPLATE}
TEMPLATES: Final[Parts] = {**TEMPLATE, "volumeClaimTemplates": CLAIMS}


def explain_unreadable(value: Any, kind: str) -> str:
    """Why a value cannot be read as this type, in Go's words; empty if the value can be read. For an item of a list the
    text starts with its index.
    """
    item = kind.removeprefix("[]")
    decoder = find_decoder(item)
    assert decoder is not None, "its types are in the package's data"
    if item == kind:
        return _explain_failure(decoder, value, kind)
    if value is not None and not isinstance(value, list):
        return f": json: cannot unmarshal {name_json_kind(value)} into Go value of type {go_type_of(kind)}"
    result = (
        f"[{index}]{why}"
        for index, part in enumerate(value or ())
        if (why := _explain_failure(decoder, part, item))
    )
    return next(result, "")


def _explain_failure(decoder: Decoder, value: Any, kind: str) -> str:
    given = {} if value is None else value
    try:
        decoder.decode(given)
    except AmountError:
        return _explain_failure(decoder, fill_zero_values(given, kind, amounts=True), kind)
    except DecodeError as error:
        return f": {error}"
    return ""


def fill_parts(spec: Mapping[str, Any], parts: Parts) -> Document:
    """The spec with a zero value in its parts for each null that Go reads as a zero value."""
    result = dict(spec)
    for path, kind in parts.items():
        if (value := part_of(result, path)) is not None:
            result = replace_part(result, path, fill_zero_values(value, kind))
    return result


def read_spec(
    spec: Mapping[str, Any], kind: type[T], *, raw: Collection[str] = (), parts: Parts = NO_PARTS
) -> tuple[T | None, str]:
    """Return the typed spec, or None and `<path>: <what is wrong>`. Fields in `raw` stay untyped JSON with nulls."""
    given = fill_parts(spec, parts)
    result, problem = read(given, kind, path="spec", raw=raw)
    if result is None:
        return None, problem
    for path, type_ in parts.items():
        if why := explain_unreadable(part_of(given, path), type_):
            return None, f"spec.{path}{why}"
    return result, ""


def part_of(spec: Any, path: str) -> Any:
    """The part at a path; None if the part does not exist."""
    return get_path(spec, *path.split("."))


def replace_part(spec: Mapping[str, Any], path: str, value: Any) -> Document:
    """The spec with this value at the path of an existing part; objects on the path are copied."""
    step, _, rest = path.partition(".")
    return {**spec, step: replace_part(spec[step], rest, value) if rest else value}


def empty_parts(spec: Mapping[str, Any], paths: Collection[str], parts: Parts) -> Document:
    """The spec with these parts empty."""
    result = dict(spec)
    for path in paths:
        result = replace_part(result, path, [] if parts[path].startswith("[]") else {})
    return result
