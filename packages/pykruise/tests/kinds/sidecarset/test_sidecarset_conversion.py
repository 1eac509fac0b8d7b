"""SidecarSets between v1alpha1 and v1beta1."""

from typing import Any

import pytest

from pykruise.kinds.sidecarset.conversion import CONVERSION
from pykruise.kube.documents import Document
from pykruise.kube.schemas.conversion import convert
from support.sidecarsets import container, sidecarset

TABLE = {(CONVERSION.resource.group, CONVERSION.resource.kind): CONVERSION}
OLD, NEW = "apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"
LABEL = "apps.kruise.io/sidecarset-custom-version"


def of_v1alpha1(*, labels: Any = None, **spec: Any) -> Document:
    metadata = {"labels": labels} if labels is not None else {}
    return {**sidecarset("s", container("a"), metadata=metadata, **spec), "apiVersion": OLD}


def test_a_named_namespace_is_a_selector_and_a_name_again_in_the_older_version() -> None:
    """sidecarset case 28"""
    old = of_v1alpha1(namespace="ns")
    new = convert(old, NEW, TABLE)
    assert new["spec"]["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "ns"}}
    again = convert(new, OLD, TABLE)["spec"]
    assert (again["namespace"], "namespaceSelector" in again) == ("ns", False)
    # unless a client of v1beta1 has changed the selector since then
    new["spec"]["namespaceSelector"] = {"matchLabels": {"a": "b"}}
    again = convert(new, OLD, TABLE)["spec"]
    assert ("namespace" in again, again["namespaceSelector"]) == (False, {"matchLabels": {"a": "b"}})
    # the name precedes a selector beside it
    both = of_v1alpha1(namespace="ns", namespaceSelector={"matchLabels": {"a": "b"}})
    assert convert(both, NEW, TABLE)["spec"]["namespaceSelector"] == {
        "matchLabels": {"kubernetes.io/metadata.name": "ns"}
    }


@pytest.mark.parametrize("namespace", ["", None])
def test_an_empty_namespace_leaves_the_namespace_selector_unchanged(namespace: str | None) -> None:
    """section 2.7"""
    selector = {"matchLabels": {"a": "b"}}
    new = convert(of_v1alpha1(namespace=namespace, namespaceSelector=selector), NEW, TABLE)
    assert new["spec"]["namespaceSelector"] == selector
    assert "namespace" not in new["spec"]


def test_the_custom_version_is_a_label_in_the_older_version() -> None:
    """sidecarset case 29"""
    new = convert(of_v1alpha1(labels={LABEL: "v1", "kept": "yes"}), NEW, TABLE)
    assert new["spec"]["customVersion"] == "v1"
    assert new["metadata"]["labels"] == {"kept": "yes"}
    assert convert(new, OLD, TABLE)["metadata"]["labels"] == {LABEL: "v1", "kept": "yes"}


def test_an_empty_custom_version_is_not_a_label() -> None:
    """section 2.7"""
    new = {**sidecarset("s", container("a"), customVersion=""), "apiVersion": NEW}
    old = convert(new, OLD, TABLE)
    assert LABEL not in (old["metadata"].get("labels") or {})
    assert "customVersion" not in old["spec"]
    # but an existing label is a version, even if it is empty
    assert convert(of_v1alpha1(labels={LABEL: ""}), NEW, TABLE)["spec"]["customVersion"] == ""


@pytest.mark.parametrize("spec", [{"namespace": 7}, {"customVersion": 7}])
def test_a_field_of_a_wrong_type_is_left_for_admission_to_refuse(spec: Document) -> None:
    for version, other in ((OLD, NEW), (NEW, OLD)):
        doc = {**of_v1alpha1(**spec), "apiVersion": version}
        assert convert(doc, other, TABLE)["spec"].items() >= spec.items()


@pytest.mark.parametrize("doc", [{}, {"spec": None}, {"spec": "text"}])
def test_a_sidecarset_without_a_spec_can_be_converted(doc: Document) -> None:
    for version, other in ((OLD, NEW), (NEW, OLD)):
        given = {"apiVersion": version, "kind": "SidecarSet", "metadata": {"name": "s"}, **doc}
        assert convert(given, other, TABLE) == {**given, "apiVersion": other}
        assert CONVERSION.normalize is None or CONVERSION.normalize({**given}) == given
