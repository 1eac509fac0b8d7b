"""Objects that an owner keeps, adopts and releases, and the writes for them."""

from typing import Any

from pykruise.kube.documents import encode
from pykruise.kube.resources import PODS, REPLICA_SETS
from pykruise.kube.values.selectors import parse_selector
from pykruise.runtime.actions import Patch
from pykruise.runtime.objects import DocumentView, project_document
from pykruise.runtime.ownership import ADOPT, RELEASE, Ownership, ownership_of, plan_ownership

SELECTOR = parse_selector({"matchLabels": {"app": "web"}})


def view(name: str, *, app: str = "web", **metadata: Any) -> DocumentView:
    fields = {
        "namespace": "ns",
        "name": name,
        "uid": f"u-{name}",
        "resourceVersion": "7",
        "labels": {"app": app},
    }
    return project_document(encode({"metadata": {**fields, **metadata}}))


OWNER = view("owner")
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def names(ownership: Ownership[DocumentView]) -> tuple[list[str], list[str], list[str]]:
    groups = (ownership.kept, ownership.adopted, ownership.released)
    kept, adopted, released = ([document.name for document in group] for group in groups)
    return kept, adopted, released


def test_matching_objects_are_kept_or_adopted_and_others_are_released() -> None:
    ownership = ownership_of(
        OWNER, SELECTOR, [view("a"), view("b", app="other")], [view("c"), view("d", app="other")]
    )
    assert names(ownership) == (["a"], ["c"], ["b"])


def test_an_orphan_that_is_being_deleted_is_not_adopted() -> None:
    ownership = ownership_of(OWNER, SELECTOR, [], [view("c", **GOING)])
    assert ownership.is_settled


def test_an_owner_that_is_being_deleted_changes_nothing() -> None:
    owner = view("owner", **GOING)
    ownership = ownership_of(owner, SELECTOR, [view("b", app="other")], [view("c")])
    assert names(ownership) == (["b"], [], [])
    assert plan_ownership(owner, REPLICA_SETS, PODS, ownership) == ()


def test_an_adoption_first_verifies_the_owners_uid_and_resource_version() -> None:
    # given
    ownership = ownership_of(OWNER, SELECTOR, [view("b", app="other")], [view("c")])
    # when
    stages = plan_ownership(OWNER, REPLICA_SETS, PODS, ownership)
    # then
    assert [stage.purpose for stage in stages] == [RELEASE, ADOPT, ADOPT]
    released, asked, adopted = (stage.chains[0].steps[0].action for stage in stages)
    assert isinstance(released, Patch)
    assert isinstance(asked, Patch)
    assert isinstance(adopted, Patch)
    assert (released.key.name, released.uid) == ("b", "u-b")
    assert (asked.resource, asked.uid, asked.resource_version, asked.body) == (
        REPLICA_SETS,
        "u-owner",
        "7",
        {},
    )
    assert adopted.body["metadata"]["ownerReferences"][0]["uid"] == "u-owner"
