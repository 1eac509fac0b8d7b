"""Custom resources: their definition, and the effects of a schema on objects."""

from typing import Any

from conformance.builders import crd
from conformance.dsl import (
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Request,
    based_on,
    case,
    create,
    define,
    delete,
    get,
    patch,
    put,
    table,
)

_CRDS = "customresourcedefinitions"
_APPROVED = "api-approved.kubernetes.io"
_WIDGETS = "customresourcedefinitions/widgets.$ns.example.com"


def _widget(name: str = "a", version: str = "v1", **more: Any) -> dict[str, Any]:
    return {"apiVersion": f"$ns.example.com/{version}", "kind": "Widget", "metadata": {"name": name}, **more}


def _make(name: str, version: str = "v1", /, *, strict: bool = False, **spec: Any) -> Request:
    query = {"fieldValidation": "Strict"} if strict else {}
    return create(f"widgets@{version}", _widget(name, version, spec=spec), **query)


_INT = {"type": "integer"}
_TEXT = {"type": "string"}
_SCALED = {
    "status": {},
    "scale": {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    },
}


def _version(name: str, **more: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    return {"name": name, "served": True, "storage": False, "schema": {"openAPIV3Schema": schema}, **more}


def _in_group(group: str, approval: str = "") -> dict[str, Any]:
    definition = crd()
    definition["metadata"] = {"name": f"widgets.{group}"}
    if approval:
        definition["metadata"]["annotations"] = {_APPROVED: approval}
    definition["spec"]["group"] = group
    return definition


def _wrong(schema: dict[str, Any]) -> Request:
    return create(_CRDS, crd(schema={"x": schema}))


CASES = [
    case(
        "a custom resource is served once it is defined",
        define(crd()),
        create("widgets@v1", _widget(spec={"x": [1, {"y": None}], "z": 1.5})),
        get("widgets@v1/a"),
        get("widgets@v1"),
        put("widgets@v1/a", based_on(2, {"spec": {"x": None}})),
        put("widgets@v1/a", _widget(spec={})),
        patch("widgets@v1/a", {"spec": {"a": {"b": 1}}}, MERGE),
        patch(
            "widgets@v1/a",
            [{"op": "test", "path": "/spec/a/b", "value": 1}, {"op": "add", "path": "/spec/c", "value": []}],
            JSON_PATCH,
        ),
        patch("widgets@v1/a", {"spec": {"a": 1}}, STRATEGIC),
        delete("widgets@v1/a"),
        get("widgets@v1/a"),
        get("widgets@v2"),
        create("widgets@v1", {"metadata": {"name": "b"}}),
        create("widgets@v1", {**_widget("b"), "kind": "Gadget"}),
        create("widgets@v1", {**_widget("b"), "apiVersion": "$ns.example.com/v2"}),
        create("widgets@v1", {**_widget("Bad_Name")}),
    ),
    case(
        "deleting a definition deletes what it defines",
        define(crd()),
        create("widgets@v1", _widget()),
        delete(_WIDGETS),
    ),
    case(
        "a schema's defaults are filled in and unknown fields pruned",
        define(
            crd(
                schema={
                    "replicas": {"type": "integer", "default": 1},
                    "mode": {"type": "string", "default": "fast", "enum": ["fast", "slow"]},
                    "nested": {
                        "type": "object",
                        "default": {},
                        "properties": {"deep": {"type": "boolean", "default": True}},
                    },
                    "plain": {"type": "object", "properties": {"deep": {"type": "string", "default": "x"}}},
                    "list": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"port": _INT, "protocol": {"type": "string", "default": "TCP"}},
                        },
                    },
                    "map": {
                        "type": "object",
                        "additionalProperties": {
                            "type": "object",
                            "properties": {"v": {"type": "integer", "default": 7}},
                        },
                    },
                    "free": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                        "properties": {"known": {"type": "object", "properties": {"a": _INT}}},
                    },
                    "nullable": {"type": "string", "nullable": True, "default": "d"},
                    "text": {"type": "string", "default": "d"},
                }
            )
        ),
        _make("a"),
        create("widgets@v1", _widget("none")),
        _make("b", plain={}, list=[{"port": 1}, {"port": 2, "protocol": "UDP"}], map={"k": {}}),
        _make(
            "c",
            unknown=1,
            nested={"unknown": 2},
            list=[{"unknown": 3}],
            free={"any": {"x": 1}, "known": {"a": 1, "b": 2}},
        ),
        _make("d", nullable=None, text=None),
        _make("e", strict=True, unknown=1, nested={"typo": 2}),
        create("widgets@v1", {**_widget("f"), "toplevel": 1}),
        patch("widgets@v1/a", {"spec": {"replicas": None, "unknown": 5}}, MERGE),
        patch("widgets@v1/a", {"spec": {"mode": "slow"}}, MERGE, fieldValidation="Warn"),
        patch("widgets@v1/a", {"spec": {"other": "slow"}}, MERGE, fieldValidation="Warn"),
        get("widgets@v1/a"),
    ),
    case(
        "a schema's rules are kept",
        define(
            crd(
                schema={
                    "count": {"type": "integer", "minimum": 1, "maximum": 10},
                    "over": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
                    "even": {"type": "integer", "multipleOf": 2},
                    "ratio": {"type": "number"},
                    "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
                    "mode": {"type": "string", "enum": ["a", "b"]},
                    "flag": {"type": "boolean"},
                    "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": _INT},
                    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": _TEXT},
                    "map": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["k"],
                        "items": {"type": "object", "required": ["k"], "properties": {"k": _TEXT}},
                    },
                    "any": {"x-kubernetes-int-or-string": True},
                    "required": {"type": "object", "required": ["a"], "properties": {"a": _INT}},
                    "time": {"type": "string", "format": "date-time"},
                    "props": {"type": "object", "maxProperties": 1, "additionalProperties": _TEXT},
                    "one": {
                        "type": "object",
                        "properties": {"a": _INT, "b": _INT},
                        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                    },
                    "not": {"type": "integer", "not": {"enum": [5]}},
                }
            )
        ),
        _make(
            "ok",
            count=5,
            over=1,
            even=4,
            ratio=0.5,
            name="abc",
            mode="a",
            flag=True,
            list=[1],
            set=["a"],
            any="x",
            required={"a": 1},
        ),
        _make("a", count=0),
        _make("a", count=11),
        _make("a", count="five"),
        _make("a", count=1.5),
        _make("a", over=0),
        _make("a", even=3),
        _make("a", ratio="x"),
        _make("a", name="x"),
        _make("a", name="toolong"),
        _make("a", name="A B"),
        _make("a", mode="c"),
        _make("a", flag="yes"),
        _make("a", list=[]),
        _make("a", list=[1, 2, 3]),
        _make("a", list=["x"]),
        _make("a", list={}),
        _make("a", set=["a", "a"]),
        _make("a", map=[{"k": "a"}, {"k": "a"}]),
        _make("a", map=[{}]),
        _make("a", any=5),
        _make("b", any=True),
        _make("b", required={}),
        _make("b", time="yesterday"),
        _make("b", props={"a": "x", "b": "y"}),
        _make("b", one={}),
        _make("b", one={"a": 1, "b": 2}),
        _make("b", **{"not": 5}),
        create(
            "widgets@v1",
            _widget("b", spec={"count": 0, "name": "x", "mode": "c"}),
            only=("reason", "details.name", "details.causes.3"),
        ),
        create("widgets@v1", _widget("b", spec="text")),
        create("widgets@v1", _widget("b", spec=None)),
        patch("widgets@v1/ok", {"spec": {"count": 50}}, MERGE),
        create("widgets@v1", {**_widget("b"), "metadata": {"name": "b", "labels": {"a": 1}}}),
    ),
    case(
        "rules in CEL are checked",
        define(
            crd(
                schema={
                    "min": _INT,
                    "max": _INT,
                    "fixed": {
                        "type": "string",
                        "x-kubernetes-validations": [
                            {"rule": "self == oldSelf", "message": "fixed is fixed"}
                        ],
                    },
                    "pair": {
                        "type": "object",
                        "properties": {"a": _INT, "b": _INT},
                        "x-kubernetes-validations": [{"rule": "self.a < self.b"}],
                    },
                }
            )
        ),
        _make("a", fixed="x", pair={"a": 1, "b": 2}),
        _make("b", pair={"a": 2, "b": 1}),
        patch("widgets@v1/a", {"spec": {"fixed": "y"}}, MERGE),
    ),
    case(
        "rules in CEL see names, times, old values and messages",
        define(
            crd(
                schema={
                    "min-size": _INT,
                    "namespace": _TEXT,
                    "ratio": {"type": "number"},
                    "at": {"type": "string", "format": "date-time"},
                    "count": {
                        "type": "integer",
                        "x-kubernetes-validations": [
                            {"rule": "self >= oldSelf", "messageExpression": "'not' + ' below'"}
                        ],
                    },
                    "names": {
                        "type": "array",
                        "items": {"type": "string", "maxLength": 10},
                        "maxItems": 5,
                        "x-kubernetes-validations": [
                            {"rule": "self.all(x, x.startsWith('a'))", "message": "all begin with a"},
                            {
                                "rule": "self.isSorted()",
                                "reason": "FieldValueForbidden",
                                "message": "sorted, please",
                            },
                        ],
                    },
                    "limits": {
                        "type": "object",
                        "maxProperties": 5,
                        "additionalProperties": {
                            "type": "integer",
                            "x-kubernetes-validations": [{"rule": "self > 0"}],
                        },
                    },
                    "both": {
                        "type": "object",
                        "properties": {
                            "min-size": _INT,
                            "namespace": {"type": "string", "maxLength": 20},
                            "ratio": {"type": "number"},
                        },
                        "x-kubernetes-validations": [
                            {
                                "rule": "!has(self.min__dash__size) || self.min__dash__size > 0",
                                "fieldPath": ".min-size",
                            },
                            {"rule": "!has(self.__namespace__) || self.__namespace__ != 'kube-system'"},
                            {"rule": "!has(self.ratio) || self.ratio < 1.0"},
                        ],
                    },
                }
            )
        ),
        _make(
            "a",
            count=3,
            names=["a", "ab"],
            limits={"x": 1},
            both={"min-size": 1, "namespace": "x", "ratio": 0},
        ),
        _make("b", names=["b"]),
        _make("b", names=["ab", "aa"]),
        _make("b", limits={"x": 0}),
        _make("b", both={"min-size": 0}),
        _make("b", both={"namespace": "kube-system"}),
        _make("b", both={"ratio": 1}),
        _make("b", both={"ratio": "text"}),
        patch("widgets@v1/a", {"spec": {"count": 2}}, MERGE),
        patch("widgets@v1/a", {"spec": {"count": 4}}, MERGE),
        patch("widgets@v1/a", {"spec": {"count": None}}, MERGE),
        patch("widgets@v1/a", {"spec": {"count": 1}}, MERGE),
    ),
    case(
        "rules in CEL must be expressions",
        create(
            _CRDS,
            crd(schema={"a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >"}]}}),
            only=("code", "reason", "details.causes.0.field", "details.causes.0.reason"),
        ),
        create(
            _CRDS,
            crd(schema={"a": {"type": "integer", "x-kubernetes-validations": [{"rule": "nope(self)"}]}}),
            only=("code", "reason", "details.causes.0.field", "details.causes.0.reason"),
        ),
    ),
    case(
        "the status subresource of a custom resource",
        define(crd(subresources={"status": {}})),
        create("widgets@v1", _widget(spec={"x": 1}, status={"y": 1})),
        patch("widgets@v1/a/status", {"status": {"y": 2}, "spec": {"x": 9}}, MERGE),
        patch("widgets@v1/a", {"status": {"y": 3}, "spec": {"x": 2}}, MERGE),
        patch("widgets@v1/a", {"metadata": {"labels": {"a": "b"}}}, MERGE),
        patch("widgets@v1/a/status", {"metadata": {"labels": {"c": "d"}}, "status": {"y": 5}}, MERGE),
        put("widgets@v1/a/status", based_on(6, {"status": {"y": 7}})),
        get("widgets@v1/a/status"),
        get("widgets@v1/a/scale"),
        put("widgets@v1/a/status", based_on(2, {"status": {"y": 8}})),
    ),
    case(
        "without a status subresource the status is like any field",
        define(crd()),
        create("widgets@v1", _widget(spec={"x": 1}, status={"y": 1})),
        patch("widgets@v1/a", {"status": {"y": 2}}, MERGE),
        patch("widgets@v1/a", {"metadata": {"labels": {"a": "b"}}}, MERGE),
        get("widgets@v1/a/status"),
        patch("widgets@v1/a/status", {"status": {"y": 3}}, MERGE),
    ),
    case(
        "the scale subresource of a custom resource",
        define(crd(subresources=_SCALED)),
        _make("a", replicas=2),
        get("widgets@v1/a/scale"),
        patch("widgets@v1/a/status", {"status": {"replicas": 1, "selector": "a=b"}}, MERGE),
        get("widgets@v1/a/scale"),
        patch("widgets@v1/a/scale", {"spec": {"replicas": 5}}, MERGE),
        put("widgets@v1/a/scale", based_on(6, {"spec": {"replicas": 6}})),
        put("widgets@v1/a/scale", based_on(3, {"spec": {"replicas": 6}})),
        patch("widgets@v1/a/scale", {"spec": {"replicas": -1}}, MERGE),
        get("widgets@v1/a"),
        create("widgets@v1", _widget("b", spec={})),
        get("widgets@v1/b/scale"),
        patch("widgets@v1/b/scale", {"spec": {"replicas": 1}}, MERGE),
    ),
    case(
        "printer columns make tables of custom resources",
        define(
            crd(
                columns=[
                    {
                        "name": "Replicas",
                        "type": "integer",
                        "jsonPath": ".spec.replicas",
                        "description": "How many",
                    },
                    {
                        "name": "Ready",
                        "type": "string",
                        "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
                    },
                    {"name": "Ratio", "type": "number", "jsonPath": ".spec.ratio", "priority": 1},
                    {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
                    {"name": "When", "type": "date", "jsonPath": ".spec.when"},
                    {"name": "First", "type": "string", "jsonPath": ".spec.list[0]"},
                    {"name": "All", "type": "string", "jsonPath": ".spec.list[*]"},
                    {"name": "Map", "type": "string", "jsonPath": ".spec.map"},
                ]
            )
        ),
        _make("a", replicas=3, ratio=0.5, on=True, list=["x", "y"], map={"k": "v"}),
        create("widgets@v1", _widget("b", status={"conditions": [{"type": "Ready", "status": "False"}]})),
        _make("c", replicas="text", on="text", when="no time"),
        table("widgets@v1"),
        table("widgets@v1/a"),
        get("widgets@v1/a", accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"),
    ),
    case(
        "a custom resource without columns shows its age",
        define(crd()),
        _make("a"),
        table("widgets@v1", limit="5"),
        table("widgets@v1/none"),
    ),
    case(
        "several versions are served of one stored object",
        define(
            crd(
                versions=[
                    _version("v1", storage=True),
                    _version("v1beta1", deprecated=True),
                    _version("v2", served=False),
                ]
            )
        ),
        _make("a", x=1),
        get("widgets@v1beta1/a"),
        patch("widgets@v1beta1/a", {"spec": {"y": 2}}, MERGE),
        get("widgets@v1/a"),
        get("widgets@v2/a"),
        _make("b", "v1beta1", x=1),
        get("widgets@v1"),
    ),
    case(
        "a cluster-wide custom resource has no namespace",
        define(crd(scope="Cluster")),
        create("widgets!@v1", _widget()),
        get("widgets!@v1/a"),
        create("widgets!@v1", {**_widget("b"), "metadata": {"name": "b", "namespace": "x"}}),
        get("widgets@v1"),
        delete("widgets!@v1/a"),
    ),
    case(
        "generateName, finalizers and generation of custom resources",
        define(crd()),
        create("widgets@v1", {**_widget(), "metadata": {"generateName": "w-", "finalizers": ["x.io/a"]}}),
        delete("widgets@v1/${2.metadata.name}"),
        patch("widgets@v1/${2.metadata.name}", {"metadata": {"finalizers": None}}, MERGE),
        get("widgets@v1/${2.metadata.name}"),
        _make("a", x=1),
        patch("widgets@v1/a", {"spec": {"x": 2}}, MERGE),
        patch("widgets@v1/a", {"metadata": {"annotations": {"x": "2"}}}, MERGE),
        delete("widgets@v1/a", propagationPolicy="Foreground"),
        get("widgets@v1/a"),
    ),
    case(
        "a definition keeps its group and scope",
        define(crd()),
        create(_CRDS, crd()),
        patch(
            _WIDGETS,
            {"spec": {"names": {"shortNames": ["wd"]}}},
            MERGE,
            only=("spec.names", "metadata.generation"),
        ),
        patch(_WIDGETS, {"spec": {"group": "other.example.com"}}, MERGE),
        patch(_WIDGETS, {"spec": {"scope": "Cluster"}}, MERGE),
        patch(_WIDGETS, {"spec": {"versions": []}}, MERGE),
    ),
    case(
        "a definition must be valid",
        create(_CRDS, {**crd(), "metadata": {"name": "wrong.example.com"}}),
        create(_CRDS, crd(scope="Sideways")),
        create(_CRDS, crd(versions=[])),
        create(_CRDS, crd(versions=[_version("v1")])),
        create(_CRDS, crd(versions=[_version("v1", storage=True), _version("v2", storage=True)])),
        create(_CRDS, crd(versions=[_version("v1", storage=True), _version("v1")])),
        create(_CRDS, crd(versions=[_version("V1", storage=True)])),
        create(_CRDS, crd(versions=[_version("v1", storage=True, schema=None)])),
        create(_CRDS, crd(columns=[{"name": "x", "type": "odd", "jsonPath": "spec"}])),
        create(
            _CRDS,
            crd(
                subresources={"scale": {"specReplicasPath": "spec.replicas", "statusReplicasPath": ".spec.x"}}
            ),
        ),
        create(_CRDS, crd("Widgets")),
        create(_CRDS, crd(conversion={"strategy": "Webhook"})),
        create(_CRDS, crd(preserveUnknownFields=True)),
    ),
    case(
        "a definition in a group of Kubernetes needs an approval",
        create(_CRDS, _in_group("$ns.x.k8s.io")),
        create(_CRDS, _in_group("$ns.kubernetes.io")),
        create(_CRDS, _in_group("$ns.x.k8s.io", approval="later")),
        create(_CRDS, _in_group("$ns.x.k8s.io", approval="unapproved, only for tests")),
        patch(f"{_CRDS}/widgets.$ns.x.k8s.io", {"metadata": {"annotations": {_APPROVED: "later"}}}, MERGE),
        patch(f"{_CRDS}/widgets.$ns.x.k8s.io", {"metadata": {"annotations": {_APPROVED: None}}}, MERGE),
    ),
    case(
        "a schema must be structural",
        _wrong({}),
        _wrong({"type": "odd"}),
        _wrong({"type": "array"}),
        _wrong({"type": "object", "properties": {"a": {}}}),
        _wrong({"type": "integer", "default": "text"}),
        _wrong({"type": "string", "pattern": "("}),
        _wrong({"type": "object", "properties": {"a": _INT}, "additionalProperties": _INT}),
        _wrong({"type": "array", "items": _INT, "x-kubernetes-list-type": "map"}),
        _wrong({"type": "array", "items": _INT, "x-kubernetes-list-type": "odd"}),
        _wrong({"type": "array", "uniqueItems": True, "items": _INT}),
        _wrong({"type": "string", "x-kubernetes-int-or-string": True}),
        _wrong({"$ref": "#/definitions/x"}),
    ),
]
