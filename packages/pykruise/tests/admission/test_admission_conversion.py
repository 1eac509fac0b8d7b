"""Conversion reviews, as an API server sends them."""

from itertools import chain, combinations
from typing import Any

import pytest

from pykruise.admission import conversion
from pykruise.admission.conversion_path import LONG_CONVERSION, build_conversion_path
from pykruise.kinds import list_conversions
from pykruise.kube.documents import MOST_BYTES, decode, encode

OLD, NEW = "apps.kruise.io/v1alpha1", "apps.kruise.io/v1beta1"


def review(document: dict[str, Any]) -> dict[str, Any]:
    return decode(conversion.review(encode(document)))


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
def test_converted_objects_are_returned_in_their_order_in_the_requested_version(version: str) -> None:
    # when
    answer = review(request(cloneset("b"), cloneset("a"), version=version))
    # then
    assert (answer["apiVersion"], answer["kind"]) == (f"apiextensions.k8s.io/{version}", "ConversionReview")
    response = answer["response"]
    assert (response["uid"], response["result"]) == ("705ab4f5", {"status": "Success"})
    result = response["convertedObjects"]
    assert [(doc["apiVersion"], doc["metadata"]["name"]) for doc in result] == [(NEW, "b"), (NEW, "a")]
    assert result[0]["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == 1


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
            "object 2: not a JSON document: expected an object, got a number"
        ),
    }


def test_an_unknown_target_version_fails_the_review() -> None:
    response = review(request(cloneset(), to="apps.kruise.io/v9"))["response"]
    assert response["result"]["status"] == "Failure"
    assert "v9" in response["result"]["message"]


def test_a_list_sent_as_one_object_is_converted_item_by_item() -> None:
    whole = {"apiVersion": OLD, "kind": "CloneSetList", "metadata": {"x": 1}, "items": [cloneset()]}
    (result,) = review(request(whole))["response"]["convertedObjects"]
    assert (result["apiVersion"], result["kind"], result["metadata"]) == (NEW, "CloneSetList", {"x": 1})
    assert result["items"][0]["apiVersion"] == NEW


def test_an_empty_request_is_converted_to_an_empty_list() -> None:
    assert review(request())["response"]["convertedObjects"] == []


@pytest.mark.parametrize("request_part", [{"objects": []}, {"desiredAPIVersion": NEW}])
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
        {**request(), "request": {"desiredAPIVersion": 1}},
    ],
)
def test_a_document_that_is_not_a_conversion_review_is_a_client_error(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="ConversionReview"):
        review(document)


def test_an_object_larger_than_an_api_server_takes_is_not_converted() -> None:
    # given
    large = cloneset("large")
    large["metadata"]["annotations"] = {"x": "y" * MOST_BYTES}
    # when
    response = review(request(cloneset(), large))["response"]
    # then
    assert response["convertedObjects"] == []
    assert f"bytes, but the limit is {MOST_BYTES}" in response["result"]["message"]


def test_an_object_of_nothing_but_brackets_is_not_read() -> None:
    # given
    deep = cloneset("deep")
    deep["spec"]["x"] = [[] for _ in range(100_000)]
    # when
    response = review(request(deep))["response"]
    # then
    assert "lists and objects, but the limit is 100000" in response["result"]["message"]


def test_a_request_of_nothing_but_commas_is_not_read() -> None:
    many = {**request(), "request": {"desiredAPIVersion": NEW, "objects": [1] * 1_000_001}}
    with pytest.raises(ValueError, match="but the limit is 1000000"):
        review(many)


def test_only_the_first_of_many_unconvertible_objects_are_named() -> None:
    message = review(request(*[7] * 1000))["response"]["result"]["message"]
    assert "object 15" in message
    assert "object 16" not in message


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
@pytest.mark.parametrize(
    "part",
    [{"objects": [1] * 1_000_001}, {"objects": 7}, {"desiredAPIVersion": 1}],
    ids=["many", "no list", "no text"],
)
def test_a_request_that_cannot_be_read_fails_with_its_uid(version: str, part: dict[str, Any]) -> None:
    document = request(version=version)
    document["request"] |= part
    answer = decode(conversion.answer(encode(document)))
    assert answer["apiVersion"] == f"apiextensions.k8s.io/{version}"
    assert answer["response"]["uid"] == "705ab4f5"
    assert answer["response"]["result"]["status"] == "Failure"


def test_a_bug_fails_the_request_with_its_uid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "convert", lambda *_: 1 / 0)
    response = decode(conversion.answer(encode(request(cloneset()))))["response"]
    assert response["uid"] == "705ab4f5"
    assert response["result"]["message"] == "the conversion failed; see the manager's log"


async def test_a_long_request_without_a_response_fails_with_its_uid() -> None:
    async def convert(_: bytes) -> bytes:
        raise TimeoutError

    post = build_conversion_path("/convert", aside=convert)["/convert"].poster
    large = cloneset()
    large["metadata"]["annotations"] = {"x": "y" * LONG_CONVERSION}
    response = decode(await post("/convert", encode(request(large)), 10.0))["response"]
    assert response["uid"] == "705ab4f5"
    assert response["result"]["message"].startswith("the conversion failed; try again")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[" * 100_000, b'{"request": {"uid": 1}}'])
def test_a_body_without_a_uid_fails_without_one(body: bytes) -> None:
    response = decode(conversion.answer(body))["response"]
    assert (response["uid"], response["result"]["status"]) == ("", "Failure")


KINDS = sorted(list_conversions())
PARTS = ("metadata", "spec", "status")


@pytest.mark.parametrize("key", KINDS, ids=lambda key: key[1])
def test_an_object_of_which_an_apply_left_parts_out_is_answered_with_metadata(key: tuple[str, str]) -> None:
    """Helm, Argo CD and Flux could not apply a manifest in its newer version: in a server-side apply, API servers ask
    for objects without the fields that the applier no longer sets, and refuse an answer without metadata.
    """
    conversion_of = list_conversions()[key]
    for here, there in (conversion_of.versions, conversion_of.versions[::-1]):
        whole = {
            "apiVersion": f"{key[0]}/{here}",
            "kind": key[1],
            "metadata": {"labels": {"a": "b"}},
            "spec": None,
            "status": {"observedGeneration": 1},
        }
        for kept in chain.from_iterable(combinations(PARTS, count) for count in range(len(PARTS) + 1)):
            doc = {field: value for field, value in whole.items() if field in ("apiVersion", "kind", *kept)}
            response = review(request(doc, to=f"{key[0]}/{there}"))["response"]
            assert response["result"] == {"status": "Success"}, (kept, response)
            (result,) = response["convertedObjects"]
            assert result["metadata"] == doc.get("metadata", {})
            assert result["apiVersion"] == f"{key[0]}/{there}"
