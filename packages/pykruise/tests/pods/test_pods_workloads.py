"""Views of a kind's own objects: specs are read once, and an unreadable object has a view with a problem."""

from collections.abc import Mapping
from typing import Any

import msgspec
import orjson
import pytest

from pykruise.kube.clock import parse_time
from pykruise.kube.ids import Key
from pykruise.kube.resources import PODS
from pykruise.kube.values.selectors import Selector, parse_selector
from pykruise.pods.view.names import LONGEST_REVISION_OWNER
from pykruise.pods.workload.revisions import RevisionView, make_candidate, project_revision
from pykruise.pods.workload.views import (
    Projector,
    WorkloadView,
    make_spec_reader,
    make_template_candidate,
    read_workload_fields,
    selector_of,
    selects,
    sort_out,
)
from support.cloneset_builder import cloneset, revision, template


class Spec(msgspec.Struct, frozen=True):
    size: int = 1


class Status(msgspec.Struct, frozen=True):
    ready: int = 0


class View(WorkloadView, frozen=True, kw_only=True):
    spec: Spec | None
    status: Status = Status()
    double: int = 0


def text(spec: Any, *, ready: Any = 0) -> bytes:
    metadata = {"name": "web", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return orjson.dumps({"metadata": metadata, "spec": spec, "status": {"ready": ready}})


def projector(reads: list[Mapping[str, Any]], *, limit: int = 1000) -> Projector[View]:
    read = make_spec_reader(Spec)

    def counted(spec: Mapping[str, Any]) -> tuple[Any, str]:
        reads.append(spec)
        return read(spec)

    return Projector(
        View,
        read_spec=counted,
        status=Status,
        derived=lambda spec, _: {"double": 2 * spec.size},
        limit=limit,
    )


def test_a_spec_is_parsed_once_across_status_changes() -> None:
    reads: list[Mapping[str, Any]] = []
    project = projector(reads)
    views = [project(text({"size": 3}, ready=ready)) for ready in range(4)]
    assert reads == [{"size": 3}]
    assert [(view.double, view.status.ready) for view in views] == [(6, 0), (6, 1), (6, 2), (6, 3)]


def test_no_more_than_the_limit_is_remembered() -> None:
    reads: list[Mapping[str, Any]] = []
    project = projector(reads, limit=2)
    for size in (1, 2, 1, 2, 3, 3, 1):
        assert project(text({"size": size})).double == 2 * size
        assert len(project._known) <= 2
    assert [read["size"] for read in reads] == [1, 2, 3, 1]


@pytest.mark.parametrize("spec", [None, {}, {"size": None}])
def test_null_counts_as_absent(spec: Any) -> None:
    assert projector([])(text(spec)).spec == Spec()


def test_an_unreadable_spec_is_the_problem_of_the_view() -> None:
    view = projector([])(text({"size": "large"}))
    assert (view.spec, view.double) == (None, 0)
    assert view.problem == "spec.size: Expected `int`, got `str`"


def test_a_status_that_cannot_be_read_counts_as_empty() -> None:
    assert projector([])(text({}, ready="all")).status == Status()


def test_common_metadata_of_every_view_is_read() -> None:
    # given
    status = {
        "ready": 2,
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Mine", "status": "True"}],
    }
    metadata = {
        "name": "web",
        "namespace": "shop",
        "uid": "u",
        "resourceVersion": "7",
        "generation": 3,
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-02T00:00:00Z",
        "finalizers": ["f"],
    }
    # when
    workload = WorkloadView(**read_workload_fields({"metadata": metadata, "status": status}))
    # then
    assert (workload.key, workload.uid, workload.resource_version) == (Key("shop", "web"), "u", 7)
    assert (workload.generation, workload.labels, workload.annotations) == (3, {"a": "b"}, {"c": "d"})
    assert (workload.created_at, workload.is_deleting) == (parse_time("2026-01-01T00:00:00Z"), True)
    assert workload.finalizers == ("f",)
    assert workload.stored_status == {"ready": 2, "conditions": [{"type": "Mine", "status": "True"}]}
    assert [entry["type"] for entry in workload.kstatus] == ["Ready"]
    assert workload.build_reference(PODS) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "web",
        "uid": "u",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_an_object_with_a_name_alone_is_a_view_too() -> None:
    workload = WorkloadView(**read_workload_fields({"metadata": {"name": "web", "labels": None}}))
    assert workload == WorkloadView(namespace="", name="web", uid="", resource_version=0)
    assert workload.created_at == 0


def test_a_readable_spec_has_its_revision_candidate() -> None:
    class Templated(msgspec.Struct, frozen=True):
        template: dict[str, Any]

    project = Projector(
        WorkloadView2,
        read_spec=make_spec_reader(Templated, raw=["template"]),
        candidate_of=make_template_candidate,
    )
    assert project(text({"template": template()})).candidate == make_candidate(template())
    assert project(text({})).candidate is None


class WorkloadView2(WorkloadView, frozen=True, kw_only=True):
    spec: Any


WEB = parse_selector({"matchLabels": {"app": "web"}})
EVERYTHING = parse_selector({})


@pytest.mark.parametrize(
    ("selector", "expected"),
    [(WEB, True), (parse_selector({"matchLabels": {"app": "x"}}), False), (EVERYTHING, False), (None, False)],
)
def test_an_empty_or_unreadable_selector_selects_no_pod(selector: Selector | None, expected: bool) -> None:
    assert selects(selector, cloneset(1).pod_views()[0]) is expected


def test_a_selector_is_read_or_unknown() -> None:
    labels = cloneset(1).pod_views()[0].labels
    read = selector_of({"matchLabels": {"app": "web"}})
    assert read is not None
    assert read.matches(labels)
    assert selector_of({"matchExpressions": [{"key": "a", "operator": "Like"}]}) is None


def stored(name: str, *, controller: str = "", **metadata: Any) -> RevisionView:
    document = revision(template(), 1, name=name, controller=controller, **metadata)
    return project_revision(orjson.dumps(document))


@pytest.mark.parametrize(("selector", "free"), [(WEB, ["web-2", "x-1"]), (EVERYTHING, []), (None, [])])
def test_revisions_are_own_free_or_conflicting(selector: Selector | None, free: list[str]) -> None:
    # given revisions of the workload (newest first), revisions without an owner, and those of other owners
    empty = project_revision(
        orjson.dumps({"metadata": {"name": "web-5", "labels": {"app": "web"}}, "revision": 1})
    )
    revisions = [
        stored("web-1", controller="u"),
        stored("other-0", controller="u"),
        stored("x-1"),
        stored("web-2"),
        stored("web-3", controller="another"),
        stored("web-4", deletionTimestamp="2026-01-02T00:00:00Z"),
        empty,
        stored("web-6", labels={"app": "api"}),
        stored("webber-1", controller="another"),
    ]
    workload = WorkloadView(namespace="shop", name="web", uid="u", resource_version=1)
    # then
    own_revisions = sort_out(revisions, workload, selector=selector)
    assert [revision.name for revision in own_revisions.own] == ["other-0", "web-1"]
    assert [revision.name for revision in own_revisions.free] == free
    in_the_way = {"web-3", "web-4", "web-5", "web-6"}
    assert set(own_revisions.others) == (in_the_way if free else in_the_way | {"web-2"})


def test_a_truncated_name_conflicts_too() -> None:
    long = "w" * 250
    taken = stored(f"{long[:LONGEST_REVISION_OWNER]}-1", controller="another")
    workload = WorkloadView(namespace="shop", name=long, uid="u", resource_version=1)
    assert set(sort_out([taken], workload, selector=WEB).others) == {taken.name}
