"""Parts of a spec that its schema leaves open (templates, containers), read as the Kubernetes types that they are of.

spec + Parts ──▶ filled_parts() ──▶ the spec, with Go's zero values for nulls in lists and maps of the parts
             ──▶ read_spec()    ──▶ the typed spec, or the first part of it that cannot be read, and why

Pure. A CRD keeps such parts as they are (`x-kubernetes-preserve-unknown-fields`), so an API server passes on
`containers: 3`. Whatever is made of them (defaults, rules, revisions, pods) may rely on their types once they are
read. An amount that is none is no such problem, but an error of its field.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar

from pykruise.kube.documents import Document, get_path
from pykruise.kube.schemas.builtin_types import (
    AmountError,
    DecodeError,
    Decoder,
    decoder_for,
    go_type_of,
    json_kind,
)
from pykruise.kube.schemas.typed_documents import read
from pykruise.kube.schemas.zero_values import filled

T = TypeVar("T")

Parts = Mapping[str, str]
"""Path below the spec (`template.jobTemplate`) → Kubernetes' type, of a list with `[]` before it."""

POD_TEMPLATE: Final = "io.k8s.api.core.v1.PodTemplateSpec"
LABEL_SELECTOR: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"
CLAIMS: Final = "[]io.k8s.api.core.v1.PersistentVolumeClaim"
NO_PARTS: Final[Parts] = {}
TEMPLATE: Final[Parts] = {"template": POD_TEMPLATE}
TEMPLATES: Final[Parts] = {**TEMPLATE, "volumeClaimTemplates": CLAIMS}


def why_unreadable(value: Any, kind: str) -> str:
    """Why a value cannot be read as this type, in Go's words; of an item of a list its place comes first. Empty: it can
    be read."""
    item = kind.removeprefix("[]")
    decoder = decoder_for(item)
    assert decoder is not None, "its types are in the package's data"
    if item == kind:
        return _why(decoder, value, kind)
    if value is not None and not isinstance(value, list):
        return f": json: cannot unmarshal {json_kind(value)} into Go value of type {go_type_of(kind)}"
    result = (
        f"[{index}]{why}" for index, part in enumerate(value or ()) if (why := _why(decoder, part, item))
    )
    return next(result, "")


def _why(decoder: Decoder, value: Any, kind: str) -> str:
    given = {} if value is None else value
    try:
        decoder.decode(given)
    except AmountError:
        return _why(decoder, filled(given, kind, amounts=True), kind)
    except DecodeError as error:
        return f": {error}"
    return ""


def filled_parts(spec: Mapping[str, Any], parts: Parts) -> Document:
    """The spec whose parts have zero values where Go reads a null as one."""
    result = dict(spec)
    for path, kind in parts.items():
        if (value := part_of(result, path)) is not None:
            result = with_part(result, path, filled(value, kind))
    return result


def read_spec(
    spec: Mapping[str, Any], kind: type[T], *, raw: Collection[str] = (), parts: Parts = NO_PARTS
) -> tuple[T | None, str]:
    """The typed spec, or None and `<path>: <what is wrong>`. Fields named in `raw` stay documents, nulls and all."""
    given = filled_parts(spec, parts)
    result, problem = read(given, kind, path="spec", raw=raw)
    if result is None:
        return None, problem
    for path, type_ in parts.items():
        if why := why_unreadable(part_of(given, path), type_):
            return None, f"spec.{path}{why}"
    return result, ""


def part_of(spec: Any, path: str) -> Any:
    """The part at a path; None: there is none."""
    return get_path(spec, *path.split("."))


def with_part(spec: Mapping[str, Any], path: str, value: Any) -> Document:
    """The spec with this value at the path of a part that is there; objects on the way there are copied."""
    step, _, rest = path.partition(".")
    return {**spec, step: with_part(spec[step], rest, value) if rest else value}


def without_parts(spec: Mapping[str, Any], paths: Collection[str], parts: Parts) -> Document:
    """The spec with these parts empty."""
    result = dict(spec)
    for path in paths:
        result = with_part(result, path, [] if parts[path].startswith("[]") else {})
    return result
