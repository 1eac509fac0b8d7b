"""Small objects for cases: each contains only the fields that matter."""

from collections.abc import Mapping
from typing import Any

__all__ = ["config_map", "container", "crd", "deployment", "labelled", "pod", "template", "with_"]

Doc = dict[str, Any]


def config_map(name: str, **data: str) -> Doc:
    """A ConfigMap."""
    doc: Doc = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    return {**doc, "data": data} if data else doc


def container(name: str = "main", image: str = "nginx:1", **more: Any) -> Doc:
    """A container."""
    return {"name": name, "image": image, **more}


def pod(name: str, *containers: Doc, labels: Mapping[str, str] | None = None, **spec: Any) -> Doc:
    """A pod; without containers it has one."""
    metadata: Doc = {"name": name}
    if labels:
        metadata["labels"] = dict(labels)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": list(containers) or [container()], **spec},
    }


def template(app: str = "web", *containers: Doc, **spec: Any) -> Doc:
    """A pod template whose pods have the label app."""
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": list(containers) or [container()], **spec},
    }


def deployment(name: str = "web", *, kind: str = "Deployment", **spec: Any) -> Doc:
    """A Deployment, or another kind of apps/v1 with the same shape."""
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(),
            **spec,
        },
    }


def labelled(doc: Doc, **labels: str) -> Doc:
    """The object with these labels."""
    return with_(doc, labels=labels)


def with_(doc: Doc, **metadata: Any) -> Doc:
    """The object with more metadata."""
    return {**doc, "metadata": {**doc["metadata"], **metadata}}


def crd(
    plural: str = "widgets",
    kind: str = "Widget",
    *,
    schema: Doc | None = None,
    versions: list[Doc] | None = None,
    subresources: Doc | None = None,
    columns: list[Doc] | None = None,
    scope: str = "Namespaced",
    **more: Any,
) -> Doc:
    """A CRD in the case's own group. `schema`: the properties of spec; without it any spec is valid."""
    if schema is None:
        spec: Doc = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    else:
        spec = {"type": "object", "properties": schema}
    version: Doc = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "properties": {
                    "spec": spec,
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        },
    }
    if subresources is not None:
        version["subresources"] = subresources
    if columns is not None:
        version["additionalPrinterColumns"] = columns
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.$ns.example.com"},
        "spec": {
            "group": "$ns.example.com",
            "scope": scope,
            "names": {"plural": plural, "kind": kind, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": versions or [version],
            **more,
        },
    }
