"""Pod templates in custom resources: lists that a schema merges by key, and lists that no schema names."""

from typing import Any

from conformance.builders import crd
from conformance.dsl import JSON_PATCH, MERGE, Request, apply, case, create, define, get, owned, patch, pause
from pykruise.kube.schemas import descriptions
from pykruise.kube.schemas.merged_lists import build_merging_object, drop_marks

_WIDGETS = "customresourcedefinitions/widgets.$ns.example.com"
_OPEN: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
with descriptions.leave_out_descriptions():
    _MERGED = drop_marks(build_merging_object("io.k8s.api.core.v1.PodTemplateSpec"))


def _crd(template: dict[str, Any]) -> dict[str, Any]:
    return crd(schema={"template": template, "x": {"type": "integer"}}, subresources={"status": {}})


def _widget(template: Any, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "$ns.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a"},
        "spec": {"template": template, **spec},
    }


def _pods(*containers: Any, **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), **spec}}


def _container(name: str, image: str = "web:1", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": image, **more}


def _redefine(template: dict[str, Any]) -> tuple[Request, Any]:
    """Replace the schema of the template, and wait until it takes effect."""
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/template"
    change = [{"op": "replace", "path": path, "value": template}]
    return patch(_WIDGETS, change, JSON_PATCH, only=("metadata.name",)), pause(3)


_MOUNTED = _container("main", volumeMounts=[{"name": "data", "mountPath": "/data"}])

CASES = [
    case(
        "containers of a template are applied by two managers",
        define(_crd(_MERGED)),
        apply(
            "widgets@v1/a",
            _widget(_pods(_MOUNTED, volumes=[{"name": "data", "emptyDir": {}}])),
            manager="app",
        ),
        owned(
            apply(
                "widgets@v1/a",
                _widget(
                    _pods(
                        _container("proxy"),
                        {"name": "main", "volumeMounts": [{"name": "certs", "mountPath": "/certs"}]},
                        volumes=[{"name": "certs", "emptyDir": {}}],
                    )
                ),
                manager="mesh",
            )
        ),
        apply("widgets@v1/a", _widget(_pods(_container("main", "web:2"))), manager="mesh"),
        apply("widgets@v1/a", _widget(_pods(_container("main", "web:2"))), manager="app"),
        owned(get("widgets@v1/a")),
        apply("widgets@v1/a", _widget(_pods(_container("main"), _container("main"))), manager="app"),
    ),
    case(
        "a template with merged lists takes what an open one takes",
        define(_crd(_MERGED)),
        create("widgets@v1", _widget(None)),
        patch("widgets@v1/a", {"spec": {"template": {"spec": None}}}, MERGE),
        patch("widgets@v1/a", {"spec": {"template": {"spec": {"containers": None, "new": [1]}}}}, MERGE),
        patch("widgets@v1/a", {"spec": {"template": _pods({"image": "web:1"})}}, MERGE),
        patch("widgets@v1/a", {"spec": {"template": _pods({"image": "web:1", "name": None})}}, MERGE),
        patch(
            "widgets@v1/a",
            {
                "spec": {
                    "template": _pods(
                        _container(
                            "main",
                            env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
                            ports=[{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}],
                            volumeMounts=None,
                        ),
                        hostAliases=[{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}],
                        imagePullSecrets=[{"name": "a"}, {"name": "a"}],
                    )
                }
            },
            MERGE,
        ),
        patch("widgets@v1/a", {"spec": {"template": _pods(_container("a"), _container("a"))}}, MERGE),
        patch("widgets@v1/a", {"spec": {"template": _pods(3)}}, MERGE),
        patch("widgets@v1/a", {"spec": {"template": {"spec": {"containers": 3}}}}, MERGE),
        patch("widgets@v1/a", {"spec": {"template": _pods(None)}}, MERGE),
    ),
    case(
        "managers keep what they applied when a definition begins and ends to merge lists",
        define(_crd(_OPEN)),
        apply("widgets@v1/a", _widget(_pods(_container("main"), _container("proxy"))), manager="app"),
        patch("widgets@v1/a", {"spec": {"x": 1}}, MERGE, fieldManager="editor"),
        *_redefine(_MERGED),
        owned(patch("widgets@v1/a", {"spec": {"x": 2}}, MERGE, fieldManager="editor")),
        owned(apply("widgets@v1/a", _widget(_pods(_container("log"))), manager="mesh")),
        owned(apply("widgets@v1/a", _widget(_pods(_container("main", "web:2"))), manager="app")),
        *_redefine(_OPEN),
        owned(patch("widgets@v1/a", {"spec": {"x": 3}}, MERGE, fieldManager="editor")),
        apply("widgets@v1/a", _widget(_pods(_container("main", "web:3"))), manager="app"),
        owned(apply("widgets@v1/a", _widget(_pods(_container("main", "web:3"))), manager="app", force=True)),
    ),
    case(
        "what was stored before a definition merges lists is not held against later changes",
        define(_crd(_OPEN)),
        create("widgets@v1", _widget(_pods(_container("main"), _container("main")))),
        *_redefine(_MERGED),
        patch("widgets@v1/a", {"metadata": {"labels": {"a": "b"}}}, MERGE),
        patch("widgets@v1/a/status", {"status": {"x": 1}}, MERGE),
        patch("widgets@v1/a", {"spec": {"x": 2}}, MERGE),
        patch("widgets@v1/a", {"spec": {"template": _pods(_container("main"))}}, MERGE),
        patch("widgets@v1/a", {"spec": {"template": _pods(_container("main"), _container("main"))}}, MERGE),
    ),
]
