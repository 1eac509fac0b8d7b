"""Conversion reviews, as an API server sends them."""

from typing import Any

import pytest

from pykruise.admission.conversion import review

OLD, NEW = "apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"


def cloneset(name: str = "web", version: str = OLD) -> dict[str, Any]:
    spec = {"selector": {}, "template": {}, "updateStrategy": {"type": "InPlaceOnly", "partition": 1}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": version, "kind": "CloneSet", "metadata": metadata, "spec": spec}


def request(*objects: Any, to: Any = NEW, version: str = "v1") -> dict[str, Any]:
    return {
        "apiVersion": f"apiextensions.k8s.io/{version}",
        "kind": "ConversionReview",
        "request": {"uid": "705ab4f5", "desiredAPIVersion": to, "objects": list(objects)},
    }


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_objects_come_back_in_their_order_in_the_version_asked_for(version: str) -> None:
    # when
    answer = review(request(cloneset("b"), cloneset("a"), version=version))
    # then
    assert (answer["apiVersion"], answer["kind"]) == (f"apiextensions.k8s.io/{version}", "ConversionReview")
    response = answer["response"]
    assert (response["uid"], response["result"]) == ("705ab4f5", {"status": "Success"})
    found = response["convertedObjects"]
    assert [(doc["apiVersion"], doc["metadata"]["name"]) for doc in found] == [(NEW, "b"), (NEW, "a")]
    assert found[0]["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 1


def test_one_object_that_cannot_be_converted_fails_the_review_and_is_named() -> None:
    # given
    strange = {**cloneset("strange"), "kind": "Unheard"}
    # when
    response = review(request(cloneset(), strange, 7))["response"]
    # then
    assert response["uid"] == "705ab4f5"
    assert response["convertedObjects"] == []
    assert response["result"] == {
        "status": "Failure",
        "message": (
            "default/strange: there is no conversion of apps.kruise.io/v1alpha1 Unheard; "
            "object 2: it is no object"
        ),
    }


def test_an_unknown_target_version_fails_the_review() -> None:
    response = review(request(cloneset(), to="apps.kruise.io/v9"))["response"]
    assert response["result"]["status"] == "Failure"
    assert "v9" in response["result"]["message"]


def test_a_list_sent_as_one_object_is_converted_item_by_item() -> None:
    whole = {"apiVersion": OLD, "kind": "CloneSetList", "metadata": {"x": 1}, "items": [cloneset()]}
    (found,) = review(request(whole))["response"]["convertedObjects"]
    assert (found["apiVersion"], found["kind"], found["metadata"]) == (NEW, "CloneSetList", {"x": 1})
    assert found["items"][0]["apiVersion"] == NEW


def test_no_objects_are_converted_to_none() -> None:
    assert review(request())["response"]["convertedObjects"] == []


@pytest.mark.parametrize(
    "request_part", [{"objects": []}, {"desiredAPIVersion": NEW}, {"desiredAPIVersion": 1}]
)
def test_a_request_without_its_parts_fails(request_part: dict[str, Any]) -> None:
    document = {**request(), "request": request_part}
    assert review(document)["response"]["result"]["status"] == "Failure"


@pytest.mark.parametrize(
    "document",
    [
        {},
        {**request(), "kind": "AdmissionReview"},
        {**request(), "apiVersion": "apiextensions.k8s.io/v2"},
        {**request(), "apiVersion": None},
        {**request(), "request": None},
        {**request(), "request": []},
    ],
)
def test_what_is_no_review_is_an_error_of_the_caller(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="ConversionReview"):
        review(document)
