"""Views of a kind's own objects: specs are read once, and what cannot be read is a view with a problem."""

from collections.abc import Mapping
from typing import Any

import msgspec
import orjson
import pytest

from pykruise.pods.workloads import Projector, WorkloadView, spec_reader


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
    read = spec_reader(Spec)

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


def test_a_spec_is_read_once_however_often_the_status_changes() -> None:
    reads: list[Mapping[str, Any]] = []
    project = projector(reads)
    views = [project(text({"size": 3}, ready=ready)) for ready in range(4)]
    assert reads == [{"size": 3}]
    assert [(one.double, one.status.ready) for one in views] == [(6, 0), (6, 1), (6, 2), (6, 3)]


def test_no_more_than_the_limit_is_remembered() -> None:
    reads: list[Mapping[str, Any]] = []
    project = projector(reads, limit=2)
    for size in (1, 2, 3, 3, 1):
        assert project(text({"size": size})).double == 2 * size
    assert [one["size"] for one in reads] == [1, 2, 3, 1]


@pytest.mark.parametrize("spec", [None, {}, {"size": None}])
def test_null_is_absent(spec: Any) -> None:
    assert projector([])(text(spec)).spec == Spec()


def test_what_cannot_be_read_of_a_spec_is_a_problem_of_the_view() -> None:
    view = projector([])(text({"size": "large"}))
    assert (view.spec, view.double) == (None, 0)
    assert view.problem == "spec.size: Expected `int`, got `str`"


def test_a_status_that_cannot_be_read_counts_as_empty() -> None:
    assert projector([])(text({}, ready="all")).status == Status()
