"""Kubernetes' own types as they occur inside custom resources, and the scalars of their schemas.

kinds/<kind>/types.py ──▶ these types ──▶ kube/schemas/crds.py (schemas), msgspec (decoding)

The module has only types whose fields are listed in the schemas of API objects; pod templates, for example, are untyped
JSON. Field names, optional fields and defaults are Kubernetes'. `kubectl explain` shows the docstring of a field.
"""

from functools import cache
from typing import Annotated, Any

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.schemas.crds import build_structural_schema, int_or_string, integer, schema
from pykruise.kube.schemas.descriptions import leave_out_descriptions

__all__ = [
    "AnyObject",
    "ApiObject",
    "Condition",
    "ContainerPort",
    "Count",
    "ExecAction",
    "GrpcAction",
    "HttpGetAction",
    "HttpHeader",
    "Int32",
    "Int64",
    "IntOrString",
    "JobCondition",
    "LabelSelector",
    "LabelSelectorRequirement",
    "LocalObjectReference",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "ObjectFieldSelector",
    "ObjectMeta",
    "ObjectReference",
    "PlainCondition",
    "PreferredSchedulingTerm",
    "Probe",
    "Selector",
    "Status",
    "StringList",
    "TargetReference",
    "TcpSocketAction",
    "TemplateMeta",
    "Time",
    "Toleration",
    "Typed",
]

Int32 = Annotated[int, integer("int32")]
Int64 = Annotated[int, integer("int64")]
Count = Annotated[int, integer("int32", required=True)]
"""A number in a status that is always written, even when it is 0."""
Time = Annotated[str, schema(format="date-time")]
IntOrString = Annotated[int | str, int_or_string()]
AnyObject = Annotated[dict[str, Any], schema(any_object=True)]
"""An object that the schema leaves open: nothing in it is pruned or validated."""
StringList = Annotated[list[str], schema(list_type="atomic")]


class Typed(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all API types: frozen, camelCase in JSON, absent fields stay absent."""


class Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of statuses: the observed state."""

    def to_document(self) -> Document:
        """Return the status as it is written: it always has required fields (`Count`), and other fields if they have a
        value.
        """
        always = _list_required_fields(type(self))
        doc: Document = msgspec.to_builtins(self)
        return {field: value for field, value in doc.items() if value or field in always}


@cache
def _list_required_fields(cls: type) -> frozenset[str]:
    with leave_out_descriptions():
        return frozenset(build_structural_schema(cls).get("required", ()))


class ObjectMeta(Typed, frozen=True, kw_only=True):
    """Metadata that every object has."""

    name: str = ""
    """Name of the object. Empty: the name is generated from `generate_name`."""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[dict[str, Any]] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None


class ApiObject(Typed, frozen=True, kw_only=True):
    """An object as the API server stores it. A kind adds `spec` and `status`."""

    api_version: str = ""
    """Group and version of the API: they determine the fields of this object."""
    kind: str = ""
    """Name of the kind."""
    metadata: Annotated[ObjectMeta, schema(any_metadata=True)]


class TemplateMeta(Typed, frozen=True, kw_only=True):
    """Labels and annotations of the objects that are created from the template."""

    annotations: dict[str, str] | None = None
    """Annotations of the objects."""
    labels: dict[str, str] | None = None
    """Labels of the objects."""


# ── selectors ────────────────────────────────────────────────────────────────


class LabelSelectorRequirement(Typed, frozen=True, kw_only=True):
    """One condition on a label. An object must meet all conditions of the selector."""

    key: str
    """Key of the label that the selector applies to."""
    operator: str
    """Operator of the comparison: In, NotIn, Exists or DoesNotExist."""
    values: StringList | None = None
    """Values to compare with: at least one for In and NotIn, empty for Exists and DoesNotExist."""


class LabelSelector(Typed, frozen=True, kw_only=True):
    """Selects objects by their labels: all of matchLabels and matchExpressions must hold."""

    match_expressions: Annotated[list[LabelSelectorRequirement], schema(list_type="atomic")] | None = None
    """Conditions on labels, all of which must hold."""
    match_labels: dict[str, str] | None = None
    """Labels that an object must have with exactly these values."""


Selector = Annotated[LabelSelector, schema(map_type="atomic")]


class NodeSelectorRequirement(Typed, frozen=True, kw_only=True):
    """A condition on a label or field of a node."""

    key: str
    """Key of the label, or path of the field."""
    operator: str
    """Operator of the comparison: In, NotIn, Exists, DoesNotExist, Gt or Lt."""
    values: StringList | None = None
    """Values to compare with: at least one for In and NotIn, one whole number for Gt and Lt."""


class NodeSelectorTerm(Typed, frozen=True, kw_only=True):
    """Selects nodes that meet all its conditions. A term without conditions selects no nodes."""

    match_expressions: Annotated[list[NodeSelectorRequirement], schema(list_type="atomic")] | None = None
    """Conditions on the labels of a node."""
    match_fields: Annotated[list[NodeSelectorRequirement], schema(list_type="atomic")] | None = None
    """Conditions on the fields of a node; metadata.name is the only supported field."""


NodeSelector = Annotated[NodeSelectorTerm, schema(map_type="atomic")]


class PreferredSchedulingTerm(Typed, frozen=True, kw_only=True):
    """Preferred nodes, and the weight of the preference."""

    preference: NodeSelector
    """Selects the preferred nodes."""
    weight: Int32
    """Weight from 1 to 100. The weights of all terms that a node matches are added up."""


class Toleration(Typed, frozen=True, kw_only=True):
    """Allows pods to run on nodes with a matching taint."""

    effect: str = ""
    """NoSchedule, PreferNoSchedule or NoExecute; empty matches all effects."""
    key: str = ""
    """Key of the taint; empty with operator Exists matches every taint."""
    operator: str = ""
    """Equal (the default) also compares the value, Exists does not."""
    toleration_seconds: Int64 | None = None
    """Seconds that a pod stays under a NoExecute taint; absent means forever."""
    value: str = ""
    """Value of the taint, for operator Equal."""


# ── references ───────────────────────────────────────────────────────────────


class LocalObjectReference(Typed, frozen=True, kw_only=True):
    """Reference to an object in the same namespace."""

    name: Annotated[str, schema(default="")] = ""
    """Name of the object."""


class ObjectFieldSelector(Typed, frozen=True, kw_only=True):
    """Selects a field of the pod."""

    api_version: str = ""
    """Version of the API in which the path is written, v1 by default."""
    field_path: str
    """Path of the field, such as metadata.labels['app']."""


class ObjectReference(Typed, frozen=True, kw_only=True):
    """Reference to an object."""

    api_version: str = ""
    """Group and version of the object."""
    field_path: str = ""
    """Path of a part of the object, if the reference is to that part only."""
    kind: str = ""
    """Kind of the object."""
    name: str = ""
    """Name of the object."""
    namespace: str = ""
    """Namespace of the object; empty for a cluster-scoped object."""
    resource_version: str = ""
    """Specific resourceVersion of the object, if any."""
    uid: str = ""
    """UID of the object: an object that is created later with the same name has another UID."""


class TargetReference(Typed, frozen=True, kw_only=True):
    """Reference to a workload in the same namespace, by group, kind and name. The version is ignored."""

    api_version: str
    """Group and version of the workload."""
    kind: str
    """Kind of the workload."""
    name: str
    """Name of the workload."""


# ── conditions ───────────────────────────────────────────────────────────────


class Condition(Typed, frozen=True, kw_only=True):
    """An aspect of the state, in Kubernetes' standard form."""

    last_transition_time: Time
    """Last time the status of the condition changed."""
    message: Annotated[str, schema(max_length=32768)]
    """Human readable details; may be empty."""
    observed_generation: Annotated[int, integer("int64", minimum=0)] | None = None
    """The metadata.generation that the condition was set for."""
    reason: Annotated[
        str, schema(min_length=1, max_length=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    ]
    """Programmatic identifier of the reason, in CamelCase."""
    status: Annotated[str, schema(enum=("True", "False", "Unknown"))]
    """Status of the condition: True, False or Unknown."""
    type: Annotated[
        str,
        schema(
            max_length=316,
            pattern=(
                r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
                r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
            ),
        ),
    ]
    """Type of the condition."""


class PlainCondition(Typed, frozen=True, kw_only=True):
    """An aspect of the state."""

    last_transition_time: Time | None = None
    """Last time the status of the condition changed."""
    message: str = ""
    """Human readable details."""
    reason: str = ""
    """Programmatic identifier of the reason, in CamelCase."""
    status: str
    """Status of the condition: True, False or Unknown."""
    type: str
    """Type of the condition."""


class JobCondition(PlainCondition, frozen=True, kw_only=True):
    """An aspect of the state of an object that runs to completion."""

    last_probe_time: Time | None = None
    """Last time the condition was checked."""


# ── actions of containers ────────────────────────────────────────────────────


class ExecAction(Typed, frozen=True, kw_only=True):
    """A command to run in the container; exit code 0 is success."""

    command: StringList | None = None
    """The command and its arguments; it does not run in a shell."""


class HttpHeader(Typed, frozen=True, kw_only=True):
    """A header of a request."""

    name: str
    """Name of the header."""
    value: str
    """Value of the header."""


class HttpGetAction(Typed, frozen=True, kw_only=True):
    """A GET request to the container; a status from 200 to 399 is success."""

    host: str = ""
    """Host to connect to, the pod's IP by default."""
    http_headers: Annotated[list[HttpHeader], schema(list_type="atomic")] | None = None
    """Headers of the request."""
    path: str = ""
    """Path of the request."""
    port: IntOrString
    """Port by number, or by its name in the container."""
    scheme: str = ""
    """HTTP (the default) or HTTPS."""


class TcpSocketAction(Typed, frozen=True, kw_only=True):
    """A TCP connection to the container; opening it is success."""

    host: str = ""
    """Host to connect to, the pod's IP by default."""
    port: IntOrString
    """Port by number, or by its name in the container."""


class GrpcAction(Typed, frozen=True, kw_only=True):
    """A gRPC health check of the container."""

    port: Int32
    """Number of the port."""
    service: Annotated[str, schema(default="")] = ""
    """Service to check; empty checks the server as a whole."""


class ContainerPort(Typed, frozen=True, kw_only=True):
    """A network port of a container."""

    container_port: Int32
    """Number of the port."""
    host_ip: str = msgspec.field(name="hostIP", default="")
    """Host IP to bind the port to."""
    host_port: Int32 = 0
    """Port of the node that is forwarded to the container port."""
    name: str = ""
    """Name of the port, by which probes and services refer to it."""
    protocol: Annotated[str, schema(default="TCP")] = "TCP"
    """Protocol of the port: TCP, UDP or SCTP."""


class Probe(Typed, frozen=True, kw_only=True):
    """A check that is repeated while the container runs."""

    exec: ExecAction | None = None
    failure_threshold: Int32 = 0
    """Consecutive failures after which the check counts as failed; 3 by default."""
    grpc: GrpcAction | None = None
    http_get: HttpGetAction | None = None
    initial_delay_seconds: Int32 = 0
    """Seconds from the start of the container to the first check."""
    period_seconds: Int32 = 0
    """Seconds between checks; 10 by default."""
    success_threshold: Int32 = 0
    """Consecutive successes after which the check counts as succeeded; 1 by default."""
    tcp_socket: TcpSocketAction | None = None
    termination_grace_period_seconds: Int64 | None = None
    """Seconds that the pod has to terminate after the check fails."""
    timeout_seconds: Int32 = 0
    """Seconds after which a check times out; 1 by default."""
