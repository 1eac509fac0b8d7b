"""The step of pod admission that injects sidecars: its reads, its events, and its rejections."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pykruise.admission.pods import chain
from pykruise.admission.pods.reports import record_events
from pykruise.kinds.gates import Gates
from pykruise.kinds.sidecarset.view import SidecarSetView
from pykruise.kube.admission import AdmissionAnswer
from pykruise.kube.documents import Document
from pykruise.kube.errors import KubeError
from pykruise.kube.resources import PODS
from pykruise.plans.pod_steps import StepReport
from pykruise.pods.workload.revisions import RevisionView
from support.pod_chains import chain_of
from support.reviews import at_once, request
from support.sidecarsets import NOW, container, names, pod, sidecarset, view


class Reader:
    """SidecarSets in memory; `broken` names the read that fails."""

    def __init__(self, *sets: Document, broken: str = "") -> None:
        self.sets = [view(entry) for entry in sets]
        self.broken = broken
        self.asked: list[str] = []
        self.namespaces: list[str] = []

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if what == self.broken:
            raise KubeError(f"{what}: the API server is away")

    async def list_sidecar_sets(self) -> Sequence[SidecarSetView]:
        self._ask("sets")
        return self.sets

    async def read_namespace_labels(self, name: str) -> Mapping[str, str] | None:
        self._ask("namespace")
        self.namespaces.append(name)
        return {"tier": "gold"}

    async def list_revisions(self, name: str) -> Sequence[RevisionView]:
        self._ask(f"revisions of {name}")
        return ()

    async def read_whitelist(self) -> str | None:
        return None


PLAIN = Gates.of(WorkloadSpread=False)


def answer(
    reader: Reader | None,
    doc: Document,
    *,
    refused: list[StepReport] | None = None,
    gates: Gates = PLAIN,
    **asked: Any,
) -> AdmissionAnswer:
    def report(component: str, report: StepReport) -> None:
        assert component == "sidecarset-controller"
        if refused is not None:
            refused.append(report)

    readers = {"sidecarset": reader} if reader is not None else {}
    steps = chain_of(gates, clock=lambda: NOW, report=report, **readers)
    return at_once(chain.build_mutating_review(steps.changing), request(PODS, doc, **asked))


LOG = sidecarset("log", container("log"))
GOLD = sidecarset("log", container("log"), namespaceSelector={"matchLabels": {"tier": "gold"}})


def test_a_selected_pod_gets_its_sidecars_and_others_cost_one_read() -> None:
    reader = Reader(LOG)
    result = answer(reader, pod()).object
    assert result is not None
    assert names(result) == ["log", "main"]
    assert answer(reader, pod(metadata={"labels": {"app": "other"}})).object is None
    assert reader.asked == ["sets", "sets"]


def test_the_namespace_is_read_only_when_a_namespace_selector_needs_it() -> None:
    reader = Reader(GOLD)
    assert answer(reader, pod()).object is not None
    assert reader.asked == ["sets", "namespace"]
    both = Reader(
        LOG, sidecarset("mesh", container("mesh"), namespaceSelector={"matchLabels": {"tier": "gold"}})
    )
    result = answer(both, pod()).object
    assert result is not None
    assert {*names(result)} == {"log", "mesh", "main"}


@pytest.mark.parametrize("asked", [{"operation": "UPDATE"}, {"subresource": "status"}])
def test_only_the_creation_of_a_pod_injects_sidecars(asked: dict[str, Any]) -> None:
    """admission case 35"""
    assert answer(Reader(LOG), pod(), **asked).object is None


def test_revisions_are_read_only_when_an_older_one_is_injected() -> None:
    given = {"revision": {"revisionName": "log-1", "policy": "Always"}}
    before = sidecarset("before", container("before"), injectionStrategy=given)
    reader = Reader(
        LOG, before, sidecarset("not-paused", container("x"), injectionStrategy={"paused": False})
    )
    refused: list[StepReport] = []
    refusal = answer(reader, pod(), refused=refused).refusal
    assert reader.asked == ["sets", "revisions of before"]
    # and a missing revision is named, with the SidecarSet that needs it
    assert refusal is not None
    assert [event.name for report in refused for event in report.events] == ["before"]


@pytest.mark.parametrize(
    ("own", "asked", "namespace"), [("own", "asked", "own"), ("", "asked", "asked"), ("", "", "default")]
)
def test_the_namespace_is_the_pods_or_the_requests(own: str, asked: str, namespace: str) -> None:
    reader = Reader(GOLD)
    doc = pod(metadata={"labels": {"app": "web"}, "namespace": own})
    assert answer(reader, doc, namespace=asked).object is not None
    assert reader.namespaces == [namespace]


def test_a_pod_without_metadata_is_in_the_default_namespace() -> None:
    unlabelled = {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}
    reader = Reader(sidecarset("log", container("log"), selector=unlabelled, namespaceSelector={}))
    assert answer(reader, {**pod(), "metadata": None}, namespace="").object is not None
    assert reader.namespaces == ["default"]


@pytest.mark.parametrize(("is_sorted", "order"), [(False, ["z", "e", "main"]), (True, ["e", "z", "main"])])
def test_sidecars_are_sorted_by_name_with_the_gate_on(is_sorted: bool, order: list[str]) -> None:
    """admission case 32"""
    reader = Reader(sidecarset("one", container("z")), sidecarset("two", container("e")))
    gates = Gates.of(WorkloadSpread=False, EnableSortSidecarContainerByName=is_sorted)
    result = answer(reader, pod(), gates=gates).object
    assert result is not None
    assert names(result) == order


def test_nothing_is_done_without_a_reader() -> None:
    assert answer(None, pod()).object is None


def test_unreadable_sidecarsets_refuse_the_pod_but_an_unreadable_namespace_does_not() -> None:
    """admission case 36"""
    refusal = answer(Reader(LOG, broken="sets"), pod()).refusal
    assert refusal is not None
    assert refusal.code == 500
    assert "the API server is away" in refusal.message
    lacks = {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}
    for entry in (GOLD, sidecarset("log", container("log"), namespaceSelector=lacks)):
        unreadable = answer(Reader(entry, broken="namespace"), pod())
        assert (unreadable.refusal, unreadable.object) == (None, None)


def negative() -> Document:
    policy = {"targetContainersMode": "sum", "resourcesExpr": {"requests": {"cpu": "cpu - 2"}}}
    return sidecarset("log", container("log", resourcesPolicy=policy))


def owned() -> Document:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True}
    return pod(metadata={"labels": {"app": "web"}, "ownerReferences": [owner], "generateName": "web-1-"})


def test_a_refused_pod_is_reported_with_its_sidecarset_and_its_owner() -> None:
    refused: list[StepReport] = []
    status = answer(Reader(negative()), owned(), refused=refused).refusal
    assert status is not None
    assert status.code == 500
    (report,) = refused
    of_set, of_owner = report.events
    assert (of_set.name, of_owner.name, of_owner.namespace) == ("log", "web-1", "shop")
    assert all("must not be negative" in event.message for event in report.events)


def test_a_refused_dry_run_is_not_reported() -> None:
    refused: list[StepReport] = []
    assert answer(Reader(negative()), owned(), refused=refused, dry_run=True).refusal is not None
    assert refused == []


class Recorder:
    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def record(self, resource: Any, *, namespace: str, name: str, reason: str, **rest: Any) -> None:
        assert rest["warning"]
        self.events.append((resource.kind, f"{namespace}/{name}", reason))


def test_the_events_are_on_both_objects() -> None:
    refused: list[StepReport] = []
    answer(Reader(negative()), owned(), refused=refused)
    recorder = Recorder()
    record_events(recorder, refused[0])  # type: ignore[arg-type]
    assert recorder.events == [
        ("SidecarSet", "/log", "FailedInjection"),
        ("ReplicaSet", "shop/web-1", "FailedInjection"),
    ]
