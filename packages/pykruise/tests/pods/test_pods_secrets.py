"""Secrets and ConfigMaps in caches."""

from typing import Any

import orjson
import pytest

from pykruise.pods.view.pod_view import ControllerView
from pykruise.pods.view.secrets import CopyView, content_of, project_copy, read_contents

Doc = dict[str, Any]
METADATA = {"name": "s", "namespace": "shop", "uid": "u", "resourceVersion": "7"}


def view(document: Doc, *, kind: str = "", **metadata: Any) -> CopyView:
    return project_copy(orjson.dumps({"metadata": {**METADATA, **metadata}, **document}), kind=kind)


def test_the_view_of_metadata_only_has_no_content() -> None:
    copy = view({"kind": "PartialObjectMetadata"}, ownerReferences=None, annotations=None)
    assert copy == CopyView(namespace="shop", name="s", uid="u", resource_version=7)
    assert copy.annotations == {}


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_the_view_of_a_whole_object_has_its_content_digest_and_maps(kind: str) -> None:
    # given an object with a kind, and an item of a list, which has no kind
    document = {"data": {"a": "Yg=="}}
    copy = view({"kind": kind, **document})
    assert view(document, kind=kind) == copy
    assert (copy.content, copy.has) == (content_of(kind, document), ("data",))
    # then the view does not contain its content
    assert "Yg==" not in repr(copy)
    assert view({"kind": kind, "binaryData": {}}).has == ("binaryData",)


@pytest.mark.parametrize(
    ("document", "secret_type"),
    [
        ({"kind": "Secret", "type": "kubernetes.io/tls"}, "kubernetes.io/tls"),
        ({"kind": "Secret"}, "Opaque"),
        ({"kind": "ConfigMap"}, ""),
        ({"kind": "PartialObjectMetadata"}, ""),
    ],
)
def test_only_a_whole_secret_has_a_type(document: Doc, secret_type: str) -> None:
    assert view(document).secret_type == secret_type


def test_a_copy_has_its_source_and_its_controller() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "u-x"},
        {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "Job",
            "name": "j",
            "uid": "u-j",
            "controller": True,
        },
    ]
    annotations = {"imagepulljobs.kruise.io/target": "a/b", "example.com/large": "x" * 100}
    copy = view({}, ownerReferences=owners, annotations=annotations, deletionTimestamp="2026-01-31T12:00:00Z")
    assert copy.controller == ControllerView("apps.kruise.io", "Job", "j", "u-j")
    assert copy.annotations == {"imagepulljobs.kruise.io/target": "a/b"}
    assert copy.is_deleting
    assert view({}, ownerReferences=owners[:1]).controller is None


@pytest.mark.parametrize(
    ("kind", "document", "stored"),
    [
        ("Secret", {}, {"type": "Opaque"}),
        ("Secret", {"type": "", "data": None, "stringData": None, "immutable": False}, {"type": "Opaque"}),
        ("Secret", {"type": "kubernetes.io/tls"}, {"type": "kubernetes.io/tls"}),
        ("Secret", {"stringData": {"a": "b"}}, {"type": "Opaque", "data": {"a": "Yg=="}}),
        (
            "Secret",
            {"data": {"a": "eA==", "c": "YQ==\n", "d": None, "e": 5, "f": "no!"}, "stringData": {"a": "b"}},
            {"type": "Opaque", "data": {"a": "Yg==", "c": "YQ==", "d": "", "e": 5, "f": "no!"}},
        ),
        ("Secret", {"stringData": {"a": None}}, {"type": "Opaque", "data": {"a": ""}}),
        ("Secret", {"binaryData": {"a": "Yg=="}}, {"type": "Opaque"}),
        ("ConfigMap", {}, {}),
        ("ConfigMap", {"data": {}, "binaryData": {}, "immutable": None}, {}),
        ("ConfigMap", {"type": "Opaque", "stringData": {"a": "b"}}, {}),
        (
            "ConfigMap",
            {"data": {"a": "YQ==\n", "b": None}, "binaryData": {"c": "Yg=="}, "immutable": True},
            {"data": {"a": "YQ==\n", "b": ""}, "binaryData": {"c": "Yg=="}, "immutable": True},
        ),
        (
            "ConfigMap",
            {"binaryData": {"c": "Y\r\ng==\n", "d": None}},
            {"binaryData": {"c": "Yg==", "d": ""}},
        ),
    ],
)
def test_contents_are_what_an_api_server_would_store(kind: str, document: Doc, stored: Doc) -> None:
    assert read_contents(kind, document) == stored
    assert content_of(kind, document) == content_of(kind, {**stored, "metadata": {"name": "x"}})
