"""Kubernetes' own types as they occur inside custom resources, and the scalars that schemas are made of.

kinds/<kind>/types.py ──▶ these ──▶ kube/schemas/crds.py (schemas), msgspec (decoding)

Only what API objects spell out in their schema is here; pod templates and the like stay documents. Field
names, optional fields and defaults are Kubernetes'; a string below a field is what `kubectl explain` shows.
"""

from functools import cache
from typing import Annotated, Any

import msgspec

from pykruise.kube.documents import Document
from pykruise.kube.schemas.crds import int_or_string, integer, schema, structural_schema

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
"""A number of a status that is always written, also when it is 0."""
Time = Annotated[str, schema(format="date-time")]
IntOrString = Annotated[int | str, int_or_string()]
AnyObject = Annotated[dict[str, Any], schema(any_object=True)]
"""An object that the schema leaves open: nothing in it is pruned or checked."""
StringList = Annotated[list[str], schema(list_type="atomic")]


class Typed(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of all API types: frozen, camelCase in JSON, absent fields stay absent."""


class Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of statuses: what is."""

    def document(self) -> Document:
        """As it is written: required fields (`Count`) always, the rest only when there is something to say."""
        always = _required(type(self))
        doc: Document = msgspec.to_builtins(self)
        return {field: value for field, value in doc.items() if value or field in always}


@cache
def _required(cls: type) -> frozenset[str]:
    return frozenset(structural_schema(cls).get("required", ()))


class ObjectMeta(Typed, frozen=True, kw_only=True):
    """Metadata that every object has."""

    name: str = ""
    """Empty: made from `generate_name`."""
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
    """One object as the API server stores it. A kind adds `spec` and `status`."""

    api_version: str = ""
    """Group and version of the kind in which this object is written."""
    kind: str = ""
    """Name of the kind of object."""
    metadata: Annotated[ObjectMeta, schema(any_metadata=True)]


class TemplateMeta(Typed, frozen=True, kw_only=True):
    """Labels and annotations that objects made from the template get."""

    annotations: dict[str, str] | None = None
    """Annotations of the objects."""
    labels: dict[str, str] | None = None
    """Labels of the objects."""


# ── selectors ────────────────────────────────────────────────────────────────


class LabelSelectorRequirement(Typed, frozen=True, kw_only=True):
    """One condition on a label; an object must meet all of them."""

    key: str
    """Key of the label."""
    operator: str
    """One of In, NotIn, Exists and DoesNotExist."""
    values: StringList | None = None
    """Values to compare with: at least one for In and NotIn, none for the others."""


class LabelSelector(Typed, frozen=True, kw_only=True):
    """Selects objects by their labels: all of matchLabels and matchExpressions must hold."""

    match_expressions: Annotated[list[LabelSelectorRequirement], schema(list_type="atomic")] | None = None
    """Conditions on labels, all of which must hold."""
    match_labels: dict[str, str] | None = None
    """Labels that an object must have with exactly these values."""


Selector = Annotated[LabelSelector, schema(map_type="atomic")]


class NodeSelectorRequirement(Typed, frozen=True, kw_only=True):
    """One condition on a label or field of a node."""

    key: str
    """Key of the label, or path of the field."""
    operator: str
    """One of In, NotIn, Exists, DoesNotExist, Gt and Lt."""
    values: StringList | None = None
    """Values to compare with: at least one for In and NotIn, one whole number for Gt and Lt."""


class NodeSelectorTerm(Typed, frozen=True, kw_only=True):
    """Selects nodes: all its conditions must hold. A term without conditions selects none."""

    match_expressions: Annotated[list[NodeSelectorRequirement], schema(list_type="atomic")] | None = None
    """Conditions on the labels of a node."""
    match_fields: Annotated[list[NodeSelectorRequirement], schema(list_type="atomic")] | None = None
    """Conditions on the fields of a node; metadata.name is the only one Kubernetes knows."""


NodeSelector = Annotated[NodeSelectorTerm, schema(map_type="atomic")]


class PreferredSchedulingTerm(Typed, frozen=True, kw_only=True):
    """Nodes that are preferred, and how much."""

    preference: NodeSelector
    """The nodes."""
    weight: Int32
    """From 1 to 100; weights of all terms that a node meets add up."""


class Toleration(Typed, frozen=True, kw_only=True):
    """Lets pods be on nodes with a matching taint."""

    effect: str = ""
    """NoSchedule, PreferNoSchedule or NoExecute; empty matches all of them."""
    key: str = ""
    """Key of the taint; empty, with operator Exists, matches every taint."""
    operator: str = ""
    """Equal (the default) compares the value too, Exists does not."""
    toleration_seconds: Int64 | None = None
    """How long a pod stays under a NoExecute taint; absent means for ever."""
    value: str = ""
    """Value of the taint, for Equal."""


# ── references ───────────────────────────────────────────────────────────────


class LocalObjectReference(Typed, frozen=True, kw_only=True):
    """An object of the same namespace."""

    name: Annotated[str, schema(default="")] = ""
    """Name of the object."""


class ObjectFieldSelector(Typed, frozen=True, kw_only=True):
    """A field of the pod."""

    api_version: str = ""
    """Version in which the path is written, v1 by default."""
    field_path: str
    """Path of the field, such as metadata.labels['app']."""


class ObjectReference(Typed, frozen=True, kw_only=True):
    """Another object, by name and uid."""

    api_version: str = ""
    """Group and version of the object."""
    field_path: str = ""
    """A part of the object, when only that is meant."""
    kind: str = ""
    """Kind of the object."""
    name: str = ""
    """Name of the object."""
    namespace: str = ""
    """Namespace of the object; empty for one of the cluster."""
    resource_version: str = ""
    """Version of the object that is meant, if one is."""
    uid: str = ""
    """Identity of the object: a namesake made later has another."""


class TargetReference(Typed, frozen=True, kw_only=True):
    """A workload of the same namespace. Its version does not matter: group, kind and name do."""

    api_version: str
    """Group and version of the workload."""
    kind: str
    """Kind of the workload."""
    name: str
    """Name of the workload."""


# ── conditions ───────────────────────────────────────────────────────────────


class Condition(Typed, frozen=True, kw_only=True):
    """One aspect of the state, in Kubernetes' standard form."""

    last_transition_time: Time
    """When the status last changed."""
    message: Annotated[str, schema(max_length=32768)]
    """Details for people; may be empty."""
    observed_generation: Annotated[int, integer("int64", minimum=0)] | None = None
    """The metadata.generation that was looked at."""
    reason: Annotated[
        str, schema(min_length=1, max_length=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    ]
    """Why, in one word for programs."""
    status: Annotated[str, schema(enum=("True", "False", "Unknown"))]
    """True, False or Unknown."""
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
    """Subject of the condition."""


class PlainCondition(Typed, frozen=True, kw_only=True):
    """One aspect of the state."""

    last_transition_time: Time | None = None
    """When the status last changed."""
    message: str = ""
    """Details for people."""
    reason: str = ""
    """Why, in one word for programs."""
    status: str
    """True, False or Unknown."""
    type: str
    """Subject of the condition."""


class JobCondition(PlainCondition, frozen=True, kw_only=True):
    """One aspect of the state of something that ends."""

    last_probe_time: Time | None = None
    """When this was last looked at."""


# ── what containers do ───────────────────────────────────────────────────────


class ExecAction(Typed, frozen=True, kw_only=True):
    """A command that is run in the container; exit code 0 is success."""

    command: StringList | None = None
    """The command and its arguments; no shell is involved."""


class HttpHeader(Typed, frozen=True, kw_only=True):
    """One header of a request."""

    name: str
    """Name of the header."""
    value: str
    """Value of the header."""


class HttpGetAction(Typed, frozen=True, kw_only=True):
    """A GET request to the container; a status from 200 to 399 is success."""

    host: str = ""
    """Host to ask, the pod's address by default."""
    http_headers: Annotated[list[HttpHeader], schema(list_type="atomic")] | None = None
    """Headers of the request."""
    path: str = ""
    """Path of the request."""
    port: IntOrString
    """Port by number, or by its name in the container."""
    scheme: str = ""
    """HTTP (the default) or HTTPS."""


class TcpSocketAction(Typed, frozen=True, kw_only=True):
    """A connection to the container; that it opens is success."""

    host: str = ""
    """Host to connect to, the pod's address by default."""
    port: IntOrString
    """Port by number, or by its name in the container."""


class GrpcAction(Typed, frozen=True, kw_only=True):
    """A gRPC health check."""

    port: Int32
    """Port by number."""
    service: Annotated[str, schema(default="")] = ""
    """Service to ask about; empty asks about the server as a whole."""


class ContainerPort(Typed, frozen=True, kw_only=True):
    """A port of a container."""

    container_port: Int32
    """Number of the port."""
    host_ip: str = msgspec.field(name="hostIP", default="")
    """Address of the node that the port is bound to."""
    host_port: Int32 = 0
    """Port of the node that leads here."""
    name: str = ""
    """Name by which probes and services call the port."""
    protocol: Annotated[str, schema(default="TCP")] = "TCP"
    """TCP, UDP or SCTP."""


class Probe(Typed, frozen=True, kw_only=True):
    """A check that is repeated while the container runs."""

    exec: ExecAction | None = None
    failure_threshold: Int32 = 0
    """Failures in a row after which the check has failed; 3 by default."""
    grpc: GrpcAction | None = None
    http_get: HttpGetAction | None = None
    initial_delay_seconds: Int32 = 0
    """Seconds from the start of the container to the first check."""
    period_seconds: Int32 = 0
    """Seconds between checks; 10 by default."""
    success_threshold: Int32 = 0
    """Successes in a row after which the check has succeeded; 1 by default."""
    tcp_socket: TcpSocketAction | None = None
    termination_grace_period_seconds: Int64 | None = None
    """Seconds that the pod has for its end when the check fails."""
    timeout_seconds: Int32 = 0
    """Seconds until a check counts as failed; 1 by default."""
