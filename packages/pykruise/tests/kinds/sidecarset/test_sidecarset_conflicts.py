"""SidecarSets that conflict in the same pods."""

from typing import Any

import pytest

from pykruise.kinds.sidecarset.conflicts import find_conflict_errors
from pykruise.kinds.sidecarset.defaults import add_defaults
from pykruise.kinds.sidecarset.view import SidecarSetView
from pykruise.kube.documents import Document
from pykruise.kube.errors import Cause
from support.sidecarsets import canary, container, problems, sidecarset, view

OOM = {"annotations": {"oom-score": "1"}}
NONE = {"matchExpressions": [{"key": "a", "operator": "Nope"}]}
"""A selector that cannot be read."""


def found(doc: Document, *others: Document, old: Document | None = None) -> list[Cause]:
    """Errors of a document with its defaults, among other SidecarSets."""
    stored = add_defaults(old) if old is not None else None
    views = (view(entry) for entry in others)
    return problems(add_defaults(doc), *views, old=stored, allows_any_annotation=True)


def errors(doc: Document, *others: Document, old: Document | None = None) -> list[tuple[str, str]]:
    """Reason and field of each error."""
    return [(cause.reason.removeprefix("FieldValue"), cause.field) for cause in found(doc, *others, old=old)]


def selecting(name: str, labels: dict[str, str], *containers: Document, **spec: Any) -> Document:
    return sidecarset(name, *containers, selector={"matchLabels": labels}, **spec)


def test_sidecarsets_that_meet_do_not_share_a_container_name() -> None:
    """sidecarset cases 20 and 21"""
    entry = selecting("one", {"app": "x"}, container("a"))
    assert errors(selecting("two", {"app": "x"}, container("a")), entry) == [("Invalid", "spec.containers")]
    assert errors(selecting("two", {"app": "y"}, container("a")), entry) == []
    assert errors(selecting("two", {"c": "d"}, container("a")), entry) == [("Invalid", "spec.containers")]
    assert errors(selecting("two", {"app": "x"}, container("b")), entry) == []


def test_disjoint_namespaces_keep_them_apart() -> None:
    """sidecarset case 20"""

    def named(name: str, *namespaces: str) -> Document:
        key = "kubernetes.io/metadata.name"
        where = {"matchExpressions": [{"key": key, "operator": "In", "values": list(namespaces)}]}
        return sidecarset(name, container("a"), namespaceSelector=where)

    assert errors(named("two", "n2"), named("one", "n1")) == []
    assert errors(named("two", "n2", "n1"), named("one", "n1")) != []
    assert errors(sidecarset("two", container("a")), named("one", "n1")) != []


@pytest.mark.parametrize(
    ("requirement", "meets"),
    [
        ({"operator": "Exists"}, True),
        ({"operator": "DoesNotExist"}, False),
        ({"operator": "In", "values": ["x", "y"]}, True),
        ({"operator": "In", "values": ["y"]}, False),
        ({"operator": "NotIn", "values": ["x"]}, False),
        ({"operator": "NotIn", "values": ["y"]}, True),
    ],
)
def test_selectors_meet_when_there_could_be_a_pod_of_both(requirement: Document, *, meets: bool) -> None:
    """pitfall 11"""
    entry = selecting("one", {"app": "x"}, container("a"))
    selector = {"matchExpressions": [{"key": "app", **requirement}]}
    assert bool(errors(sidecarset("two", container("a"), selector=selector), entry)) is meets
    elsewhere = {"matchExpressions": [{"key": "other", "operator": "Exists"}]}
    assert errors(sidecarset("two", container("a"), selector=elsewhere), entry) != []
    none = {
        "matchLabels": {"app": "x"},
        "matchExpressions": [{"key": "app", "operator": "In", "values": ["y"]}],
    }
    assert errors(sidecarset("two", container("a"), selector=none), entry) == []


def test_volumes_of_one_name_are_the_same() -> None:
    """sidecarset case 22"""
    volumes = sidecarset("one", container("a"), volumes=[{"name": "v", "emptyDir": {}}])
    assert errors(sidecarset("two", container("b"), volumes=[{"name": "v", "emptyDir": {}}]), volumes) == []
    other = [{"name": "v", "hostPath": {"path": "/x"}}]
    assert errors(sidecarset("two", container("b"), volumes=other), volumes) == [("Invalid", "spec.volumes")]


@pytest.mark.parametrize(("size", "collides"), [("1024Mi", False), ("2Gi", True)])
def test_volumes_of_one_name_with_the_same_meaning_are_the_same(size: str, *, collides: bool) -> None:
    """OpenKruise stores canonical quantities and defaults."""

    def with_volumes(name: str, size: str, source: dict[str, Any]) -> dict[str, Any]:
        volumes = [{"name": "v", "emptyDir": {"sizeLimit": size}}, {"name": "c", "configMap": source}]
        return sidecarset(name, container(name), volumes=volumes)

    stored = with_volumes("one", "1Gi", {"name": "c", "defaultMode": 420})
    new = with_volumes("two", size, {"name": "c"})
    assert errors(new, stored) == ([("Invalid", "spec.volumes")] if collides else [])


@pytest.mark.parametrize(
    ("mine", "theirs", "is_same"),
    [
        ({"emptyDir": {"sizeLimit": "1Gi"}}, {"emptyDir": {"sizeLimit": "1024Mi"}}, True),
        ({"emptyDir": {"sizeLimit": "1Gi"}}, {"emptyDir": {"sizeLimit": "1G"}}, False),
        ({"emptyDir": {"medium": ""}}, {"emptyDir": {}, "secret": None}, True),
        ({"emptyDir": {"unknown": 1}}, {"emptyDir": {}}, True),
        ({"secret": {"secretName": "s", "items": []}}, {"secret": {"secretName": "s"}}, True),
        ({"secret": {"secretName": "s"}}, {"secret": {"secretName": "s", "defaultMode": 420}}, True),
        ({"secret": {"secretName": "s"}}, {"secret": {"secretName": "s", "defaultMode": 256}}, False),
        ({"emptyDir": {"sizeLimit": "1Gi"}}, {"emptyDir": {"sizeLimit": "much"}}, False),
    ],
)
@pytest.mark.parametrize("is_admitted", [True, False])
def test_volumes_are_compared_by_their_meaning(
    mine: Document, theirs: Document, *, is_same: bool, is_admitted: bool
) -> None:
    """section 5.6"""
    other = sidecarset("one", container("a"), volumes=[{"name": "v", **theirs}])
    doc = sidecarset("two", container("b"), volumes=[{"name": "v", **mine}])
    causes = problems(add_defaults(doc), view(other, is_admitted=is_admitted))
    assert [cause.field for cause in causes] == ([] if is_same else ["spec.volumes"])


@pytest.mark.parametrize(
    ("mine", "theirs", "collides"),
    [
        ("Overwrite", "MergePatchJson", True),
        ("Overwrite", "Overwrite", True),
        ("MergePatchJson", "MergePatchJson", False),
        ("Retain", "Overwrite", False),
        ("MergePatchJson", "Retain", False),
    ],
)
def test_one_annotation_is_overwritten_by_one_alone(mine: str, theirs: str, *, collides: bool) -> None:
    """sidecarset case 23"""
    entry = sidecarset("one", container("b"), patchPodMetadata=[{**OOM, "patchPolicy": theirs}])
    other = sidecarset("z", container("c"), patchPodMetadata=[{**OOM, "patchPolicy": "Retain"}])
    doc = sidecarset("s", container("a"), patchPodMetadata=[{**OOM, "patchPolicy": mine}])
    expected = [("Invalid", "spec.patchPodMetadata")] if collides else []
    assert errors(doc, entry, other) == expected


def test_conflicting_sidecarsets_are_named_in_their_order() -> None:
    """section 5.6"""
    # given
    others = [
        sidecarset(name, container("a"), initContainers=[container("i")], volumes=[{"name": "v"}])
        for name in ("two", "one")
    ]
    volume = {"name": "v", "hostPath": {"path": "/x"}}
    doc = sidecarset("s", container("a"), initContainers=[container("i")], volumes=[volume, {"name": "own"}])
    # then
    assert [cause.message.partition(": ")[2].partition(": ")[2] for cause in found(doc, *others)] == [
        line
        for name in ("one", "two")
        for line in (
            f"container i already exist in {name}",
            f"container a already exist in {name}",
            f"volume v is in conflict with another definition in {name}",
        )
    ]


def test_a_sidecarset_with_a_namespace_selector_collides_with_one_of_all_namespaces() -> None:
    """section 5.6"""
    narrow = sidecarset("s", container("a"), namespaceSelector={"matchLabels": {"tier": "gold"}})
    assert errors(narrow, sidecarset("one", container("a"))) == [("Invalid", "spec.containers")]


@pytest.mark.parametrize(
    "other",
    [
        sidecarset("one", container("a"), selector=None),
        sidecarset("one", container("a"), selector={}),
        sidecarset("one", container("a"), selector=NONE),
        sidecarset("one", container("a"), updateStrategy={"paused": "yes"}),
        sidecarset("one", container("a", env="text")),
    ],
    ids=["no selector", "an empty one", "an unreadable one", "an unreadable spec", "unreadable contents"],
)
def test_a_sidecarset_that_injects_nothing_causes_no_collision(other: Document) -> None:
    """Such a SidecarSet was stored without admission."""
    theirs = view(other, is_admitted=False)
    assert problems(add_defaults(sidecarset("s", container("a"))), theirs) == []


def test_annotations_and_policies_of_stored_sidecarsets_are_optional_in_conflict_checks() -> None:
    # given
    entries = [{"annotations": None}, OOM]
    theirs = view(sidecarset("one", container("b"), patchPodMetadata=entries), is_admitted=False)
    # then the default policy is Retain
    mine = sidecarset("s", container("a"), patchPodMetadata=[{**OOM, "patchPolicy": "Overwrite"}])
    assert problems(add_defaults(mine), theirs, allows_any_annotation=True) == []


# ── canaries ─────────────────────────────────────────────────────────────────


def test_a_sidecarset_with_a_generated_name_is_compared_with_all_others() -> None:
    entry = sidecarset("one", container("a"))
    doc = sidecarset("", container("a"), metadata={"name": None, "generateName": "s-"})
    assert errors(doc, entry) == [("Invalid", "spec.containers")]


def test_a_canary_is_compared_with_all_but_its_base() -> None:
    """sidecarset case 24"""
    base, other = sidecarset("base", container("a")), sidecarset("other", container("a"))
    trial = canary("trial", container("a"), base="base")
    assert errors(trial, base) == []
    (cause,) = found(trial, base, other)
    assert cause.message.endswith("already exist in other")
    (cause,) = found(sidecarset("base", container("a")), base, trial, other)
    assert cause.message.endswith("already exist in other")
    # and a canary of another SidecarSet conflicts like any SidecarSet
    narrow = canary("narrow", container("b"), base="base")
    (cause,) = found(sidecarset("s", container("b")), base, narrow)
    assert cause.message.endswith("already exist in narrow")


# ── stored SidecarSets ───────────────────────────────────────────────────────


@pytest.mark.parametrize("selector", [{"matchLabels": {"app": "web"}}, {}, NONE, None])
def test_a_stored_collision_does_not_block_other_changes(selector: Any) -> None:
    """OpenKruise accepts `Exists` beside a value of that label; and some stored selectors are unreadable."""
    # given
    changes = sidecarset("one", container("a"))
    old = sidecarset("s", container("a"), selector=selector)
    # when
    labelled = {**old, "metadata": {"name": "s", "labels": {"new": "label"}}}
    # then
    assert errors(labelled, changes, old=old) == []


def test_a_promoted_canary_is_compared_with_its_base() -> None:
    base, trial = sidecarset("base", container("a")), canary("trial", container("a"), base="base")
    promoted = {**trial, "metadata": {"name": "trial"}}
    assert errors(promoted, base, trial, old=trial) == [("Invalid", "spec.containers")]


def explained(sidecar_set: SidecarSetView, doc: Document, *others: SidecarSetView) -> list[str]:
    """Fields in conflict, of a stored SidecarSet."""
    assert sidecar_set.spec is not None
    given = doc["spec"]
    return [
        cause.field
        for cause in find_conflict_errors(
            given, sidecar_set.spec, others, name=sidecar_set.name, base=sidecar_set.base
        )
    ]


@pytest.mark.parametrize(
    ("fields", "collides"),
    [
        ({}, ["spec.containers"]),
        ({"selector": None}, []),
        ({"selector": {}}, []),
        ({"patchPodMetadata": [{"annotations": None}, OOM]}, ["spec.containers"]),
        (
            {"patchPodMetadata": [{**OOM, "patchPolicy": "Overwrite"}]},
            ["spec.containers", "spec.patchPodMetadata"],
        ),
    ],
)
def test_conflicts_of_a_sidecarset_stored_without_admission_are_explained(
    fields: Document, collides: list[str]
) -> None:
    # given
    entry = {**OOM, "patchPolicy": "Overwrite"}
    sidecar_set = view(sidecarset("one", container("a"), patchPodMetadata=[entry]))
    doc = sidecarset("s", container("a"), **fields)
    # then
    assert explained(view(doc, is_admitted=False), doc, sidecar_set) == collides


def test_nulls_in_lists_of_a_stored_spec_are_zero_values_in_conflict_checks() -> None:
    # given
    sidecar_set = view(sidecarset("one", container("a"), volumes=[{"name": "v", "secret": {"items": [{}]}}]))
    volumes = [
        None,
        {"name": "v", "downwardAPI": {"items": [None]}},
        {"name": "v", "secret": {"items": [None]}},
    ]
    doc = sidecarset("s", container("b"), volumes=volumes, initContainers=[None])
    # then
    assert explained(view(doc, is_admitted=False), doc, sidecar_set) == ["spec.volumes"]
