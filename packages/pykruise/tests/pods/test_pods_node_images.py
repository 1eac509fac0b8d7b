"""Images that a node must pull, and the tags that a change affects."""

from typing import Any

import orjson
import pytest

from pykruise.kube.values.image_references import ImageName
from pykruise.pods.images.node_image_api import TagSpec, TagStatus
from pykruise.pods.images.node_images import (
    EVERY_TAG,
    NodeImageView,
    is_over,
    list_changed_tags,
    list_owner_uids,
    project_node_image,
)

Doc = dict[str, Any]


def view(spec: Any = None, status: Any = None, **metadata: Any) -> NodeImageView:
    document = {"metadata": {"name": "n1", **metadata}, "spec": spec, "status": status}
    return project_node_image(orjson.dumps(document))


def images(**of: list[str | Doc]) -> Doc:
    """A spec: tags by image, each as a name or as an object."""
    return {
        "images": {
            name: {"tags": [{"tag": tag} if isinstance(tag, str) else tag for tag in tags]}
            for name, tags in of.items()
        }
    }


def with_frame(**frame: Any) -> Doc:
    """A spec with one image of two tags, and these fields of the image."""
    return {"images": {"app": {"tags": [{"tag": "1"}, {"tag": "2"}], **frame}}}


def status_of(tag: str, phase: str = "Pulling") -> Doc:
    return {"imageStatuses": {"app": {"tags": [{"tag": tag, "phase": phase}]}}}


@pytest.mark.parametrize(
    ("spec", "status", "metadata"),
    [(None, None, {}), ({}, {}, {"labels": None}), ({"images": None}, {"imageStatuses": None}, {})],
)
def test_an_empty_nodeimage_pulls_nothing(spec: Any, status: Any, metadata: Doc) -> None:
    node_image = view(spec, status, **metadata)
    assert (node_image.images, node_image.statuses, node_image.labels, node_image.problem) == ({}, {}, {}, "")
    assert node_image.stored_status == (status or {})
    assert not node_image.is_deleting
    assert list(node_image.entries) == []


def test_a_status_that_is_missing_altogether_is_empty() -> None:
    assert project_node_image(b'{"metadata":{"name":"n1"}}').stored_status == {}


def test_an_entry_is_found_by_image_and_tag() -> None:
    node_image = view(
        images(app=["1", {"tag": "2", "version": 4}], base=["2"]),
        status_of("2"),
        labels={"a": "b"},
        deletionTimestamp="2026-01-31T12:00:00Z",
    )
    assert node_image.find_entry(ImageName("app", "2")) == TagSpec(tag="2", version=4)
    assert node_image.find_entry(ImageName("app", "3")) is None
    assert node_image.find_entry(ImageName("other", "2")) is None
    assert [image for image, _ in node_image.entries] == [
        ImageName("app", "1"),
        ImageName("app", "2"),
        ImageName("base", "2"),
    ]
    assert node_image.statuses == {ImageName("app", "2"): TagStatus(tag="2", phase="Pulling")}
    assert (node_image.labels, node_image.is_deleting) == ({"a": "b"}, True)
    assert node_image.stored_status == status_of("2")


@pytest.mark.parametrize(
    ("spec", "status", "problem"),
    [
        ({"images": []}, {}, "spec.images: "),
        (images(app=["1"]), {"imageStatuses": 5}, "status.imageStatuses: "),
    ],
)
def test_an_unreadable_nodeimage_reports_its_field(spec: Any, status: Any, problem: str) -> None:
    node_image = view(spec, status)
    assert node_image.problem.startswith(problem)
    assert node_image.statuses == {}


def test_nulls_count_as_absent() -> None:
    node_image = view({"images": {"app": {"tags": [{"tag": "1", "version": None}]}}})
    assert (node_image.problem, node_image.find_entry(ImageName("app", "1"))) == ("", TagSpec(tag="1"))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, False),
        (TagStatus(tag="1", phase="Pulling", version=3), False),
        (TagStatus(tag="1", phase="Failed", version=3, completion_time="2026-01-31T12:00:00Z"), True),
        (TagStatus(tag="1", phase="Failed", version=2, completion_time="2026-01-31T12:00:00Z"), False),
    ],
)
def test_an_entry_is_done_when_its_own_version_has_ended(status: TagStatus | None, expected: bool) -> None:
    assert is_over(TagSpec(tag="1", version=3), status) is expected


def test_owners_are_those_with_a_uid() -> None:
    spec = images(
        app=[
            {"tag": "1", "ownerReferences": [{"uid": "u-1"}, {"name": "x"}, {"uid": ""}]},
            {"tag": "2", "ownerReferences": None},
        ],
        base=[{"tag": "1", "ownerReferences": [{"uid": "u-2"}, {"uid": "u-1"}]}],
    )
    assert list_owner_uids(view(spec)) == {"u-1", "u-2"}


SECRET = {"namespace": "shop", "name": "s"}


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        (images(app=["1"]), images(app=["1"]), set()),
        (images(), images(app=["1"]), {("app", EVERY_TAG)}),
        (images(app=["1"]), images(), {("app", EVERY_TAG)}),
        (images(app=["1", "2"]), images(app=["1", "3"]), {("app", "2"), ("app", "3")}),
        (images(app=["1"], base=["1"]), images(app=[{"tag": "1", "version": 2}], base=["1"]), {("app", "1")}),
        (with_frame(), with_frame(pullSecrets=[SECRET]), {("app", EVERY_TAG)}),
        (with_frame(), with_frame(sandboxConfig={"labels": {"a": "b"}}), {("app", EVERY_TAG)}),
        (with_frame(pullSecrets=None), with_frame(pullSecrets=[]), set()),
    ],
)
def test_a_change_of_the_spec_affects_tags_or_all_of_an_image(
    old: Doc, new: Doc, changed: set[tuple[str, str]]
) -> None:
    result = list(list_changed_tags(view(old), view(new)))
    assert set(result) == changed
    assert len(result) == len(changed)


def test_a_change_of_a_whole_image_is_not_listed_per_tag() -> None:
    new = with_frame(pullSecrets=[SECRET])
    new["images"]["app"]["tags"].pop()
    assert list(list_changed_tags(view(with_frame()), view(new))) == [("app", EVERY_TAG)]


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        (status_of("1"), status_of("1"), []),
        (None, status_of("1"), [("app", "1")]),
        (status_of("1"), None, [("app", "1")]),
        (status_of("1"), status_of("1", "Failed"), [("app", "1")]),
    ],
)
def test_a_change_of_the_status_affects_its_tag(
    old: Doc | None, new: Doc | None, changed: list[tuple[str, str]]
) -> None:
    assert list(list_changed_tags(view(status=old), view(status=new))) == changed
