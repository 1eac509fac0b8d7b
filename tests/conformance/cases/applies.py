"""Server-side apply: owners of fields, conflicts and force."""

import json
from typing import Any

from conformance.builders import config_map, container, crd, deployment, pod, template
from conformance.dsl import (
    APPLY,
    JSON_PATCH,
    MERGE,
    apply,
    based_on,
    case,
    create,
    define,
    delete,
    get,
    owned,
    patch,
    put,
    raw,
    table,
)


def _map(**data: str) -> dict[str, Any]:
    return config_map("a", **data)


def _service(*ports: dict[str, Any], **more: Any) -> dict[str, Any]:
    spec = {"selector": {"app": "web"}, "clusterIP": "None", "ports": list(ports), **more}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": spec}


def _partial(kind: str, version: str = "apps/v1", name: str = "web", **members: Any) -> dict[str, Any]:
    """An applied object with few fields."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **members}


def _widget(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "$ns.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": spec,
    }


_WEB = deployment(replicas=3)


def _with_spec(doc: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {**doc, "spec": {**doc["spec"], **spec}}


_TEXT = {"type": "string"}
_INT = {"type": "integer"}
_LISTS = crd(
    schema={
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": _TEXT},
        "map": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "kind"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": _TEXT,
                    "kind": {"type": "string", "default": "plain"},
                    "value": _INT,
                    "other": _INT,
                },
            },
        },
        "atomic": {"type": "array", "items": _INT},
        "whole": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {"a": _INT, "b": _INT},
        },
        "parts": {"type": "object", "additionalProperties": _INT},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
    subresources={
        "status": {},
        "scale": {"specReplicasPath": ".spec.parts.x", "statusReplicasPath": ".status.x"},
    },
)

CASES = [
    case(
        "a creation owns what it sets and defaults, but not what the server adds",
        owned(
            create(
                "deployments", deployment(template=template("web", container(ports=[{"containerPort": 80}])))
            )
        ),
        owned(
            create(
                "pods",
                pod(
                    "a", container(env=[{"name": "A", "value": "b"}]), volumes=[{"name": "v", "emptyDir": {}}]
                ),
            )
        ),
        owned(create("services", _service({"port": 80}))),
        owned(get("deployments/web")),
        owned(get("pods/a")),
    ),
    case(
        "each writer owns what it changed last",
        owned(create("deployments", deployment(), fieldManager="creator")),
        owned(patch("deployments/web", {"spec": {"replicas": 3}}, MERGE, fieldManager="scaler")),
        owned(patch("deployments/web", {"spec": {"replicas": 4}}, MERGE, fieldManager="creator")),
        owned(patch("deployments/web", {"metadata": {"labels": {"a": "b"}}}, MERGE, fieldManager="labeller")),
        owned(patch("deployments/web", {"metadata": {"labels": {"c": "d"}}}, MERGE, fieldManager="other")),
        owned(patch("deployments/web", {"metadata": {"labels": None}}, MERGE, fieldManager="remover")),
        owned(patch("deployments/web/status", {"status": {"replicas": 1}}, MERGE, fieldManager="controller")),
        owned(patch("deployments/web/scale", {"spec": {"replicas": 7}}, MERGE, fieldManager="hpa")),
        owned(
            put(
                "deployments/web",
                based_on(6, {"metadata": {"resourceVersion": None}, "spec": {"paused": True}}),
                fieldManager="putter",
            )
        ),
        owned(get("deployments/web")),
    ),
    case(
        "managers are taken from the user agent, or unknown",
        owned(raw("POST", "configmaps", config_map("a", x="1"), headers={"user-agent": "agent/1.2 (x) y"})),
        owned(raw("POST", "configmaps", config_map("b", x="1"), headers={"user-agent": "/strange"})),
    ),
    case(
        "conflicts tell every field and every manager",
        create("deployments", deployment(replicas=2), fieldManager="creator"),
        apply("deployments/web", _partial("Deployment", spec={"replicas": 3})),
        apply(
            "deployments/web",
            _partial("Deployment", spec={"replicas": 3, "paused": True, "strategy": {"type": "Recreate"}}),
        ),
        patch("deployments/web/status", {"status": {"replicas": 1}}, MERGE, fieldManager="controller"),
        patch("deployments/web/scale", {"spec": {"replicas": 7}}, MERGE, fieldManager="hpa"),
        apply("deployments/web", _partial("Deployment", spec={"replicas": 3, "revisionHistoryLimit": 3})),
        apply(
            "deployments/web",
            _partial("Deployment", spec={"replicas": 3, "revisionHistoryLimit": 3}),
            force=True,
        ),
        apply("deployments/web", _partial("Deployment", spec={"replicas": 4}), manager="second"),
    ),
    case(
        "what an applier no longer names goes, unless others own it",
        apply(
            "configmaps/a", {**_map(x="1", y="2"), "metadata": {"name": "a", "labels": {"a": "1", "b": "2"}}}
        ),
        apply("configmaps/a", _map(y="2"), manager="other"),
        apply("configmaps/a", {**_map(), "metadata": {"name": "a", "labels": {"a": "1"}}}),
        owned(get("configmaps/a")),
        apply("configmaps/a", _map(), manager="other"),
        owned(get("configmaps/a")),
    ),
    case(
        "items of lists have owners of their own",
        apply(
            "deployments/web",
            deployment(
                template=template(
                    "web",
                    container(
                        "a",
                        "a:1",
                        env=[{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}],
                        ports=[{"containerPort": 80}],
                    ),
                    container("b", "b:1"),
                )
            ),
        ),
        apply(
            "deployments/web",
            _partial(
                "Deployment",
                spec={
                    "template": {
                        "spec": {"containers": [{"name": "a", "env": [{"name": "Z", "value": "3"}]}]}
                    }
                },
            ),
            manager="other",
        ),
        apply(
            "deployments/web",
            deployment(template=template("web", container("a", "a:1", env=[{"name": "Y", "value": "2"}]))),
        ),
        apply("deployments/web", _partial("Deployment"), manager="other"),
    ),
    case(
        "a port is told apart by its number and protocol",
        apply("services/a", _service({"port": 80}, {"port": 53, "protocol": "UDP", "name": "dns"})),
        apply(
            "services/a",
            _service({"port": 80, "name": "web"}, {"port": 53, "protocol": "TCP", "name": "dnst"}),
            manager="other",
        ),
        apply(
            "services/a",
            _service({"port": 80, "name": "web"}, {"port": 53, "protocol": "TCP", "name": "dnst"}),
            manager="other",
            force=True,
        ),
        apply("services/a", _service({"port": 80}, {"port": 80})),
        apply("services/a", _service({"name": "x"})),
    ),
    case(
        "lists and maps of custom resources are merged as their schema says",
        define(_LISTS),
        apply(
            "widgets@v1/a",
            _widget(
                set=["a", "b"],
                map=[{"name": "x", "value": 1}],
                atomic=[1, 2],
                whole={"a": 1},
                parts={"a": 1},
                free={"a": {"b": 1}},
            ),
        ),
        apply(
            "widgets@v1/a",
            _widget(
                set=["b", "c"],
                map=[{"name": "x", "kind": "odd", "value": 2}, {"name": "x", "other": 5}],
                parts={"b": 2},
                free={"a": {"c": 2}},
            ),
            manager="other",
        ),
        apply("widgets@v1/a", _widget(whole={"b": 2}, atomic=[3]), manager="third"),
        apply("widgets@v1/a", _widget(whole={"b": 2}, atomic=[3]), manager="third", force=True),
        apply("widgets@v1/a", _widget(set=["b"], map=[], parts={})),
        apply("widgets@v1/a", _widget(set=["a", "a"])),
        apply("widgets@v1/a", _widget(unknown=1)),
        apply("widgets@v1/a", _widget(set={"a": 1})),
        apply("widgets@v1/a", _widget(map=[{"value": 1}])),
        owned(get("widgets@v1/a")),
    ),
    case(
        "the status is applied through its own endpoint",
        define(_LISTS),
        apply("widgets@v1/a", {**_widget(parts={"x": 1}), "status": {"x": 1}}),
        apply("widgets@v1/a/status", {**_widget(parts={"x": 2}), "status": {"x": 5}}, manager="controller"),
        apply("widgets@v1/a/status", {**_widget(), "status": {"y": 5}}, manager="controller"),
        apply("widgets@v1/none/status", {**_widget("none"), "status": {"y": 5}}, manager="controller"),
        owned(get("widgets@v1/a")),
    ),
    case(
        "an update of what was applied takes it over",
        apply("configmaps/a", _map(x="1", y="2")),
        owned(patch("configmaps/a", {"data": {"x": "9"}}, MERGE, fieldManager="editor")),
        owned(patch("configmaps/a", {"data": {"y": None}}, MERGE, fieldManager="editor")),
        apply("configmaps/a", _map(x="1")),
        apply("configmaps/a", _map(x="9")),
    ),
    case(
        "managed fields are reset by an empty entry",
        create("configmaps", config_map("a", x="1"), fieldManager="creator"),
        owned(patch("configmaps/a", {"metadata": {"managedFields": []}}, MERGE)),
        owned(patch("configmaps/a", {"metadata": {"managedFields": [{}]}}, MERGE)),
        owned(patch("configmaps/a", {"data": {"y": "1"}}, MERGE)),
        owned(patch("configmaps/a", [{"op": "add", "path": "/data/z", "value": "1"}], JSON_PATCH)),
        apply("configmaps/a", _map(z="1")),
    ),
    case(
        "managed fields are moved from one manager to another",
        owned(create("configmaps", config_map("a", x="1"), fieldManager="kubectl-client-side-apply")),
        owned(
            patch(
                "configmaps/a",
                [
                    {"op": "replace", "path": "/metadata/managedFields/0/operation", "value": "Apply"},
                    {"op": "replace", "path": "/metadata/managedFields/0/manager", "value": "kubectl"},
                ],
                JSON_PATCH,
                fieldManager="kubectl-client-side-apply",
            )
        ),
        apply("configmaps/a", _map(), manager="kubectl"),
        owned(
            patch(
                "configmaps/a",
                {
                    "metadata": {
                        "managedFields": [
                            {
                                "manager": "x",
                                "operation": "Odd",
                                "apiVersion": "v1",
                                "fieldsType": "FieldsV1",
                                "fieldsV1": {},
                            }
                        ]
                    }
                },
                MERGE,
            )
        ),
    ),
    case(
        "kubectl may take over what it applied from the client's side",
        create(
            "configmaps",
            {
                **_map(x="1", y="2"),
                "metadata": {
                    "name": "a",
                    "annotations": {
                        "kubectl.kubernetes.io/last-applied-configuration": (
                            '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"x":"1"}}'
                        )
                    },
                },
            },
            fieldManager="kubectl-client-side-apply",
        ),
        apply("configmaps/a", _map(x="2"), manager="another"),
        apply("configmaps/a", _map(x="2", y="3"), manager="kubectl"),
        apply("configmaps/a", _map(x="2"), manager="kubectl"),
    ),
    case(
        "kubectl does not take over what has changed since it applied it from the client's side",
        create(
            "deployments",
            {
                **_WEB,
                "metadata": {
                    "name": "web",
                    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(_WEB)},
                },
            },
            fieldManager="kubectl-client-side-apply",
        ),
        patch("deployments/web", {"spec": {"replicas": 9}}, MERGE, fieldManager="autoscaler"),
        patch("deployments/web", {"metadata": {"labels": {"team": "a"}}}, MERGE, fieldManager="people"),
        apply("deployments/web", _WEB, manager="kubectl"),
        apply("deployments/web", _with_spec(_WEB, replicas=9, minReadySeconds=5), manager="kubectl"),
        apply("deployments/web", _WEB, manager="kubectl", force=True),
        owned(get("deployments/web")),
    ),
    case(
        "an apply that cannot be read is refused",
        raw("PATCH", "configmaps/a", "{", headers={"content-type": APPLY}, fieldManager="tester"),
        raw("PATCH", "configmaps/a", "[]", headers={"content-type": APPLY}, fieldManager="tester"),
        apply("configmaps/a", {**_map(), "data": "text"}),
        apply("configmaps/a", {**_map(), "data": {"x": 1}}),
        apply("configmaps/a", {**_map(), "kind": "Secret"}),
        apply("configmaps/a", {**_map(), "apiVersion": "v2"}),
        apply(
            "configmaps/a",
            {**_map(), "metadata": {"name": "a", "uid": "00000000-0000-0000-0000-000000000000"}},
        ),
        apply("configmaps/a", {**_map(), "metadata": {"name": "a", "namespace": "other"}}),
        apply("configmaps", _map()),
        apply("configmaps/a", _map(), force=True, dryRun="Some"),
        apply("configmaps/a", {**_map(x="1"), "metadata": {}}),
        apply("configmaps/a", {**_map(x="1"), "metadata": {"name": "a", "resourceVersion": "5"}}),
        raw(
            "PATCH",
            "configmaps/a",
            "data: {x: '1'}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
            headers={"content-type": APPLY},
            managed_fields=True,
            fieldManager="tester",
        ),
    ),
    case(
        "what is deleted keeps its managed fields, what is listed shows them",
        create(
            "configmaps",
            {**_map(x="1"), "metadata": {"name": "a", "finalizers": ["x.io/a"], "labels": {"l": "1"}}},
            fieldManager="creator",
        ),
        owned(get("configmaps", labelSelector="l=1")),
        owned(get("configmaps/a", accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")),
        owned(table("configmaps/a")),
        owned(delete("configmaps/a", propagationPolicy="Foreground")),
        owned(patch("configmaps/a", {"metadata": {"finalizers": None}}, MERGE, fieldManager="finisher")),
    ),
    case(
        "many updaters become ancient changes",
        create("configmaps", config_map("a", x="1"), fieldManager="creator"),
        *(patch("configmaps/a", {"data": {f"k{n}": "1"}}, MERGE, fieldManager=f"m{n}") for n in range(11)),
        get("configmaps/a", only=("metadata.managedFields.0",)),
    ),
    case(
        "an apply creates and owns what it sets",
        apply("configmaps/a", _map(x="1", y="2")),
        apply("configmaps/a", _map(x="1", y="2")),
        apply("configmaps/a", _map(x="3")),
        get("configmaps/a"),
    ),
    case(
        "another manager's field is a conflict unless it is forced",
        apply("configmaps/a", _map(x="1")),
        apply("configmaps/a", _map(x="1"), manager="other"),
        apply("configmaps/a", _map(x="2"), manager="other"),
        apply("configmaps/a", _map(x="2"), manager="other", force=True),
        apply("configmaps/a", _map(), manager="other"),
        patch("configmaps/a", {"data": {"z": "9"}}, MERGE),
        apply("configmaps/a", _map(z="1")),
    ),
    case(
        "an apply merges lists by their keys",
        apply("deployments/web", deployment(template=template("web", container("a", "a:1")))),
        apply(
            "deployments/web",
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "web"},
                "spec": {"template": {"spec": {"containers": [{"name": "b", "image": "b:1"}]}}},
            },
            manager="other",
        ),
        apply("deployments/web", deployment(template=template("web", container("a", "a:2")))),
    ),
    case(
        "an apply must name its manager and its kind",
        raw("PATCH", "configmaps/a", _map(), headers={"content-type": APPLY}),
        apply("configmaps/a", {"metadata": {"name": "a"}}),
        apply("configmaps/a", {**_map(), "metadata": {"name": "b"}}),
        apply("configmaps/a", {**_map(), "metadata": {"name": "a", "managedFields": [{"manager": "x"}]}}),
        apply("configmaps/a", _map(x="1"), dryRun="All"),
        get("configmaps/a"),
        apply("configmaps/a", {**_map(), "unknown": 1}),
    ),
    case(
        "an apply of a custom resource",
        define(crd()),
        apply(
            "widgets@v1/a",
            {
                "apiVersion": "$ns.example.com/v1",
                "kind": "Widget",
                "metadata": {"name": "a"},
                "spec": {"x": 1},
            },
        ),
        apply(
            "widgets@v1/a",
            {
                "apiVersion": "$ns.example.com/v1",
                "kind": "Widget",
                "metadata": {"name": "a"},
                "spec": {"x": 2},
            },
            manager="other",
        ),
    ),
]
