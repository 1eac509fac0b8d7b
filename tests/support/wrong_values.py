"""Documents with one wrong value somewhere, of every kind in every version, and of pods.

CRDs, types of Kubernetes ──▶ objects() ──▶ a full document ──▶ spoilt() ──▶ the document with another value at a path
                                                                             └── a fixed selection of all
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from pykruise.kube.resources import PODS, Resource
from pykruise.kube.schemas.builtin_types import fields_of
from support.open_definitions import open_crds
from support.schema_documents import Growth, document_of, typed_document_of

Document = dict[str, Any]
Path = tuple[str | int, ...]

VALUES: Final[Sequence[Any]] = (
    *(None, True, 7, -1, float(2**70), 1.5, "", "x"),  # 2**70: a JSON number that no integer of Go holds
    *([], [None], {}, {"x": None}),
)
LABELS: Final = {"key-0": "a-0"}
"""Labels that the selectors of the documents select."""


class Whole(msgspec.Struct, frozen=True):
    """One version of a kind, and a document with every field of it."""

    resource: Resource
    document: Document
    is_stored: bool
    schema: Document

    @property
    def name(self) -> str:
        """`clonesets.v1beta1`."""
        return f"{self.resource.plural}.{self.resource.version}"

    def is_open(self, path: Path) -> bool:
        """Whether the schema does not restrict the value at this path."""
        schema = self.schema
        for depth, step in enumerate(path):
            if path[0] == "metadata":  # which API servers validate themselves
                return False
            if isinstance(step, int):
                schema = schema.get("items", {})
            else:
                schema = schema.get("properties", {}).get(step) or schema.get("additionalProperties") or {}
            is_object = schema.get("type") == "object" and depth == len(path) - 1
            if "properties" not in schema and schema.get("x-kubernetes-preserve-unknown-fields"):
                return not is_object
        return not schema


@cache
def objects() -> Mapping[str, Whole]:
    """All versions of all kinds, by name."""
    wholes = [_whole(crd["spec"], version) for crd in open_crds() for version in crd["spec"]["versions"]]
    return {whole.name: whole for whole in wholes}


def _whole(spec: Document, version: Document) -> Whole:
    is_namespaced = spec["scope"] == "Namespaced"
    names, schema = spec["names"], version["schema"]["openAPIV3Schema"]
    resource = Resource(
        spec["group"], version["name"], names["plural"], names["kind"], namespaced=is_namespaced
    )
    document = document_of(schema, Growth(fields=fields_of))
    if resource.kind == "UnitedDeployment":  # its schema leaves specs of other workloads open
        for name in ("Deployment", "StatefulSet"):
            template = document["spec"]["template"][f"{name[0].lower()}{name[1:]}Template"]
            template["spec"] = typed_document_of(f"io.k8s.api.apps.v1.{name}Spec", Growth(fields=fields_of))
    head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": _metadata(is_namespaced)}
    return Whole(resource, {**document, **head}, version["storage"], schema)


def _metadata(is_namespaced: bool) -> Document:
    owner = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "a-0", "uid": "u-2"}
    result = {
        "name": "web",
        "uid": "u-1",
        "resourceVersion": "7",
        "generation": 2,
        "labels": LABELS,
        "annotations": {"key-0": "a-0"},
        "finalizers": ["a/b"],
        "ownerReferences": [{**owner, "controller": True}],
        "creationTimestamp": "2026-01-02T03:04:05Z",
    }
    return {**result, "namespace": "default"} if is_namespaced else result


@cache
def pod() -> Whole:
    """A pod with every field, for which every admission step that reads pods has something to do."""
    result = typed_document_of("io.k8s.api.core.v1.Pod", Growth(fields=fields_of))
    result["metadata"] = _metadata(True)
    result["metadata"]["annotations"] = {
        "apps.kruise.io/container-launch-priority": "Ordered",
        "apps.kruise.io/using-enhanced-liveness": "true",
        "kruise.io/related-pub": "web",
        "apps.kruise.io/matched-workloadspread": '{"name":"web","subset":"a-0","uid":"u-1"}',
    }
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        result["spec"][kind][0]["name"] = f"of-{kind.lower()}"  # sidecars have other names
    result["spec"]["containers"][0]["env"].append({"name": "KRUISE_CONTAINER_PRIORITY", "value": "1"})
    return Whole(PODS, result, True, {})


def paths(value: Any, above: Path = ()) -> Iterator[Path]:
    """Every path in a document."""
    if above:
        yield above
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in items:
        yield from paths(item, (*above, step))


def spoilt(whole: Whole, *, most: int) -> Iterator[tuple[Path, Document]]:
    """A place and the document with a wrong value there; if there are more than `most`, a hash selects some."""
    places = list(paths(whole.document))
    # The reviews of long documents take longer, so their share is smaller.
    share = 1 + len(places) * len(VALUES) * (1 + len(places) // 1000) // most
    for path in places:
        for number, value in enumerate(VALUES):
            text = f"{whole.name} {path} {number}"
            if zlib.crc32(text.encode()) % share == 0:
                yield path, with_value(whole.document, path, value)


def relabelled(document: Document) -> Document | None:
    """The object with another label; None: it cannot have labels."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        return None
    return {**document, "metadata": {**metadata, "labels": {"app": "other"}}}


def with_value(value: Any, path: Path, new: Any) -> Any:
    """A copy with another value at this path."""
    if not path:
        return new
    step, *rest = path
    result = dict(value) if isinstance(value, dict) else list(value)
    result[step] = with_value(value[step], tuple(rest), new)
    return result
