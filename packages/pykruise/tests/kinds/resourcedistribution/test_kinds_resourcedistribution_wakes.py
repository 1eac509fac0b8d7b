"""Events that enqueue ResourceDistributions, and the view of an unreadable one."""

from typing import Any

import msgspec
import pytest

from pykruise.kinds.resourcedistribution.kind import KIND
from pykruise.kinds.resourcedistribution.snapshot import DistributionSettings
from pykruise.kinds.resourcedistribution.view import (
    COPY_VIEWS,
    DISTRIBUTION_VIEWS,
    DistributionView,
    project_copy,
    project_distribution,
)
from pykruise.kube.cache.cache import Change
from pykruise.kube.documents import Document, encode
from pykruise.kube.ids import Key
from pykruise.plans.views import NAMESPACE_VIEWS, NamespaceView
from pykruise.runtime.read import Around, Memories
from pykruise.runtime.views import Views
from support.snapshots import control_of, listed

SECRET: Document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"}}


def distribution(
    name: str = "pull", resource: Any = SECRET, metadata: Document | None = None, **targets: Any
) -> DistributionView:
    about = {"name": name, "uid": f"uid-{name}", "resourceVersion": "7", "generation": 3, **(metadata or {})}
    spec = {"resource": resource, "targets": targets}
    return project_distribution(encode({"metadata": about, "spec": spec}))


def namespace(name: str = "a", *, is_deleting: bool = False, **labels: str) -> NamespaceView:
    return NamespaceView(
        name=name, uid=f"n-{name}", resource_version=1, labels=labels, is_deleting=is_deleting
    )


def woken(views: Views[Any], old: Any, new: Any, *there: DistributionView) -> list[str]:
    """Names of the distributions that this change of an object enqueues."""
    around = Around(
        listed([DISTRIBUTION_VIEWS], {DISTRIBUTION_VIEWS: there}),
        settings=DistributionSettings(),
        memories=Memories(),
        is_making=lambda _resource, _key: False,
        now=lambda: 0.0,
    )
    known = new or old
    change = Change(key=Key(known.namespace, known.name), old=old, new=new)
    return [
        key.name
        for wake in control_of(KIND).wakes(DistributionSettings())
        if wake.on is views
        for key in wake.keys(change, around)
    ]


VIEW = distribution()


@pytest.mark.parametrize(
    ("old", "new", "is_woken"),
    [
        (None, VIEW, True),
        (VIEW, None, True),
        (VIEW, VIEW, True),
        (VIEW, msgspec.structs.replace(VIEW, generation=4), True),
        (VIEW, msgspec.structs.replace(VIEW, is_deleting=True), True),
        (VIEW, msgspec.structs.replace(VIEW, resource_version=8, stored_status={"desired": 1}), False),
    ],
    ids=["new", "gone", "all is looked at again", "another spec", "it goes", "its own status"],
)
def test_an_event_of_a_distribution_enqueues_it_except_for_its_status(
    old: DistributionView | None, new: DistributionView | None, is_woken: bool
) -> None:
    assert woken(DISTRIBUTION_VIEWS, old, new) == ["pull"] * is_woken


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, namespace(), ["all", "named"]),
        (namespace(), None, ["all", "named"]),
        (None, namespace("b"), ["all"]),
        (None, namespace("c", team="x"), ["all", "selecting"]),
        (None, namespace("d"), []),
        (None, namespace("kube-system", team="x"), []),
        (namespace("c"), namespace("c", team="x"), ["all", "selecting"]),
        (namespace("c", team="x"), namespace("c"), ["all", "selecting"]),
        (namespace(), namespace(is_deleting=True), ["all", "named"]),
        (namespace(), msgspec.structs.replace(namespace(), resource_version=2), []),
    ],
    ids=[
        *("new", "gone", "not named", "selected", "excluded", "of the system"),
        *("labelled", "label taken away", "it goes", "nothing that matters"),
    ],
)
def test_a_namespace_enqueues_the_distributions_that_target_it_or_targeted_it(
    old: NamespaceView | None, new: NamespaceView | None, expected: list[str]
) -> None:
    """8.3, watch mapping"""
    there = [
        distribution("all", allNamespaces=True, excludedNamespaces={"list": [{"name": "d"}]}),
        distribution("named", includedNamespaces={"list": [{"name": "a"}]}),
        distribution("selecting", namespaceSelector={"matchLabels": {"team": "x"}}),
        distribution("unreadable", {"kind": "Deployment"}, allNamespaces=True),
    ]
    assert woken(NAMESPACE_VIEWS, old, new, *there) == expected


@pytest.mark.parametrize(
    ("kind", "name", "expected"),
    [("Secret", "pull", ["one", "two"]), ("Secret", "other", []), ("ConfigMap", "pull", ["map"])],
)
def test_an_object_enqueues_the_distributions_of_its_kind_and_name(
    kind: str, name: str, expected: list[str]
) -> None:
    """8.3, watch mapping: the object may be a copy, or have the name of one"""
    there = [
        distribution("one"),
        distribution("two"),
        distribution("map", {**SECRET, "kind": "ConfigMap"}),
        distribution("goes", metadata={"deletionTimestamp": "2026-01-31T12:00:00Z"}),
        distribution("unreadable", {**SECRET, "apiVersion": "v2"}),
    ]
    metadata = {"name": name, "namespace": "a", "uid": "c", "resourceVersion": "9"}
    copy = project_copy(encode({"kind": "PartialObjectMetadata", "metadata": metadata}))
    assert woken(COPY_VIEWS[kind], None, copy, *there) == expected


BAD_SELECTOR: Document = {"matchExpressions": [{"key": "a", "operator": "Near"}]}


@pytest.mark.parametrize(
    ("resource", "targets", "field"),
    [
        (SECRET, {"allNamespaces": "yes", "namespaceSelector": BAD_SELECTOR}, "spec.targets.allNamespaces: "),
        (SECRET, {"namespaceSelector": BAD_SELECTOR}, "spec.targets.namespaceSelector: "),
        ({**SECRET, "apiVersion": "v2"}, {}, "spec.resource: "),
        ({**SECRET, "kind": "Pod"}, {}, "spec.resource: "),
        ({**SECRET, "metadata": {"name": ""}}, {}, "spec.resource.metadata.name: "),
        ({**SECRET, "metadata": None}, {}, "spec.resource.metadata.name: "),
        ({**SECRET, "data": ["a"]}, {}, "spec.resource.data: "),
        ({**SECRET, "stringData": "a"}, {}, "spec.resource.stringData: "),
        ({**SECRET, "binaryData": 1}, {}, "spec.resource.binaryData: "),
    ],
)
def test_an_unreadable_stored_distribution_reports_the_wrong_field(
    resource: Any, targets: Document, field: str
) -> None:
    """8.3 step 1"""
    view = distribution("pull", resource, **targets)
    assert view.problem.startswith(field)
    assert (view.spec, view.kind, view.copy_name) == (None, "", "")


@pytest.mark.parametrize("field", ["data", "stringData", "binaryData"])
def test_a_resource_may_hold_nothing(field: str) -> None:
    view = distribution("pull", {**SECRET, field: None})
    assert (view.problem, view.kind, view.copy_name) == ("", "Secret", "pull")
