"""Documents that are generated from the schema of a CRD, with a given size, and as valid as a schema alone can ensure.

schema + Growth ──▶ document_of() ──▶ a document with every field: of lists and maps at one depth `size` members

Pure. Parts that a schema leaves open (pod templates, PVCs) are generated from the types of Kubernetes' own kinds.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

__all__ = ["Growth", "document_of", "typed_document_of"]

Fields = Callable[[str], Mapping[str, Any] | None]
"""Definition → its fields (kube/schemas/builtin_types.py: `fields_of`)."""

_POD: Final = "io.k8s.api.core.v1.PodTemplateSpec"
_OPEN: Final[Mapping[str, str]] = {
    "containers": "[]io.k8s.api.core.v1.Container",
    "ephemeralContainers": "[]io.k8s.api.core.v1.EphemeralContainer",
    "initContainers": "[]io.k8s.api.core.v1.Container",
    "jobTemplate": "io.k8s.api.batch.v1.JobTemplateSpec",
    "metadata": "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
    "patch": _POD,
    "resource": "io.k8s.api.core.v1.ConfigMap",
    "template": _POD,
    "volumeClaimTemplates": "[]io.k8s.api.core.v1.PersistentVolumeClaim",
    "volumes": "[]io.k8s.api.core.v1.Volume",
}
"""Fields that their schema does not restrict: the types that Kubernetes has there."""

_TIME: Final = "2026-01-02T03:04:05Z"
_ONE_OF: Final = frozenset({"io.k8s.api.core.v1.Volume", "io.k8s.api.core.v1.EnvVarSource"})
"""Types of which only one field may be set in addition to the name."""

_TEXTS: Final[Mapping[str, str]] = {
    "cpu": "1",
    "customVersion": "",
    "revisionName": "",
    "action": "Exists",
    "dnsPolicy": "ClusterFirst",
    "effect": "NoSchedule",
    "fieldPath": "metadata.name",
    "hostIP": "10.0.0.1",
    "imagePullPolicy": "Always",
    "kind": "CloneSet",
    "memory": "1",
    "mountPath": "/data",
    "operator": "NotIn",
    "podManagementPolicy": "Parallel",
    "podUpdatePolicy": "InPlaceIfPossible",
    "protocol": "TCP",
    "restartPolicy": "Always",
    "resource": "limits.cpu",
    "targetContainersNameRegex": ".*",
    "terminationMessagePolicy": "File",
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "DoNotSchedule",
    "apiVersion": "apps.kruise.io/v1beta1",
    "uid": "4b1a",
    "resourceVersion": "7",
    "whenDeleted": "Retain",
    "whenScaled": "Retain",
    "policy": "Always",
}
"""Valid values of fields without an enum."""


USUAL: Final = 3
"""Default value of integers."""


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a document that is large."""

    depth: int = -1
    """Lists and maps at this depth have `size` members; -1: none has more than one."""
    size: int = 1
    text: int = 0
    """Number of characters that are added to free texts."""
    number: int = USUAL
    """Value of integers."""
    same: bool = False
    """Whether members of lists are alike, with the same names."""
    part: str = "spec"
    """The part of the document that is large."""
    opens: bool = True
    """Whether parts that the schema leaves open are large as well."""
    fields: Fields


def document_of(schema: Mapping[str, Any], growth: Growth) -> Any:
    """An object of a structural schema."""
    small = msgspec.structs.replace(growth, depth=-1, text=0, number=USUAL)
    return {
        field: _value(sub, growth if field == growth.part else small, name=field, depth=0, number=0)
        for field, sub in schema["properties"].items()
    }


def typed_document_of(definition: str, growth: Growth) -> Any:
    """A value of one of Kubernetes' own types."""
    return _typed(definition, growth, name="", depth=0, number=0, above=())


def _value(schema: Mapping[str, Any], growth: Growth, *, name: str, depth: int, number: int) -> Any:
    if schema.get("x-kubernetes-preserve-unknown-fields") and name in _OPEN and "properties" not in schema:
        if not growth.opens:
            growth = msgspec.structs.replace(growth, depth=-1, text=0)
        return _typed(_OPEN[name], growth, name=name, depth=depth, number=number, above=())
    if schema.get("x-kubernetes-int-or-string"):
        return _number(growth, name)
    match schema.get("type"):
        case "object" if "properties" in schema:
            given = {
                field: _value(sub, growth, name=field, depth=depth, number=number)
                for field, sub in schema["properties"].items()
            }
            if schema.get("x-kubernetes-preserve-unknown-fields"):  # a sidecar: a container with more fields
                inner = _typed(
                    "io.k8s.api.core.v1.Container", growth, name=name, depth=depth, number=number, above=()
                )
                return {**inner, **given}
            return given
        case "object" if "additionalProperties" in schema:
            sub = schema["additionalProperties"]
            return _members(
                growth, depth, lambda item: _value(sub, growth, name="", depth=depth + 1, number=item)
            )
        case "array":
            sub = schema["items"]
            made = (
                _value(sub, growth, name=name, depth=depth + 1, number=number)
                for number in _numbers(growth, depth)
            )
            return list(made)
        case "string":
            return _text(schema, growth, name, number)
        case "integer" | "number":
            return _number(growth, name)
        case "boolean":
            return name not in ("paused", "hostNetwork")
        case _:
            return {} if schema.get("type") == "object" else None


def _typed(kind: str, growth: Growth, *, name: str, depth: int, number: int, above: tuple[str, ...]) -> Any:
    kind = kind.removeprefix("*")
    if kind.startswith("[]"):
        inner = kind[2:]
        return [
            _typed(inner, growth, name=name, depth=depth + 1, number=number, above=above)
            for number in _numbers(growth, depth)
        ]
    if kind.startswith("{}"):
        inner = kind[2:]
        return _members(
            growth,
            depth,
            lambda item: _typed(inner, growth, name="", depth=depth + 1, number=item, above=above),
        )
    if (fields := growth.fields(kind)) is None:
        return _scalar(kind, growth, name, number)
    result = {}
    for field, value in fields.items():
        inner = value.kind.removeprefix("*").removeprefix("[]").removeprefix("{}")
        is_another = kind in _ONE_OF and field != "name" and result.keys() - {"name"}
        if inner in above or inner == kind or is_another:
            continue
        result[field] = _typed(
            value.kind, growth, name=field, depth=depth, number=number, above=(*above, kind)
        )
    return result


def _scalar(kind: str, growth: Growth, name: str, number: int) -> Any:
    match kind:
        case "string":
            return _text({}, growth, name, number)
        case "bool":
            return name not in ("hostNetwork",)
        case "quantity":
            return f"{growth.number}m"
        case "time" | "microtime":
            return _TIME
        case "bytes":
            return "YQ=="
        case "any" | "object":
            return {}
    return growth.number


def _number(growth: Growth, name: str) -> int:
    """A partition that keeps all pods old would leave no decision to the plan."""
    return 1 if name == "partition" and growth.number == USUAL else growth.number


def _numbers(growth: Growth, depth: int) -> range:
    return range(growth.size if depth == growth.depth else 1)


def _members(growth: Growth, depth: int, make: Callable[[int], Any]) -> dict[str, Any]:
    return {f"key-{number}": make(number) for number in _numbers(growth, depth)}


def _text(schema: Mapping[str, Any], growth: Growth, name: str, number: int) -> str:
    if options := [item for item in schema.get("enum") or () if item]:
        return str(options[0])
    if schema.get("format") == "date-time":
        return _TIME
    if name in _TEXTS:
        return _TEXTS[name]
    return f"a-{0 if growth.same else number}" + "x" * growth.text
