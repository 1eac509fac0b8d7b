"""Reviews of NodeImages."""

from typing import Any

import pytest

from pykruise.kinds.nodeimage.admission import validate_nodeimage
from pykruise.kinds.nodeimage.defaults import add_defaults
from pykruise.kube.admission import AdmissionRequest
from pykruise.pods.images.node_images import NODE_IMAGES
from support.image_objects import NOW, at

TAG = {"tag": "v1", "createdAt": at(0), "pullPolicy": {"ttlSecondsAfterFinished": 1}}


def document(**images: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n1"}, "spec": {"images": images}}


async def problems(doc: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    """Fields that are refused."""
    operation = "CREATE" if old is None else "UPDATE"
    request = AdmissionRequest(
        uid="1", operation=operation, resource=NODE_IMAGES, name="n1", object=doc, old_object=old
    )
    refusal = (await validate_nodeimage(request)).refusal
    if refusal is None:
        return []
    assert refusal.code == 422
    assert refusal.details is not None
    return [cause.field for cause in refusal.details.causes]


def test_an_entry_gets_its_time_and_its_policy_and_tags_are_sorted() -> None:
    """images cases 7 and 9"""
    result = add_defaults(document(nginx={"tags": [{"tag": "b"}, {"tag": "a"}]}), now=NOW)
    policy = {"timeoutSeconds": 600, "backoffLimit": 3}
    assert result["spec"]["images"]["nginx"]["tags"] == [
        {"tag": "a", "createdAt": at(0), "pullPolicy": policy},
        {"tag": "b", "createdAt": at(0), "pullPolicy": policy},
    ]


def test_set_fields_are_kept_and_tags_of_the_status_are_sorted() -> None:
    doc = document(nginx={"tags": [TAG]})
    doc["status"] = {"imageStatuses": {"nginx": {"tags": [{"tag": "b"}, {"tag": "a"}]}}}
    tags = add_defaults(doc, now=NOW + 5)
    (tag,) = tags["spec"]["images"]["nginx"]["tags"]
    assert tag["createdAt"] == at(0)
    assert [tag["tag"] for tag in tags["status"]["imageStatuses"]["nginx"]["tags"]] == ["a", "b"]


def test_limits_of_an_entry_are_kept_and_nulls_get_defaults() -> None:
    given = {"timeoutSeconds": 5, "backoffLimit": None, "ttlSecondsAfterFinished": 1}
    result = add_defaults(document(nginx={"tags": [{**TAG, "pullPolicy": given}]}), now=NOW)
    (tag,) = result["spec"]["images"]["nginx"]["tags"]
    assert tag["pullPolicy"] == {"timeoutSeconds": 5, "backoffLimit": 3, "ttlSecondsAfterFinished": 1}


WHOLE = {**TAG, "pullPolicy": {"timeoutSeconds": 1, "backoffLimit": 1}}


@pytest.mark.parametrize(
    "images",
    [
        None,
        [],
        {"nginx": None},
        {"nginx": {}},
        {"nginx": {"tags": None}},
        {"nginx": {"tags": [WHOLE, None]}},
    ],
)
def test_malformed_entries_are_left_for_the_schema_to_refuse(images: object) -> None:
    doc = {"metadata": {"name": "n1"}, "spec": {"images": images}, "status": {"imageStatuses": images}}
    assert add_defaults(doc, now=NOW) == doc


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"pullPolicy": {}}, "spec.images[nginx].tags[0].pullPolicy.ttlSecondsAfterFinished"),
        ({"pullPolicy": None}, "spec.images[nginx].tags[0].pullPolicy"),
        ({"createdAt": None}, "spec.images[nginx].tags[0].createdAt"),
        ({"tag": ""}, "spec.images[nginx].tags[0].tag"),
        ({"version": -1}, "spec.images[nginx].tags[0].version"),
    ],
)
async def test_required_fields_of_an_entry_are_reported(change: dict[str, Any], field: str) -> None:
    """images case 8"""
    assert await problems(document(nginx={"tags": [{**TAG, **change}]})) == [field]


async def test_an_unchanged_spec_is_not_checked_again() -> None:
    stored = document(nginx={"tags": [{**TAG, "version": -1}]})
    labelled = {**stored, "metadata": {"name": "n1", "labels": {"pool": "a"}}}
    assert await problems(labelled, stored) == []
    assert await problems(stored, document()) == ["spec.images[nginx].tags[0].version"]


async def test_a_node_has_256_images_at_most() -> None:
    """images case 10"""
    many = {f"image-{number}": {"tags": [TAG]} for number in range(257)}
    assert await problems(document(**many)) == ["spec.images"]
    many.popitem()
    assert await problems(document(**many)) == []


async def test_duplicate_tags_and_empty_image_names_are_refused() -> None:
    """images case 11"""
    assert await problems(document(nginx={"tags": [TAG, TAG]})) == ["spec.images[nginx].tags[1].tag"]
    assert await problems(document(**{"": {"tags": [TAG]}})) == ["spec.images"]


async def test_a_nodeimage_without_images_is_allowed() -> None:
    assert await problems({"metadata": {"name": "n1"}, "spec": {}}) == []
