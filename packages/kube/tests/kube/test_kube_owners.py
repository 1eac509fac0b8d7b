"""The controller of an object, and the patches that adopt and release the object."""

import pytest

from pykruise.kube.patches import apply_strategic_merge
from pykruise.kube.values.owners import (
    OwnerReference,
    build_adoption_patch,
    build_owner_reference,
    controller_of,
    is_controlled_by,
    is_owned_by,
    read_owner_references,
    release_patch,
)

POD = "io.k8s.api.core.v1.Pod"
OWNER = build_owner_reference(api_version="apps.kruise.io/v1beta1", kind="CloneSet", name="web", uid="set-1")


def pod(*owners: dict[str, object]) -> dict[str, object]:
    return {"metadata": {"name": "web-a", "uid": "pod-1", "ownerReferences": list(owners)}}


def test_a_reference_to_the_managing_owner_blocks_its_deletion() -> None:
    assert OWNER == {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "CloneSet",
        "name": "web",
        "uid": "set-1",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_a_plain_reference_leaves_both_flags_out() -> None:
    # when
    plain = build_owner_reference(
        api_version="v1", kind="Pod", name="p", uid="u", controller=False, block_owner_deletion=False
    )
    # then
    assert plain == {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}


def test_the_controller_is_the_owner_with_controller_true() -> None:
    # given an owner that is not the controller before the controller
    other = build_owner_reference(api_version="v1", kind="Node", name="n", uid="node-1", controller=False)
    owned = pod(other, OWNER)
    # then
    assert controller_of(owned) == OwnerReference(
        api_version="apps.kruise.io/v1beta1",
        kind="CloneSet",
        name="web",
        uid="set-1",
        controller=True,
        block_owner_deletion=True,
    )
    assert is_controlled_by(owned, "set-1")
    assert not is_controlled_by(owned, "node-1")
    assert is_owned_by(owned, "node-1")
    assert [ref.kind for ref in read_owner_references(owned)] == ["Node", "CloneSet"]


@pytest.mark.parametrize("doc", [{}, {"metadata": None}, {"metadata": {"ownerReferences": None}}, pod()])
def test_an_object_without_owners_has_no_controller(doc: dict[str, object]) -> None:
    assert controller_of(doc) is None
    assert not is_controlled_by(doc, "")
    assert not is_owned_by(doc, "")
    assert read_owner_references(doc) == []


def test_an_invalid_owner_reference_is_an_error_with_its_place() -> None:
    with pytest.raises(ValueError, match=r"metadata\.ownerReferences: .*uid"):
        read_owner_references(
            {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p"}]}}
        )


def test_adoption_adds_the_owner_and_keeps_the_others() -> None:
    # given
    other = build_owner_reference(api_version="v1", kind="Node", name="n", uid="node-1", controller=False)
    # when
    patch = build_adoption_patch(OWNER, uid="pod-1", finalizers=["keep"])
    adopted = apply_strategic_merge(pod(other), patch, definition=POD)
    # then
    assert patch["metadata"]["uid"] == "pod-1"
    assert is_owned_by(adopted, "node-1")
    assert is_controlled_by(adopted, "set-1")
    assert adopted["metadata"]["finalizers"] == ["keep"]


def test_release_removes_that_owner_only_and_carries_the_uid_as_precondition() -> None:
    # given
    other = build_owner_reference(api_version="v1", kind="Node", name="n", uid="node-1", controller=False)
    owned = pod(OWNER, other)
    owned["metadata"]["finalizers"] = ["a", "b"]  # type: ignore[index]
    # when
    patch = release_patch(owner_uid="set-1", uid="pod-1")
    # then
    assert patch == {
        "metadata": {"ownerReferences": [{"$patch": "delete", "uid": "set-1"}], "uid": "pod-1"},
    }
    released = apply_strategic_merge(owned, patch, definition=POD)
    assert released["metadata"]["ownerReferences"] == [other]
    assert released["metadata"]["finalizers"] == ["a", "b"]


def test_release_can_take_finalizers_with_it() -> None:
    # given
    owned = pod(OWNER)
    owned["metadata"]["finalizers"] = ["a", "b"]  # type: ignore[index]
    # when
    patch = release_patch(owner_uid="set-1", uid="pod-1", finalizers=["a"])
    # then
    assert apply_strategic_merge(owned, patch, definition=POD)["metadata"]["finalizers"] == ["b"]
